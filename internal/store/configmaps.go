// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConfigMap returns a ConfigMap, or nil where there is none.
func (s *Store) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	out := &corev1.ConfigMap{}
	err := translate("read ConfigMap "+namespace+"/"+name, s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, out))
	if errors.Is(err, ErrNotFound) {
		return nil, nil //nolint:nilnil // nil says that there is none: that is the contract of fetch.ConfigMaps
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}
