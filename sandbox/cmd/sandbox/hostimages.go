// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/sandbox/metal/host"
)

func newHostImages(s streams) *cobra.Command {
	o := &hostOptions{streams: s}
	output := "text"
	var add host.KnownImage
	c := &cobra.Command{
		Use:   "images",
		Short: "List the images that hosts can be provisioned with, or add one",
		Long: `images lists what can be downloaded from where, and what a machine says of itself once it runs it. With --add there is one more, or another
one at the same address. A host that is given any other address fails to download it.`,
		Example: `  sandbox host images
  sandbox host images --add http://images.example.com/a.qcow2 --sha256 ... --kernel 6.8.0-60-generic`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := outputFormat(output); err != nil {
				return err
			}
			return o.images(c.Context(), add, output)
		},
	}
	o.addFlags(c)
	f := c.Flags()
	f.StringVarP(&output, "output", "o", output, "text or json")
	f.StringVar(&add.URL, "add", "", "address of an image to add")
	f.StringVar(&add.Name, "as", "", "its name")
	f.StringVar(&add.SHA256, "sha256", "", "its checksum")
	f.StringVar(&add.OSImage, "os", "Ubuntu 22.04.5 LTS", "its nodeInfo.osImage")
	f.StringVar(&add.Kernel, "kernel", "5.15.0-118-generic", "its nodeInfo.kernelVersion")
	f.StringVar(&add.Runtime, "container-runtime", "containerd://2.1.4", "its nodeInfo.containerRuntimeVersion")
	f.StringVar(&add.Kubelet, "kubelet", "", "its nodeInfo.kubeletVersion (default: the sandbox's Kubernetes version)")
	return c
}

func (o *hostOptions) images(ctx context.Context, add host.KnownImage, output string) error {
	k, err := o.open()
	if err != nil {
		return err
	}
	list, err := k.hostImages(ctx)
	if err != nil {
		return err
	}
	if add.URL != "" {
		if list, err = k.addHostImage(ctx, list, add); err != nil {
			return err
		}
	}
	if output == "json" {
		return printJSON(o.streams, list)
	}
	w := tabwriter.NewWriter(o.streams.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "IMAGE\tOS\tKERNEL\tRUNTIME\tKUBELET\tSHA256\tURL")
	for _, i := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", i.Name, i.OSImage, i.Kernel, i.Runtime, i.Kubelet, i.SHA256, i.URL)
	}
	return w.Flush()
}

func (k kube) hostImages(ctx context.Context) ([]host.KnownImage, error) {
	cm, err := k.typed.CoreV1().ConfigMaps(host.ConfigNamespace).Get(ctx, host.ImagesConfig, metav1.GetOptions{})
	if err != nil {
		return nil, hint(fmt.Errorf("read images of hosts: %w", err), "a sandbox has hosts when it was started with `sandbox up --metal`")
	}
	return host.ParseImages(cm.Data[host.ImagesKey]) //nolint:wrapcheck // says what was read
}

// addHostImage puts an image into the list, in the place of one with the same address.
func (k kube) addHostImage(ctx context.Context, list []host.KnownImage, add host.KnownImage) ([]host.KnownImage, error) {
	if add.Kubelet == "" && len(list) > 0 {
		add.Kubelet = list[0].Kubelet
	}
	if add.Name == "" {
		add.Name = add.URL
	}
	list = append(slices.DeleteFunc(list, func(i host.KnownImage) bool { return i.URL == add.URL }), add)
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode images: %w", err)
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{host.ImagesKey: string(text)}})
	if err != nil {
		return nil, fmt.Errorf("encode images: %w", err)
	}
	_, err = k.typed.CoreV1().ConfigMaps(host.ConfigNamespace).Patch(ctx, host.ImagesConfig, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("write images: %w", err)
	}
	return list, nil
}
