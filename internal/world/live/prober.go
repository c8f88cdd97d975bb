// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/world"
)

// clustersInterval is how often a Prober looks for clusters that have come or gone.
const clustersInterval = 10 * time.Second

// ProberOptions are what a Prober needs.
type ProberOptions struct {
	// Config reaches the management cluster.
	Config *rest.Config
	// Clock tells and waits for the time.
	Clock clock.WithTicker
	// Log gets what only developers want to know; never a kubeconfig.
	Log logr.Logger
	// Interval is the time between two calls to a cluster; zero means 1 s.
	Interval time.Duration
	// Timeout is how long one call may take; zero means 3 s.
	Timeout time.Duration
}

// Prober counts calls to the API servers of the workload clusters. A cluster is called from the moment its kubeconfig
// Secret is there until it is deleted. The calls show outages of the workload clusters, so they neither need nor touch
// the management cluster once they have begun: while that is away, the known clusters are still called.
type Prober struct {
	observer *Observer
	proxy    proxyFunc
	clock    clock.WithTicker
	log      logr.Logger
	interval time.Duration
	timeout  time.Duration

	mu     sync.Mutex
	counts map[string]*probeCount
}

// NewProber returns a Prober. It makes no request.
func NewProber(o ProberOptions) (*Prober, error) {
	if o.Config == nil || o.Clock == nil {
		return nil, errors.New("make prober: config and clock are needed")
	}
	observer, err := New(Options{Config: o.Config, Clock: o.Clock, Log: o.Log})
	if err != nil {
		return nil, fmt.Errorf("make prober: %w", err)
	}
	return &Prober{
		observer: observer, proxy: o.Config.Proxy, clock: o.Clock, log: o.Log,
		interval: cmp.Or(o.Interval, time.Second), timeout: cmp.Or(o.Timeout, 3*time.Second),
		counts: map[string]*probeCount{},
	}, nil
}

// Run calls every cluster each interval until ctx ends. It leaves nothing running when it returns. That a cluster can't
// be called is an outcome, not an error.
func (p *Prober) Run(ctx context.Context) {
	running := map[string]context.CancelFunc{}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() {
		for _, stop := range running {
			stop()
		}
	}()
	ticker := p.clock.NewTicker(clustersInterval)
	defer ticker.Stop()
	for {
		names, err := p.clusters(ctx)
		if err != nil {
			p.log.V(1).Info("Clusters could not be listed; the known ones are still called", "error", err.Error())
		} else {
			p.follow(ctx, names, running, &wg)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// follow starts a loop for each new cluster and stops those of clusters that are gone.
func (p *Prober) follow(ctx context.Context, names []clusterName, running map[string]context.CancelFunc, wg *sync.WaitGroup) {
	for key, stop := range running {
		if !slices.ContainsFunc(names, func(n clusterName) bool { return n.String() == key }) {
			stop()
			delete(running, key)
		}
	}
	for _, n := range names {
		if running[n.String()] != nil {
			continue
		}
		loop, stop := context.WithCancel(ctx)
		running[n.String()] = stop
		wg.Go(func() { p.loop(loop, n) })
	}
}

// loop calls one cluster until ctx ends.
func (p *Prober) loop(ctx context.Context, n clusterName) {
	target := &workload{name: n, management: p.observer.clients, proxy: p.proxy, timeout: p.timeout}
	defer target.close()
	ticker := p.clock.NewTicker(p.interval)
	defer ticker.Stop()
	for {
		p.callOnce(ctx, target)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

func (p *Prober) callOnce(ctx context.Context, target *workload) {
	if err := target.ready(ctx, p.clock.Now()); err != nil {
		p.log.V(1).Info("Cluster is not called yet", "cluster", target.name.String(), "error", err.Error())
		return
	}
	start := p.clock.Now()
	err := target.call(ctx)
	if ctx.Err() != nil {
		// It was cut short from here.
		return
	}
	p.record(target.name, start, p.clock.Now(), err)
}

func (p *Prober) record(n clusterName, start, end time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts[n.String()]
	if c == nil {
		c = &probeCount{}
		p.counts[n.String()] = c
	}
	c.add(start, end, err)
}

// Snapshot returns the counts so far, sorted by cluster. A gap that goes on ends now.
func (p *Prober) Snapshot() []world.Probe {
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]world.Probe, 0, len(p.counts))
	for name, c := range p.counts {
		out = append(out, c.probe(name, now))
	}
	slices.SortFunc(out, func(a, b world.Probe) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}

// clusterName names a Cluster.
type clusterName struct{ namespace, name string }

func (n clusterName) String() string { return n.namespace + "/" + n.name }

// clusters lists the Clusters that nobody deletes.
func (p *Prober) clusters(ctx context.Context) ([]clusterName, error) {
	r := &round{Observer: p.observer, at: p.clock.Now()}
	var out []clusterName
	err := r.acrossVersions(ctx, schema.GroupKind{Group: capiGroup, Kind: "Cluster"}, func(m *apimeta.RESTMapping, _ string) error {
		items, err := listMetadata(ctx, r.clients.metadataOf(m, ""), metav1.ListOptions{})
		out = nil
		for _, c := range items {
			if c.DeletionTimestamp == nil {
				out = append(out, clusterName{namespace: c.Namespace, name: c.Name})
			}
		}
		return err
	})
	return out, err
}
