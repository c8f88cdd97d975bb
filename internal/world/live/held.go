// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// heldPage bounds how many objects of one kind are looked at for finalizers, heldNames how many are named.
	heldPage  = 200
	heldNames = 5
)

// endingTopic finds the namespaces of the release and of installed providers that are being deleted, and what keeps them.
func endingTopic() topic {
	return topic{name: world.TopicEnding, begin: func(ctx context.Context, s *surveyor) (func(context.Context) error, error) {
		wanted := slices.Clone(s.ask.Namespaces)
		for _, p := range s.home.Providers {
			wanted = append(wanted, p.Namespace)
		}
		all, err := listMetadata(ctx, s.clients.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list namespaces: %w", err)
		}
		for i := range all {
			if all[i].DeletionTimestamp == nil || !slices.Contains(wanted, all[i].Name) {
				continue
			}
			e := world.Ending{Namespace: all[i].Name}
			e.Objects, e.Held = s.heldIn(ctx, all[i].Name)
			s.out.Ending = append(s.out.Ending, e)
		}
		return nil, nil //nolint:nilnil // all is done, and nothing is left to do after the visits
	}}
}

// held says what keeps an object that is being deleted: its finalizers, or for a namespace what is still in it.
func (r *round) held(ctx context.Context, ref world.Ref, meta *metav1.PartialObjectMetadata) string {
	if ref.Kind == "Namespace" && ref.APIVersion == "v1" {
		return r.services.get("held|"+ref.Name, func() string {
			_, words := r.heldIn(ctx, ref.Name)
			return words
		})
	}
	if len(meta.Finalizers) == 0 {
		return ""
	}
	return "finalizer " + strings.Join(meta.Finalizers, ", ")
}

// heldObject is something left in a namespace.
type heldObject struct {
	ref        world.Ref
	finalizers []string
}

// heldIn lists what is left in a namespace, objects with finalizers first, and says so in one line. What can't be listed is
// said too: the namespace controller is held up by it in the same way.
func (r *round) heldIn(ctx context.Context, namespace string) ([]world.Ref, string) {
	// Groups that don't answer come as an error beside those that do.
	lists, err := discovery.ServerPreferredNamespacedResources(r.clients.discovery)
	var unseen []string
	if err != nil {
		unseen = append(unseen, "some API groups don't answer ("+err.Error()+")")
	}
	resources := listable(lists)
	found := make([][]heldObject, len(resources))
	failed := make([]string, len(resources))
	_ = forEach(len(resources), r.parallel, func(i int) error { // errors are among the words
		found[i], failed[i] = r.leftIn(ctx, namespace, resources[i])
		return nil
	})
	for _, f := range failed {
		if f != "" {
			unseen = append(unseen, f)
		}
	}
	all := slices.Concat(found...)
	slices.SortFunc(all, func(a, b heldObject) int {
		return cmp.Or(cmp.Compare(boolRank(len(a.finalizers) == 0), boolRank(len(b.finalizers) == 0)), cmp.Compare(a.ref.String(), b.ref.String()))
	})
	return heldWords(all, unseen)
}

func heldWords(all []heldObject, unseen []string) (refs []world.Ref, words string) {
	var names []string
	with := slices.ContainsFunc(all, func(h heldObject) bool { return len(h.finalizers) > 0 })
	more := 0
	for _, h := range all {
		switch {
		case with && len(h.finalizers) == 0:
			continue
		case len(refs) == heldNames:
			more++
			continue
		case with:
			names = append(names, fmt.Sprintf("%s (finalizer %s)", h.ref, strings.Join(h.finalizers, ", ")))
		default:
			names = append(names, h.ref.String())
		}
		refs = append(refs, h.ref)
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return refs, strings.Join(append(names, unseen...), ", ")
}

// leftIn returns the objects of a resource in a namespace, or why they can't be listed.
func (r *round) leftIn(ctx context.Context, namespace string, resource listableResource) ([]heldObject, string) {
	page, err := r.clients.metadata.Resource(resource.gvr).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: heldPage})
	if err != nil {
		return nil, fmt.Sprintf("%s can't be listed: %s", resource.gvr.GroupResource(), err)
	}
	var out []heldObject
	for i := range page.Items {
		o := &page.Items[i]
		ref := world.Ref{APIVersion: resource.gvr.GroupVersion().String(), Kind: resource.kind, Namespace: o.Namespace, Name: o.Name}
		out = append(out, heldObject{ref: ref, finalizers: o.Finalizers})
	}
	return out, ""
}

type listableResource struct {
	gvr  schema.GroupVersionResource
	kind string
}

// listable returns what can be listed and is deleted with a namespace; events come and go by themselves.
func listable(lists []*metav1.APIResourceList) []listableResource {
	var out []listableResource
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			continue
		}
		for _, a := range l.APIResources {
			if a.Name != "events" && slices.Contains(a.Verbs, "list") && slices.Contains(a.Verbs, "delete") {
				out = append(out, listableResource{gvr: gv.WithResource(a.Name), kind: a.Kind})
			}
		}
	}
	return out
}
