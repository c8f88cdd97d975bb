// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

// noise does not compress.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible on purpose
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

func TestPack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data      []byte
		size      int
		wantParts int
	}{
		"nothing":                      {data: nil, size: 100, wantParts: 1},
		"what fits into one":           {data: []byte("kind: Deployment"), size: 100, wantParts: 1},
		"what compresses into one":     {data: bytes.Repeat([]byte("a"), 10000), size: 100, wantParts: 1},
		"what does not fit into three": {data: noise(300), size: 100, wantParts: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			digest := digestOf(tc.data)
			secrets, err := pack(digest, tc.data, tc.size)
			if err != nil {
				t.Fatalf("pack: %v", err)
			}
			if len(secrets) != tc.wantParts {
				t.Fatalf("%d parts, want %d", len(secrets), tc.wantParts)
			}
			var packed []byte
			for i, s := range secrets {
				if n := len(s.Data[artifactKey]); n == 0 || n > tc.size {
					t.Errorf("part %d has %d bytes", i, n)
				}
				packed = append(packed, s.Data[artifactKey]...)
			}
			got, err := unpack(digest, packed)
			if err != nil {
				t.Fatalf("unpack: %v", err)
			}
			if !bytes.Equal(got, tc.data) {
				t.Error("the data came back changed")
			}
		})
	}
}

func TestPackNamesTheParts(t *testing.T) {
	t.Parallel()
	secrets, err := pack(digestOf(noise(150)), noise(150), 100)
	if err != nil {
		t.Fatalf("pack: %v", err)
	}
	short := digestOf(noise(150))[len("sha256:"):][:40]
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: v1alpha1.Namespace, Name: name, Labels: map[string]string{ArtifactLabel: short},
			Annotations: map[string]string{digestAnnotation: digestOf(noise(150)), partsAnnotation: "2"},
		}
	}
	var got []*corev1.Secret
	for _, s := range secrets {
		s = s.DeepCopy()
		s.Data = nil
		got = append(got, s)
	}
	want := []*corev1.Secret{
		{ObjectMeta: meta("artifact-" + short), Type: "capstan.dev/artifact", Immutable: new(true)},
		{ObjectMeta: meta("artifact-" + short + "-1"), Type: "capstan.dev/artifact", Immutable: new(true)},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("got -, want +:\n%s", diff)
	}
}

func TestUnpackFindsDamage(t *testing.T) {
	t.Parallel()
	data := []byte("kind: Deployment")
	secrets, err := pack(digestOf(data), data, partSize)
	if err != nil {
		t.Fatalf("pack: %v", err)
	}
	good := secrets[0].Data[artifactKey]
	other, err := pack(digestOf(nil), nil, partSize)
	if err != nil {
		t.Fatalf("pack: %v", err)
	}
	for name, packed := range map[string][]byte{
		"cut off":       good[:len(good)-9],
		"not packed":    data,
		"other content": other[0].Data[artifactKey],
		"nothing":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := unpack(digestOf(data), packed)
			wantProblem(t, err, "ArtifactDamaged", problem.ExitBlocked)
		})
	}
}

func TestArtifactNameWantsADigest(t *testing.T) {
	t.Parallel()
	for _, digest := range []string{"", "sha256:", "sha256:12", "md5:" + digestOf(nil)[7:], digestOf(nil)[7:], "sha256:../" + digestOf(nil)[10:]} {
		if name, err := artifactName(digest); err == nil {
			t.Errorf("%q became %q", digest, name)
		}
	}
}

func TestNewestFirst(t *testing.T) {
	t.Parallel()
	at := func(name string, second int) v1alpha1.Upgrade {
		return v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(int64(second), 0)}}
	}
	for name, tc := range map[string]struct {
		a, b v1alpha1.Upgrade
		want int
	}{
		"the later one comes first":                     {a: at("a", 2), b: at("b", 1), want: -1},
		"the earlier one comes last":                    {a: at("b", 1), b: at("a", 2), want: 1},
		"in the same second the later name comes first": {a: at("b", 1), b: at("a", 1), want: -1},
		"the same": {a: at("a", 1), b: at("a", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := newestFirst(tc.a, tc.b); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func wantProblem(t *testing.T, err error, reason string, exit problem.Exit) {
	t.Helper()
	got, ok := errors.AsType[*problem.Error](err)
	if !ok {
		t.Fatalf("error is %v, want a problem", err)
	}
	if got.Reason != reason || got.Exit != exit || got.Remedy == "" {
		t.Errorf("got %s, exit %d, remedy %q; want %s, exit %d and a remedy", got.Reason, got.Exit, got.Remedy, reason, exit)
	}
}
