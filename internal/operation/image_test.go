// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/catalog"
	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/store"
)

func TestImages(t *testing.T) {
	t.Parallel()
	cfg := apitest.Start(t)
	s, err := operation.Connect(operation.Options{Config: cfg, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	if got, err := s.Images(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("where Capstan is not installed: %v, %v; want no image", got, err)
	}
	if _, err := s.Image(t.Context(), "u2404"); !missing(err) {
		t.Errorf("where Capstan is not installed: %v, want %s", err, catalog.ReasonNoImage)
	}
	st, err := store.New(cfg, clock.RealClock{})
	if err != nil {
		t.Fatalf("store.New: %v", err)
	}
	if err := st.Install(t.Context()); err != nil {
		t.Fatalf("Install: %v", err)
	}
	kept := &v1alpha1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "u2404"}, Spec: v1alpha1.NodeImageSpec{URL: "http://img/u.raw"}}
	if _, err := st.PutNodeImage(t.Context(), kept); err != nil {
		t.Fatalf("PutNodeImage: %v", err)
	}
	if got, err := s.Image(t.Context(), "u2404"); err != nil || got.Spec.URL != kept.Spec.URL {
		t.Errorf("Image: %v, %v; want %s", got, err, kept.Spec.URL)
	}
	if got, err := s.Images(t.Context()); err != nil || len(got) != 1 || got[0].Name != "u2404" {
		t.Errorf("Images: %v, %v; want u2404", got, err)
	}
	if _, err := s.Image(t.Context(), "other"); !missing(err) {
		t.Errorf("an unknown name: %v, want %s", err, catalog.ReasonNoImage)
	}
}

// missing tells whether an error says that there is no such image.
func missing(err error) bool {
	p, ok := errors.AsType[*problem.Error](err)
	return ok && p.Reason == catalog.ReasonNoImage
}
