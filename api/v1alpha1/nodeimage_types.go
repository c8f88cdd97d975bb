// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeImage is an entry of the image catalog: where an image is, and what is in it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=capstan
// +kubebuilder:printcolumn:name="OS",type=string,JSONPath=".spec.contents.osImage"
// +kubebuilder:printcolumn:name="Kernel",type=string,JSONPath=".spec.contents.kernelVersion"
// +kubebuilder:printcolumn:name="Kubelet",type=string,JSONPath=".spec.contents.kubeletVersion"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type NodeImage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeImageSpec `json:"spec"`
}

// NodeImageSpec is the content of a catalog entry. It needs url or id, or both.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) || has(self.id)",message="an image needs a url or an id"
type NodeImageSpec struct {
	// url is where hosts fetch the image from, for infrastructures whose machine templates name a URL.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`
	// id is what a cloud calls the image: a template's name, an AMI.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ID string `json:"id,omitempty"`
	// checksum is the digest of the file at url in hexadecimal, or the http(s) URL of a checksum file.
	// +optional
	Checksum string `json:"checksum,omitempty"`
	// checksumType is md5, sha256 or sha512. Metal3 takes an unset one for md5.
	// +optional
	// +kubebuilder:validation:Enum=md5;sha256;sha512
	ChecksumType string `json:"checksumType,omitempty"`
	// format is the disk format of the file at url.
	// +optional
	// +kubebuilder:validation:Enum=raw;qcow2;vdi;vmdk;live-iso
	Format string `json:"format,omitempty"`
	// sizeBytes is the length of the file at url.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// virtualSizeBytes is the size of the disk that the image describes; a host's root disk must not be smaller.
	// +optional
	// +kubebuilder:validation:Minimum=0
	VirtualSizeBytes int64 `json:"virtualSizeBytes,omitempty"`
	// contents is what nodes made from the image are expected to report. An empty field is not compared.
	// +optional
	Contents NodeImageContents `json:"contents,omitempty"`
}

// NodeImageContents is what is in an image, in the words of a Node's status.nodeInfo.
type NodeImageContents struct {
	// osImage is the name and version of the operating system, "Ubuntu 24.04.1 LTS" for example.
	// +optional
	OSImage string `json:"osImage,omitempty"`
	// kernelVersion is the release of the kernel that boots, "6.8.0-45-generic" for example.
	// +optional
	KernelVersion string `json:"kernelVersion,omitempty"`
	// containerRuntimeVersion is the runtime and its version, "containerd://1.7.22" for example.
	// +optional
	ContainerRuntimeVersion string `json:"containerRuntimeVersion,omitempty"`
	// kubeletVersion is the version of the kubelet with the leading v.
	// +optional
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	// architecture is amd64, arm64 and so on.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// packages are versions of other things by name: packages, tools, kernel modules as "module/NAME". Nodes do not report
	// them; they are for people and for `capstan image verify`.
	// +optional
	Packages map[string]string `json:"packages,omitempty"`
}

// NodeImageList is a list of images.
//
// +kubebuilder:object:root=true
type NodeImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeImage `json:"items"`
}
