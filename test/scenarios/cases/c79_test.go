// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// TestC79_EveryRefusalSaysWhatBlocks goes through everything that can be refused: each answer has what it is about, why,
// and what to do next, for people and for programs.
func TestC79_EveryRefusalSaysWhatBlocks(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.installed(t, part{name: "docker", version: "v1.0.0", provider: "InfrastructureProvider"})
	good := writeRelease(t, "v1.0.0", "", part{name: "tool", version: "v1.0.0", manifests: configMap("tool", "one")})
	with := func(text string) string {
		dir := t.TempDir()
		file(t, dir+"/release.yaml", text)
		return dir
	}
	head := "apiVersion: capstan.dev/v1alpha1\nkind: Release\nmetadata: {name: r}\nspec:\n  version: v1.0.0\n"
	for name, args := range map[string][]string{
		"no command":            {"no-such-command"},
		"unknown flag":          {"plan", good, "--no-such"},
		"no release":            {"plan"},
		"two releases":          {"plan", good, good},
		"bad acceptance":        {"plan", good, "--accept", "CAP-X"},
		"unknown finding":       {"upgrade", good, "--yes", "--accept", "CAP-X=why"},
		"no confirmation":       {"upgrade", good},
		"bad limit":             {"upgrade", good, "--yes", "--stall-limit", "1ms"},
		"no such release":       {"plan", "no-such-release"},
		"no such directory":     {"plan", "./no/such/directory"},
		"an empty directory":    {"plan", t.TempDir()},
		"not YAML":              {"plan", with("spec: [")},
		"empty":                 {"plan", with("")},
		"wrong kind":            {"plan", with("apiVersion: capstan.dev/v1alpha1\nkind: Relaese\n")},
		"unknown field":         {"plan", with(head + "  colour: red\n  components: []\n")},
		"no component":          {"plan", with(head + "  components: []\n")},
		"no such file":          {"plan", with(head + "  components: [{name: a, type: manifest, version: v1.0.0, source: {path: no.yaml}}]\n")},
		"out of the directory":  {"plan", with(head + "  components: [{name: a, type: manifest, version: v1.0.0, source: {path: ../no.yaml}}]\n")},
		"unreachable":           {"plan", with(head + "  components: [{name: a, type: manifest, version: v1.0.0, source: {url: 'http://127.0.0.1:1/a', digest: 'sha256:" + strings.Repeat("0", 64) + "'}}]\n")},
		"not local":             {"plan", "--offline", with(head + "  components: [{name: a, type: manifest, version: v1.0.0, source: {url: 'http://127.0.0.1:1/a', digest: 'sha256:" + strings.Repeat("0", 64) + "'}}]\n")},
		"a cycle":               {"plan", writeRelease(t, "v1.0.0", "", part{name: "a", version: "v1.0.0", manifests: configMap("a", "1"), needs: []string{"b"}}, part{name: "b", version: "v1.0.0", manifests: configMap("b", "1"), needs: []string{"a"}})},
		"broken manifests":      {"plan", writeRelease(t, "v1.0.0", "", part{name: "a", version: "v1.0.0", manifests: "kind: ["})},
		"nothing to resume":     {"resume"},
		"nothing to pause":      {"pause"},
		"nothing to abort":      {"abort"},
		"no such run":           {"resume", "no-such-run"},
		"unknown check":         {"explain", "CAP-NO-SUCH"},
		"no such context":       {"status", "--context", "no-such"},
		"a finding":             {"upgrade", "--yes", writeRelease(t, "v0.1.0", "", part{name: "docker", version: "v0.1.0", provider: "InfrastructureProvider", manifests: configMap("docker", "one")})},
		"an object refused":     {"upgrade", "--yes", writeRelease(t, "v1.0.0", "", part{name: "a", version: "v1.0.0", manifests: "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: default}\nspec: {ports: [{port: 99999}]}\n"})},
		"a kind that is no one": {"upgrade", "--yes", writeRelease(t, "v1.0.0", "", part{name: "a", version: "v1.0.0", manifests: "apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: a}\n"})},
	} {
		t.Run(name, func(t *testing.T) {
			text := b.capstan(t, args...)
			if text.code == problem.ExitDone {
				t.Fatalf("not refused:\n%s", text.stdout)
			}
			if !strings.Contains(text.stderr, "To do: ") || !strings.Contains(text.stderr, "Error: ") {
				t.Errorf("the text has not all of reason and next step:\n%s", text.stderr)
			}
			var fault struct{ Error map[string]any }
			r := b.capstan(t, append(args, "-o", "json")...)
			lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &fault); err != nil {
				t.Fatalf("no JSON: %v\n%s", err, r.stderr)
			}
			for _, field := range []string{"object", "reason", "message", "remedy"} {
				value, _ := fault.Error[field].(string)
				if strings.TrimSpace(value) == "" {
					t.Errorf("the error has no %s: %v", field, fault.Error)
				}
				if (field == "message" || field == "remedy") && !strings.Contains(text.stderr, value[:min(len(value), 40)]) {
					t.Errorf("the text lacks the %s %q:\n%s", field, value, text.stderr)
				}
			}
		})
	}
	b.nothingWritten(t)
}

// TestC79_GenericDenial has an admission policy deny the release's object in a word that says nothing.
func TestC79_GenericDenial(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	b.apply(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: templates-in-use}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]}
  matchConditions: [{name: ours, expression: "object.metadata.name == 't-0-2-0'"}]
  validations: [{expression: "false", message: "operation denied"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: templates-in-use}
spec: {policyName: templates-in-use, validationActions: [Deny]}
`)
	dir := writeRelease(t, "v1.0.0", "", part{name: "tool", version: "v1.0.0", manifests: configMap("t-0-2-0", "one")})
	var r result
	b.until(t, "the policy is in force", func(context.Context) (bool, error) {
		r = b.capstan(t, "plan", dir, "-o", "json") //nolint:contextcheck // the bed's helpers take the test's
		return r.code != problem.ExitDone, nil
	})
	f := findingOf(t, r, "CAP-OBJECT-REFUSED")
	if f == nil || f.Verdict != v1alpha1.VerdictBlock || len(f.Objects) != 1 || f.Objects[0].Name != "t-0-2-0" {
		t.Fatalf("found %+v, want a block about ConfigMap t-0-2-0", f)
	}
	for _, p := range []string{"ConfigMap default/t-0-2-0", "ValidatingAdmissionPolicy 'templates-in-use'", "operation denied"} {
		if !strings.Contains(f.Summary, p) {
			t.Errorf("the finding does not say %q: %s", p, f.Summary)
		}
	}
	if !strings.Contains(f.Remedy, "kubectl get validatingadmissionpolicy templates-in-use -o yaml") {
		t.Errorf("the remedy does not say where to look: %s", f.Remedy)
	}
	b.refused(t, b.capstan(t, "upgrade", dir, "--yes"), "ConfigMap default/t-0-2-0", "templates-in-use", "To do: ")
}
