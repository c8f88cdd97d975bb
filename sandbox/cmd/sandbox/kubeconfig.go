// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// kubeconfigOptions are the options of `sandbox kubeconfig`.
type kubeconfigOptions struct {
	location
	streams   streams
	cluster   string
	namespace string
}

func newKubeconfigCommand(s streams) *cobra.Command {
	o := &kubeconfigOptions{streams: s}
	c := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the sandbox's kubeconfig file, or of a workload cluster's",
		Example: `  export KUBECONFIG=$(sandbox kubeconfig)
  kubectl --kubeconfig $(sandbox kubeconfig --cluster fleet-1) get nodes`,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	o.addFlags(c)
	c.Flags().StringVar(&o.cluster, "cluster", "", "workload cluster whose kubeconfig to write, with the proxy in it")
	c.Flags().StringVar(&o.namespace, "namespace", "", "namespace of the workload cluster (default: \"default\", and on bare metal the cluster's name)")
	return c
}

func (o *kubeconfigOptions) run(ctx context.Context) error {
	l, err := o.layout()
	if err != nil {
		return err
	}
	path := controlplane.FilesIn(l.Dir).Kubeconfig()
	if _, err := os.Stat(path); err != nil {
		return o.explain(fmt.Errorf("%w: %w", supervisor.ErrNotRunning, err))
	}
	if o.cluster != "" {
		if path, err = o.writeWorkload(ctx, l); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(o.streams.out, path)
	return err //nolint:wrapcheck // says "write /dev/stdout"
}

// writeWorkload takes the kubeconfig that Cluster API keeps for a workload cluster and adds the proxy, without which a client outside of the
// sandbox does not reach it.
func (o *kubeconfigOptions) writeWorkload(ctx context.Context, l supervisor.Layout) (string, error) {
	spec, err := supervisor.ReadSpec(l)
	if err != nil {
		return "", err
	}
	if o.namespace == "" {
		o.namespace = "default"
		if spec.Metal != "" {
			o.namespace = o.cluster
		}
	}
	k, err := newKube(l)
	if err != nil {
		return "", err
	}
	secret, err := k.typed.CoreV1().Secrets(o.namespace).Get(ctx, o.cluster+"-kubeconfig", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", hint(fmt.Errorf("workload cluster %s/%s has no kubeconfig: %w", o.namespace, o.cluster, err), "run `sandbox status%s` to see which there are",
			o.flags())
	}
	if err != nil {
		return "", fmt.Errorf("get kubeconfig of workload cluster %s/%s: %w", o.namespace, o.cluster, err)
	}
	kc, err := clientcmd.Load(secret.Data["value"])
	if err != nil {
		return "", fmt.Errorf("read kubeconfig of workload cluster %s/%s: %w", o.namespace, o.cluster, err)
	}
	for _, c := range kc.Clusters {
		c.ProxyURL = spec.Inputs.ProxyURL
	}
	path := filepath.Join(l.Dir, "clusters", o.namespace+"-"+o.cluster+".kubeconfig")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("make kubeconfig directory: %w", err)
	}
	if err := clientcmd.WriteToFile(*kc, path); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return path, nil
}
