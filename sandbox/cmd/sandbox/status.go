// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
	"github.com/capstan-dev/capstan/sandbox/internal/workload"
)

// statusReport is what `sandbox status -o json` prints. Fields are only ever added.
type statusReport struct {
	supervisor.Status
	Dir        string `json:"dir"`
	Kubeconfig string `json:"kubeconfig"`
	// Complete is set once `sandbox up` has come to its end.
	Complete bool `json:"complete"`
	// MemoryBytes is the proportional set size of all the sandbox's processes together, Processes their number.
	MemoryBytes  int64            `json:"memoryBytes"`
	Processes    int              `json:"processes"`
	Nodes        []nodeState      `json:"nodes"`
	Pods         int              `json:"pods"`
	PodsNotReady []podState       `json:"podsNotReady"`
	Providers    []providerState  `json:"providers"`
	Clusters     []workload.State `json:"clusters"`
	// Errors says what could not be found out.
	Errors []string `json:"errors,omitempty"`
}

// statusOptions are the options of `sandbox status`.
type statusOptions struct {
	location
	streams streams
	clock   clock.PassiveClock
	output  string
}

func newStatusCommand(s streams, clk clock.PassiveClock) *cobra.Command {
	o := &statusOptions{streams: s, clock: clk}
	c := &cobra.Command{
		Use:   "status",
		Short: "Show what runs in a sandbox and how it is",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := outputFormat(o.output); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	o.addFlags(c)
	c.Flags().StringVarP(&o.output, "output", "o", "text", "text or json")
	return c
}

func (o *statusOptions) run(ctx context.Context) error {
	l, err := o.layout()
	if err != nil {
		return err
	}
	client := supervisor.NewClient(l)
	st, err := client.Status(ctx)
	if err != nil {
		return o.explain(err)
	}
	r := statusReport{Status: st, Dir: l.Dir, Kubeconfig: controlplane.FilesIn(l.Dir).Kubeconfig(), Complete: fileExists(l.Done())}
	if err := r.addProcesses(ctx, client); err != nil {
		r.Errors = append(r.Errors, err.Error())
	}
	r.addCluster(ctx, l)
	if o.output == "json" {
		return printJSON(o.streams, r)
	}
	r.print(o.streams.out, o.clock)
	return nil
}

// addCluster asks the API server. What it does not answer is noted and left empty.
func (r *statusReport) addCluster(ctx context.Context, l supervisor.Layout) {
	k, err := newKube(l)
	if err != nil {
		r.Errors = append(r.Errors, err.Error())
		return
	}
	note := func(err error) {
		if err != nil {
			r.Errors = append(r.Errors, err.Error())
		}
	}
	r.Nodes, err = k.nodes(ctx)
	note(err)
	if err != nil {
		return // the API server does not answer; the rest would only wait
	}
	r.PodsNotReady, r.Pods, err = k.podsNotReady(ctx)
	note(err)
	r.Providers, err = k.providers(ctx)
	note(err)
	if len(r.Providers) > 0 {
		r.Clusters, err = workload.List(ctx, k.dynamic)
		note(err)
	}
}

// print writes the assessment first, then the parts.
func (r *statusReport) print(out io.Writer, clk clock.PassiveClock) {
	fmt.Fprintf(out, "Sandbox %s: %s\n", r.Spec.Name, r.assessment())
	fmt.Fprintf(out, "%s, up for %s, %d processes with %s\n\n", describe(r.Spec), seconds(clk.Since(r.Started)), r.Processes, megabytes(r.MemoryBytes))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tSTATE\tPID\tRESTARTS\tFOR\tMESSAGE")
	for _, c := range r.Components {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\n", c.Name, c.State, c.HostPID, c.Restarts, seconds(clk.Since(c.Since)), c.Message)
	}
	for _, n := range r.Nodes {
		fmt.Fprintf(w, "\nNODE\tREADY\tVERSION\tCPU\tMEMORY\n%s\t%t\t%s\t%s\t%s\n", n.Name, n.Ready, n.Version, n.CPU, n.Memory)
	}
	if len(r.Providers) > 0 {
		fmt.Fprintln(w, "\nPROVIDER\tTYPE\tVERSION\tNAMESPACE")
	}
	for _, p := range r.Providers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Name, p.Type, p.Version, p.Namespace)
	}
	if len(r.Clusters) > 0 {
		fmt.Fprintln(w, "\nCLUSTER\tPHASE\tAVAILABLE\tMACHINES\tENDPOINT")
	}
	for _, c := range r.Clusters {
		fmt.Fprintf(w, "%s/%s\t%s\t%t\t%d of %d run\t%s\n", c.Namespace, c.Name, c.Phase, c.Available, c.Running, c.Machines, c.Endpoint)
	}
	_ = w.Flush() // as the other prints: a closed stdout ends the program by a signal
	fmt.Fprintf(out, "\nPods: %d, of which %d are not ready\n", r.Pods, len(r.PodsNotReady))
	for _, p := range r.PodsNotReady {
		fmt.Fprintf(out, "  %s/%s: %s (%d restarts)\n", p.Namespace, p.Name, p.Reason, p.Restarts)
	}
	for _, e := range r.Errors {
		fmt.Fprintf(out, "Not known: %s\n", e)
	}
	fmt.Fprintf(out, "\nAPI server  %s through proxy %s\nRegistry    %s\nKubeconfig  %s\nLogs        %s\n", r.Addresses.APIServer, r.Addresses.Proxy,
		r.Addresses.Registry, r.Kubeconfig, supervisor.Layout{Dir: r.Dir}.Logs())
}

// assessment is one phrase for the whole.
func (r *statusReport) assessment() string {
	if r.Phase != supervisor.PhaseRunning {
		return strings.TrimSpace(string(r.Phase) + " " + r.Message)
	}
	var bad []string
	for _, c := range r.Components {
		if c.State != supervisor.StateHealthy {
			bad = append(bad, c.Name+" is "+string(c.State))
		}
	}
	if n := len(r.PodsNotReady); n > 0 {
		bad = append(bad, fmt.Sprintf("%d Pods are not ready", n))
	}
	for _, c := range r.Clusters {
		if !c.Available {
			bad = append(bad, "cluster "+c.Name+" is not available")
		}
	}
	if !r.Complete {
		bad = append(bad, "`sandbox up` has not come to its end")
	}
	if len(bad) == 0 {
		return "all is well"
	}
	return strings.Join(bad, ", ")
}
