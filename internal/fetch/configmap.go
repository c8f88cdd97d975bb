// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
)

// Keys of the ConfigMaps that the Cluster API operator reads where there is no internet.
const (
	keyComponents = "components"
	keyMetadata   = "metadata"
)

// ConfigMaps finds ConfigMaps in the cluster.
type ConfigMaps interface {
	// ConfigMap returns a ConfigMap, or nil when there is none.
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
}

// keyed returns the source with the key that is meant if it names none.
func keyed(src v1alpha1.Source, key string) v1alpha1.Source {
	if src.ConfigMap == nil || src.ConfigMap.Key != "" {
		return src
	}
	with := *src.ConfigMap
	with.Key = key
	src.ConfigMap = &with
	return src
}

// configMap returns one key of a ConfigMap.
func (f *Fetcher) configMap(ctx context.Context, src v1alpha1.Source) ([]byte, error) {
	what, key := release.Describe(src), src.ConfigMap.Key
	if f.ConfigMaps == nil {
		return nil, problem.Usage(release.ReasonBadSource, "", "%s can't be read: there is no cluster to look in", what)
	}
	cm, err := f.ConfigMaps.ConfigMap(ctx, src.ConfigMap.Namespace, src.ConfigMap.Name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if cm == nil {
		return nil, problem.Usage(ReasonNoFile, "", "there is no %s", what).
			WithRemedy("kubectl get configmaps -n %s", src.ConfigMap.Namespace)
	}
	if text, ok := cm.Data[key]; ok {
		return verified(src, []byte(text))
	}
	data, ok := cm.BinaryData[key]
	if !ok {
		return nil, problem.Usage(ReasonNoFile, "", "%s has no key %q", what, key)
	}
	if data, err = f.unzipped(what, data); err != nil {
		return nil, err
	}
	return verified(src, data)
}

// unzipped returns what is left of data without compression: manifests larger than a ConfigMap are stored that way.
func (f *Fetcher) unzipped(what string, data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, problem.Usage(ReasonNoFile, "", "%s can't be unpacked: %v", what, err).WithCause(err)
	}
	out, err := io.ReadAll(io.LimitReader(r, f.maxBytes()+1))
	if err != nil {
		return nil, problem.Usage(ReasonNoFile, "", "%s can't be unpacked: %v", what, err).WithCause(err)
	}
	if int64(len(out)) > f.maxBytes() {
		return nil, tooLarge(what, f.maxBytes())
	}
	return out, nil
}
