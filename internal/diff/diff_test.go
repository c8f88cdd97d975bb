// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestUnified(t *testing.T) {
	t.Parallel()
	count := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "%d\n", i)
		}
		return b.String()
	}
	for name, tc := range map[string]struct{ a, b, want string }{
		"equal texts":                       {a: "x\n", b: "x\n"},
		"a text that comes":                 {b: "x\ny\n", want: "@@ -0,0 +1,2 @@\n+x\n+y\n"},
		"a text that goes":                  {a: "x\n", want: "@@ -1,1 +0,0 @@\n-x\n"},
		"a line in the middle":              {a: count(1, 9), b: strings.Replace(count(1, 9), "5\n", "five\n", 1), want: "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"},
		"two places that are far apart":     {a: count(1, 20), b: strings.TrimPrefix(count(1, 19), "1\n"), want: "@@ -1,4 +1,3 @@\n-1\n 2\n 3\n 4\n@@ -17,4 +16,3 @@\n 17\n 18\n 19\n-20\n"},
		"a block that was put between":      {a: "a:\n  type: string\nb:\n  type: string\n", b: "a:\n  type: string\nc:\n  type: string\nb:\n  type: string\n", want: "@@ -1,4 +1,6 @@\n a:\n   type: string\n+c:\n+  type: string\n b:\n   type: string\n"},
		"nothing in common":                 {a: "a\n", b: "b\n", want: "@@ -1,1 +1,1 @@\n-a\n+b\n"},
		"lines that changed places":         {a: "a\nb\nc\n", b: "c\na\nb\n", want: "@@ -1,3 +1,3 @@\n+c\n a\n b\n-c\n"},
		"the last line without a line feed": {a: "a\nb", b: "a\nc", want: "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := tc.want
			if want != "" {
				want = "--- old\n+++ new\n" + want
			}
			if diff := cmp.Diff(Unified("old", "new", tc.a, tc.b), want); diff != "" {
				t.Errorf("got -, want +:\n%s", diff)
			}
		})
	}
}

// TestScriptIsRight plays edit scripts of random texts: whatever they look like, they lead from one to the other.
func TestScriptIsRight(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // no secret
		text := func() []string {
			out := make([]string, r.IntN(40))
			for i := range out {
				out[i] = fmt.Sprint(r.IntN(12))
			}
			return out
		}
		a, b := text(), text()
		var x, y []string
		for _, e := range script(a, b) {
			if e.sign != '+' {
				x = append(x, e.text)
			}
			if e.sign != '-' {
				y = append(y, e.text)
			}
		}
		if strings.Join(x, ",") != strings.Join(a, ",") || strings.Join(y, ",") != strings.Join(b, ",") {
			t.Fatalf("seed %d: the script of %v to %v leads from %v to %v", seed, a, b, x, y)
		}
	}
}

func TestObjectsLeaveOutWhatIsNoContent(t *testing.T) {
	t.Parallel()
	object := func(version string, replicas int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"kind": "Deployment", "metadata": map[string]any{"name": "d", "resourceVersion": version, "generation": int64(1), "uid": version},
			"spec": map[string]any{"replicas": replicas}, "status": map[string]any{"at": version},
		}}
	}
	for name, tc := range map[string]struct {
		before, after *unstructured.Unstructured
		want          string
	}{
		"nothing":    {object("1", 1), object("2", 1), ""},
		"a field":    {object("1", 1), object("2", 2), "--- live/d\n+++ release/d\n@@ -2,4 +2,4 @@\n metadata:\n   name: d\n spec:\n-  replicas: 1\n+  replicas: 2\n"},
		"a new one":  {nil, object("2", 2), "--- /dev/null\n+++ release/d\n@@ -0,0 +1,5 @@\n+kind: Deployment\n+metadata:\n+  name: d\n+spec:\n+  replicas: 2\n"},
		"a gone one": {object("1", 1), nil, "--- live/d\n+++ /dev/null\n@@ -1,5 +0,0 @@\n-kind: Deployment\n-metadata:\n-  name: d\n-spec:\n-  replicas: 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Objects("d", tc.before, tc.after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("got -, want +:\n%s", diff)
			}
		})
	}
}
