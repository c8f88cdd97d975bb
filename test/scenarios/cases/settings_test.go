// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// controller is a provider with one Deployment; its feature gate is a variable.
func controller(version, variables string) part {
	p := part{name: "capx", version: version, provider: "InfrastructureProvider", more: variables}
	p.manifests = fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: capx-system}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, namespace: capx-system}
data: {level: low, version: %[1]s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: capx-system}
spec:
  replicas: 1
  selector: {matchLabels: {app: capx}}
  template:
    metadata: {labels: {app: capx}}
    spec:
      containers:
      - name: manager
        image: registry.test/capx:%[1]s
        args: ["--leader-elect", "--v=2", "--feature-gates=Pools=${EXP_POOLS:=false},Old=true"]
        env: [{name: MODE, value: normal}]
        resources: {limits: {memory: 256Mi}}
`, version)
	return p
}

// rendered is what an installer applies: the release's objects with one variable as the operator set it then.
func rendered(t *testing.T, b *bed, version, pools string) {
	t.Helper()
	text := strings.ReplaceAll(controller(version, "").manifests, "${EXP_POOLS:=false}", pools)
	for _, u := range objects(t, text) {
		labels := map[string]string{"cluster.x-k8s.io/provider": "infrastructure-capx", "clusterctl.cluster.x-k8s.io": ""}
		u.SetLabels(labels)
		c := b.of(t, u)
		if u.GetKind() == "Namespace" {
			b.namespace(t, u.GetName())
			continue
		}
		if _, err := c.Create(t.Context(), u, metav1.CreateOptions{FieldManager: "clusterctl"}); err != nil {
			t.Fatalf("create %s: %v", u.GetName(), err)
		}
	}
	b.installed(t, controller(version, ""))
}

// edit changes the Deployment as a person does with kubectl edit.
func edit(t *testing.T, b *bed, patch string) {
	t.Helper()
	u := b.get(t, "apps/v1", "Deployment", "capx-system", "manager")
	_, err := b.of(t, u).Patch(t.Context(), u.GetName(), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		t.Fatal(err)
	}
}

func container(patch string) string {
	return `{"spec":{"template":{"spec":{"containers":[{"name":"manager",` + patch + `}]}}}}`
}

const (
	edited = `"args":["--leader-elect","--v=5","--feature-gates=Pools=true,Old=true"],"env":[{"name":"MODE","value":"slow"},{"name":"API_TOKEN","value":"topsecret"}],"resources":{"limits":{"memory":"1Gi"}},"image":"mirror.test/capx:v1.0.0"`
	scaled = `{"spec":{"replicas":3}}`
)

func TestSettingsThatAnUpgradeResets(t *testing.T) {
	t.Parallel()
	old := func(t *testing.T) string { t.Helper(); return writeRelease(t, "v1.0.0", "", controller("v1.0.0", "")) }
	next := func(t *testing.T) string { t.Helper(); return writeRelease(t, "v1.1.0", "", controller("v1.1.0", "")) }

	t.Run("by hand, and nothing is known of the earlier manifest but who wrote what", func(t *testing.T) {
		b := newBed(t, apitest.Options{})
		rendered(t, b, "v1.0.0", "false")
		edit(t, b, container(edited))
		edit(t, b, scaled)
		r := b.capstan(t, "plan", next(t))
		b.refused(t, r, "BLOCK  CAP-FEATURE-GATE-LOST  Deployment capx-system/manager: feature gate Pools of container manager is true live (set by kubectl-edit), false after the upgrade",
			"--keep-settings", "WARN  CAP-SETTINGS-RESET  Deployment capx-system/manager: argument --v of container manager is 5 live (set by kubectl-edit), 2 after",
			"environment variable MODE of container manager is slow live", "resources.limits.memory of container manager is 1Gi live", "replicas is 3 live",
			"image of container manager is mirror.test/capx:v1.0.0 live")
		// The variable that the manifest says nothing about stays anyhow.
		lacks(t, r, "API_TOKEN", "topsecret", "feature gate Old")
	})
	t.Run("by a variable when it was installed", func(t *testing.T) {
		b := newBed(t, apitest.Options{})
		rendered(t, b, "v1.0.0", "true")
		b.refused(t, b.capstan(t, "plan", next(t)), "UNKNOWN  CAP-FEATURE-GATE-LOST", "feature gate Pools", "--installed RELEASE")
		b.refused(t, b.capstan(t, "plan", next(t), "--installed", old(t)), "BLOCK  CAP-FEATURE-GATE-LOST", "is false in the earlier manifest, true live", "false after the upgrade")
		b.refused(t, b.capstan(t, "upgrade", next(t), "--installed", old(t), "--yes"), "CAP-FEATURE-GATE-LOST")
		for name, args := range map[string][]string{
			"the same variable in the release": {"plan", writeRelease(t, "v1.1.0", "", controller("v1.1.0", `variables: {EXP_POOLS: "true"}`))},
			"kept":                             {"plan", next(t), "--keep-settings", "--installed", old(t)},
			"kept without the old release":     {"plan", next(t), "--keep-settings"},
			"accepted":                         {"plan", next(t), "--accept", "CAP-FEATURE-GATE-LOST=not used"},
		} {
			r := b.capstan(t, args...)
			if r.code != problem.ExitDone {
				t.Errorf("%s: exit %d\n%s%s", name, r.code, r.stdout, r.stderr)
			}
		}
		want(t, b.capstan(t, "plan", next(t), "--installed", writeRelease(t, "v0.9.0", "", controller("v0.9.0", ""))), problem.ExitUsage, "No component of release under-test v0.9.0")
	})
	t.Run("nobody changed anything", func(t *testing.T) {
		b := newBed(t, apitest.Options{})
		rendered(t, b, "v1.0.0", "false")
		r := b.capstan(t, "plan", next(t))
		want(t, r, problem.ExitDone, "ConfigMap capx-system/conf: what differs between live and new may be yours or the earlier manifest's", "key version", "--installed RELEASE")
		lacks(t, r, "CAP-FEATURE-GATE-LOST", "Deployment capx-system/manager:")
		r = b.capstan(t, "plan", next(t), "--installed", old(t))
		want(t, r, problem.ExitDone)
		lacks(t, r, "CAP-FEATURE-GATE-LOST", "CAP-SETTINGS-RESET")
	})
	t.Run("kept", func(t *testing.T) {
		b := newBed(t, apitest.Options{})
		rendered(t, b, "v1.0.0", "false")
		edit(t, b, container(edited))
		edit(t, b, scaled)
		r := b.capstan(t, "plan", next(t), "--keep-settings", "--installed", old(t), "--diff")
		want(t, r, problem.ExitDone, "Kept, although the release has it otherwise",
			"Deployment capx-system/manager: feature gate Pools of container manager stays true (release: false)", "replicas stays 3 (release: 1)",
			"image of container manager stays mirror.test/capx:v1.0.0 (release: registry.test/capx:v1.1.0)", "+        image: mirror.test/capx:v1.1.0", "-        image: mirror.test/capx:v1.0.0")
		lacks(t, r, "CAP-FEATURE-GATE-LOST", "topsecret", "argument --v of container manager is")
		b.keepsAndRuns(t, next(t), old(t))
	})
}

// keepsAndRuns saves a plan that keeps settings and starts it: what is applied has them, and a plan for the same release
// without being asked to keep them refuses to lose them.
func (b *bed) keepsAndRuns(t *testing.T, next, old string) {
	t.Helper()
	file := save(t, b, next, "--keep-settings", "--installed", old)
	// No controllers run here, so the run stops before its end; what it applied is there.
	r := b.capstan(t, "upgrade", "--plan", file, "--yes", "--stall-limit", "3s")
	if r.code != problem.ExitFailed && r.code != problem.ExitStopped {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	u := b.get(t, "apps/v1", "Deployment", "capx-system", "manager")
	containers, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(containers[0])
	for _, part := range []string{"mirror.test/capx:v1.1.0", "Pools=true", "--v=5", "memory:1Gi", "value:slow", "value:topsecret"} {
		if !strings.Contains(text, part) {
			t.Errorf("the Deployment lacks %q: %s", part, text)
		}
	}
	if replicas, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); replicas != 3 {
		t.Errorf("replicas are %d, want 3", replicas)
	}
	// Resuming goes on with the same plan.
	r = b.capstan(t, "upgrade", "--plan", file, "--yes", "--stall-limit", "3s")
	if !strings.Contains(r.stderr, "going on with it") {
		t.Errorf("the second time did not go on with the run: %s", r.stderr)
	}
}
