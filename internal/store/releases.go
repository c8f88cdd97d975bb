// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Release returns a Release by name, or nil where there is none or Capstan was never installed.
func (s *Store) Release(ctx context.Context, name string) (*v1alpha1.Release, error) {
	out := &v1alpha1.Release{}
	err := translate("read release "+name, s.client.Get(ctx, client.ObjectKey{Name: name}, out))
	if errors.Is(err, ErrNotFound) || apimeta.IsNoMatchError(err) {
		return nil, nil //nolint:nilnil // nil says that there is none: that is the contract of fetch.Releases
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}
