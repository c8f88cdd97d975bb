// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strconv"
	"strings"

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
		Short: "Roll the nodes of workload clusters to another image, or check whether that could be done",
		Long:  "Commands about the nodes of workload clusters.",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknownCommand(c, args[0])
		},
	}
	c.AddCommand(nodesPlanCommand(g), nodesUpgradeCommand(g))
	return c
}

// nodesOptions say which nodes are meant, and what is to become of them.
type nodesOptions struct {
	*global
	ask  world.AskNodes
	roll operation.RollOptions
	// image is what is rolled to: a NodeImage in the cluster, or a file.
	image string
	// command is "plan" or "upgrade".
	command string
}

type nodesPlanOptions struct{ nodesOptions }

func nodesPlanCommand(g *global) *cobra.Command {
	o := &nodesPlanOptions{nodesOptions{global: g, command: "plan"}}
	c := &cobra.Command{
		Use:   "plan [IMAGE]",
		Short: "Show how nodes would be rolled, and what speaks against it; writes nothing to the cluster",
		Long: "With an IMAGE, shows which pools would be rolled to it, in which order, by which strategy and why, and what speaks against it.\n" +
			"Without one, answers whether the nodes could be rolled to a Kubernetes version, or without --version replaced at the one that\n" +
			"they have. Nothing is written to the cluster; changes are tried as dry runs.\n\n" + imageHelp,
		Args: arguments(0, 1, "an IMAGE"),
		RunE: runs(g, o),
	}
	o.flags(c)
	return c
}

// imageHelp says what IMAGE can be.
const imageHelp = "IMAGE is the name of a NodeImage in the management cluster, or a file with one. Without a flag that chooses clusters, all are\n" +
	"meant. With an image, control planes are rolled before workers; without one they are left out unless --with-control-plane is given."

func (o *nodesOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.ask.Version, "version", "", "Kubernetes `VERSION` to go to, such as v1.34.1; without it, the versions stay")
	f.BoolVar(&o.ask.ControlPlanes, "with-control-plane", false, "control planes move as well, in a stage of their own before the workers")
	f.StringVar(&o.ask.DNSTag, "coredns-tag", "", "image `TAG` that kubeadm control planes set for CoreDNS with the same change")
	f.StringVarP(&o.ask.Namespace, "namespace", "n", "", "only clusters in this `NAMESPACE`")
	f.StringVar(&o.ask.Name, "cluster", "", "only clusters of this `NAME`")
	f.StringVarP(&o.ask.Selector, "selector", "l", "", "only clusters with labels that match this `SELECTOR`")
	f.StringSliceVar(&o.roll.Pools, "pools", nil, "only these control planes and MachineDeployments, `NAME,NAME`, rolled in this order")
	f.StringVar(&o.roll.Strategy, "strategy", "auto", "`auto`, surge (the new Machine first) or scale-in (the old one first)")
	f.IntVar(&o.roll.Together, "clusters-at-once", 1, "how many clusters are rolled at once, `N`; in each, one pool after the other")
}

// Complete takes the image.
func (o *nodesOptions) Complete(args []string) error {
	if len(args) > 0 {
		o.image, o.ask.ControlPlanes = args[0], true
	}
	return nil
}

// Validate refuses what is no version and no selector, and a change of CoreDNS without the control planes that make it.
func (o *nodesOptions) Validate() error {
	switch o.roll.Strategy {
	case "auto", "surge", "scale-in":
	default:
		return problem.Usage("BadStrategy", "--strategy", "There is no strategy %q", o.roll.Strategy).WithRemedy("--strategy auto, surge or scale-in")
	}
	if o.roll.Together < 1 {
		return problem.Usage("BadFlag", "--clusters-at-once", "%d clusters at once would roll none", o.roll.Together).WithRemedy("--clusters-at-once 1")
	}
	if o.image == "" && (len(o.roll.Pools) > 0 || o.roll.Strategy != "auto" || o.roll.Together != 1) {
		return problem.Usage("MissingArgument", "", "How to roll needs an IMAGE to roll to").WithRemedy("%s", o.prompt("nodes", o.command, "IMAGE"))
	}
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
		d, err := o.draft(ctx, s)
		if err != nil {
			return err
		}
		refused := operation.AdmitNodes(d, o.accepted)
		doc := o.document(d)
		switch {
		case refused != nil:
			doc.Next = o.prompt(o.words("plan")...)
		case d.Roll != nil && len(d.Roll.Spec.Pools) > 0:
			doc.Next = o.prompt(o.words("upgrade")...)
		}
		if err := o.write(doc); err != nil {
			return err
		}
		return refused
	})
}

func (o *nodesOptions) draft(ctx context.Context, s session) (*operation.NodeDraft, error) {
	if o.image == "" {
		return s.DraftNodes(ctx, o.ask)
	}
	return s.DraftRoll(ctx, o.image, o.ask, o.roll)
}

func (o *nodesOptions) document(d *operation.NodeDraft) *render.NodePlan {
	return &render.NodePlan{Draft: d, Blocking: check.Blocking(d.Findings, o.accepted), Accepted: o.accepted, Next: o.prompt("status")}
}

// words are the words of one of the commands with the same options.
func (o *nodesOptions) words(command string) []string {
	out := []string{"nodes", command}
	if o.image != "" {
		out = append(out, o.image)
	}
	for _, f := range []struct{ flag, value string }{
		{"--version", o.ask.Version}, {"-n", o.ask.Namespace}, {"--cluster", o.ask.Name}, {"-l", o.ask.Selector}, {"--coredns-tag", o.ask.DNSTag},
	} {
		if f.value != "" {
			out = append(out, f.flag, f.value)
		}
	}
	if len(o.roll.Pools) > 0 {
		out = append(out, "--pools", strings.Join(o.roll.Pools, ","))
	}
	if o.roll.Strategy != "auto" {
		out = append(out, "--strategy", o.roll.Strategy)
	}
	if o.roll.Together != 1 {
		out = append(out, "--clusters-at-once", strconv.Itoa(o.roll.Together))
	}
	if o.ask.ControlPlanes && o.image == "" {
		out = append(out, "--with-control-plane")
	}
	for _, a := range o.accepted {
		out = append(out, "--accept", a.ID+"="+a.Reason)
	}
	return out
}
