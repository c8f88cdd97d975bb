// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// tool is a component with one Deployment in a namespace of its own.
const tool = `
apiVersion: v1
kind: Namespace
metadata: {name: tool-system}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: tool-system}
data: {a: one}
`

// policyWebhook is a webhook configuration of one webhook; rest is more of the webhook's YAML.
func policyWebhook(kind, rest string) string {
	return `
apiVersion: admissionregistration.k8s.io/v1
kind: ` + kind + `
metadata: {name: policy}
webhooks:
- name: all.policy.io
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 1
  clientConfig: {service: {namespace: policy, name: svc}}
` + indent(rest, "  ")
}

const catchAll = `rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: ["*"]}]`

// backend is what stands behind the policy's webhook.
func backend(ready bool) string {
	text := `
apiVersion: v1
kind: Service
metadata: {name: svc, namespace: policy}
spec: {ports: [{port: 443}]}
`
	if ready {
		text += `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: svc-1, namespace: policy, labels: {kubernetes.io/service-name: svc}}
addressType: IPv4
endpoints: [{addresses: [10.9.9.9], conditions: {ready: true}}]
ports: [{port: 443}]
`
	}
	return text
}

// TestC22_PolicyWebhookBlocksTheAPIServer goes through webhooks that would shut a control plane out of its own cluster,
// and those that would not.
func TestC22_PolicyWebhookBlocksTheAPIServer(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.apply(t, tool)
	b.namespace(t, "policy")
	dir := writeRelease(t, "v1.0.0", "", part{name: "tool", version: "v1.0.0", manifests: tool})
	const id = "CAP-POLICY-WEBHOOK"
	for name, tc := range map[string]struct {
		before, config string
		verdict        v1alpha1.Verdict
		pieces         []string
	}{
		"everything, answered by a Service that is not there": {
			config: policyWebhook("ValidatingWebhookConfiguration", catchAll), verdict: v1alpha1.VerdictBlock,
			pieces: []string{"all.policy.io", "ValidatingWebhookConfiguration policy", "resources [*] of API groups [*]", "kube-system", "Service policy/svc, which does not exist"},
		},
		"everything, answered by a Service without endpoints": {
			before: backend(false), config: policyWebhook("MutatingWebhookConfiguration", catchAll), verdict: v1alpha1.VerdictBlock,
			pieces: []string{"MutatingWebhookConfiguration policy", "no ready endpoint"},
		},
		"everything, answered": {
			before: backend(true), config: policyWebhook("ValidatingWebhookConfiguration", catchAll), verdict: v1alpha1.VerdictBlock,
			pieces: []string{"all.policy.io", "inside this cluster"},
		},
		"everything but kube-system": {
			before: backend(true), verdict: v1alpha1.VerdictWarn,
			config: policyWebhook("ValidatingWebhookConfiguration", catchAll+"\nnamespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}"),
			pieces: []string{"without a namespace"},
		},
		"Pods everywhere, answered": {
			before: backend(true), verdict: v1alpha1.VerdictWarn,
			config: policyWebhook("ValidatingWebhookConfiguration", `rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]`),
			pieces: []string{"resources [pods]"},
		},
		"Pods everywhere, not answered": {
			config:  policyWebhook("ValidatingWebhookConfiguration", `rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]`),
			verdict: v1alpha1.VerdictBlock, pieces: []string{"resources [pods]"},
		},
		"everything, and its failure is ignored": {
			config: strings.Replace(policyWebhook("ValidatingWebhookConfiguration", catchAll), "failurePolicy: Fail", "failurePolicy: Ignore", 1),
		},
		"everything with a label": {config: policyWebhook("ValidatingWebhookConfiguration", catchAll+"\nobjectSelector: {matchLabels: {policy: \"on\"}}")},
		"the system left out by a condition": {
			before: backend(true),
			config: policyWebhook("ValidatingWebhookConfiguration", catchAll+"\nmatchConditions: [{name: system, expression: \"!('system:masters' in request.userInfo.groups)\"}]"),
		},
		"answered elsewhere": {
			config: strings.Replace(policyWebhook("ValidatingWebhookConfiguration", `rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]`),
				"service: {namespace: policy, name: svc}", "url: https://policy.example.com/", 1),
		},
		"kinds of Cluster API": {
			config: policyWebhook("ValidatingWebhookConfiguration", `rules: [{apiGroups: [cluster.x-k8s.io], apiVersions: ["*"], resources: ["*"], operations: ["*"]}]`),
		},
		"kinds of cert-manager": {
			config: policyWebhook("MutatingWebhookConfiguration", `rules: [{apiGroups: [cert-manager.io, acme.cert-manager.io], apiVersions: [v1], resources: ["*/*"], operations: [CREATE, UPDATE]}]`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.before != "" {
				b.apply(t, tc.before)
			}
			config := b.apply(t, tc.config)[0]
			defer func() {
				b.remove(t, config)
				for _, u := range objects(t, tc.before) {
					b.remove(t, u)
				}
			}()
			r := b.capstan(t, "plan", dir, "-o", "json")
			f := findingOf(t, r, id)
			if tc.verdict == "" {
				if f != nil {
					t.Fatalf("found %+v, want nothing", f)
				}
				return
			}
			if f == nil || f.Verdict != tc.verdict || !f.Waivable || len(f.Objects) != 1 || f.Objects[0].Name != "policy" {
				t.Fatalf("found %+v, want %s about the configuration\n%s", f, tc.verdict, r.stderr)
			}
			for _, p := range tc.pieces {
				if !strings.Contains(f.Summary, p) {
					t.Errorf("the finding does not say %q: %s", p, f.Summary)
				}
			}
			if tc.verdict == v1alpha1.VerdictBlock {
				b.refused(t, r)
			}
			b.typePatch(t, f.Remedy)
			if f := findingOf(t, b.capstan(t, "plan", dir, "-o", "json"), id); f != nil {
				t.Errorf("after the patch of the remedy there is still: %s", f.Summary)
			}
		})
	}
}

// TestC22_Accepted lets a person take the risk of a webhook by name.
func TestC22_Accepted(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.apply(t, tool)
	b.namespace(t, "policy")
	b.apply(t, backend(true))
	// It answers nothing, and must not be asked here: a condition that never holds.
	b.apply(t, policyWebhook("ValidatingWebhookConfiguration", catchAll+"\nmatchConditions: [{name: never, expression: \"request.resource.resource == 'nothing'\"}]"))
	dir := writeRelease(t, "v1.0.0", "", part{name: "tool", version: "v1.0.0", manifests: tool})
	b.refused(t, b.capstan(t, "upgrade", dir, "--yes"), "CAP-POLICY-WEBHOOK", "all.policy.io", "kubectl patch validatingwebhookconfiguration policy")
	want(t, b.capstan(t, "upgrade", dir, "--yes", "--accept", "CAP-POLICY-WEBHOOK=the condition spares the system"), problem.ExitDone)
}

// findingOf returns the finding of a check in a plan that was asked for as JSON.
func findingOf(t *testing.T, r result, id string) *v1alpha1.Finding {
	t.Helper()
	for _, f := range findingsOf(t, r) {
		if f.ID == id {
			return &f
		}
	}
	return nil
}

func findingsOf(t *testing.T, r result) []v1alpha1.Finding {
	t.Helper()
	var plan v1alpha1.Plan
	if err := json.Unmarshal([]byte(r.stdout), &plan); err != nil {
		t.Fatalf("no plan: %v\nstdout:\n%s\nstderr:\n%s", err, r.stdout, r.stderr)
	}
	return plan.Spec.Findings
}

// typePatch does what a remedy of the form `kubectl patch KIND NAME --type=json -p 'PATCH'` says, after a shell has read it.
func (b *bed) typePatch(t *testing.T, remedy string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\n' "+strings.TrimPrefix(remedy, "kubectl patch ")).Output() //nolint:gosec // what the product tells people to type
	if err != nil {
		t.Fatalf("the remedy is no command: %v\n%s", err, remedy)
	}
	words := strings.SplitN(strings.TrimSpace(string(out)), "\n", 5)
	if len(words) != 5 || words[2] != "--type=json" || words[3] != "-p" {
		t.Fatalf("the remedy is no patch: %q", words)
	}
	u := objects(t, "apiVersion: admissionregistration.k8s.io/v1\nkind: "+
		map[string]string{"validatingwebhookconfiguration": "ValidatingWebhookConfiguration", "mutatingwebhookconfiguration": "MutatingWebhookConfiguration"}[words[0]]+
		"\nmetadata: {name: "+words[1]+"}")[0]
	if _, err := b.of(t, u).Patch(t.Context(), u.GetName(), types.JSONPatchType, []byte(words[4]), metav1.PatchOptions{FieldManager: "kubectl-patch"}); err != nil {
		t.Fatalf("the remedy does not work: %v\n%s", err, remedy)
	}
}

// remove deletes an object and waits until it has gone.
func (b *bed) remove(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	c := b.of(t, u)
	if err := c.Delete(t.Context(), u.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatalf("delete %s %s: %v", u.GetKind(), u.GetName(), err)
	}
	b.until(t, u.GetKind()+" "+u.GetName()+" is gone", func(ctx context.Context) (bool, error) {
		_, err := c.Get(ctx, u.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}
