// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/settings"
	"github.com/capstan-dev/capstan/internal/world"
)

// deployment returns one whose container has the given fields.
func deployment(t *testing.T, container string, more ...string) *unstructured.Unstructured {
	t.Helper()
	text := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: n}\nspec:\n" + strings.Join(more, "") +
		"  template:\n    spec:\n      containers:\n      - name: m\n"
	for line := range strings.SplitSeq(strings.Trim(container, "\n"), "\n") {
		text += "        " + line + "\n"
	}
	return object(t, text)
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return u
}

func managed(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	v1 := &metav1.FieldsV1{}
	v1.SetRawString(fields)
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: v1}
}

func ofContainer(fields string) string {
	return `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"m\"}":{` + fields + `}}}}}}`
}

// compare returns what Compare finds, one line a change: "Kind name: old > live > new (basis)".
func compare(t *testing.T, old, live, next *unstructured.Unstructured, kept []v1alpha1.KeptSetting, entries ...metav1.ManagedFieldsEntry) ([]string, []settings.Change) {
	t.Helper()
	in := settings.Input{
		New: []*unstructured.Unstructured{next},
		Set: world.Set{Objects: []world.Object{{Ref: world.RefOf(next), Found: true, Live: live, Managed: entries}}},
	}
	if old != nil {
		in.Earlier = &settings.Earlier{Source: "x", Objects: []*unstructured.Unstructured{old}, Kept: kept}
	}
	changes, err := settings.Compare(in)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range changes {
		out = append(out, fmt.Sprintf("%s: %s > %s > %s (%s)", c.Setting, c.Show(c.Old), c.Show(c.Live), c.Show(c.New), c.Basis))
	}
	return out, changes
}

func TestCompareWithTheEarlierManifest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		old, live, next string
		want            []string
	}{
		"a gate that was set by a variable when it was installed": {
			old: `args: ["--feature-gates=A=false,B=true"]`, live: `args: ["--feature-gates=A=true,B=true"]`, next: `args: ["--feature-gates=A=false,B=true,C=true"]`,
			want: []string{"feature gate A of container m: false > true > false (Compared)"},
		},
		"a gate that was switched off": {
			old: `args: ["--feature-gates=A=true"]`, live: `args: ["--feature-gates=A=false"]`, next: `args: ["--feature-gates=A=true"]`,
			want: []string{"feature gate A of container m: true > false > true (Compared)"},
		},
		"a gate that was added, in another form of the argument": {
			old: `args: [--v=2]`, live: "args: [--v=2, --feature-gates, A=1]", next: `args: [--v=2]`,
			want: []string{"feature gate A of container m: not set > true > not set (Compared)"},
		},
		"gates in several arguments, and in the command": {
			old: `command: [/m, --feature-gates=A=false]`, live: "command: [/m, --feature-gates=A=false]\nargs: [--feature-gates=B=true, --feature-gates=A=true]", next: `command: [/m, --feature-gates=A=false]`,
			want: []string{"feature gate A of container m: false > true > false (Compared)", "feature gate B of container m: not set > true > not set (Compared)"},
		},
		"a gate that the manifests changed from true to false is told": {
			old: `args: ["--feature-gates=A=true"]`, live: `args: ["--feature-gates=A=true"]`, next: `args: ["--feature-gates=A=false"]`,
			want: []string{"feature gate A of container m: true > true > false (Manifest)"},
		},
		"what the manifests changed is nobody's": {
			old:  "image: r/m:v1\nargs: [--a=1, '--feature-gates=A=false,B=true']\nenv: [{name: E, value: x}]",
			live: "image: r/m:v1\nargs: ['--feature-gates=A=false,B=true', --a=1]\nenv: [{name: E, value: x}]",
			next: "image: r/m:v2\nargs: [--a=2, '--feature-gates=A=true']\nenv: []",
		},
		"what the API server writes otherwise is no change": {
			old:  "resources: {limits: {cpu: 1000m, memory: 1024Mi}}\nenv: [{name: E, valueFrom: {fieldRef: {fieldPath: x}}}]",
			live: "resources: {limits: {cpu: '1', memory: 1Gi}}\nenv: [{name: E, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: x}}}]",
			next: "resources: {limits: {cpu: '2', memory: 2Gi}}\nenv: [{name: E, value: z}]",
		},
		"arguments, environment, resources and image": {
			old:  "image: r/m:v1\nargs: [--a=1, --b]\nenv: [{name: E, value: x}]\nresources: {limits: {memory: 1Gi}}",
			live: "image: mirror/m:v1\nargs: [--a=9, --c=1]\nenv: [{name: E, value: z}, {name: MY_TOKEN, value: hunter2}]\nresources: {limits: {memory: 4Gi}, requests: {cpu: 1}}",
			next: "image: r/m:v2\nargs: [--a=1, --b]\nenv: [{name: E, value: x}]\nresources: {limits: {memory: 1Gi}}",
			want: []string{
				"argument --a of container m: 1 > 9 > 1 (Compared)", "argument --b of container m: set > not set > set (Compared)", "argument --c of container m: not set > 1 > not set (Compared)",
				"environment variable E of container m: x > z > x (Compared)", "environment variable MY_TOKEN of container m: not set > *** (sha256 f52fbd32) > not set (Compared)",
				"image of container m: r/m:v1 > mirror/m:v1 > r/m:v2 (Compared)",
				"resources.limits.memory of container m: 1Gi > 4Gi > 1Gi (Compared)", "resources.requests.cpu of container m: not set > 1 > not set (Compared)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := compare(t, deployment(t, tc.old), deployment(t, tc.live), deployment(t, tc.next), nil)
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("got -, want +:\n%s", diff)
			}
		})
	}
}

func TestCompareOtherObjectsAndFields(t *testing.T) {
	t.Parallel()
	pod := func(fields string) string {
		return "  template:\n    spec:\n      containers: [{name: m}]\n" + fields
	}
	workload := func(kind, spec string) *unstructured.Unstructured {
		return object(t, "apiVersion: apps/v1\nkind: "+kind+"\nmetadata: {name: d, namespace: n}\nspec:\n"+spec)
	}
	mine := pod("      nodeSelector: {disk: ssd}\n      tolerations: [{key: infra, effect: NoSchedule, operator: Exists}]\n      priorityClassName: high\n")
	want := []string{
		"node selector disk: not set > ssd > not set (Compared)", "priorityClassName of the Pods: not set > high > not set (Compared)",
		"toleration infra:NoSchedule: not set > {\"effect\":\"NoSchedule\",\"key\":\"infra\",\"operator\":\"Exists\"} > not set (Compared)",
	}
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		got, _ := compare(t, workload(kind, pod("")), workload(kind, mine), workload(kind, pod("")), nil)
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s, got -, want +:\n%s", kind, diff)
		}
	}
	got, _ := compare(t, workload("Deployment", "  replicas: 1\n"+pod("")), workload("Deployment", "  replicas: 3\n"+pod("")), workload("Deployment", pod("")), nil)
	if diff := cmp.Diff(got, []string{"replicas: 1 > 3 > 1 (Compared)"}); diff != "" {
		t.Errorf("replicas, got -, want +:\n%s", diff)
	}
	config := func(data string) *unstructured.Unstructured {
		return object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: n}\ndata: "+data)
	}
	got, _ = compare(t, config("{a: x, b: x}"), config("{a: z, b: x}"), config("{a: x, b: z}"), nil)
	if diff := cmp.Diff(got, []string{"key a: 1 bytes (sha256 2d711642) > 1 bytes (sha256 594e519a) > 1 bytes (sha256 2d711642) (Compared)"}); diff != "" {
		t.Errorf("ConfigMap, got -, want +:\n%s", diff)
	}
}

func TestCompareWithoutTheEarlierManifest(t *testing.T) {
	t.Parallel()
	const all = `"f:args":{},"f:image":{},"f:env":{"k:{\"name\":\"E\"}":{"f:value":{}}}`
	live := "image: r/m:v1\nargs: [--a=9, --feature-gates=A=true]\nenv: [{name: E, value: z}]"
	next := "image: r/m:v2\nargs: [--a=1, --feature-gates=A=false]\nenv: [{name: E, value: x}]"
	guessed := []string{
		"argument --a of container m: not set > 9 > 1 (Guessed)", "environment variable E of container m: not set > z > x (Guessed)", "feature gate A of container m: not set > true > false (Guessed)",
	}
	for name, tc := range map[string]struct {
		managed []metav1.ManagedFieldsEntry
		want    []string
	}{
		"an installer wrote all of it":               {managed: []metav1.ManagedFieldsEntry{managed("clusterctl", "Update", ofContainer(all))}, want: guessed},
		"a program that applies whole manifests did": {managed: []metav1.ManagedFieldsEntry{managed("argocd-controller", "Apply", ofContainer(all))}, want: guessed},
		"nobody is known":                            {want: guessed},
		"a person edited the arguments": {
			managed: []metav1.ManagedFieldsEntry{managed("clusterctl", "Update", ofContainer(`"f:image":{}`)), managed("kubectl-edit", "Update", ofContainer(`"f:args":{}`))},
			want: []string{
				"argument --a of container m: not set > 9 > 1 (Written)", "environment variable E of container m: not set > z > x (Guessed)", "feature gate A of container m: not set > true > false (Written)",
			},
		},
		"a program sets one variable": {
			managed: []metav1.ManagedFieldsEntry{managed("clusterctl", "Update", ofContainer(`"f:args":{},"f:image":{}`)), managed("tuner", "Update", ofContainer(`"f:env":{"k:{\"name\":\"E\"}":{"f:value":{}}}`))},
			want: []string{
				"argument --a of container m: not set > 9 > 1 (Guessed)", "environment variable E of container m: not set > z > x (Written)", "feature gate A of container m: not set > true > false (Guessed)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := compare(t, nil, deployment(t, live), deployment(t, next), nil, tc.managed...)
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("got -, want +:\n%s", diff)
			}
		})
	}
}

// TestWhatWasKeptOnceIsStillTheirs: the earlier manifest has the setting, because it was carried over into it.
func TestWhatWasKeptOnceIsStillTheirs(t *testing.T) {
	t.Parallel()
	with, without := deployment(t, `args: ["--feature-gates=A=true"]`), deployment(t, `args: ["--feature-gates=A=false"]`)
	kept := []v1alpha1.KeptSetting{{Object: v1alpha1.ObjectReference(world.RefOf(with)), Setting: "feature gate A of container m"}}
	got, _ := compare(t, with, with, without, kept)
	if diff := cmp.Diff(got, []string{"feature gate A of container m: true > true > false (Compared)"}); diff != "" {
		t.Errorf("got -, want +:\n%s", diff)
	}
}

func TestKeep(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		old, live, next, want string
		kept                  []string
	}{
		"everything that is the operator's": {
			old:  "image: r/m:v1\nargs: [--a=1, --b, --feature-gates=A=false]\nenv: [{name: E, value: x}]\nresources: {limits: {memory: 1Gi}}",
			live: "image: mirror/m:v1\nargs: [--a, '9', --feature-gates=A=true]\nenv: [{name: E, value: z}]\nresources: {limits: {memory: 4Gi}, requests: {cpu: 1}}",
			next: "image: r/m:v2@sha256:ab\nargs: [--n, --a=1, --b, '--feature-gates=A=false,N=true']\nenv: [{name: N, value: n}, {name: E, value: x}]\nresources: {limits: {memory: 2Gi}}",
			want: "image: mirror/m:v2@sha256:ab\nargs: [--n, --a, '9', '--feature-gates=A=true,N=true']\nenv: [{name: N, value: n}, {name: E, value: z}]\nresources: {limits: {memory: 4Gi}, requests: {cpu: 1}}",
			kept: []string{
				"argument --a of container m: 9 instead of 1", "argument --b of container m: not set instead of set", "environment variable E of container m: z instead of x", "feature gate A of container m: true instead of false",
				"image of container m: mirror/m:v1 instead of r/m:v2@sha256:ab", "resources.limits.memory of container m: 4Gi instead of 2Gi", "resources.requests.cpu of container m: 1 instead of not set",
			},
		},
		"a gate that the new version no longer lists is not forced on it": {
			old: `args: ["--feature-gates=A=false,B=true"]`, live: `args: ["--feature-gates=A=true,B=true"]`, next: `args: ["--feature-gates=B=true"]`,
			want: `args: ["--feature-gates=B=true"]`,
		},
		"a gate that somebody added": {
			old: `args: [--v=1]`, live: `args: [--v=1, --feature-gates=A=true]`, next: `args: [--v=1]`, want: `args: [--v=1, --feature-gates=A=true]`,
			kept: []string{"feature gate A of container m: true instead of not set"},
		},
		"a tag is what the upgrade is for": {
			old: "image: r/m:v1", live: "image: r/m:v1-fix", next: "image: r/m:v2", want: "image: r/m:v2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := deployment(t, tc.next)
			_, changes := compare(t, deployment(t, tc.old), deployment(t, tc.live), next, nil)
			r := &release.Rendered{Objects: []*unstructured.Unstructured{next}, Digest: "sha256:x"}
			out, kept, err := settings.Keep(r, changes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(out.Objects[0].Object, deployment(t, tc.want).Object); diff != "" {
				t.Errorf("got -, want +:\n%s", diff)
			}
			var said []string
			for _, k := range kept {
				said = append(said, fmt.Sprintf("%s: %s instead of %s", k.Setting, k.Value, k.Release))
			}
			if diff := cmp.Diff(said, tc.kept); diff != "" {
				t.Errorf("kept, got -, want +:\n%s", diff)
			}
			if diff := cmp.Diff(next.Object, deployment(t, tc.next).Object); diff != "" {
				t.Errorf("the component itself was changed:\n%s", diff)
			}
			if (out.Digest == "sha256:x") != (len(kept) == 0) {
				t.Errorf("the digest is %s with %d kept", out.Digest, len(kept))
			}
		})
	}
}
