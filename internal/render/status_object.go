// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// StatusObject is what programs get of a Status.
type StatusObject struct {
	meta
	At      metav1.Time `json:"at"`
	State   State       `json:"state"`
	Summary string      `json:"summary"`
	Next    string      `json:"next"`
	// PlatformVersion is the release that was last completed.
	PlatformVersion   string           `json:"platformVersion,omitempty"`
	KubernetesVersion string           `json:"kubernetesVersion,omitempty"`
	Providers         []StatusProvider `json:"providers"`
	Manifests         []StatusManifest `json:"manifests"`
	Fleet             *StatusFleet     `json:"fleet,omitempty"`
	// Pools are the control planes and worker pools of all clusters, Hooks what keeps clusters waiting, and Paused the
	// objects that nobody reconciles.
	Pools  []StatusPool  `json:"pools,omitempty"`
	Hooks  []StatusHook  `json:"hooks,omitempty"`
	Paused []StatusPause `json:"paused,omitempty"`
	// NodesError says why a part of these could not be seen.
	NodesError string `json:"nodesError,omitempty"`
	// Error says why the management cluster could not be observed.
	Error   string     `json:"error,omitempty"`
	Run     *StatusRun `json:"run,omitempty"`
	LastRun *StatusRun `json:"lastRun,omitempty"`
}

// StatusProvider is one entry of the clusterctl inventory.
type StatusProvider struct {
	// Name is the value of the label cluster.x-k8s.io/provider, "infrastructure-docker" for example.
	Name      string `json:"name"`
	Provider  string `json:"provider"`
	Type      string `json:"type"`
	Namespace string `json:"namespace"`
	Version   string `json:"version"`
}

// StatusManifest is one installed component of type manifest.
type StatusManifest struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// StatusFleet counts the fleet.
type StatusFleet struct {
	Clusters int `json:"clusters"`
	Machines int `json:"machines"`
	// Error says why the fleet could not be read anew; the counts are then as of At.
	Error string      `json:"error,omitempty"`
	At    metav1.Time `json:"at"`
}

// StatusRun is a run as a status shows it.
type StatusRun struct {
	Name        string                `json:"name"`
	From        string                `json:"from,omitempty"`
	To          string                `json:"to"`
	RequestedBy string                `json:"requestedBy,omitempty"`
	Result      Result                `json:"result"`
	Driver      string                `json:"driver,omitempty"`
	StartedAt   *metav1.Time          `json:"startedAt,omitempty"`
	FinishedAt  *metav1.Time          `json:"finishedAt,omitempty"`
	Duration    metav1.Duration       `json:"duration"`
	StepsDone   int                   `json:"stepsDone"`
	StepsTotal  int                   `json:"stepsTotal,omitempty"`
	Current     []StatusStep          `json:"current,omitempty"`
	Waiting     []v1alpha1.Waiting    `json:"waiting,omitempty"`
	Stops       []v1alpha1.Stop       `json:"stops,omitempty"`
	Controllers []string              `json:"controllers,omitempty"`
	Fence       *v1alpha1.FenceStatus `json:"fence,omitempty"`
}

// Object returns the status for programs.
func (d *Status) Object() any {
	out := StatusObject{
		meta: meta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Status"},
		At:   metav1.NewTime(d.Now), State: d.State(), Summary: d.Summary(), Next: d.next(), PlatformVersion: d.PlatformVersion,
		Providers: []StatusProvider{}, Manifests: []StatusManifest{}, Error: d.WorldError,
	}
	d.observed(&out)
	out.Pools, out.Hooks, out.Paused = d.Nodes.pools(), d.Nodes.hooks(), d.Nodes.pauses()
	if d.Nodes != nil {
		out.NodesError = d.Nodes.Error
	}
	if d.Open != nil {
		out.Run = d.runObject(d.Open)
		out.Run.Driver, out.Run.Current, out.Run.Waiting = d.Driver, d.current(), d.Open.Status.Waiting
		if d.Plan != nil {
			out.Run.StepsTotal = len(d.Plan.Steps)
		}
		if d.State() == StateStopped {
			out.Run.Controllers = controllerNotes(d.Open, d.Plan)
		}
	}
	if d.Last != nil {
		out.LastRun = d.runObject(d.Last)
	}
	return out
}

func (d *Status) observed(out *StatusObject) {
	if d.World == nil {
		return
	}
	m := d.World.Management
	out.KubernetesVersion = m.KubernetesVersion
	for _, p := range m.Providers {
		out.Providers = append(out.Providers, StatusProvider{Name: p.ManifestLabel, Provider: p.Name, Type: p.Type, Namespace: p.Namespace, Version: p.Version})
	}
	for _, c := range m.Manifests {
		out.Manifests = append(out.Manifests, StatusManifest{Name: c.Name, Version: c.Version})
	}
	clusters, machines := fleetSize(d.World)
	out.Fleet = &StatusFleet{Clusters: clusters, Machines: machines, Error: d.World.FleetError, At: metav1.NewTime(d.World.FleetAt)}
}

func (d *Status) runObject(u *v1alpha1.Upgrade) *StatusRun {
	return &StatusRun{
		Name: u.Name, From: u.Spec.From, To: u.Spec.To, RequestedBy: u.Spec.RequestedBy, Result: ResultOf(u),
		StartedAt: u.Status.StartedAt, FinishedAt: u.Status.FinishedAt, Duration: metav1.Duration{Duration: took(u, d.Now)},
		StepsDone: stepsDone(u), Stops: u.Status.Stops, Fence: u.Status.Fence,
	}
}
