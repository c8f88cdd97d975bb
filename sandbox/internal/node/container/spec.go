// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"fmt"
)

// Spec describes a container.
type Spec struct {
	// Image is the directory with the image's files. It is never written to.
	Image string `json:"image"`
	// Work is an empty directory for what the container writes.
	Work string `json:"work"`
	// Hostname is the name in the UTS namespace.
	Hostname string `json:"hostname"`
	// Mounts are made in this order, after /proc and /dev.
	Mounts []Mount `json:"mounts,omitempty"`
	// ReadOnlyRoot makes everything but the mounts read-only.
	ReadOnlyRoot bool `json:"readOnlyRoot,omitempty"`
	Process
}

// Mount puts a file or directory of the machine into a container.
type Mount struct {
	Source string `json:"source"`
	// Target is a path in the container. It is made if it is missing; symbolic
	// links in it stay inside the image.
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Process is what is executed in a container, and as whom.
type Process struct {
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"`
	// Cwd is the working directory, / when empty. It is made if it is missing.
	Cwd string `json:"cwd,omitempty"`
	// UID and GID must be mapped in the user namespace.
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups,omitempty"`
	// Capabilities that may ever be held: a bit each. See CapabilityMask.
	Capabilities uint64 `json:"capabilities"`
	// NoNewPrivileges keeps set-user-ID programs from gaining anything.
	NoNewPrivileges bool `json:"noNewPrivileges,omitempty"`
}

// enterSpec asks Main to run a process in a container that runs.
type enterSpec struct {
	PID int  `json:"pid"`
	TTY bool `json:"tty,omitempty"`
	Process
}

// request is what Main reads from file descriptor fdRequest.
type request struct {
	Start *Spec      `json:"start,omitempty"`
	Enter *enterSpec `json:"enter,omitempty"`
	// NetNS says that fdNetNS is a network namespace to enter.
	NetNS bool `json:"netNS,omitempty"`
}

// File descriptors of the process that ends in Main.
const (
	fdRequest = 3 // read: the request
	fdReply   = 4 // write: a StartError, or closed by a successful exec
	fdNetNS   = 5
)

// StartStage says how far a container got that did not start.
type StartStage string

// A container is set up first (namespaces, mounts), then its program executed.
const (
	StageSetup StartStage = "setup"
	StageExec  StartStage = "exec"
)

// StartError is why a container's process was not executed.
type StartError struct {
	Stage   StartStage `json:"stage"`
	Message string     `json:"message"`
}

func (e *StartError) Error() string { return fmt.Sprintf("%s: %s", e.Stage, e.Message) }
