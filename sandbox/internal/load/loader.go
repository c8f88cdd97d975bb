// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// fleetAnnotation, on the first namespace, is the size of the fleet that is there or half there.
const fleetAnnotation = "sandbox.capstan.dev/load-fleet"

var (
	// ErrOtherFleet says that the cluster was loaded with a fleet of another size: replicas would not add up.
	ErrOtherFleet = errors.New("another fleet was loaded before")
	// ErrNoClusterAPI says that the cluster does not serve the kinds of a fleet.
	ErrNoClusterAPI = errors.New("the cluster does not serve the kinds of Cluster API's v1beta2")
)

// Options are what a Loader needs.
type Options struct {
	// Client writes; it should have no rate limit of its own.
	Client dynamic.Interface
	// Size is what is to be there afterwards.
	Size Size
	// Parallel is how many requests are in flight.
	Parallel int
}

// Loader writes a load. It is used by one goroutine: first Namespaces, then the rest in any order.
type Loader struct {
	Options

	created, present atomic.Int64
	// there is what Find found.
	there known
}

// New returns a Loader.
func New(o Options) *Loader { return &Loader{Options: o} }

// Created and Present are how many objects were made, and how many were there already.
func (l *Loader) Created() int { return int(l.created.Load()) }

// Present is how many objects were there already.
func (l *Loader) Present() int { return int(l.present.Load()) }

// Progress is told how many of all pieces of a stage are done; it may be called by several goroutines at once.
type Progress func(done, total int)

// Namespaces writes the namespaces that everything else is in.
func (l *Loader) Namespaces(ctx context.Context) error {
	items := namespaceItems()
	return each(ctx, len(items), l.Parallel, func(ctx context.Context, i int) error { return l.put(ctx, items[i]) }, func(int, int) {})
}

// CRDs writes the extra CRDs and waits until all are served.
func (l *Loader) CRDs(ctx context.Context, p Progress) error {
	there, err := l.existing(ctx, crds())
	if err != nil {
		return err
	}
	n := l.Size.CRDs
	err = each(ctx, n, l.Parallel, func(ctx context.Context, i int) error { return l.ensure(ctx, extraCRD(i).item(), there) }, p)
	if err != nil {
		return err
	}
	return l.awaitEstablished(ctx, n, p)
}

// Instances writes the objects of the extra CRDs.
func (l *Loader) Instances(ctx context.Context, p Progress) error {
	return each(ctx, l.Size.CRDs, l.Parallel, func(ctx context.Context, i int) error {
		for _, it := range extraCRD(i).instances() {
			if err := l.put(ctx, it); err != nil {
				return err
			}
		}
		return nil
	}, p)
}

// Find looks for what there is of the fleet already, and returns how many objects are missing. To be called before Fleet.
func (l *Loader) Find(ctx context.Context) (missing int, err error) {
	l.there = known{}
	for _, r := range fleetResources(l.Size.Parts) {
		found, err := l.existing(ctx, r)
		if apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("%w: %s", ErrNoClusterAPI, r.gvr.GroupResource())
		}
		if err != nil {
			return 0, err
		}
		maps.Copy(l.there, found)
	}
	for _, s := range l.Size.shapes() {
		for _, it := range clusterItems(s, l.Size.Parts) {
			if !l.there.whole(it) {
				missing++
			}
		}
	}
	return missing, l.claim(ctx)
}

// Fleet writes Clusters with all that belongs to them, one Cluster after the other in each of several workers.
func (l *Loader) Fleet(ctx context.Context, p Progress) error {
	shapes := l.Size.shapes()
	return each(ctx, len(shapes), l.Parallel, func(ctx context.Context, i int) error {
		for _, it := range clusterItems(shapes[i], l.Size.Parts) {
			if err := l.ensure(ctx, it, l.there); err != nil {
				return err
			}
		}
		return nil
	}, p)
}

// claim notes the fleet's size in the cluster, and refuses when another one is noted.
func (l *Loader) claim(ctx context.Context) error {
	namespaces := l.Client.Resource(namespaceItems()[0].resource.gvr)
	first, err := namespaces.Get(ctx, namespaceName(0), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read namespace %s: %w", namespaceName(0), err)
	}
	want := fmt.Sprintf("%d Clusters with %d Machines", l.Size.Clusters, l.Size.Machines)
	switch have := first.GetAnnotations()[fleetAnnotation]; have {
	case want:
		return nil
	case "":
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, fleetAnnotation, want)
		if _, err := namespaces.Patch(ctx, namespaceName(0), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("note the fleet's size: %w", err)
		}
		return nil
	default:
		return fmt.Errorf("%w: %s", ErrOtherFleet, have)
	}
}

// known are objects that are there, by resource, namespace and name.
type known map[string]foundObject

// foundObject is what counts of an object that is there.
type foundObject struct {
	uid types.UID
	// status are the fields that its status has.
	status map[string]bool
}

func keyOf(r resource, u *unstructured.Unstructured) string {
	return strings.Join([]string{r.gvr.GroupResource().String(), u.GetNamespace(), u.GetName()}, "|")
}

// existing returns what an earlier load left of a kind.
func (l *Loader) existing(ctx context.Context, r resource) (known, error) {
	out := known{}
	opts := metav1.ListOptions{LabelSelector: Label + "=" + labelValue, Limit: 500}
	for {
		page, err := l.Client.Resource(r.gvr).List(ctx, opts)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", r.gvr.Resource, err)
		}
		for i := range page.Items {
			found := foundObject{uid: page.Items[i].GetUID(), status: map[string]bool{}}
			status, _, _ := unstructured.NestedMap(page.Items[i].Object, "status") // no status has no fields
			for name := range status {
				found.status[name] = true
			}
			out[keyOf(r, &page.Items[i])] = found
		}
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			return out, nil
		}
	}
}

// whole tells whether an object is there with its status.
func (k known) whole(it *item) bool {
	found, is := k[keyOf(it.resource, it.object)]
	for name := range it.status {
		is = is && found.status[name]
	}
	return is
}

// ensure writes what is missing of an object.
func (l *Loader) ensure(ctx context.Context, it *item, there known) error {
	found, is := there[keyOf(it.resource, it.object)]
	if !is {
		return l.put(ctx, it)
	}
	it.uid = found.uid
	l.present.Add(1)
	if there.whole(it) {
		return nil
	}
	return l.putStatus(ctx, it)
}
