// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/render"
)

type imageListOptions struct{ *global }

func imageListCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show the image catalog: each NodeImage with what nodes made from it are expected to report",
		Args:  arguments(0, 0, "nothing"),
		RunE:  runs(g, &imageListOptions{global: g}),
	}
}

// Complete has nothing to fill in.
func (o *imageListOptions) Complete([]string) error { return nil }

// Validate has nothing to refuse.
func (o *imageListOptions) Validate() error { return nil }

// Run lists the catalog.
func (o *imageListOptions) Run(ctx context.Context) error {
	return o.with(ctx, func(s session) error {
		images, err := s.Images(ctx)
		if err != nil {
			return err
		}
		doc := &render.Images{Images: images, Now: o.app.clock.Now(), Next: "kubectl get nodeimage NAME -o yaml"}
		if len(images) == 0 {
			doc.Next = "kubectl apply -f FILE, with a NodeImage; kubectl explain nodeimage.spec tells the fields"
		}
		return o.write(doc)
	})
}
