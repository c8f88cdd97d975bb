// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodes has the steps that roll a node image over a control plane or a pool of workers. Cluster API replaces the
// Machines; these steps decide when it may take the next one. A pre-drain hook on every old Machine is the gate: Cluster
// API marks a Machine for deletion whenever it likes, and nothing is drained before Capstan takes that Machine's hook away.
// So a process that dies holds the roll; it lets nothing run on unwatched.
//
//	prepare ──► roll ──► restore ──► pools that come after this one
//
// It knows neither how a strategy is chosen nor where the world comes from.
package nodes

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// HookAnnotation is the pre-drain hook by which Capstan holds an old Machine until its turn has come.
const HookAnnotation = "pre-drain.delete.hook.machine.cluster.x-k8s.io/" + hookName

// hookName is the hook's name as world.RolledMachine lists it.
const hookName = "capstan-roll"

// Held tells that a Machine is marked for deletion and waits for a roll to let it go: it works as before.
func Held(m world.RolledMachine) bool {
	return !m.Deleting.IsZero() && slices.Contains(m.Hooks, hookName)
}

// The stages of a pool, each a step.
const (
	stagePrepare = "prepare"
	stageRoll    = "roll"
	stageRestore = "restore"
	// stagePool is no step: it names what is observed for all three.
	stagePool = "pool"
)

// Key identifies an owner of Machines in a plan: kind/namespace/name in lower case for the kind.
func Key(owner v1alpha1.ObjectReference) string {
	return strings.ToLower(owner.Kind) + "/" + owner.Namespace + "/" + owner.Name
}

// Build makes the steps of a plan. templates are the new machine templates by the digest of their manifest.
func Build(pools []v1alpha1.PlannedPool, templates map[string]*unstructured.Unstructured) ([]step.Step, error) {
	var out []step.Step
	for i := range pools {
		p := &pools[i]
		template := templates[p.Artifact]
		if template == nil {
			return nil, fmt.Errorf("build the steps of %s: its template %s is missing", world.Ref(p.Owner), p.NewTemplate.Name)
		}
		out = append(out, stages(pools, i, template)...)
	}
	return out, nil
}

// stages makes the steps of one pool.
func stages(pools []v1alpha1.PlannedPool, i int, template *unstructured.Unstructured) []step.Step {
	b := base{pool: &pools[i], template: template, later: pools[i+1:]}
	for j := range pools {
		if slices.Contains(pools[i].Needs, Key(pools[j].Owner)) {
			b.needs = append(b.needs, (&base{pool: &pools[j]}).id(stageRestore))
		}
	}
	return []step.Step{&prepare{base: b}, &roll{base: b}, &restore{base: b}}
}

// Planned lists the steps of a plan for people, without what is needed to take them.
func Planned(pools []v1alpha1.PlannedPool) []v1alpha1.PlannedStep {
	var out []v1alpha1.PlannedStep
	for i := range pools {
		for _, s := range stages(pools, i, nil) {
			out = append(out, v1alpha1.PlannedStep{ID: s.ID(), Summary: s.Summary(), Component: s.Component(), Needs: s.Needs()})
		}
	}
	return out
}

// base is what the steps of one pool share.
type base struct {
	pool     *v1alpha1.PlannedPool
	template *unstructured.Unstructured
	// later are the pools behind this one: what they set as well, the last of them puts back.
	later []v1alpha1.PlannedPool
	// needs are the last steps of the pools that come first.
	needs []string
}

// Component is the pool that the step belongs to.
func (b *base) Component() string { return Key(b.pool.Owner) }

func (b *base) id(stage string) string {
	return stage + "/" + Key(b.pool.Owner) + "/" + b.pool.NewTemplate.Name
}

func (b *base) owner() world.Ref { return world.Ref(b.pool.Owner) }

// Want asks for the pool as it is, the same for all its steps. Whether the nodes are well is the cluster's own word.
func (b *base) Want() world.Want {
	p := world.WantPool{
		Cluster: b.pool.Cluster, Owner: b.owner(), Template: world.Ref(b.pool.NewTemplate), OldTemplate: world.Ref(b.pool.OldTemplate), Workload: true,
	}
	for _, s := range b.pool.Settings {
		p.Settings = append(p.Settings, world.Ref(s.Object))
	}
	return world.Want{ID: b.id(stagePool), Pools: []world.WantPool{p}}
}

// seen returns the pool as it was observed.
func (b *base) seen(w *world.World) (*world.PoolState, bool) {
	set, ok := w.Sets[b.id(stagePool)]
	if !ok || len(set.Pools) != 1 || len(set.Pools[0].Settings) != len(b.pool.Settings) {
		return nil, false
	}
	return &set.Pools[0], true
}

// unseen is the progress of a step whose pool was not looked at.
func unseen() step.Progress {
	return step.Progress{State: step.Waiting, Detail: "Not observed yet"}
}

// gone is the progress of a step whose owner of Machines is not there any more.
func (b *base) gone() step.Progress {
	detail := b.owner().String() + " is gone"
	return step.Progress{State: step.Waiting, Detail: detail, Mark: "gone", Causes: []world.Cause{{
		Reason: v1alpha1.StopPoolGone, Message: detail + ", and with it what the plan is about", Definite: true, Object: b.owner(),
		Remedy: "end the run by `capstan abort`, and plan anew",
	}}}
}

// templateName is the name of the machine template that the owner has now.
func (b *base) templateName(owner *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(owner.Object, strings.Split(b.pool.TemplateRef, ".")...)
	return name
}

// pointed tells whether the owner has the new template, and the Kubernetes version that goes with it.
func (b *base) pointed(owner *unstructured.Unstructured) bool {
	if b.templateName(owner) != b.pool.NewTemplate.Name {
		return false
	}
	if b.pool.VersionPath == "" || b.pool.ToVersion == "" {
		return true
	}
	v, _, _ := unstructured.NestedString(owner.Object, strings.Split(b.pool.VersionPath, ".")...)
	return v == b.pool.ToVersion
}
