// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// plain is a component of type manifest that consists of ConfigMaps, one for each name, and a Namespace.
func plain(name, version string, maps ...string) part {
	text := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", name)
	for _, m := range maps {
		text += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {version: %s}\n", m, name, version)
	}
	return part{name: name, version: version, manifests: text}
}

// configMap reads the data of one.
func (b *bed) configMap(t *testing.T, namespace, name string) map[string]any {
	t.Helper()
	data, _ := b.get(t, "v1", "ConfigMap", namespace, name).Object["data"].(map[string]any)
	return data
}

func save(t *testing.T, b *bed, release string, more ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.json")
	r := b.capstan(t, append([]string{"plan", release, "--save", file}, more...)...)
	want(t, r, problem.ExitDone, "Next: capstan upgrade --plan "+file)
	return file
}

func TestSavedPlanRunsAsItIs(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	want(t, b.capstan(t, "upgrade", writeRelease(t, "v1.0.0", "", plain("app", "v1.0.0", "a", "b")), "--yes"), problem.ExitDone)
	release := writeRelease(t, "v1.1.0", "", plain("app", "v1.1.0", "a", "c"))
	file := save(t, b, release)

	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %o, want 600: it may hold Secrets", info.Mode().Perm())
	}
	// It stands alone: nothing of the release is read again.
	if err := os.RemoveAll(release); err != nil {
		t.Fatal(err)
	}
	want(t, b.capstan(t, "upgrade", "--plan", file, "--yes"), problem.ExitDone, "Done: at v1.1.0")
	if got := b.configMap(t, "app", "c")["version"]; got != "v1.1.0" {
		t.Errorf("ConfigMap c is at %v, want v1.1.0", got)
	}
	saved := struct{ Plan struct{ Digest string } }{}
	read(t, file, &saved)
	name := "plan-" + strings.TrimPrefix(saved.Plan.Digest, "sha256:")[:16]
	b.get(t, "capstan.dev/v1alpha1", "Plan", "", name)

	t.Run("once", func(t *testing.T) {
		before := len(b.writes(t))
		r := b.capstan(t, "upgrade", "--plan", file, "--yes")
		want(t, r, problem.ExitBlocked, "run to-v1.1.0-", "component app is at v1.1.0, was at v1.0.0", "capstan plan")
		if after := len(b.writes(t)); after != before {
			t.Errorf("Capstan wrote %d times although it refused", after-before)
		}
	})
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file) //nolint:gosec // a file of the test
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

func TestSavedPlanIsRefusedWhenTheWorldHasMoved(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t)
	old, next := plain("app", "v1.0.0", "a", "b"), plain("app", "v1.1.0", "a", "c")
	want(t, b.capstan(t, "upgrade", writeRelease(t, "v1.0.0", "", old), "--yes"), problem.ExitDone)
	release := writeRelease(t, "v1.1.0", "", next)
	b.apply(t, clusterText("one"))

	for name, tc := range map[string]struct {
		move, back func(t *testing.T)
		want       []string
	}{
		"an object was changed by hand": {
			move: func(t *testing.T) { b.patch(t, b.get(t, "v1", "ConfigMap", "app", "a"), `{"data":{"version":"hand"}}`) },
			back: func(t *testing.T) {
				b.patch(t, b.get(t, "v1", "ConfigMap", "app", "a"), `{"data":{"version":"v1.0.0"}}`)
			},
			want: []string{"ConfigMap app/a of app was changed", "hand"},
		},
		"an object that was to be made is there": {
			move: func(t *testing.T) {
				b.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: app}\n")
			},
			back: func(t *testing.T) { b.delete(t, "v1", "ConfigMap", "app", "c") },
			want: []string{"ConfigMap app/c of app has appeared"},
		},
		"an object that was to be removed is gone": {
			move: func(t *testing.T) { b.delete(t, "v1", "ConfigMap", "app", "b") },
			back: func(t *testing.T) {
				b.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: app, labels: {capstan.dev/component: app}, annotations: {capstan.dev/version: v1.0.0}}\n")
			},
			want: []string{"ConfigMap app/b of app is gone"},
		},
		"there is more to remove": {
			move: func(t *testing.T) {
				b.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more, namespace: app, labels: {capstan.dev/component: app}}\n")
			},
			back: func(t *testing.T) { b.delete(t, "v1", "ConfigMap", "app", "more") },
			want: []string{"ConfigMap app/more of app has appeared"},
		},
		"there is another cluster": {
			move: func(t *testing.T) { b.apply(t, clusterText("two")) },
			back: func(t *testing.T) { b.delete(t, "cluster.x-k8s.io/v1beta2", "Cluster", "default", "two") },
			want: []string{"Cluster default/two has appeared"},
		},
		"no node is ready": {
			move: func(t *testing.T) {
				b.patch(t, b.get(t, "v1", "Node", "", "node-1"), `{"status":{"conditions":[]}}`, "status")
			},
			back: func(t *testing.T) {
				b.patch(t, b.get(t, "v1", "Node", "", "node-1"),
					`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status")
			},
			want: []string{"finding CAP-NODE-READY is new"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file, before := save(t, b, release), len(b.writes(t))
			tc.move(t)
			defer tc.back(t)
			r := b.capstan(t, "upgrade", "--plan", file, "--yes")
			want(t, r, problem.ExitBlocked, append(tc.want, "Can't start", "Nothing was changed", "Next: capstan plan "+release)...)
			if after := len(b.writes(t)); after != before {
				t.Errorf("Capstan wrote %d times although it refused", after-before)
			}
			want(t, b.capstan(t, "upgrade", "--plan", file, "--yes", "-o", "json"), problem.ExitBlocked, `"reason":"WorldMoved"`)
		})
	}

	t.Run("another management cluster", func(t *testing.T) {
		other := newBed(t, apitest.Options{})
		other.refused(t, other.capstan(t, "upgrade", "--plan", save(t, b, release), "--yes"), "it is for another management cluster")
	})
	t.Run("what does not matter is no reason", func(t *testing.T) {
		file := save(t, b, release)
		a := b.get(t, "v1", "ConfigMap", "app", "a")
		b.patch(t, a, `{"data":{"other":"x"},"metadata":{"labels":{"mine":"yes"}}}`)
		b.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: strange, namespace: app}\n")
		want(t, b.capstan(t, "upgrade", "--plan", file, "--yes"), problem.ExitDone, "Done: at v1.1.0")
	})
}

func clusterText(name string) string {
	return fmt.Sprintf("apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: %s, namespace: default}\nspec: {paused: false, controlPlaneEndpoint: {host: 127.0.0.1, port: 1}}\n", name)
}

func (b *bed) delete(t *testing.T, apiVersion, kind, namespace, name string) {
	t.Helper()
	u := b.get(t, apiVersion, kind, namespace, name)
	if err := b.of(t, u).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete %s %s: %v", kind, name, err)
	}
}

func TestSavedPlanThatWasDamagedIsRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	file := save(t, b, writeRelease(t, "v1.0.0", "", plain("app", "v1.0.0", "a")))
	good, err := os.ReadFile(file) //nolint:gosec // a file of the test
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		content string
		want    string
	}{
		"a changed plan":       {strings.Replace(string(good), `"action": "Install"`, `"action": "None"`, 1), "it was changed after it was saved"},
		"a changed acceptance": {strings.Replace(string(good), `"source":`, `"accepted": [{"id": "CAP-X", "reason": "y"}], "source":`, 1), "it was changed after it was saved"},
		"half a file":          {string(good[:len(good)/2]), "it can't be read"},
		"another file":         {"kind: Release\n", "it can't be read"},
		"another kind":         {`{"apiVersion":"v1","kind":"ConfigMap"}`, "not a SavedPlan"},
		"nothing":              {"", "it can't be read"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := filepath.Join(t.TempDir(), "bad.json")
			if err := os.WriteFile(bad, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			want(t, b.capstan(t, "upgrade", "--plan", bad, "--yes"), problem.ExitUsage, bad, tc.want)
		})
	}
	want(t, b.capstan(t, "upgrade", "--plan", filepath.Join(t.TempDir(), "none"), "--yes"), problem.ExitUsage, "no such file")
	want(t, b.capstan(t, "upgrade", "rel", "--plan", file, "--yes"), problem.ExitUsage, "either RELEASE or --plan")
	if w := b.writes(t); len(w) > 0 {
		t.Errorf("Capstan wrote: %v", w)
	}
}

func TestPlanDiff(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	secret := "\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: app}\nstringData: {password: %s, same: kept}\n"
	old, next := plain("app", "v1.0.0", "a", "b"), plain("app", "v1.1.0", "a", "c")
	old.manifests += fmt.Sprintf(secret, "hunter2")
	next.manifests += fmt.Sprintf(secret, "correct-horse")
	want(t, b.capstan(t, "upgrade", writeRelease(t, "v1.0.0", "", old), "--yes"), problem.ExitDone)
	before := len(b.writes(t))
	release := writeRelease(t, "v1.1.0", "", next)

	r := b.capstan(t, "plan", release, "--diff", "--accept", "CAP-CREDENTIALS=rotated")
	want(t, r, problem.ExitDone, "# app: change ConfigMap app/a", "-  version: v1.0.0", "+  version: v1.1.0", "# app: add ConfigMap app/c", "--- /dev/null",
		"# app: remove ConfigMap app/b", "+++ /dev/null", "-  password: '*** (sha256 f52fbd32)'", "+  password: '*** (sha256 ", "   same: '*** (sha256 ")
	if !strings.Contains(r.stdout, "Next: capstan upgrade") {
		t.Error("the next command is missing")
	}
	structured := b.capstan(t, "plan", release, "--diff", "-o", "json", "--accept", "CAP-CREDENTIALS=rotated")
	lacks(t, structured, "hunter2", "correct-horse", "aHVudGVyMg", "Y29ycmVjdC1ob3JzZQ")
	lacks(t, r, "hunter2", "correct-horse", "aHVudGVyMg", "Y29ycmVjdC1ob3JzZQ", "managedFields", "resourceVersion")
	var doc struct {
		Kind string
		Diff []struct{ Component, Change, Diff string }
	}
	if err := json.Unmarshal([]byte(structured.stdout), &doc); err != nil {
		t.Fatal(err)
	}
	changes := map[string]int{}
	for _, d := range doc.Diff {
		changes[d.Change]++
	}
	// Namespace, ConfigMap a and the Secret change, at least by their version's annotation.
	if doc.Kind != "Plan" || changes["Add"] != 1 || changes["Remove"] != 1 || changes["Change"] != 3 {
		t.Errorf("kind %s, changes %v, want one added, one removed, three changed", doc.Kind, changes)
	}
	if after := len(b.writes(t)); after != before {
		t.Errorf("a plan wrote %d times", after-before)
	}
}
