// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
	"github.com/capstan-dev/capstan/sandbox/internal/load"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// loadTimeout bounds one request of a load: two cores that also run webhooks answer late.
const loadTimeout = time.Minute

// holdFrom is from how many objects on it is worth the time to keep controllers from leading.
const holdFrom = 500

// loadOptions are the options of `sandbox load`.
type loadOptions struct {
	location
	streams streams
	clock   clock.WithTicker

	kubeconfig string
	parallel   int
	size       load.Size
}

func newLoadCommand(s streams, clk clock.WithTicker) *cobra.Command {
	o := &loadOptions{streams: s, clock: clk}
	c := &cobra.Command{
		Use:   "load",
		Short: "Make the management cluster look big: thousands of objects, straight in the API server",
		Long: `load writes extra CRDs with 0 to 3 objects each, and Clusters with a control plane, MachineDeployments, MachineSets and Machines that
look at rest: counted, Running, with a node. There is nothing behind them. The Clusters are paused, so the controllers of the
sandbox leave them alone. While many are written no controller leads: the Pods of providers are replaced for that, and go on afterwards. Their
webhooks are called as always.

The content is the same each time. Run again with the same numbers, load adds what is missing; another number of CRDs is fine too,
another fleet is not. Nothing is removed: take the sandbox down for that.`,
		Example: `  sandbox up --name big --capi v1.13.4
  sandbox load --name big --crds 500 --clusters 1000 --machines 10000
  sandbox load --kubeconfig /tmp/test-apiserver.kubeconfig --crds 500 --clusters 0 --machines 0`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	o.addFlags(c)
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of another API server to load, instead of a sandbox's; never one that you need")
	f.IntVar(&o.size.CRDs, "crds", 500, "extra CRDs, of groups of their own")
	f.IntVar(&o.size.Clusters, "clusters", 1000, "Clusters, in 20 namespaces; 0 for no fleet")
	f.IntVar(&o.size.Machines, "machines", 10000, "Machines of all Clusters together; most Clusters are small, one in ten is big")
	f.BoolVar(&o.size.Parts, "parts", false, "also each Machine's DevMachine and KubeadmConfig, which triples the number of objects")
	f.IntVar(&o.parallel, "parallel", 16, "requests in flight")
	return c
}

func (o *loadOptions) validate() error {
	if err := o.size.Validate(); err != nil {
		return usagef("--crds %d --clusters %d --machines %d: %w", o.size.CRDs, o.size.Clusters, o.size.Machines, err)
	}
	if o.parallel < 1 || o.parallel > 200 {
		return usagef("--parallel %d: between 1 and 200", o.parallel)
	}
	if o.kubeconfig != "" && o.dir != "" {
		return usagef("--kubeconfig and --dir name two clusters: choose one")
	}
	return nil
}

func (o *loadOptions) run(ctx context.Context) error {
	client, err := o.connect()
	if err != nil {
		return err
	}
	p := newProgress(o.streams.errOut, o.clock)
	l := load.New(load.Options{Client: client, Size: o.size, Parallel: o.parallel})
	if err := o.write(ctx, p, l); err != nil {
		switch {
		case ctx.Err() != nil:
			return hint(context.Cause(ctx), "the same command goes on from here")
		case errors.Is(err, load.ErrOtherFleet):
			return hint(err, "give its numbers, or make a fresh sandbox")
		case errors.Is(err, load.ErrNoClusterAPI):
			return hint(err, "sandbox up --capi v1.13.4, or --clusters 0 --machines 0 for CRDs alone")
		}
		return err
	}
	fmt.Fprintf(o.streams.out, "%d objects created, %d were there, after %s\n", l.Created(), l.Present(), seconds(o.clock.Since(p.begin)))
	return nil
}

// write makes one stage after the other.
func (o *loadOptions) write(ctx context.Context, p *progress, l *load.Loader) error {
	err := stage(p, "Create namespaces", func(*step) error { return l.Namespaces(ctx) })
	if err == nil && o.size.CRDs > 0 {
		err = stage(p, fmt.Sprintf("Create %d CRDs", o.size.CRDs), func(s *step) error { return l.CRDs(ctx, counting(s)) })
	}
	if err == nil && o.size.CRDs > 0 {
		err = stage(p, "Create objects of theirs", func(s *step) error { return l.Instances(ctx, counting(s)) })
	}
	if err == nil && o.size.Clusters > 0 {
		err = o.writeFleet(ctx, p, l)
	}
	return err
}

// writeFleet writes the fleet while no controller leads.
func (o *loadOptions) writeFleet(ctx context.Context, p *progress, l *load.Loader) error {
	missing := 0
	if err := stage(p, "Look for the fleet", func(*step) (err error) { missing, err = l.Find(ctx); return err }); err != nil {
		return err
	}
	if missing > holdFrom {
		var free func() error
		err := stage(p, "Keep controllers from leading meanwhile", func(*step) (err error) { free, err = load.Hold(ctx, l.Client, o.clock); return err })
		if err != nil {
			return err
		}
		defer func() {
			if err := free(); err != nil {
				fmt.Fprintf(o.streams.errOut, "The leases were not given back, and last up to a minute more: %v\n", err)
			}
		}()
	}
	return stage(p, fmt.Sprintf("Create %d Clusters with %d Machines", o.size.Clusters, o.size.Machines), func(s *step) error { return l.Fleet(ctx, counting(s)) })
}

func stage(p *progress, title string, do func(s *step) error) error {
	s := p.step(title)
	return s.end(do(s), "")
}

func counting(s *step) load.Progress {
	return func(done, total int) { s.note(fmt.Sprintf("%d of %d", done, total)) }
}

// connect makes a client without a rate limit: the API server is the only one that has to cope.
func (o *loadOptions) connect() (dynamic.Interface, error) {
	path := o.kubeconfig
	if path == "" {
		l, err := o.layout()
		if err != nil {
			return nil, err
		}
		path = controlplane.FilesIn(l.Dir).Kubeconfig()
		if _, err := os.Stat(path); err != nil {
			return nil, o.explain(fmt.Errorf("%w: %w", supervisor.ErrNotRunning, err))
		}
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	cfg.UserAgent, cfg.Timeout = "sandbox-load", loadTimeout
	cfg.QPS, cfg.Burst = -1, -1
	cfg.WarningHandler = rest.NoWarnings{} // about the names of Cluster API's finalizers, once for each object
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}
