// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCleanKeepsWhatAReaderWantsAfterwards(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		keepLogs bool
		want     []string
	}{
		"at the end logs and audit log stay": {true, []string{"audit", "lock", "logs"}},
		"before a start only the lock stays": {false, []string{"lock"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := Layout{Dir: t.TempDir()}
			for _, d := range []string{"logs", "audit", "etcd/member", "pki"} {
				if err := os.MkdirAll(filepath.Join(l.Dir, d), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range []string{"lock", "sandbox.json", "kubeconfig"} {
				if err := os.WriteFile(filepath.Join(l.Dir, f), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Clean(tc.keepLogs); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(l.Dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, e.Name())
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("files left (-got +want):\n%s", diff)
			}
		})
	}
}

func TestCleanOfAMissingDirectoryIsNothingToDo(t *testing.T) {
	t.Parallel()
	if err := (Layout{Dir: filepath.Join(t.TempDir(), "none")}).Clean(true); err != nil {
		t.Error(err)
	}
}

func TestSpecComparesWhatWasAskedForAndNotWithWhat(t *testing.T) {
	t.Parallel()
	a := Spec{Name: "a", CAPI: "v1.13.4", Clusters: 1, Inputs: Inputs{Etcd: "/a", Images: []string{"x"}}}
	l := Layout{Dir: t.TempDir()}
	if err := a.Write(l); err != nil {
		t.Fatal(err)
	}
	b, err := ReadSpec(l)
	if err != nil {
		t.Fatal(err)
	}
	b.Inputs = Inputs{Etcd: "/b"}
	if !a.SameAs(b) {
		t.Error("other inputs: want the same")
	}
	b.Clusters = 2
	if a.SameAs(b) {
		t.Error("other number of clusters: want a difference")
	}
}
