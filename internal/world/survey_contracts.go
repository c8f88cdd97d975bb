// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

// TopicContracts is what the management cluster itself says of its providers' Cluster API contracts.
const TopicContracts Topic = "The contracts of installed providers"

// Contracts is what is known in the cluster about the contracts of providers.
type Contracts struct {
	// CRDs are those that belong to a provider, sorted by name.
	CRDs []ProviderCRD
	// Metadata are the providers' metadata that ConfigMaps hold, sorted by namespace and name.
	Metadata []ProviderMetadata
}

// ProviderCRD is a CustomResourceDefinition of a provider.
type ProviderCRD struct {
	Name string
	// Provider is the label by which clusterctl knows whose it is, "infrastructure-docker" for example.
	Provider string
	// Labels are all its labels; those for contracts are among them.
	Labels map[string]string
	// Versions are the API versions that it has.
	Versions []string
}

// ProviderMetadata is a provider's metadata.yaml in a ConfigMap, as the Cluster API operator keeps it without internet.
type ProviderMetadata struct {
	// Source is the ConfigMap, as "ConfigMap namespace/name".
	Source string
	// Name and Type are the labels' values, such as "docker" and "infrastructure".
	Name, Type string
	// Version is the version that the ConfigMap is for.
	Version string
	// Text is the content of metadata.yaml.
	Text string
}
