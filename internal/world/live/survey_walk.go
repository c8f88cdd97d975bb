// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// batchesDecoded is how many batches of a survey are decoded at a time. One takes about ten times the memory of its bytes,
// and waits until the topics have seen it.
const batchesDecoded = 2

// visitAll makes the visits that are not made yet, and waits for the others.
func (s *surveyor) visitAll(ctx context.Context) {
	s.visitThose(ctx, func(v *visit) bool { return !v.done })
	s.meanwhile.Wait()
}

// visitOthers makes the visits to kinds that have nothing to do with the fleet. What looks at the others may have to know
// the whole fleet.
func (s *surveyor) visitOthers(ctx context.Context) {
	fleet := s.ownerKinds()
	s.visitThose(ctx, func(v *visit) bool {
		gk := v.mapping.GroupVersionKind.GroupKind()
		return gk.Group != capiGroup && !slices.Contains(fleet, gk)
	})
}

func (s *surveyor) visitThose(ctx context.Context, which func(*visit) bool) {
	var those []*visit
	for _, v := range s.visits {
		if which(v) {
			those = append(those, v)
		}
	}
	// Errors belong to topics and are noted there.
	_ = forEach(len(those), s.parallel, func(i int) error {
		s.failed(those[i], s.walk(ctx, those[i]))
		those[i].done = true
		return nil
	})
}

// failed notes for all topics of a visit why its objects could not be shown.
func (s *surveyor) failed(v *visit, err error) {
	if err == nil {
		return
	}
	for _, visitor := range v.visitors {
		s.note(visitor.topic, fmt.Errorf("list %s: %w", v.mapping.Resource.GroupResource(), err))
	}
}

// walk lists a resource and keeps none of its objects.
func (s *surveyor) walk(ctx context.Context, v *visit) error {
	err := s.clients.eachBatch(ctx, v.mapping, metav1.ListOptions{}, func() {}, func(raw []byte) error { return s.receive(v, raw) })
	if apierrors.IsNotFound(err) {
		return nil // the kind is gone, and so are its objects
	}
	return err
}

// restart returns the token that the API server offers for going on with a newer snapshot.
func restart(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Continue
	}
	return ""
}

// receive shows the objects of a batch.
func (s *surveyor) receive(v *visit, raw []byte) error {
	s.decoding <- struct{}{}
	defer func() { <-s.decoding }()
	batch, err := decodeLean(raw, v.mapping)
	if err != nil {
		return err
	}
	s.show(v, batch)
	return nil
}

// receiveMeanwhile does the same while more is read, as soon as memory is free for it.
func (s *surveyor) receiveMeanwhile(v *visit, raw []byte) {
	s.decoding <- struct{}{}
	s.meanwhile.Go(func() {
		defer func() { <-s.decoding }()
		batch, err := decodeLean(raw, v.mapping)
		if err == nil {
			s.show(v, batch)
		}
		s.failed(v, err)
	})
}

// show shows each object that was not shown before: a list that starts over begins with what it began with.
func (s *surveyor) show(v *visit, batch leanBatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.seen == nil {
		v.seen = map[types.UID]bool{}
	}
	for i := range batch.items {
		uid := batch.items[i].GetUID()
		if uid != "" && v.seen[uid] {
			continue
		}
		v.seen[uid] = true
		s.shown = batch.managed[i]
		for _, visitor := range v.visitors {
			visitor.see(&batch.items[i])
		}
	}
	s.shown = nil
}

// guest returns the visit to Machines that their list for the fleet can serve as well; nil if there is none. Nothing that
// looks at them needs to know the fleet.
func (r *round) guest(m *apimeta.RESTMapping) *visit {
	if r.survey == nil {
		return nil
	}
	return r.survey.visits[m.Resource]
}

// managedFields returns the managed fields of the object that is being shown, which are decoded only for who asks.
func (s *surveyor) managedFields(u *unstructured.Unstructured) []metav1.ManagedFieldsEntry {
	if s.shown == nil {
		return u.GetManagedFields()
	}
	var out []metav1.ManagedFieldsEntry
	if err := json.Unmarshal(s.shown, &out); err != nil {
		return nil // an API server writes no others
	}
	return out
}

// managedEntry is an entry of managed fields without the fields.
type managedEntry struct {
	APIVersion string `json:"apiVersion"`
	Manager    string `json:"manager"`
	Time       string `json:"time"`
}

// managers returns who wrote to the object that is being shown.
func (s *surveyor) managers() []managedEntry {
	if s.shown == nil {
		return nil
	}
	var out []managedEntry
	if err := json.Unmarshal(s.shown, &out); err != nil {
		return nil // an API server writes no others
	}
	return out
}
