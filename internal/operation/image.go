// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/catalog"
)

// Image returns the image that ref means: the name of a NodeImage in the cluster, or a YAML file with one.
func (s *Session) Image(ctx context.Context, ref string) (*v1alpha1.NodeImage, error) {
	return catalog.Load(ctx, s.store, ref)
}

// Images returns the catalog by name.
func (s *Session) Images(ctx context.Context) ([]v1alpha1.NodeImage, error) {
	return s.store.NodeImages(ctx)
}
