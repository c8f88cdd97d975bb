// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/problem"
)

func TestC67_ScaleDaysLaterRollsAllWorkers(t *testing.T) {
	t.Parallel()
	b := withClusters(t, "a", "b")
	release := settingsRelease(t, "v1.0.0")
	want(t, b.capstan(t, "upgrade", release, "--yes"), problem.ExitDone)
	want(t, b.capstan(t, "verify"), problem.ExitDone, "Verified:", "1 component at v1.0.0")
	made := len(b.writes(t))
	md := b.get(t, coreAPI, "MachineDeployment", "fleet", "a-md")
	const id = "CAP-LATENT-ROLLOUT"

	t.Run("harmless differences are not listed", func(t *testing.T) {
		b.patch(t, md, `{"spec":{"template":{"metadata":{"labels":{"x":"y"},"annotations":{"x":"y"}},"spec":{"minReadySeconds":7,"readinessGates":[{"conditionType":"x"}],"deletion":{"nodeDrainTimeoutSeconds":30},"taints":[{"key":"a","value":"b","effect":"NoSchedule","propagation":"Always"}]}}}}`)
		r := b.capstan(t, "verify")
		want(t, r, problem.ExitDone)
		lacks(t, r, id)
	})
	t.Run("a field that the MachineSet lacks", func(t *testing.T) {
		b.patch(t, md, `{"spec":{"template":{"spec":{"failureDomain":"zone-a"}}}}`)
		r := b.capstan(t, "verify")
		want(t, r, problem.ExitFailed, id, "MachineDeployment fleet/a-md", "MachineSet a-md-a", `spec.template.spec.failureDomain from nothing to "zone-a"`, "2 Machines")
		lacks(t, r, "fleet/b-md")
		want(t, b.capstan(t, "verify", "-o", "json"), problem.ExitFailed, `"verified": false`, `"id": "CAP-LATENT-ROLLOUT"`)
		want(t, b.capstan(t, "verify", "--accept", id+"=next week"), problem.ExitDone, "Accepted: next week")
		want(t, b.capstan(t, "plan", settingsRelease(t, "v1.1.0")), problem.ExitDone, "WARN", id)
		b.patch(t, md, `{"spec":{"template":{"spec":{"failureDomain":null}}}}`)
	})
	t.Run("a pool that rolls nothing by itself is not listed", func(t *testing.T) {
		b.patch(t, md, `{"spec":{"rollout":{"strategy":{"type":"OnDelete"}},"template":{"spec":{"failureDomain":"zone-a"}}}}`)
		want(t, b.capstan(t, "verify"), problem.ExitDone)
		b.patch(t, md, `{"spec":{"rollout":{"strategy":{"type":"RollingUpdate"}},"template":{"spec":{"failureDomain":null}}}}`)
	})
	t.Run("a default that comes with the next write", func(t *testing.T) {
		b.apply(t, defaulting("fleet", "b-md"))
		b.until(t, "the policy is at work", b.policyWorks("b-md"))
		r := b.capstan(t, "verify")
		want(t, r, problem.ExitFailed, id, "MachineDeployment fleet/b-md", `spec.template.spec.failureDomain from nothing to "zone-b"`)
		lacks(t, r, "fleet/a-md")
	})
	if w := b.writes(t); len(w) != made {
		t.Errorf("verify and plan wrote: %v", w[made:])
	}
}

func TestC67_VerifySeesComponentsThatWereChanged(t *testing.T) {
	t.Parallel()
	b := withClusters(t, "a")
	want(t, b.capstan(t, "verify"), problem.ExitDone, "no run of Capstan was completed here")
	want(t, b.capstan(t, "upgrade", settingsRelease(t, "v1.0.0"), "--yes"), problem.ExitDone)
	b.patch(t, b.get(t, "v1", "ConfigMap", "default", "settings"), `{"data":{"version":"other"}}`)
	want(t, b.capstan(t, "verify"), problem.ExitFailed, "CAP-COMPONENT-HEALTH", "tool", "ConfigMap default/settings")
	b.patch(t, b.get(t, coreAPI, "Machine", "fleet", "a-cp-1"), `{"status":{"conditions":[{"type":"UpToDate","status":"False","reason":"NotUpToDate","message":"* KubeadmConfig is not up-to-date","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status")
	want(t, b.capstan(t, "verify"), problem.ExitFailed, "CAP-LATENT-ROLLOUT", "KubeadmControlPlane fleet/a-cp", "a-cp-1", "KubeadmConfig is not up-to-date")
}

// defaulting is an admission policy that puts a field into the template of one MachineDeployment, as a new release's
// webhook does.
func defaulting(namespace, name string) string {
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: new-default}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [cluster.x-k8s.io], apiVersions: ["*"], operations: [UPDATE], resources: [machinedeployments]}]}
  matchConditions: [{name: one, expression: 'object.metadata.name == "%[2]s" && object.metadata.namespace == "%[1]s"'}]
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
    - patchType: JSONPatch
      jsonPatch: {expression: '[JSONPatch{op: "add", path: "/spec/template/spec/failureDomain", value: "zone-b"}]'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: new-default}
spec: {policyName: new-default}
`, namespace, name)
}

// policyWorks tells whether a change of a MachineDeployment, as a dry run, gets the new default.
func (b *bed) policyWorks(name string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		c := b.client.Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machinedeployments"}).Namespace("fleet")
		u, err := c.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false, err
		}
		_, found, err := unstructured.NestedString(u.Object, "spec", "template", "spec", "failureDomain")
		return found, err
	}
}
