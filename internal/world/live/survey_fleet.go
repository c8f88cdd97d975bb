// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/world"
)

// replicasManagedByAnnotation is on MachinePools whose size somebody else decides.
const replicasManagedByAnnotation = "cluster.x-k8s.io/replicas-managed-by"

// working are the conditions by which owners of Machines say that they are changing some.
func working() []string { return []string{"RollingOut", "ScalingUp", "ScalingDown", "Remediating"} }

// legacyWorking are those of API versions before v1beta2, which are false while an owner is at work.
func legacyWorking() map[string]string {
	return map[string]string{"MachinesSpecUpToDate": "RollingOut", "Resized": "Scaling"}
}

// fleetOut returns where the survey's findings about the workload clusters are put.
func (s *surveyor) fleetOut() *world.Fleet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out.Fleet == nil {
		s.out.Fleet = &world.Fleet{}
	}
	return s.out.Fleet
}

// rolloutsTopic looks at all owners of Machines, and at the Machines that come or go.
func rolloutsTopic() topic {
	return topic{name: world.TopicRollouts, begin: func(_ context.Context, s *surveyor) (func(context.Context) error, error) {
		out, active := s.fleetOut(), map[string][]string{}
		for _, gk := range s.ownerKinds() {
			err := s.visitKind(gk, func(u *unstructured.Unstructured) {
				if r, ok := s.rollout(u); ok {
					out.Rollouts = append(out.Rollouts, r)
				}
				if u.GetKind() == "MachineSet" && holdsMachines(u) {
					key := u.GetNamespace() + "/" + deploymentOf(u)
					active[key] = append(active[key], u.GetName())
				}
			})
			if err != nil {
				return nil, err
			}
		}
		err := s.visitKind(schema.GroupKind{Group: capiGroup, Kind: "Machine"}, func(u *unstructured.Unstructured) {
			if m := machineState(u); m.Deleting || m.Outdated != "" || unsettled(m.Phase) {
				out.Machines = append(out.Machines, m)
			}
		})
		return func(context.Context) error { return sortRollouts(out, active) }, err
	}}
}

func sortRollouts(out *world.Fleet, active map[string][]string) error {
	for i := range out.Rollouts {
		if r := &out.Rollouts[i]; r.Owner.Kind == "MachineDeployment" {
			r.ActiveSets = active[r.Owner.Namespace+"/"+r.Owner.Name]
			slices.Sort(r.ActiveSets)
		}
	}
	slices.SortFunc(out.Rollouts, func(a, b world.Rollout) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Owner.Kind, b.Owner.Kind), cmp.Compare(a.Owner.Name, b.Owner.Name))
	})
	slices.SortFunc(out.Machines, func(a, b world.MachineState) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Name, b.Name))
	})
	// A list that was cut short by the API server and went on may show an object twice.
	out.Rollouts = slices.CompactFunc(out.Rollouts, func(a, b world.Rollout) bool { return a.Owner == b.Owner })
	out.Machines = slices.CompactFunc(out.Machines, func(a, b world.MachineState) bool { return a.UID == b.UID })
	return nil
}

// ownerKinds are the kinds that make Machines: Cluster API's own, and those that Clusters name as their control planes.
func (s *surveyor) ownerKinds() []schema.GroupKind {
	out := []schema.GroupKind{
		{Group: capiGroup, Kind: "MachineDeployment"}, {Group: capiGroup, Kind: "MachineSet"}, {Group: capiGroup, Kind: "MachinePool"},
	}
	out = append(out, controlPlaneKinds(s.clusters)...)
	if s.survey != nil {
		return out // the fleet is being read
	}
	for i := range s.fleet.clusters {
		for _, o := range s.fleet.clusters[i].Owners {
			gk := schema.FromAPIVersionAndKind(o.Ref.APIVersion, o.Ref.Kind).GroupKind()
			if !slices.Contains(out, gk) {
				out = append(out, gk)
			}
		}
	}
	return out
}

// rollout reads an owner of Machines of any kind; not a MachineSet that a MachineDeployment made.
func (s *surveyor) rollout(u *unstructured.Unstructured) (world.Rollout, bool) {
	if u.GetKind() == "MachineSet" && deploymentOf(u) != "" {
		return world.Rollout{}, false
	}
	cluster := s.clusterOwning(u)
	if cluster == "" {
		return world.Rollout{}, false
	}
	_, annotated := u.GetAnnotations()[pausedAnnotation]
	_, elsewhere := u.GetAnnotations()[replicasManagedByAnnotation]
	r := world.Rollout{
		Cluster: cluster, Owner: world.RefOf(u),
		Desired: countAt(u, "spec", "replicas"), Current: countAt(u, "status", "replicas"), UpToDate: upToDate(u),
		Version:  cmp.Or(stringAt(u, "spec", "version"), stringAt(u, "spec", "template", "spec", "version")),
		OnDelete: cmp.Or(stringAt(u, "spec", "rollout", "strategy", "type"), stringAt(u, "spec", "strategy", "type")) == "OnDelete",
		Paused:   annotated || boolAt(u, "spec", "paused"), Deleting: u.GetDeletionTimestamp() != nil, Elsewhere: elsewhere,
		Infrastructure: infrastructureOf(u),
	}
	if seen := countAt(u, "status", "observedGeneration"); seen != nil && *seen < u.GetGeneration() {
		r.Unseen = true
	}
	if r.Current == nil && legacy(u) && countAt(u, "status", "observedGeneration") != nil {
		r.Current = new(int64) // v1beta1 leaves a zero out
	}
	r.Doing = doing(u)
	return r, true
}

// clusterOwning tells namespace/name of the Cluster that an owner of Machines is part of: control planes don't say it in
// their spec, so the picture of the fleet does.
func (s *surveyor) clusterOwning(u *unstructured.Unstructured) string {
	if name := cmp.Or(stringAt(u, "spec", "clusterName"), u.GetLabels()[clusterLabel]); name != "" {
		return u.GetNamespace() + "/" + name
	}
	for i := range s.fleet.clusters {
		for _, o := range s.fleet.clusters[i].Owners {
			if o.UID == string(u.GetUID()) {
				return s.fleet.clusters[i].Key()
			}
		}
	}
	return ""
}

func infrastructureOf(u *unstructured.Unstructured) world.Ref {
	for _, path := range [][]string{
		{"spec", "machineTemplate", "spec", "infrastructureRef"},
		{"spec", "machineTemplate", "infrastructureRef"},
		{"spec", "template", "spec", "infrastructureRef"},
	} {
		if name := stringAt(u, append(slices.Clone(path), "name")...); name != "" {
			return world.Ref{
				APIVersion: cmp.Or(stringAt(u, append(slices.Clone(path), "apiGroup")...), stringAt(u, append(slices.Clone(path), "apiVersion")...)),
				Kind:       stringAt(u, append(slices.Clone(path), "kind")...), Namespace: u.GetNamespace(), Name: name,
			}
		}
	}
	return world.Ref{}
}

func legacy(u *unstructured.Unstructured) bool {
	return strings.HasSuffix(u.GetAPIVersion(), "/v1beta1")
}

// upToDate is how many Machines are as the owner wants them, in the words of either API version. MachinePools are not
// asked: what they say is made up where there are no Machines behind them.
func upToDate(u *unstructured.Unstructured) *int64 {
	if u.GetKind() == "MachinePool" {
		return nil
	}
	for _, path := range [][]string{
		{"status", "upToDateReplicas"},
		{"status", "v1beta2", "upToDateReplicas"},
		{"status", "updatedReplicas"},
		{"status", "deprecated", "v1beta1", "updatedReplicas"},
	} {
		if n := countAt(u, path...); n != nil {
			return n
		}
	}
	if u.GetKind() != "MachineSet" && legacy(u) && countAt(u, "status", "observedGeneration") != nil && countAt(u, "status", "replicas") != nil {
		return new(int64) // v1beta1 leaves a zero out
	}
	return nil
}

// doing lists the conditions that say that an owner is at work. The older ones count only where it has none of the newer:
// controllers that write both bring the older up to date later.
func doing(u *unstructured.Unstructured) []world.Condition {
	var out []world.Condition
	newer := false
	for _, t := range working() {
		c, found := conditionOf(u, t)
		newer = newer || found
		if found && c["status"] == string(metav1.ConditionTrue) {
			out = append(out, world.Condition{Type: t, Message: firstLine(c["message"])})
		}
	}
	if newer {
		return out
	}
	for _, t := range []string{"MachinesSpecUpToDate", "Resized"} {
		if c, found := conditionOf(u, t); found && c["status"] == string(metav1.ConditionFalse) {
			out = append(out, world.Condition{Type: legacyWorking()[t], Message: firstLine(c["message"])})
		}
	}
	if phase := stringAt(u, "status", "phase"); u.GetKind() == "MachinePool" && (strings.HasPrefix(phase, "Scaling") || phase == "Provisioning") {
		out = append(out, world.Condition{Type: phase})
	}
	return out
}

// conditionOf returns a condition from wherever an API version keeps them: of several by the same name the newest layout's.
func conditionOf(u *unstructured.Unstructured, conditionType string) (map[string]any, bool) {
	for _, path := range [][]string{
		{"status", "v1beta2", "conditions"}, {"status", "conditions"}, {"status", "deprecated", "v1beta1", "conditions"},
	} {
		conditions, _, _ := unstructured.NestedSlice(u.Object, path...)
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["type"] == conditionType {
				return m, true
			}
		}
	}
	return nil, false
}

func firstLine(message any) string {
	text, _ := message.(string)
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// deploymentOf is the name of the MachineDeployment that made a MachineSet; empty if none did.
func deploymentOf(set *unstructured.Unstructured) string {
	if name := set.GetLabels()[deploymentLabel]; name != "" {
		return name
	}
	for _, o := range set.GetOwnerReferences() {
		if o.Kind == "MachineDeployment" {
			return o.Name
		}
	}
	return ""
}

// holdsMachines tells whether a MachineSet has or wants Machines.
func holdsMachines(u *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"spec", "replicas"}, {"status", "replicas"}} {
		if n := countAt(u, path...); n != nil && *n > 0 {
			return true
		}
	}
	return false
}

func machineState(u *unstructured.Unstructured) world.MachineState {
	m := world.MachineState{
		Cluster: u.GetNamespace() + "/" + cmp.Or(stringAt(u, "spec", "clusterName"), u.GetLabels()[clusterLabel]),
		Name:    u.GetName(), UID: string(u.GetUID()), Deleting: u.GetDeletionTimestamp() != nil, Phase: stringAt(u, "status", "phase"),
	}
	if c, found := conditionOf(u, "UpToDate"); found && c["status"] == string(metav1.ConditionFalse) {
		text, _ := c["message"].(string)
		m.Outdated = cmp.Or(strings.Join(strings.Fields(text), " "), "it is not up to date")
	}
	return m
}

// unsettled tells that a Machine in this phase is on its way. One that nobody has looked at yet has no phase, and its owner
// says that it is scaling.
func unsettled(phase string) bool {
	switch phase {
	case "Pending", "Provisioning", "Provisioned", "Updating", "Deleting":
		return true
	}
	return false
}

func countAt(u *unstructured.Unstructured, path ...string) *int64 {
	n, found, err := unstructured.NestedInt64(u.Object, path...)
	if err != nil || !found {
		return nil
	}
	return &n
}
