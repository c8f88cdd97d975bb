// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// startupSeconds is Cluster API's own limit for a Machine without a node.
	startupSeconds = 600
	// onDelete is the strategy that waits for a person to delete Machines.
	onDelete = "OnDelete"
)

// poolOwner reads an owner's settings in the words of the version that it was read in.
func poolOwner(u *unstructured.Unstructured) world.PoolOwner {
	controlPlane, old := isControlPlane(u), legacy(u)
	o := world.PoolOwner{
		Ref: world.RefOf(u), ControlPlane: controlPlane, Counts: countsOf(u), VersionPath: "spec.template.spec.version",
		TemplateRef: strings.Join(append(slices.Clone(templatePath(u)), "name"), "."), TemplateName: stringAt(u, append(slices.Clone(templatePath(u)), "name")...),
		DrainTimeout: drainTimeout(u), Autoscaler: surveyedPool(u).Autoscaler,
	}
	o.Replicas = o.Counts.Desired
	if controlPlane {
		o.VersionPath, o.Etcd = "spec.version", etcdOf(u)
	}
	o.Version = stringAt(u, strings.Split(o.VersionPath, ".")...)
	strategy := []string{"spec", "rollout", "strategy"}
	switch {
	case old && controlPlane:
		strategy = []string{"spec", "rolloutStrategy"}
	case old:
		strategy = []string{"spec", "strategy"}
	}
	setting := func(field string) world.Setting {
		return settingAt(u, append(slices.Clone(strategy), "rollingUpdate", field))
	}
	if o.MaxSurge = setting("maxSurge"); !controlPlane {
		o.MaxUnavailable = setting("maxUnavailable")
	}
	o.StrategyType = cmp.Or(stringAt(u, append(slices.Clone(strategy), "type")...), "RollingUpdate")
	o.OnDelete = o.StrategyType == onDelete
	value, annotated := u.GetAnnotations()[pausedAnnotation]
	o.LeftPaused = value == v1alpha1.RollPausedValue
	if annotated && !o.LeftPaused {
		o.PausedBy = "annotation " + pausedAnnotation
	}
	if boolAt(u, "spec", "paused") {
		o.PausedBy, o.LeftPaused = "spec.paused", false
	}
	o.Paused = o.PausedBy != ""
	_, o.Topology = u.GetLabels()[topologyOwnedLabel]
	return o
}

func isControlPlane(u *unstructured.Unstructured) bool {
	return u.GroupVersionKind().Group != capiGroup
}

// templatePath leads to an owner's reference to its infrastructure machine template.
func templatePath(u *unstructured.Unstructured) []string {
	if !isControlPlane(u) {
		return []string{"spec", "template", "spec", "infrastructureRef"}
	}
	older := []string{"spec", "machineTemplate", "infrastructureRef"}
	if stringAt(u, append(slices.Clone(older), "name")...) != "" {
		return older
	}
	return []string{"spec", "machineTemplate", "spec", "infrastructureRef"}
}

// settingAt reads a field as it is; a value that JSON can't hold does not come out of an API server.
func settingAt(u *unstructured.Unstructured, path []string) world.Setting {
	s := world.Setting{Path: path}
	v, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if !found || err != nil {
		return s
	}
	if raw, err := json.Marshal(v); err == nil {
		s.Value = string(raw)
	}
	return s
}

// drainTimeout is how long a drain of an owner's Machines may take, empty for as long as it needs.
func drainTimeout(u *unstructured.Unstructured) string {
	spec := []string{"spec", "template", "spec"}
	older := spec
	if isControlPlane(u) {
		spec, older = []string{"spec", "machineTemplate", "spec"}, []string{"spec", "machineTemplate"}
	}
	seconds, _, _ := unstructured.NestedInt64(u.Object, append(slices.Clone(spec), "deletion", "nodeDrainTimeoutSeconds")...)
	d := time.Duration(seconds) * time.Second
	if d == 0 {
		// What is not well formed would not have been taken by the API server.
		d, _ = time.ParseDuration(stringAt(u, append(slices.Clone(older), "nodeDrainTimeout")...))
	}
	if d == 0 {
		return ""
	}
	return d.String()
}

// healthCheck reads a MachineHealthCheck without the pools that it is for.
func healthCheck(u *unstructured.Unstructured) world.HealthCheck {
	c := world.HealthCheck{Ref: world.RefOf(u), StartupSeconds: startupSeconds}
	if n, found, err := unstructured.NestedInt64(u.Object, "spec", "checks", "nodeStartupTimeoutSeconds"); found && err == nil {
		c.StartupSeconds = n
	} else if d, err := time.ParseDuration(stringAt(u, "spec", "nodeStartupTimeout")); err == nil {
		c.StartupSeconds = int64(d / time.Second)
	}
	value, paused := u.GetAnnotations()[pausedAnnotation]
	if c.Paused = paused; paused {
		c.Before = settingAt(&unstructured.Unstructured{Object: map[string]any{"value": value}}, []string{"value"}).Value
	}
	return c
}

// checkSelector reads the selector of a MachineHealthCheck.
func checkSelector(u *unstructured.Unstructured) (labels.Selector, error) {
	content, found, err := unstructured.NestedMap(u.Object, "spec", "selector")
	if err != nil || !found {
		return labels.Nothing(), err
	}
	var s metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &s); err != nil {
		return nil, err
	}
	return metav1.LabelSelectorAsSelector(&s)
}

// selects tells whether a selector matches a Machine of an owner, or one that it would make.
func selects(selector labels.Selector, cluster string, owner *unstructured.Unstructured, machines []*unstructured.Unstructured) bool {
	if selector.Matches(labelsToCome(cluster, owner)) {
		return true
	}
	return slices.ContainsFunc(machines, func(m *unstructured.Unstructured) bool {
		return goesBackTo(m, world.RefOf(owner)) && selector.Matches(labels.Set(m.GetLabels()))
	})
}

// labelsToCome are those that an owner's next Machine gets.
func labelsToCome(cluster string, owner *unstructured.Unstructured) labels.Set {
	template := "template"
	if isControlPlane(owner) {
		template = "machineTemplate"
	}
	out, _, _ := unstructured.NestedStringMap(owner.Object, "spec", template, "metadata", "labels")
	out = maps.Clone(out)
	if out == nil {
		out = map[string]string{}
	}
	_, out[clusterLabel], _ = strings.Cut(cluster, "/")
	if isControlPlane(owner) {
		out[controlPlaneLabel], out[controlPlaneNameLabel] = "", owner.GetName()
		return out
	}
	out[deploymentLabel] = owner.GetName()
	return out
}
