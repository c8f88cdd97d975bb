// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// WantPool asks for an owner of Machines as a roll of its nodes sees it.
type WantPool struct {
	// Cluster is namespace/name.
	Cluster string
	// Owner is the KubeadmControlPlane or MachineDeployment.
	Owner Ref
	// Template and OldTemplate are infrastructure machine templates; what becomes of Template's Machines is the roll.
	Template, OldTemplate Ref
	// Settings are objects whose fields the roll changes; each is read as it is.
	Settings []Ref
	// Workload asks for the nodes as the cluster itself reports them, and whether its API server answers.
	Workload bool
}

// PoolState is an owner of Machines in the midst of a roll.
type PoolState struct {
	// Owner is the owner as read, nil if it is gone.
	Owner *unstructured.Unstructured
	// Template is the new template as read, nil if it is not there.
	Template *unstructured.Unstructured
	// Settings are the objects that were asked for, in that order, nil for what is gone.
	Settings []*unstructured.Unstructured
	// Counts are what the owner says it wants and has.
	Counts Counts
	// Machines are those that go back to the owner, sorted by name.
	Machines []RolledMachine
	// Silent says why the cluster's own API server did not answer; empty if it did or was not asked.
	Silent string
	// Hosts are the bare-metal hosts of the namespace, sorted by name; nil where the infrastructure has none.
	Hosts []BareHost
}

// RolledMachine is one Machine with its node, its infrastructure and its host.
type RolledMachine struct {
	Ref Ref
	UID string
	// ResourceVersion is of the reading.
	ResourceVersion string
	Created         time.Time
	// Template is the name of the infrastructure machine template that it was made from; empty if nothing says.
	Template string
	// Version is the Kubernetes version that it wants.
	Version string
	// Phase is Cluster API's word for it.
	Phase string
	// Deleting is since when somebody wants it to go; zero for a Machine that stays.
	Deleting time.Time
	// Hooks are the names of its pre-drain hooks, without the annotation's prefix, sorted.
	Hooks []string
	// Remediated tells that a health check asked for its replacement.
	Remediated bool
	// Blocker is what it waits for, as its conditions say, and BlockerReason their reason: "DrainingNode". Empty: nothing.
	Blocker, BlockerReason string
	BlockedSince           time.Time
	// Unhealthy are the conditions of a control plane Machine that are not True, of the five that Cluster API's kubeadm
	// provider waits for, each with its message.
	Unhealthy []string
	// Node is the node's name; empty before it joined.
	Node string
	// NodeReady tells that the node is Ready and may be scheduled to.
	NodeReady bool
	// NodeTrouble says why it is not.
	NodeTrouble string
	// Contents is what the node reports of itself.
	Contents v1alpha1.NodeImageContents
	// Host is the bare-metal host's name, and HostState what it is doing: "provisioning", or its error. Empty elsewhere.
	Host, HostState string
	// HostError is the host's own error message; empty if it has none.
	HostError string
}

// BareHost is a BareMetalHost as far as choosing one is concerned.
type BareHost struct {
	Namespace, Name string
	Labels          map[string]string
	// State is status.provisioning.state, Operational status.operationalStatus.
	State, Operational string
	// Error is the host's error message.
	Error string
	// Consumer is the object that has it; zero for none.
	Consumer Ref
	// Paused and Detached tell of the annotations that take a host away from its operator.
	Paused, Detached, Unhealthy bool
	Deleting                    bool
	// ReservedFor is the value of the node reuse label: the owner of Machines that it waits for.
	ReservedFor string
	// PoweredOn tells what the host's controller last saw.
	PoweredOn bool
	// Online is whether it is wanted to be on; Externally that something else provisioned it.
	Online, Externally bool
	// Cleaning is spec.automatedCleaningMode; empty means metadata.
	Cleaning string
	// Architecture, MemoryMiB and Disks are what the inspection found; zero if it found nothing.
	Architecture string
	MemoryMiB    int64
	Disks        []Disk
	// RootHints tells that spec.rootDeviceHints says which disk is the root disk.
	RootHints bool
	// Image is the URL that it was provisioned with; ImageChecksum its checksum.
	Image, ImageChecksum string
}

// Disk is one disk of a host.
type Disk struct {
	Name      string
	SizeBytes int64
}
