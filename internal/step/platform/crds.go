// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// crds applies CRDs. One in two phases is applied in its first; once the step storage has given it its final form, this
// step must not take that back, so it accepts either form.
type crds struct {
	objectSet

	// finals are the final forms of the CRDs that are held back, by their index in objects.
	finals map[int]*unstructured.Unstructured
	// order lists the keys of finals in ascending order: the order in which they are wanted.
	order []int
}

func newCRDs(b base, objs []*unstructured.Unstructured, twoPhase []v1alpha1.TwoPhaseCRD) *crds {
	s := &crds{objectSet: objectSet{base: b}, finals: map[int]*unstructured.Unstructured{}}
	for i, crd := range objs {
		if hold := held(crd.GetName(), twoPhase); hold != nil {
			s.finals[i] = crd
			s.order = append(s.order, i)
			crd = FirstPhase(crd, *hold)
		}
		s.objects = append(s.objects, crd)
	}
	return s
}

// Want asks for the CRDs as this step applies them, then for the final forms.
func (s *crds) Want() world.Want {
	w := s.objectSet.Want()
	for _, i := range s.order {
		w.Objects = append(w.Objects, world.Wanted{Presence: world.Present, Object: s.finals[i]})
	}
	return w
}

// Progress is Done when every CRD is in one of its two forms and established.
func (s *crds) Progress(w *world.World) step.Progress {
	merged, ok := s.merge(w)
	if !ok {
		return step.Progress{State: step.Waiting, Detail: "Not observed yet"}
	}
	return s.verdict(merged).progress(len(s.objects))
}

// merge returns the observed CRDs, each in the form that is in sync if one is.
func (s *crds) merge(w *world.World) ([]world.Object, bool) {
	set, ok := w.Sets[s.id]
	if !ok || len(set.Objects) != len(s.objects)+len(s.order) {
		return nil, false
	}
	merged := make([]world.Object, len(s.objects))
	copy(merged, set.Objects)
	for k, i := range s.order {
		if final := set.Objects[len(s.objects)+k]; final.InSync {
			merged[i] = final
		}
	}
	return merged, true
}

// Apply writes the CRDs that are in neither form.
func (s *crds) Apply(ctx context.Context, w *world.World, a step.Actuator) error {
	merged, ok := s.merge(w)
	if !ok {
		return fmt.Errorf("apply %s: not observed", s.id)
	}
	return s.applyAll(ctx, merged, a)
}
