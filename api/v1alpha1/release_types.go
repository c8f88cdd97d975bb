// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ComponentType says how a component is installed and how its installed version is known.
//
// +kubebuilder:validation:Enum=provider;manifest
type ComponentType string

const (
	// ComponentProvider is a Cluster API provider, recorded in the clusterctl inventory.
	ComponentProvider ComponentType = "provider"
	// ComponentManifest is a set of plain Kubernetes objects, recorded by Capstan's labels on them.
	ComponentManifest ComponentType = "manifest"
)

// Release is one version of the platform: which components at which versions, and the order between them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=capstan
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.version"
type Release struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ReleaseSpec `json:"spec"`
}

// ReleaseSpec is the content of a release.
type ReleaseSpec struct {
	// version is the platform's own version, a semantic version with a leading v.
	// +kubebuilder:validation:MinLength=1
	Version string `json:"version"`
	// components lists what the release consists of, in any order.
	// +kubebuilder:validation:MinItems=1
	// +listType=map
	// +listMapKey=name
	Components []Component `json:"components"`
	// upgradeFrom lists the release versions this one may be reached from. Empty means any.
	// +optional
	UpgradeFrom []string `json:"upgradeFrom,omitempty"`
	// kubernetes gives the Kubernetes versions that the release supports.
	// +optional
	Kubernetes *KubernetesRanges `json:"kubernetes,omitempty"`
	// knownRisks are combinations of versions that the release's makers know to be bad, beside those that Capstan knows.
	// +optional
	// +listType=map
	// +listMapKey=id
	KnownRisks []KnownRisk `json:"knownRisks,omitempty"`
	// dependents are kinds of objects that are made for one major version of a component.
	// +optional
	Dependents []Dependent `json:"dependents,omitempty"`
}

// Dependent is a kind whose objects name a version of a component, and work with that major version only.
type Dependent struct {
	// apiVersion is the objects' group/version.
	APIVersion string `json:"apiVersion"`
	// kind is the objects' kind.
	Kind string `json:"kind"`
	// fieldPath leads to the version within an object, in kubectl's JSONPath without braces: ".spec.version" or
	// ".spec.providers[*].version". All values that it finds count.
	FieldPath string `json:"fieldPath"`
	// pattern is a regular expression whose first group is the version within the field's value; without one the whole
	// value is. The group may be a full version or a major version alone, with or without a leading v.
	// +optional
	Pattern string `json:"pattern,omitempty"`
	// component is the name of the component that the version is of.
	Component string `json:"component"`
}

// KubernetesRanges gives supported Kubernetes versions by the role of the cluster.
type KubernetesRanges struct {
	// management is the range for the management cluster itself.
	// +optional
	Management *VersionRange `json:"management,omitempty"`
	// workload is the range for the clusters it manages.
	// +optional
	Workload *VersionRange `json:"workload,omitempty"`
}

// VersionRange is an inclusive range of semantic versions; an empty bound is open.
type VersionRange struct {
	// min is the lowest version that is supported.
	// +optional
	Min string `json:"min,omitempty"`
	// max is the highest version that is supported.
	// +optional
	Max string `json:"max,omitempty"`
}

// Component is one part of a release that is installed and upgraded as a whole.
type Component struct {
	// name identifies the component within the release and from release to release.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// type is provider or manifest.
	Type ComponentType `json:"type"`
	// version is the component's version, a semantic version with a leading v. It may be left out where the source is a
	// repository: the newest stable version with all its files is taken then.
	// +optional
	Version string `json:"version,omitempty"`
	// provider is the identity in the clusterctl inventory; required for type provider, forbidden otherwise.
	// +optional
	Provider *ProviderIdentity `json:"provider,omitempty"`
	// source is where the manifests are.
	Source Source `json:"source"`
	// metadata is where clusterctl's metadata.yaml of the provider is. Without it the contract is read from the CRDs alone.
	// +optional
	Metadata *Source `json:"metadata,omitempty"`
	// needs lists components that must be at their target before this one starts.
	// +optional
	Needs []string `json:"needs,omitempty"`
	// kubernetes gives the Kubernetes versions that the component supports, where they are narrower than the release's.
	// +optional
	Kubernetes *KubernetesRanges `json:"kubernetes,omitempty"`
	// variables are substituted for ${NAME} in the manifests, in clusterctl's syntax.
	// +optional
	Variables map[string]string `json:"variables,omitempty"`
}

// ProviderIdentity is how the clusterctl inventory knows a provider.
type ProviderIdentity struct {
	// name is the provider's name without its type prefix, "kubeadm" for example.
	Name string `json:"name"`
	// type is clusterctl's provider type.
	// +kubebuilder:validation:Enum=CoreProvider;BootstrapProvider;ControlPlaneProvider;InfrastructureProvider;IPAMProvider;RuntimeExtensionProvider;AddonProvider
	Type string `json:"type"`
	// namespace is where the provider runs.
	Namespace string `json:"namespace"`
}

// Source points at one document or archive. Exactly one of path, url, oci, configMap and repository is set.
type Source struct {
	// path is a file or directory, relative to the release file.
	// +optional
	Path string `json:"path,omitempty"`
	// url is an https or http address of a YAML document.
	// +optional
	URL string `json:"url,omitempty"`
	// oci is an OCI artifact, "oci://registry/repository:tag" or with a digest.
	// +optional
	OCI string `json:"oci,omitempty"`
	// configMap is a ConfigMap in the management cluster, as the Cluster API operator uses them where there is no internet.
	// +optional
	ConfigMap *ConfigMapSource `json:"configMap,omitempty"`
	// repository is a directory in the layout of clusterctl's local repositories, relative to the release file:
	// REPOSITORY/PROVIDER-LABEL/VERSION/ with the manifests and metadata.yaml. It gives both source and metadata.
	// +optional
	Repository string `json:"repository,omitempty"`
	// digest is the sha256 of the bytes ("sha256:" and 64 hexadecimal digits). Required for url and oci.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// ConfigMapSource is one key of a ConfigMap.
type ConfigMapSource struct {
	// namespace is the ConfigMap's namespace.
	Namespace string `json:"namespace"`
	// name is the ConfigMap's name.
	Name string `json:"name"`
	// key is the key within it; "components" for manifests and "metadata" for metadata if it is left out.
	// +optional
	Key string `json:"key,omitempty"`
}

// ReleaseList is a list of releases.
//
// +kubebuilder:object:root=true
type ReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Release `json:"items"`
}
