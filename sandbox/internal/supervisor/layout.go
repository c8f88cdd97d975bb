// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"github.com/capstan-dev/capstan/sandbox/internal/netns"
)

// Layout names the files of one sandbox.
type Layout struct{ Dir string }

// Spec is the file that holds what was asked for.
func (l Layout) Spec() string { return filepath.Join(l.Dir, "sandbox.json") }

// Lock is held by the supervisor for as long as it lives.
func (l Layout) Lock() string { return filepath.Join(l.Dir, "lock") }

// Done exists once `up` has gone all the way.
func (l Layout) Done() string { return filepath.Join(l.Dir, "up.done") }

// PID is the file with the supervisor's process ID as the host sees it.
func (l Layout) PID() string { return filepath.Join(l.Dir, "supervisor.pid") }

// Logs is the directory with one log file per component.
func (l Layout) Logs() string { return filepath.Join(l.Dir, "logs") }

// Log is the log file of one component.
func (l Layout) Log(component string) string { return filepath.Join(l.Logs(), component+".log") }

// Pods is the directory of the node agent.
func (l Layout) Pods() string { return filepath.Join(l.Dir, "node") }

// Registry is the directory of the running sandbox's own images.
func (l Layout) Registry() string { return filepath.Join(l.Dir, "registry") }

const (
	controlSocket = "control.sock"
	execSocket    = "exec.sock"
)

// keep lists what outlives a sandbox in its directory: what a reader wants after the end, and the lock file, which must stay the same file.
func (l Layout) keep() map[string]bool {
	return map[string]bool{"logs": true, "audit": true, "lock": true}
}

// Clean removes the state of an ended sandbox. Logs and the audit log stay until the next start when keepLogs is set.
func (l Layout) Clean(keepLogs bool) error {
	entries, err := os.ReadDir(l.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read sandbox directory: %w", err)
	}
	for _, e := range entries {
		if keepLogs && l.keep()[e.Name()] || e.Name() == "lock" {
			continue
		}
		if err := netns.RemoveTree(filepath.Join(l.Dir, e.Name())); err != nil {
			return fmt.Errorf("remove sandbox state: %w", err)
		}
	}
	return nil
}

// Spec is what `up` was asked for, as kept in the sandbox's directory. The supervisor reads it when it starts, and a second `up` compares.
type Spec struct {
	Name       string `json:"name"`
	Kubernetes string `json:"kubernetes"`
	// CAPI is empty when no providers were asked for.
	CAPI          string `json:"capi,omitempty"`
	CertManager   string `json:"certManager,omitempty"`
	Clusters      int    `json:"clusters"`
	ControlPlanes int    `json:"controlPlanes"`
	Workers       int    `json:"workers"`
	// Metal is the version of the provider of simulated bare metal, and Hosts how many hosts each cluster has; empty and 0 without.
	Metal      string `json:"metal,omitempty"`
	Hosts      int    `json:"hosts,omitempty"`
	NodeMemory string `json:"nodeMemory"`
	NodeCPU    string `json:"nodeCPU"`
	// Inputs holds the paths and addresses the supervisor needs; they are not compared.
	Inputs Inputs `json:"inputs"`
}

// Inputs is the part of a Spec that says with what, not what.
type Inputs struct {
	Etcd              string `json:"etcd"`
	APIServer         string `json:"apiServer"`
	ControllerManager string `json:"controllerManager"`
	Scheduler         string `json:"scheduler"`
	// Metal is the program of simulated bare metal; empty without.
	Metal string `json:"metal,omitempty"`
	// Images are the directories the registry reads images from; they are shared by all sandboxes and never written.
	Images []string `json:"images,omitempty"`
	// Clusterctl holds a clusterctl for each Cluster API version there is.
	Clusterctl map[string]Clusterctl `json:"clusterctl,omitempty"`
	// ProxyURL and RegistryAddress are the two addresses on the host's loopback interface.
	ProxyURL        string `json:"proxyURL"`
	RegistryAddress string `json:"registryAddress"`
}

// Clusterctl is a clusterctl program with its configuration file, which names a local provider repository.
type Clusterctl struct {
	Path   string `json:"path"`
	Config string `json:"config"`
}

// SameAs says whether two specs ask for the same sandbox.
func (s Spec) SameAs(other Spec) bool {
	s.Inputs, other.Inputs = Inputs{}, Inputs{}
	return reflect.DeepEqual(s, other)
}

// Write stores the spec in the sandbox's directory.
func (s Spec) Write(l Layout) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode sandbox spec: %w", err)
	}
	if err := os.WriteFile(l.Spec(), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write sandbox spec: %w", err)
	}
	return nil
}

// ReadSpec reads the spec back.
func ReadSpec(l Layout) (Spec, error) {
	var s Spec
	data, err := os.ReadFile(l.Spec())
	if err != nil {
		return s, fmt.Errorf("read sandbox spec: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("decode sandbox spec %s: %w", l.Spec(), err)
	}
	return s, nil
}
