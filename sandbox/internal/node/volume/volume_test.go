// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestFromSecret(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}}
	for name, tt := range map[string]struct {
		items    []corev1.KeyToPath
		optional bool
		want     Content
		wantErr  bool
	}{
		"all keys":               {want: Content{"a": {Data: []byte("1"), Mode: 0o644}, "b": {Data: []byte("2"), Mode: 0o644}}},
		"chosen keys":            {items: []corev1.KeyToPath{{Key: "b", Path: "x/y", Mode: ptr.To[int32](0o600)}}, want: Content{"x/y": {Data: []byte("2"), Mode: 0o600}}},
		"a missing key":          {items: []corev1.KeyToPath{{Key: "c", Path: "c"}}, wantErr: true},
		"a missing optional key": {items: []corev1.KeyToPath{{Key: "c", Path: "c"}}, optional: true, want: Content{}},
		"a path that leads out":  {items: []corev1.KeyToPath{{Key: "a", Path: "x/../../y"}}, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := FromSecret(secret, tt.items, 0o644, tt.optional)
			if (err != nil) != tt.wantErr {
				t.Fatalf("error: %v", err)
			}
			if tt.wantErr {
				return
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFieldsAndResources(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"b": "2", "a": "1\"x"}}}
	labels, err := Field(pod, "metadata.labels")
	one, oneErr := Field(pod, "metadata.labels['b']")
	_, unknown := Field(pod, "spec.nothing")
	if diff := cmp.Diff([]any{labels, err, one, oneErr, unknown != nil}, []any{"a=\"1\\\"x\"\nb=\"2\"", nil, "2", nil, true}); diff != "" {
		t.Error(diff)
	}
	r := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}}
	node := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3500m")}
	for ref, want := range map[corev1.ResourceFieldSelector]string{
		{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}: "100",
		{Resource: "limits.memory"}:                                     "104857600",
		{Resource: "limits.cpu"}:                                        "4",
		{Resource: "requests.cpu"}:                                      "0",
	} {
		got, err := Resource(r, &ref, node)
		if diff := cmp.Diff([]any{got, err}, []any{want, nil}); diff != "" {
			t.Errorf("%s: %s", ref.Resource, diff)
		}
	}
}

func TestWriteSwitchesInOneStep(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "v")
	content := func(pairs ...string) Content {
		c := Content{}
		for _, p := range pairs {
			name, text, _ := strings.Cut(p, "=")
			c[name] = File{Data: []byte(text), Mode: 0o640}
		}
		return c
	}
	for _, step := range []struct {
		content     Content
		wantChanged bool
		want        map[string]string
	}{
		{content("a=1", "sub/b=2"), true, map[string]string{"a": "1", "sub/b": "2"}},
		{content("a=1", "sub/b=2"), false, map[string]string{"a": "1", "sub/b": "2"}},
		{content("a=3"), true, map[string]string{"a": "3"}},
		{content(), true, map[string]string{}},
	} {
		changed, err := Write(dir, step.content, -1)
		if err != nil || changed != step.wantChanged {
			t.Errorf("changed %t, %v", changed, err)
		}
		if diff := cmp.Diff(visible(t, dir), step.want); diff != "" {
			t.Error(diff)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 { // ..data and what it points at
		t.Errorf("entries: %v, %v", entries, err)
	}
}

// visible returns the files a program sees that ignores names with two dots.
func visible(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		target, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		err = filepath.Walk(target, func(path string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			got[filepath.Join(e.Name(), strings.TrimPrefix(path, target))] = string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return got
}
