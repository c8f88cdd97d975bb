// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// hostPausedAnnotation pauses one of metal3's hosts.
const hostPausedAnnotation = "baremetalhost.metal3.io/paused"

// pausesTopic finds paused objects: of Cluster API's own kinds, of whatever kinds those name as control plane,
// infrastructure or bootstrap configuration, and the hosts under metal3's machines.
func pausesTopic() topic {
	return topic{name: world.TopicPauses, begin: func(_ context.Context, s *surveyor) (func(context.Context) error, error) {
		c := &pauseCollector{s: s, kinds: map[schema.GroupKind]bool{}, users: map[objectKey]string{}}
		see := map[schema.GroupKind]func(*unstructured.Unstructured){}
		for _, kind := range []string{"Cluster", "MachineDeployment", "MachinePool", "MachineSet", "Machine"} {
			see[schema.GroupKind{Group: capiGroup, Kind: kind}] = c.see
		}
		see[schema.GroupKind{Group: controlPlaneGroup, Kind: "KubeadmControlPlane"}] = c.see
		if err := s.visitEach(see); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return c.finish(ctx, s) }, nil
	}}
}

type pauseCollector struct {
	s      *surveyor
	pauses []world.Pause
	// kinds are those that visited objects refer to, users the clusters of the objects that are referred to.
	kinds map[schema.GroupKind]bool
	users map[objectKey]string
}

func (c *pauseCollector) see(u *unstructured.Unstructured) {
	cluster := ownClusterKey(u)
	if u.GetKind() == "Cluster" {
		cluster = u.GetNamespace() + "/" + u.GetName()
	}
	c.note(u, cluster)
	for _, path := range [][]string{
		{"spec", "infrastructureRef"},
		{"spec", "controlPlaneRef"},
		{"spec", "bootstrap", "configRef"},
		{"spec", "machineTemplate", "infrastructureRef"},
		{"spec", "machineTemplate", "spec", "infrastructureRef"},
		{"spec", "template", "spec", "infrastructureRef"},
		{"spec", "template", "spec", "bootstrap", "configRef"},
	} {
		if key, found := refAt(u, path...); found {
			c.kinds[key.kind], c.users[key] = true, cluster
		}
	}
}

// refAt reads a reference in the words of either version.
func refAt(u *unstructured.Unstructured, path ...string) (objectKey, bool) {
	at := func(field string) string { return stringAt(u, append(slices.Clone(path), field)...) }
	group := at("apiGroup")
	if group == "" {
		gv, err := schema.ParseGroupVersion(at("apiVersion"))
		if err != nil {
			return objectKey{}, false
		}
		group = gv.Group
	}
	key := objectKey{kind: schema.GroupKind{Group: group, Kind: at("kind")}, namespace: u.GetNamespace(), name: at("name")}
	return key, key.name != "" && key.kind.Kind != ""
}

// note notes the pauses of an object of a cluster.
func (c *pauseCollector) note(u *unstructured.Unstructured, cluster string) {
	add := func(where, value string, path ...string) {
		annotations := u.GetAnnotations()
		p := world.Pause{
			Cluster: cluster, Object: world.RefOf(u), Where: where, Value: value,
			Run: cmp.Or(annotations[v1alpha1.PausedByAnnotation], annotations[v1alpha1.HeldForAnnotation]),
		}
		p.By, p.At = setter(c.s.managedFields(u), path...)
		c.pauses = append(c.pauses, p)
	}
	if boolAt(u, "spec", "paused") {
		add("spec.paused", "", "f:spec", "f:paused")
	}
	for _, name := range []string{pausedAnnotation, hostPausedAnnotation} {
		if value, found := u.GetAnnotations()[name]; found {
			add("annotation "+name, value, "f:metadata", "f:annotations", "f:"+name)
		}
	}
}

// setter finds who set a field last, and when.
func setter(managed []metav1.ManagedFieldsEntry, path ...string) (string, time.Time) {
	var by string
	var at time.Time
	for _, m := range managed {
		if m.FieldsV1 == nil || !owns(m.FieldsV1.GetRawBytes(), path) {
			continue
		}
		if by == "" || m.Time != nil && m.Time.After(at) {
			by = m.Manager
			if m.Time != nil {
				at = m.Time.Time
			}
		}
	}
	return by, at
}

func owns(raw []byte, path []string) bool {
	for _, field := range path {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			return false
		}
		next, found := fields[field]
		if !found {
			return false
		}
		raw = next
	}
	return true
}

// finish looks at the kinds that were referred to, and at metal3's hosts.
func (c *pauseCollector) finish(ctx context.Context, s *surveyor) error {
	delete(c.kinds, schema.GroupKind{Group: controlPlaneGroup, Kind: "KubeadmControlPlane"})
	host := schema.GroupKind{Group: "metal3.io", Kind: "BareMetalHost"}
	machine := schema.GroupKind{Group: "infrastructure.cluster.x-k8s.io", Kind: "Metal3Machine"}
	planes := map[schema.GroupKind]bool{}
	for gk := range c.kinds {
		if gk.Group == controlPlaneGroup {
			planes[gk] = true
			delete(c.kinds, gk)
		}
	}
	see := func(u *unstructured.Unstructured) { c.note(u, cmp.Or(ownClusterKey(u), c.users[keyOf(u)])) }
	if err := s.listKinds(ctx, planes, see); err != nil {
		return err
	}
	if err := s.listAnnotations(ctx, c.kinds, see); err != nil {
		return err
	}
	if err := s.listKinds(ctx, map[schema.GroupKind]bool{host: true}, func(u *unstructured.Unstructured) {
		namespace := cmp.Or(stringAt(u, "spec", "consumerRef", "namespace"), u.GetNamespace())
		c.note(u, c.users[objectKey{kind: machine, namespace: namespace, name: stringAt(u, "spec", "consumerRef", "name")}])
	}); err != nil {
		return err
	}
	slices.SortFunc(c.pauses, func(a, b world.Pause) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(pauseRank(a), pauseRank(b)),
			strings.Compare(a.Object.String(), b.Object.String()), cmp.Compare(a.Where, b.Where))
	})
	s.out.Pauses = c.pauses
	return nil
}

// pauseRank puts a Cluster before what belongs to it.
func pauseRank(p world.Pause) int {
	if p.Object.Kind == "Cluster" {
		return 0
	}
	return 1
}

// listAnnotations shows the metadata of all objects of kinds of which nothing else is of interest.
func (s *surveyor) listAnnotations(ctx context.Context, kinds map[schema.GroupKind]bool, see func(*unstructured.Unstructured)) error {
	for gk := range kinds {
		ms, err := s.mappings(gk)
		if err != nil {
			return fmt.Errorf("find kind %s: %w", gk, err)
		}
		if len(ms) == 0 {
			continue
		}
		items, err := listMetadata(ctx, s.clients.metadataOf(ms[0], ""), metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list %s: %w", gk, err)
		}
		for i := range items {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetGroupVersionKind(ms[0].GroupVersionKind)
			u.SetNamespace(items[i].Namespace)
			u.SetName(items[i].Name)
			u.SetLabels(items[i].Labels)
			u.SetAnnotations(items[i].Annotations)
			u.SetManagedFields(items[i].ManagedFields)
			see(u)
		}
	}
	return nil
}
