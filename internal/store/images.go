// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// NodeImage returns an image of the catalog by name, or ErrNotFound.
func (s *Store) NodeImage(ctx context.Context, name string) (*v1alpha1.NodeImage, error) {
	out := &v1alpha1.NodeImage{}
	return out, translate("read image "+name, s.client.Get(ctx, client.ObjectKey{Name: name}, out))
}

// NodeImages returns the catalog by name; none where Capstan was never installed.
func (s *Store) NodeImages(ctx context.Context) ([]v1alpha1.NodeImage, error) {
	list := &v1alpha1.NodeImageList{}
	err := translate("list images", s.client.List(ctx, list))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.NodeImage) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// PutNodeImage keeps an image in the catalog and returns it as it is kept. An image with a resourceVersion is replaced as
// a whole, one without is new; ErrConflict where somebody else was faster either way.
func (s *Store) PutNodeImage(ctx context.Context, i *v1alpha1.NodeImage) (*v1alpha1.NodeImage, error) {
	out := i.DeepCopy()
	if out.ResourceVersion != "" {
		return out, translate("replace image "+out.Name, s.client.Update(ctx, out, client.FieldOwner(v1alpha1.FieldOwner)))
	}
	err := s.client.Create(ctx, out, client.FieldOwner(v1alpha1.FieldOwner))
	if apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create image %s: %w: %w", i.Name, ErrConflict, err)
	}
	return out, translate("create image "+i.Name, err)
}
