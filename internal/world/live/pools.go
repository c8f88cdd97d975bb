// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

// namesInSelector is up to how many clusters of a namespace are named in a list's selector; of more, all are listed.
const namesInSelector = 50

// poolReader reads what a roll of nodes looks at. However many pools there are, each kind is listed once in a namespace, and
// each cluster called once.
type poolReader struct {
	*round

	// clusters are the names of those that are asked about, by namespace, sorted.
	clusters map[string][]string
	// asked counts the single objects that are wanted of a kind in a namespace.
	asked map[string]int

	singles, infrastructure onceMap[listAnswer]
	machines                onceMap[machinesAnswer]
	bareHosts               onceMap[hostsAnswer]
	nodes                   onceMap[nodesAnswer]
}

// listAnswer are objects by name.
type listAnswer struct {
	byName map[string]*unstructured.Unstructured
	err    error
}

// pools observes the pools of all wants, by the want's index.
func (r *round) pools(ctx context.Context, wants []world.Want) ([][]world.PoolState, error) {
	out := make([][]world.PoolState, len(wants))
	type place struct{ want, pool int }
	var places []place
	var all []world.WantPool
	for w := range wants {
		out[w] = make([]world.PoolState, len(wants[w].Pools))
		for i := range wants[w].Pools {
			places, all = append(places, place{w, i}), append(all, wants[w].Pools[i])
		}
	}
	p := newPoolReader(r, all)
	err := forEach(len(places), r.parallel, func(i int) (err error) {
		out[places[i].want][places[i].pool], err = p.pool(ctx, all[i])
		return err
	})
	return out, err
}

func newPoolReader(r *round, pools []world.WantPool) *poolReader {
	p := &poolReader{round: r, clusters: map[string][]string{}, asked: map[string]int{}}
	counted := map[string]bool{}
	for i := range pools {
		namespace, name, _ := strings.Cut(pools[i].Cluster, "/")
		if !slices.Contains(p.clusters[namespace], name) {
			p.clusters[namespace] = append(p.clusters[namespace], name)
		}
		for _, ref := range append([]world.Ref{pools[i].Owner, pools[i].Template}, pools[i].Settings...) {
			if key := singleKey(ref); !counted[key+"|"+ref.Name] {
				counted[key+"|"+ref.Name] = true
				p.asked[key]++
			}
		}
	}
	for namespace := range p.clusters {
		slices.Sort(p.clusters[namespace])
	}
	return p
}

// singleKey is the same for objects that one list shows.
func singleKey(ref world.Ref) string { return ref.APIVersion + "|" + ref.Kind + "|" + ref.Namespace }

// pool puts one pool together.
func (p *poolReader) pool(ctx context.Context, want world.WantPool) (world.PoolState, error) {
	var s world.PoolState
	var err error
	if s.Owner, err = p.object(ctx, want.Owner); err != nil {
		return s, err
	}
	if s.Owner != nil {
		s.Counts = countsOf(s.Owner)
	}
	if s.Template, err = p.object(ctx, want.Template); err != nil {
		return s, err
	}
	for _, ref := range want.Settings {
		setting, err := p.object(ctx, ref)
		if err != nil {
			return s, err
		}
		s.Settings = append(s.Settings, setting)
	}
	hosts := p.hostsOf(ctx, want.Owner.Namespace)
	if hosts.err != nil {
		return s, hosts.err
	}
	s.Hosts = hosts.bare
	reports := nodesAnswer{}
	if want.Workload {
		reports = p.nodesOf(ctx, want.Cluster)
		if ctx.Err() != nil {
			return s, fault(ctx, "ask cluster "+want.Cluster, ctx.Err()) // the question was withdrawn, which is no silence
		}
		s.Silent = reports.silent
	}
	s.Machines, err = p.machinesOf(ctx, want.Cluster, want.Owner, s.Owner, hosts, reports.byName)
	return s, err
}

// object reads one object, with others of its kind if many are asked for; nil if it is not there.
func (p *poolReader) object(ctx context.Context, ref world.Ref) (*unstructured.Unstructured, error) {
	if ref.Name == "" || ref.Kind == "" {
		return nil, nil
	}
	key := singleKey(ref)
	if p.asked[key] >= shareFrom {
		a := p.singles.get(key, func() listAnswer { return p.listed(ctx, ref, metav1.ListOptions{}) })
		return a.byName[ref.Name], a.err
	}
	a := p.singles.get(key+"|"+ref.Name, func() listAnswer { return p.single(ctx, ref) })
	return a.byName[ref.Name], a.err
}

func (p *poolReader) single(ctx context.Context, ref world.Ref) listAnswer {
	m, err := p.reach(ctx, ref)
	if err != nil || m == nil {
		return listAnswer{err: err}
	}
	u, err := p.clients.resource(m, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if diagnose.Classify(err) == diagnose.ClassNotFound {
		return listAnswer{}
	}
	if err != nil {
		return listAnswer{err: fault(ctx, "read "+ref.String(), err)}
	}
	return listAnswer{byName: map[string]*unstructured.Unstructured{ref.Name: u}}
}

// listed lists the objects of a reference's kind in its namespace; none if the kind is not served.
func (p *poolReader) listed(ctx context.Context, ref world.Ref, opts metav1.ListOptions) listAnswer {
	m, err := p.reach(ctx, ref)
	if err != nil || m == nil {
		return listAnswer{err: err}
	}
	items, err := list(ctx, p.clients.resource(m, ref.Namespace), opts)
	if apierrors.IsNotFound(err) {
		return listAnswer{} // the kind has just gone
	}
	if err != nil {
		return listAnswer{err: fault(ctx, "list "+m.Resource.Resource+" in namespace "+ref.Namespace, err)}
	}
	a := listAnswer{byName: make(map[string]*unstructured.Unstructured, len(items))}
	for i := range items {
		a.byName[items[i].GetName()] = &items[i]
	}
	return a
}

// reach finds how a reference's kind is read: in its version while that is served, or else in the preferred one. It is nil
// for a kind that is not served.
func (p *poolReader) reach(ctx context.Context, ref world.Ref) (*apimeta.RESTMapping, error) {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	if gvk.Version != "" {
		m, err := p.mapping(gvk)
		if err == nil {
			return m, nil
		}
		if !apimeta.IsNoMatchError(err) {
			return nil, fault(ctx, "find kind "+ref.Kind, err)
		}
	}
	ms, err := p.mappings(gvk.GroupKind())
	if err != nil {
		return nil, fault(ctx, "find kind "+ref.Kind, err)
	}
	if len(ms) == 0 {
		return nil, nil
	}
	return ms[0], nil
}

// ofClusters selects what belongs to the clusters of a namespace that are asked about.
func (p *poolReader) ofClusters(namespace string) metav1.ListOptions {
	names := p.clusters[namespace]
	if len(names) == 0 || len(names) > namesInSelector {
		return metav1.ListOptions{LabelSelector: clusterLabel}
	}
	return metav1.ListOptions{LabelSelector: clusterLabel + " in (" + strings.Join(names, ",") + ")"}
}

// sorted returns the objects by name.
func (a listAnswer) sorted() []*unstructured.Unstructured {
	return slices.SortedFunc(maps.Values(a.byName), func(x, y *unstructured.Unstructured) int { return cmp.Compare(x.GetName(), y.GetName()) })
}
