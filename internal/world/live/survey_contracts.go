// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// providerLabel says which provider an object belongs to.
	providerLabel = "cluster.x-k8s.io/provider"

	// Labels of the ConfigMaps in which the Cluster API operator keeps providers where there is no internet.
	configMapNameLabel    = "provider.cluster.x-k8s.io/name"
	configMapTypeLabel    = "provider.cluster.x-k8s.io/type"
	configMapVersionLabel = "provider.cluster.x-k8s.io/version"
	configMapMetadataKey  = "metadata"
)

// contractsTopic reads the labels of providers' CRDs, and providers' metadata from ConfigMaps.
func contractsTopic() topic {
	return topic{name: world.TopicContracts, begin: func(ctx context.Context, s *surveyor) (func(context.Context) error, error) {
		found := &world.Contracts{}
		see := func(u *unstructured.Unstructured) {
			if provider := u.GetLabels()[providerLabel]; provider != "" {
				found.CRDs = append(found.CRDs, world.ProviderCRD{Name: u.GetName(), Provider: provider, Labels: u.GetLabels(), Versions: crdVersions(u)})
			}
		}
		if err := s.visitKind(schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, see); err != nil {
			return nil, err
		}
		var err error
		if found.Metadata, err = s.providerMetadata(ctx); err != nil {
			return nil, err
		}
		return func(context.Context) error {
			slices.SortFunc(found.CRDs, func(a, b world.ProviderCRD) int { return cmp.Compare(a.Name, b.Name) })
			// A list that went on with a newer snapshot may have shown a CRD twice.
			found.CRDs = slices.CompactFunc(found.CRDs, func(a, b world.ProviderCRD) bool { return a.Name == b.Name })
			s.out.Contracts = found
			return nil
		}, nil
	}}
}

func (s *surveyor) providerMetadata(ctx context.Context) ([]world.ProviderMetadata, error) {
	maps, err := typedList[corev1.ConfigMap](ctx, s.clients.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")),
		metav1.ListOptions{LabelSelector: configMapNameLabel})
	if err != nil {
		return nil, fault(ctx, "list the ConfigMaps of providers", err)
	}
	var out []world.ProviderMetadata
	for _, m := range maps {
		text, ok := m.Data[configMapMetadataKey]
		if !ok {
			continue
		}
		out = append(out, world.ProviderMetadata{
			Source: "ConfigMap " + m.Namespace + "/" + m.Name, Name: m.Labels[configMapNameLabel], Type: m.Labels[configMapTypeLabel],
			Version: cmp.Or(m.Labels[configMapVersionLabel], m.Name), Text: text,
		})
	}
	named, err := s.namedMetadata(ctx)
	if err != nil {
		return nil, err
	}
	out = append(out, named...)
	slices.SortFunc(out, func(a, b world.ProviderMetadata) int { return cmp.Compare(a.Source, b.Source) })
	return slices.CompactFunc(out, func(a, b world.ProviderMetadata) bool { return a.Source == b.Source }), nil
}

// namedMetadata reads the ConfigMaps that are found by their names: the operator takes the name for the version where there is
// no label for it, and leaves all other labels to people.
func (s *surveyor) namedMetadata(ctx context.Context) ([]world.ProviderMetadata, error) {
	providers, _, err := s.inventory(ctx)
	if err != nil {
		return nil, err
	}
	var out []world.ProviderMetadata
	for _, p := range providers {
		if p.Namespace == "" || p.Version == "" {
			continue
		}
		u, err := s.clients.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(p.Namespace).Get(ctx, p.Version, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fault(ctx, "read the ConfigMap of provider "+p.ManifestLabel, err)
		}
		if text := stringAt(u, "data", configMapMetadataKey); text != "" {
			out = append(out, world.ProviderMetadata{
				Source: "ConfigMap " + p.Namespace + "/" + p.Version, Name: p.Name, Type: p.Type, Version: p.Version, Text: text,
			})
		}
	}
	return out, nil
}

// crdVersions returns the names of a CRD's versions.
func crdVersions(crd *unstructured.Unstructured) []string {
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return nil // not a CRD that the API server would have taken
	}
	var out []string
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok {
			if name, ok := m["name"].(string); ok {
				out = append(out, name)
			}
		}
	}
	return out
}
