// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func testImages(t *testing.T, s *Store, _ *rest.Config) {
	image := func(name, url string) *v1alpha1.NodeImage {
		return &v1alpha1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeImageSpec{URL: url}}
	}
	for _, name := range []string{"b", "a"} {
		if _, err := s.PutNodeImage(t.Context(), image(name, "http://img/"+name)); err != nil {
			t.Fatalf("PutNodeImage: %v", err)
		}
	}
	if _, err := s.PutNodeImage(t.Context(), image("a", "http://img/other")); !errors.Is(err, ErrConflict) {
		t.Errorf("a second image of the name: %v, want ErrConflict", err)
	}
	if _, err := s.PutNodeImage(t.Context(), image("c", "")); err == nil {
		t.Error("an image with neither url nor id was kept")
	}
	read, err := s.NodeImage(t.Context(), "a")
	if err != nil {
		t.Fatalf("NodeImage: %v", err)
	}
	next := read.DeepCopy()
	next.Spec.URL = "http://img/new"
	if _, err := s.PutNodeImage(t.Context(), next); err != nil {
		t.Fatalf("replace: %v", err)
	}
	if _, err := s.PutNodeImage(t.Context(), read); !errors.Is(err, ErrConflict) {
		t.Errorf("replaced after a change: %v, want ErrConflict", err)
	}
	all, err := s.NodeImages(t.Context())
	if err != nil {
		t.Fatalf("NodeImages: %v", err)
	}
	var got []string
	for i := range all {
		got = append(got, all[i].Name+" "+all[i].Spec.URL)
	}
	if diff := cmp.Diff([]string{"a http://img/new", "b http://img/b"}, got); diff != "" {
		t.Errorf("catalog (-want +got):\n%s", diff)
	}
}
