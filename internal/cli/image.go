// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/image"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/render"
)

func imageCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:   "image",
		Short: "What is in a node's disk image, what a roll to another one changes, and the catalog",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknownCommand(c, args[0])
		},
	}
	c.AddCommand(imageInspectCommand(g), imageDiffCommand(g), imageListCommand(g))
	return c
}

// imageOptions is what both commands look for.
type imageOptions struct {
	*global
	look    image.Options
	sources []string
}

func (o *imageOptions) moduleFlag(c *cobra.Command) {
	c.Flags().StringArrayVar(&o.look.Modules, "module", nil, "also report the kernel module `NAME`; may be repeated. Usual drivers of network cards are always reported")
}

// Complete takes over the images.
func (o *imageOptions) Complete(args []string) error {
	o.sources = args
	return nil
}

// Validate refuses digests that are not known.
func (o *imageOptions) Validate() error {
	for _, d := range o.look.Digests {
		if !slices.Contains(image.Algorithms(), d) {
			return problem.Usage("BadDigest", "--digest", "There is no digest %q", d).WithRemedy("--digest %s", strings.Join(image.Algorithms(), ", --digest "))
		}
	}
	for _, name := range slices.Concat(o.look.Packages, o.look.Modules) {
		if strings.TrimSpace(name) == "" {
			return problem.Usage("BadName", "", "A package and a module need a name").WithRemedy("--package containerd, --module i40e")
		}
	}
	return nil
}

// read reads one image.
func (o *imageOptions) read(ctx context.Context, source string) (report *image.Report, err error) {
	opener := &image.Opener{TempDir: o.env("TMPDIR")}
	if render.IsTerminal(o.app.streams.Err) && !o.structured() {
		opener.Progress = render.Download(o.app.streams.Err, source)
	}
	f, err := opener.Open(ctx, source)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	look := o.look
	look.TempDir = opener.TempDir
	return image.Inspect(ctx, source, f, f.Size, look)
}

type imageInspectOptions struct{ imageOptions }

func imageInspectCommand(g *global) *cobra.Command {
	o := &imageInspectOptions{imageOptions{global: g}}
	c := &cobra.Command{
		Use:   "inspect FILE|URL|oci://REFERENCE[#NAME]",
		Short: "Read a disk image and say what is in it",
		Long: "Reads a disk image (qcow2 or raw, each also packed with gzip) and says what is in it: size, digest, partitions, operating system,\n" +
			"kernels and which of them boots, container runtime, Kubernetes and its tools, packages and kernel modules. What could not be\n" +
			"read is named. No cluster is needed, nothing is mounted, and no right of root is needed.\n\nAn oci:// reference is a container image or artifact whose layers hold disk images; #NAME chooses one of several.",
		Args: arguments(1, 1, "one image: a file, an http or https address, or oci://registry/repository:tag"),
		RunE: runs(g, o),
	}
	o.moduleFlag(c)
	c.Flags().StringArrayVar(&o.look.Packages, "package", nil, "also report the package `NAME`; may be repeated")
	c.Flags().BoolVar(&o.look.AllPackages, "all-packages", false, "report every package")
	c.Flags().StringArrayVar(&o.look.Digests, "digest", nil, "also compute the digest `NAME`, md5 or sha512; may be repeated. sha256 is always computed")
	return c
}

// Run reads the image and shows what is in it.
func (o *imageInspectOptions) Run(ctx context.Context) error {
	r, err := o.read(ctx, o.sources[0])
	if err != nil {
		return err
	}
	return o.write(&render.Image{Report: r})
}

type imageDiffOptions struct{ imageOptions }

func imageDiffCommand(g *global) *cobra.Command {
	o := &imageDiffOptions{imageOptions{global: g}}
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Say what nodes get, lose and change by a roll from image A to image B",
		Long: "Reads two disk images and says what differs: operating system, the kernel that boots, container runtime, Kubernetes and its\n" +
			"tools, kernel modules of the kernels that boot, and every package. The exit code is 0 whether they differ or not.",
		Args: arguments(2, 2, "two images: the present one and the next"),
		RunE: runs(g, o),
	}
	o.moduleFlag(c)
	return c
}

// Run reads both images and shows what differs.
func (o *imageDiffOptions) Run(ctx context.Context) error {
	o.look.AllPackages, o.look.NoDigest = true, true
	a, err := o.read(ctx, o.sources[0])
	if err != nil {
		return err
	}
	b, err := o.read(ctx, o.sources[1])
	if err != nil {
		return err
	}
	return o.write(&render.ImageDiff{Difference: image.Diff(a, b)})
}
