// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package actuate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/actuate"
	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/ownership"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// cluster is the API server under the tests, and the other parties that write to it.
type cluster struct {
	dynamic.Interface
	live actuate.Live
}

func TestOnAPIServer(t *testing.T) {
	t.Parallel()
	cfg := apitest.Start(t)
	live, err := actuate.NewLive(cfg)
	if err != nil {
		t.Fatalf("NewLive: %v", err)
	}
	c := &cluster{Interface: live.Client, live: *live}
	for name, test := range map[string]func(t *testing.T, c *cluster, ns string){
		"takeover":    testTakeover,
		"allocated":   testTakeoverKeepsWhatTheServerAllocated,
		"ca-bundle":   testTakeoverLeavesControllersTheirs,
		"idempotent":  testApplyTwiceWritesOnce,
		"repair-new":  testRepairIsKept,
		"repair-old":  testOldRepairIsWrittenOver,
		"dry-run":     testDryRunAgreesWithApply,
		"dry-refused": testDryRunSaysWhatIsRefused,
		"dry-others":  testDryRunOfPatchAndDelete,
		"refused":     testRefusals,
		"patch":       testPatch,
		"delete":      testDelete,
		"new-kind":    testKindOfANewCRD,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.create(t, "kubectl-create", "v1", "namespaces", "", `{apiVersion: v1, kind: Namespace, metadata: {name: `+name+`}}`)
			test(t, c, name)
		})
	}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &out.Object); err != nil {
		t.Fatalf("parse: %v\n%s", err, text)
	}
	return out
}

func (c *cluster) at(t *testing.T, apiVersion, resource, ns string) dynamic.ResourceInterface {
	t.Helper()
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		t.Fatal(err)
	}
	ri := c.Resource(gv.WithResource(resource))
	if ns == "" {
		return ri
	}
	return ri.Namespace(ns)
}

func (c *cluster) create(t *testing.T, manager, apiVersion, resource, ns, text string) *unstructured.Unstructured {
	t.Helper()
	out, err := c.at(t, apiVersion, resource, ns).Create(t.Context(), parse(t, text), metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return out
}

func (c *cluster) deployment(t *testing.T, ns string) *unstructured.Unstructured {
	t.Helper()
	out, err := c.at(t, "apps/v1", "deployments", ns).Get(t.Context(), "m", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	return out
}

// write is a change of the Deployment by somebody else.
func (c *cluster) write(t *testing.T, ns, manager, patch string) {
	t.Helper()
	_, err := c.at(t, "apps/v1", "deployments", ns).Patch(t.Context(), "m", types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		t.Fatalf("patch by %s: %v", manager, err)
	}
}

func (c *cluster) apply(t *testing.T, l *actuate.Live, obj *unstructured.Unstructured) {
	t.Helper()
	if err := l.Apply(t.Context(), obj); err != nil {
		t.Fatalf("Apply: %v", err)
	}
}

// oldManifest is what the installer put there; newManifest is what Capstan applies.
func oldManifest(ns string) string {
	return `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: m
  namespace: ` + ns + `
  labels: {app: m, old: "yes"}
spec:
  replicas: 1
  selector: {matchLabels: {app: m}}
  template:
    metadata: {labels: {app: m}}
    spec:
      containers:
      - name: manager
        image: manager:v1
        args: [--a, --b]
        env: [{name: KEEP, value: x}, {name: GONE, value: lost}]
        ports: [{containerPort: 9443, name: webhook}, {containerPort: 8443, name: old}]
      - name: proxy
        image: proxy:v1
`
}

func newManifest(ns string) string {
	return `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: m
  namespace: ` + ns + `
  creationTimestamp: null
  labels: {app: m}
spec:
  replicas: 1
  selector: {matchLabels: {app: m}}
  template:
    metadata: {labels: {app: m}}
    spec:
      containers:
      - name: manager
        image: manager:v2
        args: [--a]
        env: [{name: KEEP, value: x}]
        ports: [{containerPort: 9443, name: webhook}]
`
}

// summary shows what matters of the Deployment.
func summary(t *testing.T, d *unstructured.Unstructured) []string {
	t.Helper()
	out := []string{fmt.Sprint("labels ", d.GetLabels()), fmt.Sprint("annotations ", d.GetAnnotations())}
	replicas, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
	out = append(out, fmt.Sprint("replicas ", replicas))
	containers, _, err := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers {
		m, ok := c.(map[string]any)
		if !ok {
			t.Fatalf("container is %T", c)
		}
		out = append(out, fmt.Sprintf("%v %v args %v env %v ports %v", m["name"], m["image"], m["args"], m["env"], m["ports"]))
	}
	return out
}

func testTakeover(t *testing.T, c *cluster, ns string) {
	for _, manager := range world.Installers() {
		if manager == "before-first-apply" {
			continue // the API server gives it by itself
		}
		c.create(t, manager, "apps/v1", "deployments", ns, oldManifest(ns))
		c.write(t, ns, "kube-controller-manager", `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"1"}}}`)
		c.apply(t, &c.live, parse(t, newManifest(ns)))
		got := c.deployment(t, ns)
		want := []string{
			"labels map[app:m]",
			"annotations map[deployment.kubernetes.io/revision:1]",
			"replicas 1",
			"manager manager:v2 args [--a] env [map[name:KEEP value:x]] ports [map[containerPort:9443 name:webhook protocol:TCP]]",
		}
		if diff := cmp.Diff(summary(t, got), want); diff != "" {
			t.Errorf("installed by %s, got -, want +:\n%s", manager, diff)
		}
		for _, e := range got.GetManagedFields() {
			if e.Manager == manager {
				t.Errorf("%s still owns fields", manager)
			}
		}
		if err := c.live.Delete(t.Context(), world.RefOf(got), step.Cascade); err != nil {
			t.Fatalf("Delete: %v", err)
		}
	}
}

func testTakeoverKeepsWhatTheServerAllocated(t *testing.T, c *cluster, ns string) {
	text := `
apiVersion: v1
kind: Service
metadata: {name: s, namespace: ` + ns + `, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}}
spec:
  type: NodePort
  selector: {app: m}
  ports: [{port: 443, targetPort: webhook}]
`
	before := c.create(t, "kubectl-client-side-apply", "v1", "services", ns, text)
	obj := parse(t, text)
	obj.SetAnnotations(nil)
	c.apply(t, &c.live, obj)
	after, err := c.at(t, "v1", "services", ns).Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(after.Object["spec"], before.Object["spec"]); diff != "" {
		t.Errorf("spec, got -, want +:\n%s", diff)
	}
	if got := after.GetAnnotations(); len(got) != 0 {
		t.Errorf("annotations are %v, want none", got)
	}
}

func testTakeoverLeavesControllersTheirs(t *testing.T, c *cluster, ns string) {
	text := `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w}
webhooks:
- name: a.capstan.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: ` + ns + `, name: s, path: /%s}}
  rules: [{apiGroups: [none.capstan.dev], apiVersions: [v1], operations: [CREATE], resources: [nones]}]
`
	const api, resource = "admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"
	c.create(t, "clusterctl", api, resource, "", fmt.Sprintf(text, "v1"))
	injected := `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"` + caBundle + `"}]`
	_, err := c.at(t, api, resource, "").Patch(t.Context(), "w", types.JSONPatchType, []byte(injected),
		metav1.PatchOptions{FieldManager: "cert-manager-cainjector"})
	if err != nil {
		t.Fatalf("inject: %v", err)
	}
	l := c.live
	l.Since = time.Now().Add(-time.Hour)
	c.apply(t, &l, parse(t, fmt.Sprintf(text, "v2")))
	got, err := c.at(t, api, resource, "").Get(t.Context(), "w", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hooks, _, _ := unstructured.NestedSlice(got.Object, "webhooks")
	hook, _ := hooks[0].(map[string]any)
	config, _ := hook["clientConfig"].(map[string]any)
	if config["caBundle"] != caBundle {
		t.Errorf("caBundle is %v, want what cainjector wrote", config["caBundle"])
	}
	if path, _, _ := unstructured.NestedString(config, "service", "path"); path != "/v2" {
		t.Errorf("path is %s, want /v2", path)
	}
}

func testApplyTwiceWritesOnce(t *testing.T, c *cluster, ns string) {
	c.create(t, "clusterctl", "apps/v1", "deployments", ns, oldManifest(ns))
	c.apply(t, &c.live, parse(t, newManifest(ns)))
	before := c.deployment(t, ns)
	c.apply(t, &c.live, parse(t, newManifest(ns)))
	if diff := cmp.Diff(c.deployment(t, ns).Object, before.Object); diff != "" {
		t.Errorf("the second apply changed the object:\n%s", diff)
	}
}

func testRepairIsKept(t *testing.T, c *cluster, ns string) {
	c.create(t, "clusterctl", "apps/v1", "deployments", ns, oldManifest(ns))
	c.write(t, ns, "kubectl-set", `{"spec":{"template":{"spec":{"containers":[{"name":"manager","image":"mirror/manager:v2"}]}}}}`)
	c.write(t, ns, "kubectl-edit", `{"spec":{"template":{"spec":{"containers":[{"name":"manager","env":[{"name":"EXTRA","value":"z"}]}]}}}}`)
	c.write(t, ns, "some-controller", `{"spec":{"replicas":4}}`)

	var kept []string
	l := c.live
	l.Since = time.Now().Add(-time.Hour)
	l.Kept = func(ref world.Ref, fields []ownership.Kept) {
		for _, f := range fields {
			kept = append(kept, ref.String()+" "+f.Path+" "+f.Manager)
		}
	}
	c.apply(t, &l, parse(t, newManifest(ns)))
	if diff := cmp.Diff(kept, []string{"Deployment " + ns + `/m .spec.template.spec.containers[name="manager"].image kubectl-set`}); diff != "" {
		t.Errorf("kept, got -, want +:\n%s", diff)
	}
	want := []string{
		"labels map[app:m]", "annotations map[]", "replicas 1",
		"manager mirror/manager:v2 args [--a] env [map[name:EXTRA value:z] map[name:KEEP value:x]] " +
			"ports [map[containerPort:9443 name:webhook protocol:TCP]]",
	}
	if diff := cmp.Diff(summary(t, c.deployment(t, ns)), want); diff != "" {
		t.Errorf("got -, want +:\n%s", diff)
	}

	dry := actuate.NewDryRun(&l)
	if r, err := dry.Preview(t.Context(), parse(t, newManifest(ns))); err != nil || r.Outcome != actuate.Unchanged {
		t.Errorf("a dry run with the same respect says %s %s, error %v, want Unchanged", r.Outcome, r.Detail, err)
	}
	// The next run does not respect what was repaired during this one.
	c.apply(t, &c.live, parse(t, newManifest(ns)))
	if got := strings.Join(summary(t, c.deployment(t, ns)), "\n"); !strings.Contains(got, "manager manager:v2 ") {
		t.Errorf("without respect the image is not Capstan's:\n%s", got)
	}
}

func testOldRepairIsWrittenOver(t *testing.T, c *cluster, ns string) {
	c.create(t, "clusterctl", "apps/v1", "deployments", ns, oldManifest(ns))
	c.write(t, ns, "kubectl-set", `{"spec":{"template":{"spec":{"containers":[{"name":"manager","image":"mirror/manager:v2"}]}}}}`)
	l := c.live
	l.Since = time.Now().Add(time.Hour)
	l.Kept = func(ref world.Ref, fields []ownership.Kept) { t.Errorf("kept %v of %s", fields, ref) }
	c.apply(t, &l, parse(t, newManifest(ns)))
	if got := strings.Join(summary(t, c.deployment(t, ns)), "\n"); !strings.Contains(got, "manager manager:v2 ") {
		t.Errorf("the image is not Capstan's:\n%s", got)
	}
}

func testDryRunAgreesWithApply(t *testing.T, c *cluster, ns string) {
	same := oldManifest(ns)
	noProxy := same[:strings.Index(same, "      - name: proxy")]
	noArgs := strings.Replace(same, "        args: [--a, --b]\n", "", 1)
	for _, tc := range []struct {
		name, text string
		want       actuate.Outcome
		wantDetail string
	}{
		{"the manifest that the installer applied", same, actuate.Unchanged, ""},
		{"a container less", noProxy, actuate.Changed, `spec.template.spec.containers[1]: {"image":"proxy:v1"`},
		{"a field less", noArgs, actuate.Changed, `spec.template.spec.containers[0].args: ["--a","--b"], would be absent`},
		{"a new image", strings.Replace(same, "manager:v1", "manager:v9", 1), actuate.Changed, `"manager:v1", would be "manager:v9"`},
	} {
		before := c.create(t, "clusterctl", "apps/v1", "deployments", ns, same)
		dry := actuate.NewDryRun(&c.live)
		r, err := dry.Preview(t.Context(), parse(t, tc.text))
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if r.Outcome != tc.want || !strings.Contains(r.Detail, tc.wantDetail) {
			t.Errorf("%s: got %s %q, want %s %q", tc.name, r.Outcome, r.Detail, tc.want, tc.wantDetail)
		}
		if diff := cmp.Diff(c.deployment(t, ns).Object, before.Object); diff != "" {
			t.Errorf("%s: the dry run wrote:\n%s", tc.name, diff)
		}
		c.apply(t, &c.live, parse(t, tc.text))
		if diff := ownership.Difference(c.deployment(t, ns), r.After); diff != "" {
			t.Errorf("%s: apply did something else than the dry run said: %s", tc.name, diff)
		}
		if r, err := dry.Preview(t.Context(), parse(t, tc.text)); err != nil || r.Outcome != actuate.Unchanged {
			t.Errorf("%s: after the apply the dry run says %s %s, error %v", tc.name, r.Outcome, r.Detail, err)
		}
		if err := c.live.Delete(t.Context(), world.RefOf(before), step.Cascade); err != nil {
			t.Fatal(err)
		}
	}
}

func testDryRunSaysWhatIsRefused(t *testing.T, c *cluster, ns string) {
	c.create(t, "clusterctl", "apps/v1", "deployments", ns, oldManifest(ns))
	relabelled := strings.ReplaceAll(newManifest(ns), "{app: m}", "{app: other}")
	dry := actuate.NewDryRun(&c.live)
	for _, text := range []string{
		relabelled,
		strings.Replace(newManifest(ns), "replicas: 1", "replicas: -1", 1),
		strings.Replace(newManifest(ns), "replicas: 1", "replicars: 1", 1),
		strings.Replace(newManifest(ns), "namespace: "+ns, "namespace: not-there", 1),
		strings.Replace(newManifest(ns), "name: m\n", "name: fresh\n", 1),
		`{apiVersion: none.capstan.dev/v1, kind: None, metadata: {name: x}}`,
	} {
		if err := dry.Apply(t.Context(), parse(t, text)); err != nil {
			t.Fatalf("Apply: %v", err)
		}
	}
	var got []string
	for _, r := range dry.Results() {
		got = append(got, fmt.Sprintf("%s %s immutable=%t", r.Ref, r.Outcome, r.Immutable))
	}
	want := []string{
		"Deployment " + ns + "/m Refused immutable=true",
		"Deployment " + ns + "/m Refused immutable=false",
		"Deployment " + ns + "/m Refused immutable=false",
		"Deployment not-there/m Unchecked immutable=false",
		"Deployment " + ns + "/fresh Created immutable=false",
		"None x Unchecked immutable=false",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("got -, want +:\n%s", diff)
	}
	for i, words := range []string{"field is immutable", "must be greater than or equal to 0", "replicars: field not declared in schema"} {
		if !strings.Contains(dry.Results()[i].Detail, words) {
			t.Errorf("detail is %q, want the server's words %q", dry.Results()[i].Detail, words)
		}
	}
}

func testDryRunOfPatchAndDelete(t *testing.T, c *cluster, ns string) {
	before := c.create(t, "clusterctl", "apps/v1", "deployments", ns, oldManifest(ns))
	ref := world.RefOf(before)
	missing := ref
	missing.Name = "missing"
	dry := actuate.NewDryRun(&c.live)
	for _, err := range []error{
		dry.Patch(t.Context(), ref, []byte(`{"spec":{"replicas":1}}`)),
		dry.Patch(t.Context(), ref, []byte(`{"spec":{"replicas":0}}`)),
		dry.Patch(t.Context(), missing, []byte(`{"spec":{"replicas":0}}`)),
		dry.Delete(t.Context(), ref, step.Cascade),
		dry.Delete(t.Context(), missing, step.Cascade),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, r := range dry.Results() {
		got = append(got, fmt.Sprintf("%s %s %s", r.Verb, r.Ref.Name, r.Outcome))
	}
	want := []string{"patch m Unchanged", "patch m Changed", "patch missing Unchecked", "delete m Deleted", "delete missing Unchanged"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("got -, want +:\n%s", diff)
	}
	if diff := cmp.Diff(c.deployment(t, ns).Object, before.Object); diff != "" {
		t.Errorf("the dry run wrote:\n%s", diff)
	}
}

func testRefusals(t *testing.T, c *cluster, ns string) {
	for name, tc := range map[string]struct {
		text string
		want error
	}{
		"an invalid object":          {strings.Replace(newManifest(ns), "replicas: 1", "replicas: -1", 1), actuate.ErrRefused},
		"an unknown field":           {strings.Replace(newManifest(ns), "replicas: 1", "replicars: 1", 1), actuate.ErrRefused},
		"a wrong type":               {strings.Replace(newManifest(ns), "replicas: 1", "replicas: many", 1), actuate.ErrRefused},
		"an API version that is not": {`{apiVersion: a/b/c, kind: None, metadata: {name: x}}`, actuate.ErrRefused},
		"a missing namespace":        {strings.Replace(newManifest(ns), "namespace: "+ns, "namespace: not-there", 1), actuate.ErrRetry},
		"a missing kind":             {`{apiVersion: none.capstan.dev/v1, kind: None, metadata: {name: x}}`, actuate.ErrRetry},
	} {
		err := c.live.Apply(t.Context(), parse(t, tc.text))
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: error is %v, want %v", name, err, tc.want)
		}
	}
}

func testPatch(t *testing.T, c *cluster, ns string) {
	before := c.create(t, "clusterctl", "apps/v1", "deployments", ns, oldManifest(ns))
	ref := world.RefOf(before)
	guarded := func(rv string, replicas int) []byte {
		return fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"replicas":%d}}`, rv, replicas)
	}
	if err := c.live.Patch(t.Context(), ref, guarded(before.GetResourceVersion(), 2)); err != nil {
		t.Fatalf("guarded patch of the present state: %v", err)
	}
	err := c.live.Patch(t.Context(), ref, guarded(before.GetResourceVersion(), 3))
	if !errors.Is(err, actuate.ErrConflict) || !actuate.Retryable(err) {
		t.Errorf("guarded patch of an old state: error is %v, want ErrConflict", err)
	}
	replicas, _, _ := unstructured.NestedInt64(c.deployment(t, ns).Object, "spec", "replicas")
	if replicas != 2 {
		t.Errorf("replicas are %d, want 2", replicas)
	}
	ref.Name = "missing"
	if err := c.live.Patch(t.Context(), ref, []byte(`{}`)); !errors.Is(err, actuate.ErrRetry) {
		t.Errorf("patch of a missing object: error is %v, want ErrRetry", err)
	}
}

func testDelete(t *testing.T, c *cluster, ns string) {
	obj := c.create(t, "clusterctl", "apps/v1", "deployments", ns, oldManifest(ns))
	ref := world.RefOf(obj)
	if err := c.live.DeleteExact(t.Context(), ref, "another-uid", step.Cascade); err != nil {
		t.Errorf("delete of an earlier object of that name: %v", err)
	}
	c.deployment(t, ns)
	if err := c.live.Delete(t.Context(), ref, step.Orphan); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	going := c.deployment(t, ns)
	if going.GetDeletionTimestamp() == nil || !strings.Contains(fmt.Sprint(going.GetFinalizers()), "orphan") {
		t.Errorf("deletionTimestamp %v, finalizers %v; want it to wait for its orphans", going.GetDeletionTimestamp(), going.GetFinalizers())
	}
	if err := c.live.Apply(t.Context(), parse(t, newManifest(ns))); !errors.Is(err, actuate.ErrRetry) {
		t.Errorf("apply to a terminating object: error is %v, want ErrRetry", err)
	}
	if err := c.live.Patch(t.Context(), ref, []byte(`{"metadata":{"finalizers":null}}`)); err != nil {
		t.Fatalf("Patch: %v", err)
	}
	if err := c.live.DeleteExact(t.Context(), ref, obj.GetUID(), step.Cascade); err != nil {
		t.Errorf("delete of a missing object: %v", err)
	}
	if _, err := c.at(t, "apps/v1", "deployments", ns).Get(t.Context(), "m", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the object is still there: %v", err)
	}
	if err := c.live.Delete(t.Context(), world.Ref{APIVersion: "none.capstan.dev/v1", Kind: "None", Name: "x"}, step.Cascade); err != nil {
		t.Errorf("delete of a missing kind: %v", err)
	}
}

func testKindOfANewCRD(t *testing.T, c *cluster, ns string) {
	custom := parse(t, `{apiVersion: new.capstan.dev/v1, kind: Thing, metadata: {name: x, namespace: `+ns+`}, spec: {a: b}}`)
	if err := c.live.Apply(t.Context(), custom); !errors.Is(err, actuate.ErrRetry) {
		t.Fatalf("before the CRD: error is %v, want ErrRetry", err)
	}
	c.apply(t, &c.live, parse(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.new.capstan.dev}
spec:
  group: new.capstan.dev
  scope: Namespaced
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`))
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := c.live.Apply(ctx, custom)
		if err != nil && !actuate.Retryable(err) {
			return false, err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Errorf("after the CRD: %v", err)
	}
}

// caBundle is any certificate: the API server wants PEM.
const caBundle = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJkVENDQVJ1Z0F3SUJBZ0lVS2FCKzVyNC9QWnl3dmhmYjMyQXk1b1NPY2ZVd0NnWUlLb1" +
	"pJemowRUF3SXcKRHpFTk1Bc0dBMVVFQXd3RWRHVnpkREFnRncweU5qRXhNekF4T1RVeE1UaGFHQTh5TVRJMk1URXdOakU1TlRFeApPRm93RHpF" +
	"Tk1Bc0dBMVVFQXd3RWRHVnpkREJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSEEwSUFCSVJECnNmSlpDYkUxMWxYWW90NDZ2bERScXlpTW" +
	"FsaE9jK2EvTFRmTjY2R0VZTlNGVW1VZEZ4Ri9lb1AweFhmYVB1Q00KOXRUYWRNZ0E3amVoT29oYmRkNmpVekJSTUIwR0ExVWREZ1FXQkJRLzRZ" +
	"U1pXZ0NCaTZGaU1hdGZNTVk5VEF2eApQakFmQmdOVkhTTUVHREFXZ0JRLzRZU1pXZ0NCaTZGaU1hdGZNTVk5VEF2eFBqQVBCZ05WSFJNQkFmOE" +
	"VCVEFECkFRSC9NQW9HQ0NxR1NNNDlCQU1DQTBnQU1FVUNJRUpVd2FtZDYzVGk3TTUxcG54V3VKU3VCL0ZmQTM2TmtsdG0KQkJqRmdZd0JBaUVB" +
	"elZsTGlaMDJ0cGRQb21CbDBhRkVVSnNHZUdBeHdqbzNWbmwvek1WZUJBST0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
