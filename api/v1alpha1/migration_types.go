// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Migration is what happens to the stored objects of one resource before the CRDs of a component are applied.
type Migration struct {
	// resource is the resource with its group, "machines.cluster.x-k8s.io" or "secrets". For a custom resource that is the
	// name of its CRD.
	Resource string `json:"resource"`
	// group is the resource's API group.
	// +optional
	Group string `json:"group,omitempty"`
	// kind is the kind of its objects.
	Kind string `json:"kind"`
	// storage is the version that all objects are rewritten in, because drop is not empty or the live storage version goes.
	// +optional
	Storage string `json:"storage,omitempty"`
	// drop lists versions in status.storedVersions that the CRD to come no longer has.
	// +optional
	Drop []string `json:"drop,omitempty"`
	// versions are those of the CRD to come. Entries of managedFields at other versions of the group are repaired. Empty:
	// managedFields are left alone.
	// +optional
	Versions []string `json:"versions,omitempty"`
	// sameFields tells that all versions have the same fields, so that whose field is whose can be said in another version;
	// else only the ownership of metadata is kept.
	// +optional
	SameFields bool `json:"sameFields,omitempty"`
	// owners are the kinds to which the objects have references at versions that are not served afterwards.
	// +optional
	Owners []OwnerVersion `json:"owners,omitempty"`
	// objects is how many there were when the plan was made.
	Objects int64 `json:"objects"`
}

// OwnerVersion says in which version objects refer to owners of one kind.
type OwnerVersion struct {
	// group is the owner's API group.
	Group string `json:"group"`
	// kind is the owner's kind.
	Kind string `json:"kind"`
	// version is written instead of one that is not served.
	Version string `json:"version"`
	// served are the versions that are served afterwards: references at these are left alone.
	Served []string `json:"served"`
}
