// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
	"github.com/capstan-dev/capstan/sandbox/internal/netns"
	"github.com/capstan-dev/capstan/sandbox/internal/node"
	"github.com/capstan-dev/capstan/sandbox/internal/registry"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// nodeName is the sandbox's one node.
const nodeName = "sandbox-node-1"

// serviceRange is where cluster IPs are taken from. Nothing routes them.
const serviceRange = "10.96.0.0/16"

// newSuperviseCommand is the hidden command that runs inside the sandbox's namespaces; see daemon.start.
func newSuperviseCommand(clk clock.WithTicker) *cobra.Command {
	return &cobra.Command{
		Use:    cmdSupervise + " DIR",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return supervise(c.Context(), supervisor.Layout{Dir: args[0]}, clk)
		},
	}
}

func supervise(ctx context.Context, l supervisor.Layout, clk clock.WithTicker) error {
	// The lock is held by having the file open, and is not to live on in children.
	unix.CloseOnExec(fdLock)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	spec, err := supervisor.ReadSpec(l)
	if err != nil {
		return err
	}
	proxy, err := inherited(fdProxy, "proxy")
	if err != nil {
		return err
	}
	outside, err := inherited(fdRegistry, "registry")
	if err != nil {
		return err
	}
	pods, err := netns.NewPodNetwork()
	if err != nil {
		return fmt.Errorf("find the Pod network: %w", err)
	}
	services, err := netip.ParsePrefix(serviceRange)
	if err != nil {
		return fmt.Errorf("parse service range: %w", err)
	}
	images := &registry.Layered{Upper: registry.Store{Dir: l.Registry()}}
	for _, dir := range spec.Inputs.Images {
		images.Lower = append(images.Lower, registry.Store{Dir: dir})
	}
	return supervisor.Run(ctx, supervisor.Config{
		Layout: l, Spec: spec, Address: pods.Gateway(), Pods: pods.Prefix(), Services: services, NodeName: nodeName,
		Proxy: proxy, RegistryOutside: outside, Registry: images.Handler(log), Images: imageStore{images},
		NewNode: func(f controlplane.Files) (supervisor.Node, error) { return newNodeAgent(l, spec, f, pods, clk, log) },
		Clock:   clk, Log: log,
	})
}

// inherited makes a listener of a file descriptor the process was started with.
func inherited(fd uintptr, name string) (net.Listener, error) {
	f := os.NewFile(fd, name)
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("take over the %s listener: %w", name, err)
	}
	return l, nil
}

// imageStore is the registry as the supervisor's API shows it.
type imageStore struct{ layers *registry.Layered }

func (s imageStore) List(context.Context) ([]supervisor.Image, error) {
	list, err := s.layers.Images()
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	out := make([]supervisor.Image, 0, len(list))
	for _, i := range list {
		out = append(out, supervisor.Image{Name: i.Name, Digest: i.Digest.String(), Local: i.Local})
	}
	return out, nil
}

func (s imageStore) Add(_ context.Context, name, from string) (supervisor.Image, error) {
	if err := s.layers.Tag(from, name); err != nil {
		return supervisor.Image{}, fmt.Errorf("tag image: %w", err)
	}
	digest, err := s.layers.Resolve(name)
	if err != nil {
		return supervisor.Image{}, fmt.Errorf("resolve image: %w", err)
	}
	return supervisor.Image{Name: name, Digest: digest.String(), Local: true}, nil
}

func (s imageStore) Remove(_ context.Context, name string) error {
	if err := s.layers.Remove(name); err != nil {
		return fmt.Errorf("remove image: %w", err)
	}
	return nil
}

// nodeAgent is the node agent as the supervisor sees it.
type nodeAgent struct {
	agent  *node.Agent
	client kubernetes.Interface

	// offered is what the node offers now. Only the control API's handler changes it, one request at a time.
	offered corev1.ResourceList
}

func newNodeAgent(l supervisor.Layout, spec supervisor.Spec, f controlplane.Files, pods *netns.PodNetwork, clk clock.WithTicker, log *slog.Logger,
) (*nodeAgent, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", f.NodeKubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read node kubeconfig: %w", err)
	}
	cfg.UserAgent, cfg.QPS, cfg.Burst = "sandbox-node", 100, 200
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make node client: %w", err)
	}
	cert, err := tls.LoadX509KeyPair(f.KubeletCert(), f.KubeletKey())
	if err != nil {
		return nil, fmt.Errorf("load kubelet certificate: %w", err)
	}
	ca, err := os.ReadFile(f.CA())
	if err != nil {
		return nil, fmt.Errorf("load certificate authority: %w", err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(ca)
	offered, err := resources(supervisor.NodeResources{Memory: spec.NodeMemory, CPU: spec.NodeCPU})
	if err != nil {
		return nil, err
	}
	agent, err := node.New(node.Config{
		Client: client, NodeName: nodeName, NodeIP: pods.Gateway(), Port: controlplane.KubeletPort, KubeletVersion: spec.Kubernetes,
		Capacity: offered, Registry: netip.AddrPortFrom(pods.Gateway(), supervisor.RegistryPort).String(), Dir: l.Pods(),
		APIHost: pods.Gateway().String(), APIPort: controlplane.APIServerPort, Network: pods,
		SelfArgs: []string{"/proc/self/exe", cmdContainerInit}, ServingCert: &cert, ClientCAs: clients, Clock: clk, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("make node agent: %w", err)
	}
	return &nodeAgent{agent: agent, client: client, offered: offered}, nil
}

// Run registers the node and runs its Pods until ctx ends.
func (n *nodeAgent) Run(ctx context.Context) error { return n.agent.Run(ctx) } //nolint:wrapcheck // the supervisor names the component

// Health returns nil when the API server says that the node is ready.
func (n *nodeAgent) Health(ctx context.Context) error {
	obj, err := n.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get node: %w", err)
	}
	for _, c := range obj.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not Ready", nodeName)
}

// SetResources changes what the node offers to Pods.
func (n *nodeAgent) SetResources(_ context.Context, r supervisor.NodeResources) error {
	list, err := resources(r)
	if err != nil {
		return err
	}
	maps.Copy(n.offered, list)
	n.agent.SetCapacity(n.offered.DeepCopy())
	return nil
}

func resources(r supervisor.NodeResources) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceMemory: r.Memory, corev1.ResourceCPU: r.CPU} {
		if text == "" {
			continue
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("parse %s %q: %w", name, text, err)
		}
		list[name] = q
	}
	return list, nil
}
