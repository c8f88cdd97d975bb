// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Command metal is both halves of simulated bare metal: `metal daemon` owns hosts and workload clusters, `metal manager` is the infrastructure
// provider. A sandbox builds it from the sources beside it; the provider's version comes out of its image, as CAPM3_VERSION.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/sandbox/metal/daemon"
	"github.com/capstan-dev/capstan/sandbox/metal/provider"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name what to run: daemon or manager")
	}
	switch args[0] {
	case "daemon":
		return runDaemon(args[1:])
	case "manager":
		return runManager(args[1:])
	}
	return fmt.Errorf("there is no %q: name daemon or manager", args[0])
}

func runDaemon(args []string) error {
	f := flag.NewFlagSet("daemon", flag.ContinueOnError)
	kubeconfig := f.String("kubeconfig", "", "the management cluster")
	address := f.String("address", "", "where workload clusters are served")
	port := f.Int("min-port", 20000, "the first port of workload clusters")
	health := f.String("health", "127.0.0.1:9450", "where the daemon says that it lives")
	if err := f.Parse(args); err != nil {
		return err //nolint:wrapcheck // says which flag
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	return daemon.Run(ctrl.SetupSignalHandler(), daemon.Options{ //nolint:wrapcheck // says what it was doing
		REST: configure(cfg, "sandbox-metal-daemon"), Address: *address, MinPort: int32(*port), HealthAddress: *health, //nolint:gosec // a port
		Clock: clock.RealClock{}, Log: klog.NewKlogr(),
	})
}

// runManager takes the flags that the real provider's manifest gives; those that have no meaning here are accepted.
func runManager(args []string) error {
	f := flag.NewFlagSet("manager", flag.ContinueOnError)
	elect := f.Bool("leader-elect", false, "wait for the lease")
	health := f.String("health-addr", ":9440", "where probes are answered")
	namespace := f.String("namespace", os.Getenv("POD_NAMESPACE"), "where the lease is")
	if err := f.Parse(args); err != nil {
		return err //nolint:wrapcheck // says which flag
	}
	generation, err := provider.GenerationOf(os.Getenv("CAPM3_VERSION"))
	if err != nil {
		return err //nolint:wrapcheck // names the version
	}
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("read in-cluster configuration: %w", err)
	}
	return provider.Run(ctrl.SetupSignalHandler(), provider.Options{ //nolint:wrapcheck // says what it was doing
		REST: configure(cfg, "manager"), Generation: generation, HealthAddress: *health, LeaderElect: *elect, Namespace: *namespace,
		Clock: clock.RealClock{}, Log: klog.NewKlogr(),
	})
}

func configure(cfg *rest.Config, agent string) *rest.Config {
	cfg.UserAgent, cfg.QPS, cfg.Burst = agent, 100, 200
	return cfg
}
