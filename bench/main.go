// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench has two parts. The first times the same jump of a management cluster twice, by clusterctl and by Capstan,
// and counts the seconds during which providers had no controller; each run begins with a fresh sandbox. The second times a
// plan on a cluster with thousands of objects beside a plain list of the same objects. In both the two take turns, so that a
// machine that gets slower or warmer does so for both. It judges nothing but whether a run reached its target.
//
// It is part of Capstan's own module, since it needs nothing that the product does not need already, and starts both tools
// as people do: as programs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// options are what the command line says.
type options struct {
	capstan, sandbox string
	from, to         string
	contract         string
	runs             int
	controlPlanes    int
	workers          int
	out              string
	keep             bool
	// only is the part to run, empty for both.
	only string
	// crds, clusters and machines are how big the cluster of the second part looks; kubeconfig leads to one that is there.
	crds, clusters, machines int
	kubeconfig               string
}

// The parts.
const (
	partUpgrade = "upgrade"
	partPlan    = "plan"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the program at once.
	defer context.AfterFunc(ctx, stop)()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil:
		return
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "bench: interrupted")
		os.Exit(130)
	}
	fmt.Fprintf(os.Stderr, "bench: %v\n", err)
	os.Exit(1)
}

func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	if len(args) == 2 && args[0] == listCommand {
		return listPlainly(ctx, args[1], out)
	}
	o, err := parse(args, errOut)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "capstan-bench-")
	if err != nil {
		return fmt.Errorf("make a work directory: %w", err)
	}
	b := &bench{options: o, dir: dir, clock: clock.RealClock{}, progress: errOut}
	r, err := b.report(ctx)
	if err != nil {
		return fmt.Errorf("%w (logs are in %s)", err, dir)
	}
	if err := r.print(out); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	if o.out != "" {
		if err := r.save(o.out); err != nil {
			return err
		}
	}
	if o.keep {
		fmt.Fprintf(errOut, "The logs are in %s\n", dir)
		return nil
	}
	return os.RemoveAll(dir)
}

// report runs the parts that are asked for.
func (b *bench) report(ctx context.Context) (report, error) {
	var results []result
	var plans []planResult
	var err error
	if b.only != partPlan {
		if results, err = b.measureAll(ctx); err != nil {
			return report{}, err
		}
	}
	if b.only != partUpgrade {
		if plans, err = b.measurePlans(ctx); err != nil {
			return report{}, err
		}
	}
	r := newReport(b.options, results)
	r.Plans = plans
	return r, nil
}

func parse(args []string, errOut io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.StringVar(&o.capstan, "capstan", "bin/capstan", "Capstan's program")
	f.StringVar(&o.sandbox, "sandbox", "bin/sandbox", "the sandbox's program")
	f.StringVar(&o.from, "from", "v1.13.4", "Cluster API version to start from")
	f.StringVar(&o.to, "to", "v1.14.2", "Cluster API version to go to")
	f.StringVar(&o.contract, "contract", "v1beta2", "contract of the target version, which clusterctl wants to be told")
	f.StringVar(&o.only, "only", "", "the part to run, upgrade or plan; both otherwise")
	f.IntVar(&o.runs, "runs", 3, "measured runs of each tool")
	f.IntVar(&o.controlPlanes, "control-planes", 3, "control plane machines of the workload cluster")
	f.IntVar(&o.workers, "workers", 3, "worker machines of the workload cluster")
	f.IntVar(&o.crds, "crds", 500, "plan: extra CRDs of the cluster to plan on")
	f.IntVar(&o.clusters, "clusters", 1000, "plan: its Clusters")
	f.IntVar(&o.machines, "machines", 10000, "plan: its Machines")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "plan: use this cluster as it is, instead of a sandbox that is made and loaded")
	f.StringVar(&o.out, "out", "", "file for the result as JSON")
	f.BoolVar(&o.keep, "keep", false, "keep what the tools printed, and say where")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.runs < 1 || f.NArg() > 0 {
		return o, fmt.Errorf("--runs has to be 1 or more, and there are no arguments besides flags")
	}
	if o.only != "" && o.only != partUpgrade && o.only != partPlan {
		return o, fmt.Errorf("--only %s: the parts are %s and %s", o.only, partUpgrade, partPlan)
	}
	return o, nil
}

// seconds rounds to what can be trusted.
func seconds(d time.Duration) float64 { return d.Round(100 * time.Millisecond).Seconds() }
