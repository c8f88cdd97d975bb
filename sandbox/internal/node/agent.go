// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/capstan-dev/capstan/sandbox/internal/netns"
	"github.com/capstan-dev/capstan/sandbox/internal/node/container"
	"github.com/capstan-dev/capstan/sandbox/internal/node/image"
)

// podWorkers is how many Pods are started or stopped at the same time; the work
// itself is done by their workers.
const podWorkers = 8

// Run is New followed by Agent.Run.
func Run(ctx context.Context, cfg Config) error {
	a, err := New(cfg)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// Agent is one Node: it lives from Run until its context ends.
type Agent struct {
	cfg       Config
	node      *nodeStatus
	runtime   container.Runtime
	ids       idMap
	images    *image.Store
	memory    *memoryWatch
	recorder  record.EventRecorder
	informers caches

	mu      sync.Mutex
	workers map[string]*worker // by namespace/name
	dying   map[*worker]bool   // replaced by a Pod of the same name
	notifyC func(*corev1.Pod)
	running sync.WaitGroup
	ctx     context.Context //nolint:containedctx // that of Run: workers outlive the call that makes them
}

// New checks the configuration; nothing is started.
func New(cfg Config) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Agent{
		cfg: cfg, node: newNodeStatus(cfg), runtime: container.Runtime{SelfArgs: cfg.SelfArgs},
		memory:  newMemoryWatch(cfg.Clock, cfg.Log),
		workers: map[string]*worker{}, dying: map[*worker]bool{}, notifyC: func(*corev1.Pod) {},
	}, nil
}

// SetCapacity changes what the Node reports as capacity and allocatable, now
// or while running. Entries left out get the defaults of Config.Capacity.
func (a *Agent) SetCapacity(list corev1.ResourceList) { a.node.setCapacity(completeCapacity(list)) }

func (a *Agent) capacity() corev1.ResourceList { return a.node.capacity() }

// nodeDir is what belongs to this Node alone.
func (a *Agent) nodeDir() string { return filepath.Join(a.cfg.Dir, "nodes", a.cfg.NodeName) }

// Run kills what an earlier agent of this Node left, registers the Node and
// runs its Pods until ctx ends. Before it returns all its Pods' processes are
// gone; the Node and Pod objects stay.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = vklog.WithLogger(ctx, newVKLog(a.cfg.Log))
	if err := a.prepare(ctx); err != nil {
		return err
	}
	stopEvents := a.startEvents(ctx)
	defer stopEvents()
	serve, err := a.listen()
	if err != nil {
		return err
	}
	pods, err := a.podController()
	if err != nil {
		return err
	}
	a.informers.start(ctx)
	parts := []func(context.Context) error{
		serve,
		a.runNode,
		func(ctx context.Context) error { return pods.Run(ctx, podWorkers) },
		func(ctx context.Context) error { a.memory.run(ctx); return nil },
	}
	err = runAll(ctx, cancel, parts)
	a.running.Wait()
	return err
}

// runAll runs parts until the first ends, then ends the others.
func runAll(ctx context.Context, cancel context.CancelFunc, parts []func(context.Context) error) error {
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() {
			defer cancel()
			if err := part(ctx); err != nil && !errors.Is(err, context.Canceled) {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// prepare makes the directories. Processes an earlier agent left have died with
// it (their parent-death signal); their files are removed here.
func (a *Agent) prepare(ctx context.Context) error {
	a.ctx = ctx
	var err error
	if a.ids, err = readIDMap(); err != nil {
		return err
	}
	temp := filepath.Join(a.nodeDir(), "tmp")
	for _, dir := range []string{filepath.Join(a.nodeDir(), "pods"), temp} {
		if err := netns.RemoveTree(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove what an earlier agent left: %w", err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // containers of any user pass through
			return fmt.Errorf("make node directory: %w", err)
		}
	}
	a.images, err = image.NewStore(image.Options{
		Registry: a.cfg.Registry, Dir: filepath.Join(a.cfg.Dir, "images"), Temp: temp,
	})
	return err
}

func (a *Agent) startEvents(ctx context.Context) (stop func()) {
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: a.cfg.Client.CoreV1().Events("")})
	a.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: a.cfg.NodeName})
	return broadcaster.Shutdown
}

// podController is virtual-kubelet's: it tells the agent what to run and sends
// back what runs.
func (a *Agent) podController() (*vknode.PodController, error) {
	a.informers = newCaches(a.cfg.Client, a.cfg.NodeName)
	if err := a.informers.onChange(a.secretChanged, a.configMapChanged); err != nil {
		return nil, err
	}
	pods, err := vknode.NewPodController(vknode.PodControllerConfig{
		PodClient:                                statusPatcher{a.cfg.Client.CoreV1()},
		PodInformer:                              a.informers.podFactory.Core().V1().Pods(),
		SecretInformer:                           a.informers.factory.Core().V1().Secrets(),
		ConfigMapInformer:                        a.informers.factory.Core().V1().ConfigMaps(),
		ServiceInformer:                          a.informers.unused.Core().V1().Services(),
		EventRecorder:                            quietRecorder{a.recorder},
		Provider:                                 a,
		SkipDownwardAPIResolution:                true,
		SyncPodsFromKubernetesRateLimiter:        newLimiter(),
		SyncPodStatusFromProviderRateLimiter:     newLimiter(),
		DeletePodsFromKubernetesRateLimiter:      newLimiter(),
		SyncPodsFromKubernetesShouldRetryFunc:    retryForever,
		SyncPodStatusFromProviderShouldRetryFunc: retryForever,
		DeletePodsFromKubernetesShouldRetryFunc:  retryForever,
	})
	if err != nil {
		return nil, fmt.Errorf("make pod controller: %w", err)
	}
	return pods, nil
}

// caches watch what an agent needs to know.
type caches struct {
	podFactory, factory informers.SharedInformerFactory
	// unused has listers only: virtual-kubelet wants one it never reads.
	unused informers.SharedInformerFactory
}

func (c caches) start(ctx context.Context) {
	c.podFactory.Start(ctx.Done())
	c.factory.Start(ctx.Done())
}

func (c caches) onChange(secret, configMap func(namespace, name string)) error {
	for _, each := range []struct {
		informer cache.SharedIndexInformer
		changed  func(namespace, name string)
	}{
		{c.factory.Core().V1().Secrets().Informer(), secret},
		{c.factory.Core().V1().ConfigMaps().Informer(), configMap},
	} {
		call := func(obj any) {
			key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
			if err != nil {
				return // not an object: can't be
			}
			namespace, name, err := cache.SplitMetaNamespaceKey(key)
			if err == nil {
				each.changed(namespace, name)
			}
		}
		_, err := each.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: call, UpdateFunc: func(_, obj any) { call(obj) }, DeleteFunc: call,
		})
		if err != nil {
			return fmt.Errorf("watch Secrets and ConfigMaps: %w", err)
		}
	}
	return nil
}

// retry times after an API call that failed.
const (
	retryFirst = 50 * time.Millisecond
	retryMax   = 10 * time.Second
)
