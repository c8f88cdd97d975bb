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
	kinds, err := r.listable()
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, o := range want.Objects {
		wanted[identity(world.RefOf(o.Object))] = true
	}
	var mu sync.Mutex
	var out []world.Ref
	err = forEach(len(kinds), r.parallel, func(i int) error {
		found, err := r.labelled(ctx, kinds[i], want.Owned)
		mu.Lock()
		defer mu.Unlock()
		for _, ref := range found {
			if !wanted[identity(ref)] {
				out = append(out, ref)
			}
		}
		return err
	})
	slices.SortFunc(out, func(a, b world.Ref) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, err
}

// identity names an object whatever version it was read in.
func identity(r world.Ref) string {
	group, _, found := strings.Cut(r.APIVersion, "/")
	if !found {
		group = ""
	}
	return strings.Join([]string{group, r.Kind, r.Namespace, r.Name}, "|")
}

// labelled lists the objects of a kind that a selector names and that were applied rather than made by a controller.
func (r *round) labelled(ctx context.Context, k kind, selector string) ([]world.Ref, error) {
	list, err := r.clients.metadata.Resource(k.resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
	switch diagnose.Classify(err) {
	case diagnose.ClassNone:
	case diagnose.ClassNotFound, diagnose.ClassForbidden, diagnose.ClassWebhookSilent:
		// A kind that went, or that can't be read: what can't be seen is not removed.
		return nil, nil
	default:
		return nil, fault(ctx, "list "+k.resource.Resource, err)
	}
	var out []world.Ref
	for i := range list.Items {
		o := &list.Items[i]
		if len(o.OwnerReferences) > 0 || o.DeletionTimestamp != nil {
			continue
		}
		out = append(out, world.Ref{
			APIVersion: k.resource.GroupVersion().String(), Kind: k.name, Namespace: o.Namespace, Name: o.Name,
		})
	}
	return out, nil
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
