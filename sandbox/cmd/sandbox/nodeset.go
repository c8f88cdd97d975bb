// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

func newNodeCommand(s streams) *cobra.Command {
	o := &location{}
	var r supervisor.NodeResources
	set := &cobra.Command{
		Use:     "set [--memory M] [--cpu N]",
		Short:   "Change what the running node offers to Pods",
		Example: "  sandbox node set --memory 300Mi   # new Pods become unschedulable\n  sandbox node set --memory 8Gi",
		RunE: func(c *cobra.Command, _ []string) error {
			if r == (supervisor.NodeResources{}) {
				return usagef("say what to change: --memory or --cpu")
			}
			for flag, q := range map[string]string{"--memory": r.Memory, "--cpu": r.CPU} {
				if _, err := resource.ParseQuantity(q); q != "" && err != nil {
					return usagef("%s %q: write a quantity like 4 or 8Gi", flag, q)
				}
			}
			l, err := o.layout()
			if err != nil {
				return err
			}
			if err := supervisor.NewClient(l).SetNode(c.Context(), r); err != nil {
				return o.explain(err)
			}
			fmt.Fprintln(s.errOut, "The node is changed")
			return nil
		},
	}
	o.addFlags(set)
	set.Flags().StringVar(&r.Memory, "memory", "", "memory, as a Kubernetes quantity")
	set.Flags().StringVar(&r.CPU, "cpu", "", "CPUs, as a Kubernetes quantity")
	c := &cobra.Command{Use: "node", Short: "Change the sandbox's node"}
	c.AddCommand(set)
	return c
}
