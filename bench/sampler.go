// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

// sampleEvery is how often the providers are looked at. A gap is known to within one such interval at each end.
const sampleEvery = 200 * time.Millisecond

// providerLabel is on everything that belongs to a provider, Pods included; its value names the provider.
const providerLabel = "cluster.x-k8s.io/provider"

// cluster is a management cluster as the measurement sees it.
type cluster struct{ dynamic dynamic.Interface }

func connect(kubeconfig string) (cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return cluster{}, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	config.UserAgent = "capstan-bench"
	config.QPS, config.Burst = -1, -1
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return cluster{}, fmt.Errorf("make client: %w", err)
	}
	return cluster{dynamic: d}, nil
}

func (c cluster) list(ctx context.Context, group, version, resource string, o metav1.ListOptions) ([]unstructured.Unstructured, error) {
	list, err := c.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).List(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource, err)
	}
	return list.Items, nil
}

// providers returns the version of each provider in the clusterctl inventory.
func (c cluster) providers(ctx context.Context) (map[string]string, error) {
	items, err := c.list(ctx, "clusterctl.cluster.x-k8s.io", "v1alpha3", "providers", metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for i := range items {
		v, _, err := unstructured.NestedString(items[i].Object, "version")
		if err != nil {
			return nil, fmt.Errorf("read provider %s: %w", items[i].GetName(), err)
		}
		out[items[i].GetName()] = v
	}
	return out, nil
}

// machines returns the UIDs of all Machines.
func (c cluster) machines(ctx context.Context) (map[string]bool, error) {
	items, err := c.list(ctx, "cluster.x-k8s.io", "v1beta2", "machines", metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for i := range items {
		out[string(items[i].GetUID())] = true
	}
	return out, nil
}

// sample is one look at the providers.
type sample struct {
	// running are the providers that have a Pod that is ready and stays.
	running map[string]bool
	// leading are those of them of which such a Pod holds a lease of leader election: a Pod that waits for the lease of its
	// predecessor is ready, but controls nothing.
	leading map[string]bool
}

func (c cluster) look(ctx context.Context) (sample, error) {
	pods, err := c.list(ctx, "", "v1", "pods", metav1.ListOptions{LabelSelector: providerLabel})
	if err != nil {
		return sample{}, err
	}
	leases, err := c.list(ctx, "coordination.k8s.io", "v1", "leases", metav1.ListOptions{})
	if err != nil {
		return sample{}, err
	}
	return judge(pods, leases), nil
}

func judge(pods, leases []unstructured.Unstructured) sample {
	s := sample{running: map[string]bool{}, leading: map[string]bool{}}
	provider := map[string]string{} // by namespace/name of its ready Pods
	for i := range pods {
		if ready(&pods[i]) {
			p := pods[i].GetLabels()[providerLabel]
			s.running[p] = true
			provider[pods[i].GetNamespace()+"/"+pods[i].GetName()] = p
		}
	}
	for i := range leases {
		holder, _, err := unstructured.NestedString(leases[i].Object, "spec", "holderIdentity")
		if err != nil {
			continue
		}
		// controller-runtime's identity is the name of the Pod, "_" and a random part.
		pod, _, _ := strings.Cut(holder, "_")
		if p, ok := provider[leases[i].GetNamespace()+"/"+pod]; ok {
			s.leading[p] = true
		}
	}
	return s
}

// ready tells whether a Pod serves. One that is being deleted may still run for a while, but its controller has been told
// to stop.
func ready(pod *unstructured.Unstructured) bool {
	if pod.GetDeletionTimestamp() != nil {
		return false
	}
	conditions, _, err := unstructured.NestedSlice(pod.Object, "status", "conditions")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == "Ready" && m["status"] == "True"
	})
}

// gaps sums up the time during which providers had no controller.
type gaps struct {
	last time.Time
	// stopped is the time without a running controller, leaderless that without a leading one, by provider.
	stopped, leaderless map[string]time.Duration
	// all is the time during which no provider had a running one.
	all time.Duration
	// blind is the time during which the API server did not answer.
	blind time.Duration
	// open tells that a provider had no leading controller when last seen.
	open bool
}

func newGaps(providers []string, at time.Time) *gaps {
	g := &gaps{last: at, stopped: map[string]time.Duration{}, leaderless: map[string]time.Duration{}}
	for _, p := range providers {
		g.stopped[p], g.leaderless[p] = 0, 0
	}
	return g
}

// add counts the time since the sample before by what is seen now.
func (g *gaps) add(at time.Time, now sample) {
	passed := g.pass(at)
	up, leading := 0, 0
	for p := range g.stopped {
		if now.running[p] {
			up++
		} else {
			g.stopped[p] += passed
		}
		if now.leading[p] {
			leading++
		} else {
			g.leaderless[p] += passed
		}
	}
	if up == 0 && len(g.stopped) > 0 {
		g.all += passed
	}
	g.open = leading < len(g.leaderless)
}

// miss counts the time since the sample before as time in which nothing could be seen.
func (g *gaps) miss(at time.Time) { g.blind += g.pass(at) }

func (g *gaps) pass(at time.Time) time.Duration {
	passed := at.Sub(g.last)
	g.last = at
	return passed
}

// sampler watches the providers of one cluster until it is told to stop.
type sampler struct {
	cluster cluster
	clock   clock.WithTicker
}

// watch samples until ctx ends and returns what it saw. done is closed when the measured command is over: from then on
// the first sample that finds every provider led is the last one.
func (s sampler) watch(ctx context.Context, providers []string, done <-chan struct{}) *gaps {
	g := newGaps(providers, s.clock.Now())
	ticker := s.clock.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return g
		case <-ticker.C():
		}
		over := false
		select {
		case <-done:
			over = true
		default:
		}
		seen, err := s.cluster.look(ctx)
		if err != nil {
			g.miss(s.clock.Now())
			continue
		}
		g.add(s.clock.Now(), seen)
		if over && !g.open {
			return g
		}
	}
}
