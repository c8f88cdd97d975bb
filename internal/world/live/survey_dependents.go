// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/world"
)

// dependentsTopic reads one field of every object of the kinds that were asked about.
func dependentsTopic() topic {
	return topic{name: world.TopicDependents, begin: func(_ context.Context, s *surveyor) (func(context.Context) error, error) {
		var found []world.Dependent
		for i, ask := range s.ask.Dependents {
			gk := schema.FromAPIVersionAndKind(ask.APIVersion, ask.Kind).GroupKind()
			see := func(u *unstructured.Unstructured) {
				for _, value := range world.Values(u.Object, ask.FieldPath) {
					found = append(found, world.Dependent{Ask: i, Ref: world.RefOf(u), Value: value})
				}
			}
			if err := s.visitAt(gk, ask.APIVersion, see); err != nil {
				return nil, err
			}
		}
		return func(context.Context) error {
			slices.SortFunc(found, func(a, b world.Dependent) int {
				return cmp.Or(cmp.Compare(a.Ask, b.Ask), cmp.Compare(a.Ref.Namespace, b.Ref.Namespace), cmp.Compare(a.Ref.Name, b.Ref.Name), cmp.Compare(a.Value, b.Value))
			})
			s.out.Dependents = slices.Compact(found)
			return nil
		}, nil
	}}
}

// visitAt is visitKind in the version that is asked for, since a path holds in one version of a kind only. It does nothing
// for a kind that is not served, and takes the preferred version where only others are.
func (s *surveyor) visitAt(gk schema.GroupKind, apiVersion string, see func(*unstructured.Unstructured)) error {
	ms, err := s.mappings(gk)
	if err != nil || len(ms) == 0 {
		return err
	}
	for _, m := range ms {
		if m.GroupVersionKind.GroupVersion().String() == apiVersion {
			s.visit(m, see)
			return nil
		}
	}
	s.visit(ms[0], see)
	return nil
}
