// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

func newImageCommand(s streams) *cobra.Command {
	c := &cobra.Command{Use: "image", Short: "Look at and change the images in the running sandbox's registry"}
	c.AddCommand(newImageList(s), newImageAdd(s), newImageRemove(s))
	return c
}

func newImageList(s streams) *cobra.Command {
	o := &location{}
	output := "text"
	c := &cobra.Command{
		Use:   "ls",
		Short: "List the images",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := outputFormat(output); err != nil {
				return err
			}
			l, err := o.layout()
			if err != nil {
				return err
			}
			list, err := supervisor.NewClient(l).Images(c.Context())
			if err != nil {
				return o.explain(err)
			}
			if output == "json" {
				return printJSON(s, list)
			}
			w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "IMAGE\tDIGEST\tLOCAL")
			for _, i := range list {
				fmt.Fprintf(w, "%s\t%.19s\t%t\n", i.Name, i.Digest, i.Local)
			}
			return w.Flush()
		},
	}
	o.addFlags(c)
	c.Flags().StringVarP(&output, "output", "o", output, "text or json")
	return c
}

func newImageAdd(s streams) *cobra.Command {
	o := &location{}
	var from string
	c := &cobra.Command{
		Use:     "add NEW --from EXISTING",
		Short:   "Give an image one more name",
		Example: "  sandbox image add registry.example.com/app:v2 --from registry.example.com/app:v1",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if from == "" {
				return usagef("say which image to take: --from EXISTING")
			}
			l, err := o.layout()
			if err != nil {
				return err
			}
			img, err := supervisor.NewClient(l).AddImage(c.Context(), args[0], from)
			if err != nil {
				return o.explain(err)
			}
			_, err = fmt.Fprintf(s.out, "%s@%s\n", img.Name, img.Digest)
			return err //nolint:wrapcheck // says "write /dev/stdout"
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&from, "from", "", "the existing image")
	return c
}

func newImageRemove(s streams) *cobra.Command {
	o := &location{}
	c := &cobra.Command{
		Use:   "rm NAME",
		Short: "Take an image out of the registry, so that it can't be pulled any more",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := o.layout()
			if err != nil {
				return err
			}
			if err := supervisor.NewClient(l).RemoveImage(c.Context(), args[0]); err != nil {
				return o.explain(err)
			}
			fmt.Fprintf(s.errOut, "%s is removed\n", args[0])
			return nil
		},
	}
	o.addFlags(c)
	return c
}
