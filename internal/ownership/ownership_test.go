// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package ownership_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/ownership"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &out.Object); err != nil {
		t.Fatalf("parse test object: %v", err)
	}
	return out
}

const wanted = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: m, namespace: n, labels: {app: m}}
spec:
  replicas: 1
  template:
    spec:
      containers:
      - name: manager
        image: registry/manager:v2
        args: [--leader-elect, --v=2]
        ports:
        - containerPort: 9443
          name: webhook
        resources: {limits: {memory: 1Gi}}
`

// live is wanted as a person left it, with the managed fields to be filled in.
const live = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: m
  namespace: n
  labels: {app: m}
  managedFields:
%s
spec:
  replicas: 3
  template:
    spec:
      containers:
      - name: manager
        image: mirror/manager:v2
        args: [--v=9]
        ports:
        - containerPort: 9443
          protocol: TCP
          name: hook
        resources: {limits: {memory: 256Mi}}
`

func entry(manager, operation, at, subresource, fields string) string {
	return `
  - manager: ` + manager + `
    operation: ` + operation + `
    apiVersion: apps/v1
    time: "` + at + `"
    subresource: "` + subresource + `"
    fieldsType: FieldsV1
    fieldsV1: ` + fields
}

const (
	image  = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"manager\"}":{"f:image":{}}}}}}}`
	args   = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"manager\"}":{"f:args":{}}}}}}}`
	memory = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"manager\"}":{"f:resources":{"f:limits":{"f:memory":{}}}}}}}}}`
	port   = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"manager\"}":{"f:ports":{"k:{\"containerPort\":9443,\"protocol\":\"TCP\"}":{"f:name":{}}}}}}}}}`
	scale  = `{"f:spec":{"f:replicas":{}}}`
	label  = `{"f:metadata":{"f:labels":{"f:app":{}}}}`

	before = "2026-05-01T11:59:59Z"
	during = "2026-05-01T12:00:00Z"
	after  = "2026-05-01T12:00:01Z"
)

func TestYield(t *testing.T) {
	t.Parallel()
	// Half a second into the second that managedFields records as "during".
	since := time.Date(2026, 5, 1, 12, 0, 0, 500e6, time.UTC)
	at := time.Date(2026, 5, 1, 12, 0, 1, 0, time.UTC)
	containers := `.spec.template.spec.containers[name="manager"]`

	for name, tc := range map[string]struct {
		managed  string
		off      bool
		wantKept []ownership.Kept
	}{
		"an image set by hand after the stop stays": {
			managed:  entry("kubectl-set", "Update", after, "", image),
			wantKept: []ownership.Kept{{Path: containers + ".image", Manager: "kubectl-set", At: at}},
		},
		"an image set by hand before the stop is written over": {
			managed: entry("kubectl-set", "Update", before, "", image),
		},
		"an image set by hand in the second of the stop is written over: it may have been set just before": {
			managed: entry("kubectl-set", "Update", during, "", image),
		},
		"nothing yields while respect is off": {
			managed: entry("kubectl-set", "Update", after, "", image), off: true,
		},
		"a controller never wins": {
			managed: entry("kube-controller-manager", "Update", after, "", image) + entry("cert-manager-cainjector", "Apply", after, "", args),
		},
		"an installer never wins": {
			managed: entry("clusterctl", "Update", after, "", image) + entry("kubectl-client-side-apply", "Update", after, "", args),
		},
		"a list that is owned as a whole stays as a whole": {
			managed:  entry("kubectl-edit", "Update", after, "", args),
			wantKept: []ownership.Kept{{Path: containers + ".args", Manager: "kubectl-edit", At: at}},
		},
		"a list entry is found although the manifest leaves out a key with a default": {
			managed: entry("kubectl-edit", "Update", after, "", port),
			wantKept: []ownership.Kept{{
				Path: containers + `.ports[containerPort=9443,protocol="TCP"].name`, Manager: "kubectl-edit", At: at,
			}},
		},
		"a map that becomes empty goes with its last field": {
			managed:  entry("kubectl-patch", "Update", after, "", memory),
			wantKept: []ownership.Kept{{Path: containers + ".resources.limits.memory", Manager: "kubectl-patch", At: at}},
		},
		"a scale by hand stays": {
			managed:  entry("kubectl", "Update", after, "scale", scale),
			wantKept: []ownership.Kept{{Path: ".spec.replicas", Manager: "kubectl", At: at}},
		},
		"a field set by hand to what is wanted anyhow is applied": {
			managed: entry("kubectl-label", "Update", after, "", label),
		},
		"two persons keep one field each": {
			managed: entry("kubectl-set", "Update", after, "", image) + entry("k9s", "Update", after, "", scale),
			wantKept: []ownership.Kept{
				{Path: ".spec.replicas", Manager: "k9s", At: at},
				{Path: containers + ".image", Manager: "kubectl-set", At: at},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, have := object(t, wanted), object(t, fmt.Sprintf(live, tc.managed))
			moment := since
			if tc.off {
				moment = time.Time{}
			}
			got, kept, err := ownership.Yield(want, have, moment)
			if err != nil {
				t.Fatalf("Yield: %v", err)
			}
			if diff := cmp.Diff(kept, tc.wantKept); diff != "" {
				t.Errorf("kept, got -, want +:\n%s", diff)
			}
			expect := object(t, wanted)
			for _, k := range tc.wantKept {
				drop(t, expect, k.Path)
			}
			if diff := cmp.Diff(got.Object, expect.Object); diff != "" {
				t.Errorf("to apply, got -, want +:\n%s", diff)
			}
			if diff := cmp.Diff(want.Object, object(t, wanted).Object); diff != "" {
				t.Errorf("the wanted object was changed:\n%s", diff)
			}
		})
	}
}

// drop removes what a kept path means, by hand and not by the code under test.
func drop(t *testing.T, obj *unstructured.Unstructured, path string) {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatalf("read containers: %v", err)
	}
	manager, ok := containers[0].(map[string]any)
	if !ok {
		t.Fatalf("container is %T", containers[0])
	}
	const prefix = `.spec.template.spec.containers[name="manager"]`
	switch path {
	case prefix + ".image":
		delete(manager, "image")
	case prefix + ".args":
		delete(manager, "args")
	case prefix + ".resources.limits.memory":
		delete(manager, "resources")
	case prefix + `.ports[containerPort=9443,protocol="TCP"].name`:
		port, _ := manager["ports"].([]any)[0].(map[string]any)
		delete(port, "name")
	case ".spec.replicas":
		unstructured.RemoveNestedField(obj.Object, "spec", "replicas")
		return
	default:
		t.Fatalf("unknown path %s", path)
	}
	if err := unstructured.SetNestedSlice(obj.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		t.Fatalf("write containers: %v", err)
	}
}

func TestYieldIgnoresTheClaimOnAMapThatOthersFill(t *testing.T) {
	t.Parallel()
	want := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: new}}`)
	have := object(t, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: c
  managedFields:
%s
data: {a: old}
`, entry("kubectl-edit", "Update", after, "", `{"f:data":{}}`)+entry("capstan", "Apply", before, "", `{"f:data":{"f:a":{}}}`)))
	got, kept, err := ownership.Yield(want, have, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatalf("Yield: %v", err)
	}
	if diff := cmp.Diff(kept, []ownership.Kept(nil)); diff != "" {
		t.Errorf("kept, got -, want +:\n%s", diff)
	}
	if diff := cmp.Diff(got.Object, want.Object); diff != "" {
		t.Errorf("to apply, got -, want +:\n%s", diff)
	}
}

func TestYieldReportsManagedFieldsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	have := object(t, fmt.Sprintf(live, entry("kubectl-edit", "Update", after, "", `{"k:nonsense":{}}`)))
	if _, _, err := ownership.Yield(object(t, wanted), have, time.Unix(1, 0)); err == nil {
		t.Error("Yield took managed fields it can't read")
	}
}

func TestLeftovers(t *testing.T) {
	t.Parallel()
	const dry = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: m
  managedFields:
%s
spec:
  strategy: {type: RollingUpdate}
  template:
    spec:
      containers:
      - name: manager
        image: i
      - name: proxy
        image: p
        resources: {limits: {cpu: "1"}}
`
	containers := func(s string) string {
		return `{"f:spec":{"f:strategy":{"f:type":{}},"f:template":{"f:spec":{"f:containers":{` + s + `}}}}}`
	}
	both := containers(`"k:{\"name\":\"manager\"}":{".":{},"f:name":{},"f:image":{}},` +
		`"k:{\"name\":\"proxy\"}":{".":{},"f:name":{},"f:image":{}}`)
	ours := `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"manager\"}":{".":{},"f:name":{},"f:image":{}}}}}}}`
	limits := `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"proxy\"}":{"f:resources":{"f:limits":{"f:cpu":{}}}}}}}}}`

	for name, tc := range map[string]struct {
		managed        string
		wantFound      bool
		wantContainers []any
	}{
		"a container that only the installer has goes, with what is in it": {
			managed:   entry("clusterctl", "Update", before, "", both) + entry("capstan", "Apply", after, "", ours),
			wantFound: true,
			wantContainers: []any{
				map[string]any{"name": "manager", "image": "i"},
			},
		},
		"a container in which somebody else has fields stays, without the installer's fields": {
			managed: entry("clusterctl", "Update", before, "", both) + entry("capstan", "Apply", after, "", ours) +
				entry("vpa", "Apply", after, "", limits),
			wantFound: true,
			wantContainers: []any{
				map[string]any{"name": "manager", "image": "i"},
				map[string]any{"name": "proxy", "resources": map[string]any{"limits": map[string]any{"cpu": "1"}}},
			},
		},
		"a controller's container stays": {
			managed: entry("injector", "Update", before, "", both) + entry("capstan", "Apply", after, "", ours),
			wantContainers: []any{
				map[string]any{"name": "manager", "image": "i"},
				map[string]any{"name": "proxy", "image": "p", "resources": map[string]any{"limits": map[string]any{"cpu": "1"}}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := object(t, fmt.Sprintf(dry, tc.managed))
			got, found, err := ownership.Leftovers(obj)
			if err != nil {
				t.Fatalf("Leftovers: %v", err)
			}
			if found != tc.wantFound {
				t.Errorf("found is %t, want %t", found, tc.wantFound)
			}
			list, _, err := unstructured.NestedSlice(got.Object, "spec", "template", "spec", "containers")
			if err != nil {
				t.Fatalf("read containers: %v", err)
			}
			if diff := cmp.Diff(list, tc.wantContainers); diff != "" {
				t.Errorf("containers, got -, want +:\n%s", diff)
			}
		})
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after string
		want          string
	}{
		"what the server writes does not count": {
			before: `{kind: A, metadata: {name: x, resourceVersion: "1", generation: 1}}`,
			after:  `{kind: A, metadata: {name: x, resourceVersion: "2", generation: 2}}`,
		},
		"the first path in order is named, with both values": {
			before: `{kind: A, spec: {b: 1, list: [{image: old}]}}`,
			after:  `{kind: A, spec: {b: 1, list: [{image: new}]}}`,
			want:   `spec.list[0].image: "old", would be "new"`,
		},
		"an empty map is not the same as none": {
			before: `{kind: A, spec: {}}`,
			after:  `{kind: A}`,
			want:   `spec: {}, would be absent`,
		},
		"a list entry that comes": {
			before: `{kind: A, spec: [a]}`,
			after:  `{kind: A, spec: [a, b]}`,
			want:   `spec[1]: absent, would be "b"`,
		},
		"a Secret's values are not shown": {
			before: `{kind: Secret, data: {password: b2xk}}`,
			after:  `{kind: Secret, data: {password: bmV3}}`,
			want:   `data.password`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(ownership.Difference(object(t, tc.before), object(t, tc.after)), tc.want); diff != "" {
				t.Errorf("got -, want +:\n%s", diff)
			}
		})
	}
}
