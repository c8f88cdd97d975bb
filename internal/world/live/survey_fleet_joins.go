// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/world"
)

// movedTogether is how far apart objects are made that clusterctl moves from one management cluster to another.
const movedTogether = 5 * time.Minute

// bootConfig is what is kept of a kubeadm configuration of a control plane Machine.
type bootConfig struct {
	join    world.Join
	made    time.Time
	uid     string
	section bool // has joinConfiguration.controlPlane
	joins   bool // has a joinConfiguration at all
	inits   bool // has an initConfiguration
}

// joinsTopic reads the kubeadm configurations of control plane Machines; workers have none of what is looked for, so they
// are left out by their labels.
func joinsTopic() topic {
	return topic{name: world.TopicJoins, begin: func(_ context.Context, s *surveyor) (func(context.Context) error, error) {
		return s.joins, nil
	}}
}

func (s *surveyor) joins(ctx context.Context) error {
	var configs []bootConfig
	opts := metav1.ListOptions{LabelSelector: controlPlaneLabel}
	err := s.acrossVersions(ctx, schema.GroupKind{Group: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig"}, func(m *apimeta.RESTMapping, _ string) (err error) {
		from := s.clients.resource(m, "")
		configs, err = paged(opts, func(opts metav1.ListOptions) ([]bootConfig, string, error) {
			page, err := from.List(ctx, opts)
			if err != nil {
				return nil, "", err
			}
			out := make([]bootConfig, 0, len(page.Items))
			for i := range page.Items {
				out = append(out, bootConfigOf(&page.Items[i]))
			}
			return out, page.GetContinue(), nil
		})
		return err
	})
	if err != nil {
		return err
	}
	s.fleetOut().Joins = damaged(configs, s.controlPlaneMachines())
	return nil
}

// controlPlaneMachines are the Machines that belong to a control plane, with it, by namespace/name of the Machine.
func (s *surveyor) controlPlaneMachines() map[string]world.Ref {
	out := map[string]world.Ref{}
	for i := range s.fleet.clusters {
		c := &s.fleet.clusters[i]
		for _, m := range c.Machines {
			switch m.Owner.Kind {
			case "", "MachineDeployment", "MachineSet", "MachinePool":
			default:
				out[c.Namespace+"/"+m.Name] = m.Owner
			}
		}
	}
	return out
}

// bootConfigOf reads a configuration. Timeouts alone are no joinConfiguration: conversion from v1beta1 puts them there, also
// for the first Machine.
func bootConfigOf(u *unstructured.Unstructured) bootConfig {
	_, section, _ := unstructured.NestedMap(u.Object, "spec", "joinConfiguration", "controlPlane")
	join, joins, _ := unstructured.NestedMap(u.Object, "spec", "joinConfiguration")
	_, timeouts := join["timeouts"]
	init, _, _ := unstructured.NestedMap(u.Object, "spec", "initConfiguration")
	arguments, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "joinConfiguration", "nodeRegistration", "kubeletExtraArgs")
	c := bootConfig{
		join: world.Join{
			Cluster: u.GetNamespace() + "/" + u.GetLabels()[clusterLabel], Config: world.RefOf(u), Arguments: !empty(arguments), Machine: u.GetName(),
		},
		made: u.GetCreationTimestamp().Time, uid: string(u.GetUID()),
		section: section, joins: joins && (!timeouts || len(join) > 1), inits: len(init) > 0,
	}
	for _, o := range u.GetOwnerReferences() {
		if o.Kind == "Machine" {
			c.join.Machine = o.Name
		}
	}
	return c
}

func empty(v any) bool {
	switch t := v.(type) {
	case map[string]any:
		return len(t) == 0
	case []any:
		return len(t) == 0
	}
	return v == nil
}

// damaged picks the configurations of Machines that joined although nothing in them says so.
func damaged(configs []bootConfig, machines map[string]world.Ref) []world.Join {
	configs = slices.DeleteFunc(slices.Clone(configs), func(c bootConfig) bool {
		_, owned := machines[c.join.Config.Namespace+"/"+c.join.Machine]
		return !owned
	})
	slices.SortFunc(configs, func(a, b bootConfig) int {
		return cmp.Or(cmp.Compare(a.join.Cluster, b.join.Cluster), a.made.Compare(b.made), cmp.Compare(a.join.Config.Name, b.join.Config.Name))
	})
	configs = slices.CompactFunc(configs, func(a, b bootConfig) bool { return a.uid == b.uid && a.uid != "" })
	var out []world.Join
	for i, c := range configs {
		if c.section || !c.joins && (c.inits || mayBeFirst(configs, i)) {
			continue
		}
		c.join.Owner = machines[c.join.Config.Namespace+"/"+c.join.Machine]
		out = append(out, c.join)
	}
	return out
}

// mayBeFirst tells that a configuration that says nothing of joining may be that of the cluster's first Machine, which did
// not join: no other one is, and it is the oldest, or about as old as the others because all of them were moved here.
func mayBeFirst(configs []bootConfig, i int) bool {
	for k, other := range configs {
		if k == i || other.join.Cluster != configs[i].join.Cluster {
			continue
		}
		bare := !other.section && !other.joins
		if other.inits && bare || bare && k < i || configs[i].made.Sub(other.made) > movedTogether {
			return false
		}
	}
	return true
}
