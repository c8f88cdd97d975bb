// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

// leftovers returns what carries a component's label and is not wanted any more, of any kind, sorted. It makes one request
// for each kind that the API server has, so only a plan asks for it.
func (r *round) leftovers(ctx context.Context, want world.Want) ([]world.Ref, error) {
	if want.Owned == "" {
		return nil, nil
	}
	key, value, _ := strings.Cut(want.Owned, "=")
	all := r.labelled.get(key, func() labelledAnswer { return r.allLabelled(ctx, key) })
	if all.err != nil {
		return nil, all.err
	}
	wanted := map[string]bool{}
	for _, o := range want.Objects {
		wanted[identity(world.RefOf(o.Object))] = true
	}
	var out []world.Ref
	for _, ref := range all.byValue[value] {
		if !wanted[identity(ref)] {
			out = append(out, ref)
		}
	}
	slices.SortFunc(out, func(a, b world.Ref) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// labelledAnswer are the objects that have a label, by its value.
type labelledAnswer struct {
	byValue map[string][]world.Ref
	err     error
}

// allLabelled lists every kind once for all components that are known by the same label: there may be hundreds of kinds.
func (r *round) allLabelled(ctx context.Context, key string) labelledAnswer {
	kinds, err := r.listable()
	if err != nil {
		return labelledAnswer{err: err}
	}
	out := labelledAnswer{byValue: map[string][]world.Ref{}}
	var mu sync.Mutex
	out.err = forEach(len(kinds), r.parallel, func(i int) error {
		items, err := r.withLabel(ctx, kinds[i], key)
		mu.Lock()
		defer mu.Unlock()
		for j := range items {
			value := items[j].Labels[key]
			out.byValue[value] = append(out.byValue[value], world.Ref{
				APIVersion: kinds[i].resource.GroupVersion().String(), Kind: kinds[i].name, Namespace: items[j].Namespace, Name: items[j].Name,
			})
		}
		return err
	})
	return out
}

// identity names an object whatever version it was read in.
func identity(r world.Ref) string {
	group, _, found := strings.Cut(r.APIVersion, "/")
	if !found {
		group = ""
	}
	return strings.Join([]string{group, r.Kind, r.Namespace, r.Name}, "|")
}

// withLabel lists the objects of a kind that have a label and that were applied rather than made by a controller.
func (r *round) withLabel(ctx context.Context, k kind, key string) ([]metav1.PartialObjectMetadata, error) {
	items, err := listMetadata(ctx, r.clients.metadata.Resource(k.resource), metav1.ListOptions{LabelSelector: key})
	switch diagnose.Classify(err) {
	case diagnose.ClassNone:
	case diagnose.ClassNotFound, diagnose.ClassForbidden, diagnose.ClassWebhookSilent:
		// A kind that went, or that can't be read: what can't be seen is not removed.
		return nil, nil
	default:
		return nil, fault(ctx, "list "+k.resource.Resource, err)
	}
	return slices.DeleteFunc(items, func(o metav1.PartialObjectMetadata) bool {
		return len(o.OwnerReferences) > 0 || o.DeletionTimestamp != nil
	}), nil
}

// kind is one that can be listed.
type kind struct {
	resource schema.GroupVersionResource
	name     string
}

// listable returns the kinds whose objects people apply. Those that controllers derive from others carry the others'
// labels, and the objects of Cluster API's own groups are the users' fleets, whatever their labels.
func (r *round) listable() ([]kind, error) {
	lists, err := r.clients.discovery.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("list kinds: %w", err)
	}
	var out []kind
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("read group %s: %w", l.GroupVersion, err)
		}
		if gv.Group == "cluster.x-k8s.io" || strings.HasSuffix(gv.Group, ".cluster.x-k8s.io") || derived(gv.Group) {
			continue
		}
		for _, res := range l.APIResources {
			if strings.Contains(res.Name, "/") || !slices.Contains(res.Verbs, "list") || !slices.Contains(res.Verbs, "delete") || derivedKind(res.Kind) {
				continue
			}
			out = append(out, kind{resource: gv.WithResource(res.Name), name: res.Kind})
		}
	}
	return out, nil
}

func derived(group string) bool {
	switch group {
	case "discovery.k8s.io", "events.k8s.io", "coordination.k8s.io", "metrics.k8s.io", "capstan.dev":
		return true
	}
	return false
}

func derivedKind(kind string) bool {
	switch kind {
	case "Endpoints", "Event", "Pod", "ReplicaSet", "ControllerRevision", "CertificateRequest", "Node":
		return true
	}
	return false
}
