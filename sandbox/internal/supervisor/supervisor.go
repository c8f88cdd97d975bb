// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
)

// RegistryPort is where the registry listens inside the sandbox.
const RegistryPort = 5000

// startLimit bounds the wait for one component. A control plane needs five seconds; a loaded machine may need many more.
const startLimit = 2 * time.Minute

// failedLinger is how long a supervisor that failed to start stays to tell why.
const failedLinger = 20 * time.Second

// Node is the node agent. Run blocks until ctx ends and takes all Pods' processes with it.
type Node interface {
	Run(ctx context.Context) error
	Health(ctx context.Context) error
	SetResources(ctx context.Context, r NodeResources) error
}

// Images says which images the registry has, and changes that.
type Images interface {
	List(ctx context.Context) ([]Image, error)
	Add(ctx context.Context, name, from string) (Image, error)
	Remove(ctx context.Context, name string) error
}

// Config is what a supervisor needs. All fields are required.
type Config struct {
	Layout Layout
	Spec   Spec
	// Address is the bridge's address; Pods is the network it lies in.
	Address netip.Addr
	Pods    netip.Prefix
	// Services is the range of cluster IPs.
	Services netip.Prefix
	NodeName string
	// Proxy and RegistryOutside are listeners on the host's loopback interface, opened before the namespaces were entered.
	Proxy           net.Listener
	RegistryOutside net.Listener
	// Registry serves the images; Images changes which there are.
	Registry http.Handler
	Images   Images
	// NewNode makes the node agent once the API server serves.
	NewNode func(f controlplane.Files) (Node, error)
	Clock   clock.Clock
	Log     *slog.Logger
}

// Supervisor runs one sandbox. Pending → Starting → Running → Stopping, or Starting → Failed.
type Supervisor struct {
	cfg    Config
	start  time.Time
	stop   context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	phase  Phase
	cause  string
	parts  []*component
	node   Node
	inside string
}

// Run keeps the sandbox alive until ctx ends or shutdown is asked for over the control socket.
func Run(ctx context.Context, cfg Config) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	inside := netip.AddrPortFrom(cfg.Address, RegistryPort).String()
	s := &Supervisor{cfg: cfg, start: cfg.Clock.Now(), stop: stop, phase: PhaseStarting, inside: inside}
	if err := os.MkdirAll(cfg.Layout.Logs(), 0o700); err != nil {
		return fmt.Errorf("make log directory: %w", err)
	}
	if err := s.serveControl(ctx); err != nil {
		return err
	}
	err := s.up(ctx)
	if err != nil && ctx.Err() == nil {
		cfg.Log.Error("Sandbox did not start", "err", err)
		s.setPhase(PhaseFailed, err.Error())
		sleep(ctx, cfg.Clock, failedLinger)
	}
	if err == nil {
		s.setPhase(PhaseRunning, "")
		cfg.Log.Info("Sandbox runs", "after", cfg.Clock.Since(s.start))
		<-ctx.Done()
		s.setPhase(PhaseStopping, "")
	}
	stop()
	s.wg.Wait()
	return err
}

// up starts everything in order. What it started keeps running until ctx ends.
func (s *Supervisor) up(ctx context.Context) error {
	insideListener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.inside)
	if err != nil {
		return fmt.Errorf("listen for the registry inside the sandbox: %w", err)
	}
	proxy := &Proxy{Allow: []netip.Prefix{s.cfg.Pods.Masked()}, Dial: (&net.Dialer{}).DialContext}
	s.add(ctx, s.listener("proxy", proxy, s.cfg.Proxy))
	s.add(ctx, s.listener("registry", s.cfg.Registry, s.cfg.RegistryOutside, insideListener))

	cp := controlplane.Config{
		Dir: s.cfg.Layout.Dir, Name: s.cfg.Spec.Name, Address: s.cfg.Address, ServiceCIDR: s.cfg.Services, NodeName: s.cfg.NodeName,
		ProxyURL: s.cfg.Spec.Inputs.ProxyURL, Clock: s.cfg.Clock,
		Binaries: controlplane.Binaries{
			Etcd: s.cfg.Spec.Inputs.Etcd, APIServer: s.cfg.Spec.Inputs.APIServer,
			ControllerManager: s.cfg.Spec.Inputs.ControllerManager, Scheduler: s.cfg.Spec.Inputs.Scheduler,
		},
	}
	files, err := controlplane.Prepare(cp)
	if err != nil {
		return fmt.Errorf("prepare control plane: %w", err)
	}
	list, err := controlplane.Components(cp, files)
	if err != nil {
		return fmt.Errorf("prepare control plane: %w", err)
	}
	// etcd, then the API server, then all that only talks to the API server, side by side.
	var last []*component
	for i, c := range list {
		part := processComponent(c, s.cfg.Layout, s.cfg.Clock)
		s.add(ctx, part)
		if i >= 2 {
			last = append(last, part)
			continue
		}
		if err := part.awaitHealthy(ctx, startLimit); err != nil {
			return err
		}
	}
	node, err := s.startNode(ctx, files)
	if err != nil {
		return err
	}
	last = append(last, node)
	if s.cfg.Spec.Inputs.Metal != "" {
		part := s.metalComponent(files)
		s.add(ctx, part)
		last = append(last, part)
	}
	for _, part := range last {
		if err := part.awaitHealthy(ctx, startLimit); err != nil {
			return err
		}
	}
	return nil
}

func (s *Supervisor) startNode(ctx context.Context, files controlplane.Files) (*component, error) {
	node, err := s.cfg.NewNode(files)
	if err != nil {
		return nil, fmt.Errorf("make node agent: %w", err)
	}
	s.mu.Lock()
	s.node = node
	s.mu.Unlock()
	part := s.inProcess("node", node.Run, node.Health)
	s.add(ctx, part)
	return part, nil
}

// add starts a component and keeps an eye on it.
func (s *Supervisor) add(ctx context.Context, c *component) {
	s.mu.Lock()
	s.parts = append(s.parts, c)
	s.mu.Unlock()
	s.wg.Go(func() { c.keep(ctx) })
	s.wg.Go(func() { c.watch(ctx) })
}

// inProcess makes a component of a part of the supervisor.
func (s *Supervisor) inProcess(name string, run, health func(context.Context) error) *component {
	return &component{
		name: name, health: health, clock: s.cfg.Clock,
		tail:   func() string { return tail(s.cfg.Layout.Log("supervisor"), tailLines) },
		status: ComponentStatus{Name: name, State: StatePending, Since: s.cfg.Clock.Now()},
		run: func(ctx context.Context, started func(int)) error {
			started(os.Getpid())
			return run(ctx)
		},
	}
}

// listener makes a component of a handler on several listeners. It is healthy as long as it serves.
func (s *Supervisor) listener(name string, h http.Handler, ls ...net.Listener) *component {
	run := func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var wg sync.WaitGroup
		for _, l := range ls {
			wg.Go(func() { cancel(serve(ctx, l, h)) })
		}
		wg.Wait()
		return context.Cause(ctx)
	}
	return s.inProcess(name, run, func(context.Context) error { return nil })
}

func (s *Supervisor) setPhase(p Phase, cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase, s.cause = p, cause
}

// status is the whole picture as of now.
func (s *Supervisor) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Spec: s.cfg.Spec, Phase: s.phase, Message: s.cause, Started: s.start,
		Addresses: Addresses{
			APIServer: "https://" + netip.AddrPortFrom(s.cfg.Address, controlplane.APIServerPort).String(),
			Proxy:     s.cfg.Spec.Inputs.ProxyURL, Registry: s.cfg.Spec.Inputs.RegistryAddress, RegistryInside: s.inside,
		},
	}
	for _, c := range s.parts {
		st.Components = append(st.Components, c.snapshot())
	}
	return st
}
