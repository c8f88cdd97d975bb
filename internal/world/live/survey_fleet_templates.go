// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

// machineTemplate is an object with a template for Machines: a MachineDeployment or one of its MachineSets.
type machineTemplate struct {
	ref      world.Ref
	cluster  string
	made     time.Time
	replicas int64
	// rolls are the fields of the template that decide whether a Machine is replaced, by path.
	rolls map[string]string
	// onDelete tells that a person decides when Machines are replaced; paused that nobody does.
	onDelete, paused, deleting bool
}

// inPlace are the fields of a template that reach Machines without replacing any, in both API versions' words, and those
// that never change. They are paths below spec.template.spec.
func inPlace() []string {
	return []string{
		"clusterName", "providerID", "readinessGates", "minReadySeconds", "taints", "nodeDrainTimeout", "nodeVolumeDetachTimeout",
		"nodeDeletionTimeout", "deletion.nodeDrainTimeoutSeconds", "deletion.nodeVolumeDetachTimeoutSeconds", "deletion.nodeDeletionTimeoutSeconds",
	}
}

// templatesTopic compares each MachineDeployment with its MachineSets, as Cluster API does before it makes a new one.
func templatesTopic() topic {
	return topic{name: world.TopicTemplates, begin: func(_ context.Context, s *surveyor) (func(context.Context) error, error) {
		var deployments []machineTemplate
		sets := map[string][]machineTemplate{}
		err := s.visitKind(schema.GroupKind{Group: capiGroup, Kind: "MachineDeployment"}, func(u *unstructured.Unstructured) {
			deployments = append(deployments, templateOf(u))
		})
		if err != nil {
			return nil, err
		}
		err = s.visitKind(schema.GroupKind{Group: capiGroup, Kind: "MachineSet"}, func(u *unstructured.Unstructured) {
			if name := deploymentOf(u); name != "" && u.GetDeletionTimestamp() == nil {
				key := u.GetNamespace() + "/" + name
				sets[key] = append(sets[key], templateOf(u))
			}
		})
		return func(ctx context.Context) error { return s.pairs(ctx, deployments, sets) }, err
	}}
}

func templateOf(u *unstructured.Unstructured) machineTemplate {
	spec, _, _ := unstructured.NestedMap(u.Object, "spec", "template", "spec")
	_, annotated := u.GetAnnotations()[pausedAnnotation]
	t := machineTemplate{
		ref: world.RefOf(u), made: u.GetCreationTimestamp().Time, rolls: rolloutFields(spec), deleting: u.GetDeletionTimestamp() != nil,
		cluster:  u.GetNamespace() + "/" + cmp.Or(stringAt(u, "spec", "clusterName"), u.GetLabels()[clusterLabel]),
		onDelete: cmp.Or(stringAt(u, "spec", "rollout", "strategy", "type"), stringAt(u, "spec", "strategy", "type")) == "OnDelete",
		paused:   annotated || boolAt(u, "spec", "paused"),
	}
	if n := countAt(u, "spec", "replicas"); n != nil {
		t.replicas = *n
	}
	if n := countAt(u, "status", "replicas"); n != nil {
		t.replicas = max(t.replicas, *n)
	}
	return t
}

// rolloutFields are the leaves of a Machine's spec whose change replaces it. References count without their version: a
// reference in another version of the same API is the same one.
func rolloutFields(spec map[string]any) map[string]string {
	out := map[string]string{}
	flatten(spec, "", out)
	for path := range out {
		if below(path, inPlace()) {
			delete(out, path)
		}
	}
	for _, ref := range []string{"infrastructureRef", "bootstrap.configRef"} {
		if v, old := out[ref+".apiVersion"]; old {
			delete(out, ref+".apiVersion")
			out[ref+".apiGroup"], _, _ = strings.Cut(v, "/")
		}
		for _, meaningless := range []string{"namespace", "uid", "resourceVersion", "fieldPath"} {
			delete(out, ref+"."+meaningless)
		}
	}
	return out
}

// flatten lists the leaves of an object by their paths. What is empty is as good as absent.
func flatten(v any, path string, out map[string]string) {
	switch t := v.(type) {
	case map[string]any:
		for k, child := range t {
			flatten(child, strings.TrimPrefix(path+"."+k, "."), out)
		}
	case []any:
		for i, child := range t {
			flatten(child, fmt.Sprintf("%s[%d]", path, i), out)
		}
	case nil:
	case string:
		if t != "" {
			out[path] = t
		}
	default:
		out[path] = fmt.Sprint(t)
	}
}

// pairs judges each MachineDeployment. With Ask.Scale each of them is scaled as a dry run first: what admission then makes
// of its template is what its controller would see after the next scale.
func (s *surveyor) pairs(ctx context.Context, deployments []machineTemplate, sets map[string][]machineTemplate) error {
	out := make([]*world.TemplatePair, len(deployments))
	err := forEach(len(deployments), s.parallel, func(i int) (err error) {
		out[i], err = s.pair(ctx, deployments[i], sets[deployments[i].ref.Namespace+"/"+deployments[i].ref.Name])
		return err
	})
	if err != nil {
		return err
	}
	found := s.fleetOut()
	for _, p := range out {
		if p != nil {
			found.Pairs = append(found.Pairs, *p)
		}
	}
	slices.SortFunc(found.Pairs, func(a, b world.TemplatePair) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Deployment.Name, b.Deployment.Name))
	})
	found.Pairs = slices.CompactFunc(found.Pairs, func(a, b world.TemplatePair) bool { return a.Deployment == b.Deployment })
	return nil
}

// pair returns what a MachineDeployment would replace; nil for nothing.
func (s *surveyor) pair(ctx context.Context, d machineTemplate, sets []machineTemplate) (*world.TemplatePair, error) {
	held := slices.DeleteFunc(slices.Clone(sets), func(m machineTemplate) bool { return m.replicas == 0 })
	if len(held) == 0 || d.onDelete || d.paused || d.deleting {
		return nil, nil
	}
	out := &world.TemplatePair{Cluster: d.cluster, Deployment: d.ref}
	rolls := d.rolls
	if s.ask.Scale {
		var err error
		if rolls, out.Refused, err = s.scaled(ctx, d); err != nil {
			return nil, err
		}
		if rolls == nil {
			rolls = d.rolls
		}
	}
	slices.SortFunc(held, func(a, b machineTemplate) int {
		return cmp.Or(b.made.Compare(a.made), cmp.Compare(b.replicas, a.replicas), cmp.Compare(a.ref.Name, b.ref.Name))
	})
	newest := held[0]
	for _, set := range held {
		if !maps.Equal(set.rolls, rolls) {
			out.Machines += set.replicas
		}
	}
	if out.Machines > 0 {
		if maps.Equal(newest.rolls, rolls) { // an older one is on its way out already
			out.Machines = 0
		}
		out.Newest, out.Differs = newest.ref, differing(newest.rolls, rolls)
	}
	if out.Machines == 0 && out.Refused == "" {
		return nil, nil
	}
	return out, nil
}

// differing lists the fields with both values, sorted.
func differing(was, is map[string]string) []string {
	paths := slices.Collect(maps.Keys(was))
	for p := range is {
		if _, both := was[p]; !both {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	var out []string
	for _, p := range paths {
		if was[p] != is[p] {
			out = append(out, fmt.Sprintf("spec.template.spec.%s from %s to %s", p, shown(was[p]), shown(is[p])))
		}
	}
	return out
}

func shown(value string) string {
	if value == "" {
		return "nothing"
	}
	return fmt.Sprintf("%q", value)
}

// scaled asks the API server to scale a MachineDeployment by one, as a dry run, and returns what its template is then. A
// refusal is an answer, and nil fields are.
func (s *surveyor) scaled(ctx context.Context, d machineTemplate) (rolls map[string]string, refused string, err error) {
	m, err := s.mapping(schema.FromAPIVersionAndKind(d.ref.APIVersion, d.ref.Kind))
	if err != nil {
		return nil, "", fmt.Errorf("find kind %s: %w", d.ref.Kind, err)
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"replicas": d.replicas + 1}})
	if err != nil {
		return nil, "", fmt.Errorf("encode a scale of %s: %w", d.ref, err)
	}
	opts := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "capstan"}
	u, err := s.clients.resource(m, d.ref.Namespace).Patch(ctx, d.ref.Name, types.MergePatchType, patch, opts)
	switch class := diagnose.Classify(err); class {
	case diagnose.ClassNone:
		return templateOf(u).rolls, "", nil
	case diagnose.ClassUnreachable:
		return nil, "", fault(ctx, "scale "+d.ref.String()+" as a dry run", err)
	case diagnose.ClassNotFound: // it has just gone
		return nil, "", nil
	default:
		return nil, diagnose.Words(err), nil
	}
}
