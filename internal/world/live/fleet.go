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

	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// capiGroup is Cluster API's own group.
	capiGroup = "cluster.x-k8s.io"
	// fleetShare is how many times as long as its reading took a picture of the fleet is kept.
	fleetShare = 10
)

// fleetMemo is what is remembered of the fleet between observations.
type fleetMemo struct {
	// at is when clusters were read; zero if they never were.
	at       time.Time
	clusters []world.Cluster
	// versions is the API version that each kind was first read in. References keep it, so that an object is the same one
	// to the fence when another version becomes the preferred one in the middle of a run.
	versions map[schema.GroupKind]string
	// took is how long the last reading took.
	took time.Duration
}

func newFleetMemo() fleetMemo {
	return fleetMemo{versions: map[schema.GroupKind]string{}}
}

// observeFleet puts the Clusters and Machines into w, read anew if the last reading is old enough.
//
// Cluster API's kinds may need a conversion webhook to be read. While that is away, and it may be away because the very
// component that serves it is to be repaired, the last picture is shown with its age, so that a run can go on.
func (r *round) observeFleet(ctx context.Context, w *world.World) error {
	m := &r.fleet
	defer func() { w.Management.ClusterAPIVersion = r.clusterAPIVersion() }()
	if !r.fleetAnew && !m.at.IsZero() && r.at.Sub(m.at) < r.patience() && !r.at.Before(m.at) {
		w.Clusters, w.FleetAt = m.clusters, m.at
		return nil
	}
	begin := r.clock.Now()
	clusters, err := r.readFleet(ctx)
	if err == nil {
		m.clusters, m.at, m.took = clusters, r.at, r.clock.Now().Sub(begin)
		w.Clusters, w.FleetAt = clusters, r.at
		return nil
	}
	if diagnose.Classify(err) != diagnose.ClassWebhookSilent || m.at.IsZero() {
		return err
	}
	w.Clusters, w.FleetAt, w.FleetError = m.clusters, m.at, diagnose.Words(err)
	return nil
}

// patience is how long a reading of the fleet is good. A big fleet takes the API server seconds to put together: reading it
// is to be a small part of what it does.
func (r *round) patience() time.Duration {
	if r.fleetInterval < 0 {
		return 0
	}
	return max(r.fleetInterval, fleetShare*r.fleet.took)
}

// clusterAPIVersion is what references to Clusters and Machines say; empty while Cluster API is not served.
func (r *round) clusterAPIVersion() string {
	r.memo.mu.Lock()
	defer r.memo.mu.Unlock()
	return r.fleet.versions[schema.GroupKind{Group: capiGroup, Kind: "Cluster"}]
}

// fleetParts are what a picture of the fleet is put together from.
type fleetParts struct {
	clusters      []bareCluster
	controlPlanes []ownerPart
	workers       [][]ownerPart
	machines      []machine
}

// readFleet reads all Clusters with their owners and Machines; none if Cluster API is not installed.
func (r *round) readFleet(ctx context.Context) ([]world.Cluster, error) {
	var p fleetParts
	var err error
	all := metav1.ListOptions{}
	if p.clusters = r.clusters; r.survey == nil {
		if p.clusters, err = r.readClusters(ctx); err != nil {
			return nil, err
		}
	}
	if len(p.clusters) == 0 {
		return nil, nil
	}
	// Machines come first: if somebody scales up in between, there must not be a Machine that no owner seems to ask for.
	if p.machines, err = r.machines(ctx); err != nil {
		return nil, err
	}
	// A MachineSet that a MachineDeployment made is no owner of its own.
	alone := metav1.ListOptions{LabelSelector: "!" + deploymentLabel}
	workers := []struct {
		kind string
		opts metav1.ListOptions
	}{{"MachineDeployment", all}, {"MachinePool", all}, {"MachineSet", alone}}
	p.workers = make([][]ownerPart, len(workers))
	err = together(
		func() (err error) { p.controlPlanes, err = r.controlPlanes(ctx, p.clusters); return err },
		func() error {
			return forEach(len(workers), r.parallel, func(i int) (err error) {
				p.workers[i], err = readKind(ctx, r, schema.GroupKind{Group: capiGroup, Kind: workers[i].kind}, workers[i].opts, workerOwner)
				return err
			})
		},
	)
	if err != nil {
		return nil, err
	}
	return assemble(p), nil
}

func (r *round) readClusters(ctx context.Context) ([]bareCluster, error) {
	return readKind(ctx, r, schema.GroupKind{Group: capiGroup, Kind: "Cluster"}, metav1.ListOptions{}, bareClusterOf)
}

// controlPlaneKinds are the kinds that Clusters name as their control planes.
func controlPlaneKinds(clusters []bareCluster) []schema.GroupKind {
	var kinds []schema.GroupKind
	for i := range clusters {
		if kind := clusters[i].controlPlane.kind; kind.Kind != "" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// readKind lists all objects of a kind; none if the kind is not served. Each is reduced to what counts before more are
// decoded, so that a big fleet is never held as a whole.
func readKind[T any](ctx context.Context, r *round, gk schema.GroupKind, opts metav1.ListOptions, reduce func(*unstructured.Unstructured) T) ([]T, error) {
	var out []T
	err := r.acrossVersions(ctx, gk, func(m *apimeta.RESTMapping, apiVersion string) error {
		return r.clients.eachBatch(ctx, m, opts, func() { out = nil }, func(raw []byte) error {
			batch, err := decodeLean(raw, m)
			if err != nil {
				return err
			}
			for i := range batch.items {
				batch.items[i].Object[readAs] = m.GroupVersionKind.Version
				batch.items[i].SetAPIVersion(apiVersion)
				out = append(out, reduce(&batch.items[i]))
			}
			return nil
		})
	})
	return out, err
}

// acrossVersions calls read with one served version of a kind: the one that this Observer began with, or else the
// preferred one. If that needs a conversion webhook that does not answer, it tries the other versions: objects are read
// without any conversion in the version that they are stored in. apiVersion is what references say whichever version is
// read. A kind that is not served is not read.
func (r *round) acrossVersions(ctx context.Context, gk schema.GroupKind, read func(m *apimeta.RESTMapping, apiVersion string) error) error {
	mappings, err := r.mappings(gk)
	if err != nil {
		return fault(ctx, "find kind "+gk.String(), err)
	}
	if len(mappings) == 0 {
		r.memo.mu.Lock()
		defer r.memo.mu.Unlock()
		delete(r.fleet.versions, gk)
		return nil
	}
	apiVersion, mappings := r.preferred(gk, mappings)
	for i, m := range mappings {
		err = read(m, apiVersion)
		switch diagnose.Classify(err) {
		case diagnose.ClassNone:
			return nil
		case diagnose.ClassNotFound:
			// Discovery is older than the answer: the kind has just gone, or this version of it. Or it is there, and the
			// API server does not know yet, as when it starts: the next look tells, with what discovery says by then.
			if i < len(mappings)-1 {
				continue
			}
			r.refresh()
		case diagnose.ClassWebhookSilent:
			r.log.V(1).Info("Reading another version, as conversion fails", "kind", gk.String(), "version", m.Resource.Version, "error", err.Error())
			continue
		default:
			return fault(ctx, "list "+m.Resource.Resource, err)
		}
	}
	return fault(ctx, "list "+mappings[0].Resource.Resource, err)
}

// preferred returns the API version that references to a kind have, as long as it is served, and the mappings with that
// one's first.
func (r *round) preferred(gk schema.GroupKind, mappings []*apimeta.RESTMapping) (string, []*apimeta.RESTMapping) {
	r.memo.mu.Lock()
	defer r.memo.mu.Unlock()
	known := r.fleet.versions[gk]
	if !slices.ContainsFunc(mappings, func(m *apimeta.RESTMapping) bool { return rank(m, known) == 0 }) {
		known = mappings[0].GroupVersionKind.GroupVersion().String()
		r.fleet.versions[gk] = known
	}
	sorted := slices.Clone(mappings)
	slices.SortStableFunc(sorted, func(a, b *apimeta.RESTMapping) int {
		return cmp.Compare(rank(a, known), rank(b, known))
	})
	return known, sorted
}

func rank(m *apimeta.RESTMapping, apiVersion string) int {
	if m.GroupVersionKind.GroupVersion().String() == apiVersion {
		return 0
	}
	return 1
}

// controlPlanes lists all objects of the kinds that Clusters name as their control planes.
func (r *round) controlPlanes(ctx context.Context, clusters []bareCluster) ([]ownerPart, error) {
	kinds := controlPlaneKinds(clusters)
	found := make([][]ownerPart, len(kinds))
	err := forEach(len(kinds), r.parallel, func(i int) (err error) {
		found[i], err = readKind(ctx, r, kinds[i], metav1.ListOptions{}, controlPlaneOwner)
		return err
	})
	return slices.Concat(found...), err
}
