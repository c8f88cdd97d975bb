// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/render"
	"github.com/capstan-dev/capstan/internal/version"
	"github.com/capstan-dev/capstan/internal/world"
)

func nodesCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:   "nodes",
		Short: "Check whether the nodes of workload clusters could be rolled",
		Long: "Commands about the nodes of workload clusters. So far they only check: Capstan does not roll nodes yet, so there is no\n" +
			"`capstan nodes upgrade`, and no image is taken.",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknownCommand(c, args[0])
		},
	}
	c.AddCommand(nodesPlanCommand(g))
	return c
}

type nodesPlanOptions struct {
	*global
	ask world.AskNodes
}

func nodesPlanCommand(g *global) *cobra.Command {
	o := &nodesPlanOptions{global: g}
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what speaks against rolling nodes; writes nothing to the cluster",
		Long: "Answers whether the nodes of the chosen clusters could be rolled to a Kubernetes version, or without --version replaced at\n" +
			"the one that they have. It checks versions against control planes, etcd's quorum, CoreDNS, pauses, lifecycle hooks and pools\n" +
			"that are held back already, and tries each change as a dry run. Nothing is written to the cluster.\n\n" +
			"It only checks: Capstan does not roll nodes yet. Without a flag that chooses clusters, all are meant.",
		Args: arguments(0, 0, "nothing"),
		RunE: runs(g, o),
	}
	f := c.Flags()
	f.StringVar(&o.ask.Version, "version", "", "Kubernetes `VERSION` to go to, such as v1.34.1; without it, the versions stay")
	f.BoolVar(&o.ask.ControlPlanes, "with-control-plane", false, "control planes move as well, in a stage of their own before the workers")
	f.StringVar(&o.ask.DNSTag, "coredns-tag", "", "image `TAG` that kubeadm control planes set for CoreDNS with the same change")
	f.StringVarP(&o.ask.Namespace, "namespace", "n", "", "only clusters in this `NAMESPACE`")
	f.StringVar(&o.ask.Name, "cluster", "", "only clusters of this `NAME`")
	f.StringVarP(&o.ask.Selector, "selector", "l", "", "only clusters with labels that match this `SELECTOR`")
	return c
}

// Complete has nothing to fill in.
func (o *nodesPlanOptions) Complete([]string) error { return nil }

// Validate refuses what is no version and no selector, and a change of CoreDNS without the control planes that make it.
func (o *nodesPlanOptions) Validate() error {
	if o.ask.Version != "" {
		if _, err := version.Parse(o.ask.Version); err != nil {
			return problem.Usage("BadVersion", "--version", "%s", capital(err.Error())).WithRemedy("--version v1.34.1")
		}
	}
	if _, err := labels.Parse(o.ask.Selector); err != nil {
		return problem.Usage("BadSelector", "--selector", "%s", capital(err.Error())).WithRemedy("-l environment=test,tier!=web")
	}
	if o.ask.DNSTag != "" && !o.ask.ControlPlanes {
		return problem.Usage("BadFlag", "--coredns-tag", "CoreDNS moves only with its control plane").WithRemedy("add --with-control-plane")
	}
	return nil
}

// Run checks and shows what was found; a roll that would be refused is an error besides.
func (o *nodesPlanOptions) Run(ctx context.Context) error {
	return o.with(ctx, func(s session) error {
		d, err := s.DraftNodes(ctx, o.ask)
		if err != nil {
			return err
		}
		refused := operation.AdmitNodes(d, o.accepted)
		doc := &render.NodePlan{Draft: d, Blocking: check.Blocking(d.Findings, o.accepted), Accepted: o.accepted, Next: o.prompt("status")}
		if refused != nil {
			doc.Next = o.prompt(o.words()...)
		}
		if err := o.write(doc); err != nil {
			return err
		}
		return refused
	})
}

// words are the words of the same command.
func (o *nodesPlanOptions) words() []string {
	out := []string{"nodes", "plan"}
	for _, f := range []struct{ flag, value string }{
		{"--version", o.ask.Version}, {"-n", o.ask.Namespace}, {"--cluster", o.ask.Name}, {"-l", o.ask.Selector}, {"--coredns-tag", o.ask.DNSTag},
	} {
		if f.value != "" {
			out = append(out, f.flag, f.value)
		}
	}
	if o.ask.ControlPlanes {
		out = append(out, "--with-control-plane")
	}
	for _, a := range o.accepted {
		out = append(out, "--accept", a.ID+"="+a.Reason)
	}
	return out
}
