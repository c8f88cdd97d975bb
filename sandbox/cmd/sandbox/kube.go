// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// requestTimeout bounds one request to the sandbox's API server.
const requestTimeout = 10 * time.Second

// kube talks to a sandbox's API server, from outside and so through the proxy, as every other client does.
type kube struct {
	typed   kubernetes.Interface
	dynamic dynamic.Interface
}

func newKube(l supervisor.Layout) (kube, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", controlplane.FilesIn(l.Dir).Kubeconfig())
	if err != nil {
		return kube{}, fmt.Errorf("read the sandbox's kubeconfig: %w", err)
	}
	cfg.UserAgent = "sandbox-cli" // not "capstan...": `sandbox audit --agent capstan` is about the product
	cfg.Timeout = requestTimeout
	cfg.QPS, cfg.Burst = 100, 200
	typed, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return kube{}, fmt.Errorf("make client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return kube{}, fmt.Errorf("make client: %w", err)
	}
	return kube{typed: typed, dynamic: dyn}, nil
}

// podState is one Pod that is not ready.
type podState struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
	Restarts  int32  `json:"restarts"`
}

// podsNotReady lists the Pods that are neither ready nor finished, and how many Pods there are.
func (k kube) podsNotReady(ctx context.Context) (bad []podState, total int, err error) {
	list, err := k.typed.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list pods: %w", err)
	}
	bad = []podState{}
	for i := range list.Items {
		p := &list.Items[i]
		if reason, ready := podReady(p); !ready {
			bad = append(bad, podState{Namespace: p.Namespace, Name: p.Name, Reason: reason, Restarts: restarts(p)})
		}
	}
	slices.SortFunc(bad, func(a, b podState) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return bad, len(list.Items), nil
}

// podReady says whether a Pod is ready or finished, and else the reason kubectl would show.
func podReady(p *corev1.Pod) (reason string, ready bool) {
	if p.DeletionTimestamp != nil {
		return "Terminating", false
	}
	if p.Status.Phase == corev1.PodSucceeded {
		return "", true
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason != "" {
			return strings.TrimSpace(w.Reason + " " + w.Message), false
		}
	}
	reason = string(p.Status.Phase)
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return "", true
		}
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			reason = c.Reason + ": " + c.Message
		}
	}
	return reason, false
}

func restarts(p *corev1.Pod) int32 {
	var n int32
	for _, s := range p.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}

// waitingDeployments names the Deployments that are not available at their latest generation.
func (k kube) waitingDeployments(ctx context.Context) ([]string, error) {
	list, err := k.typed.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list deployments: %w", err)
	}
	var waiting []string
	for i := range list.Items {
		if d := &list.Items[i]; !deploymentDone(d) {
			waiting = append(waiting, d.Name)
		}
	}
	slices.Sort(waiting)
	return waiting, nil
}

func deploymentDone(d *appsv1.Deployment) bool {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.AvailableReplicas == want && s.Replicas == want
}

// providerState is one entry of the clusterctl inventory.
type providerState struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	Version   string `json:"version"`
	Namespace string `json:"namespace"`
}

// providers reads the clusterctl inventory. No inventory is an empty list.
func (k kube) providers(ctx context.Context) ([]providerState, error) {
	gvr := schema.GroupVersionResource{Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3", Resource: "providers"}
	list, err := k.dynamic.Resource(gvr).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return []providerState{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the clusterctl inventory: %w", err)
	}
	out := make([]providerState, 0, len(list.Items))
	for i := range list.Items {
		u := &list.Items[i]
		out = append(out, providerState{
			Name: text(u, "providerName"), Type: text(u, "type"), Version: text(u, "version"), Namespace: u.GetNamespace(),
		})
	}
	slices.SortFunc(out, func(a, b providerState) int { return strings.Compare(a.Type+a.Name, b.Type+b.Name) })
	return out, nil
}

func text(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...) // a field of another type is shown as empty
	return s
}

// nodeState is the state of a node.
type nodeState struct {
	Name    string `json:"name"`
	Ready   bool   `json:"ready"`
	Version string `json:"version"`
	CPU     string `json:"cpu"`
	Memory  string `json:"memory"`
}

func (k kube) nodes(ctx context.Context) ([]nodeState, error) {
	list, err := k.typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	out := make([]nodeState, 0, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		s := nodeState{
			Name: n.Name, Version: n.Status.NodeInfo.KubeletVersion,
			CPU: n.Status.Allocatable.Cpu().String(), Memory: n.Status.Allocatable.Memory().String(),
		}
		for _, c := range n.Status.Conditions {
			s.Ready = s.Ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}
		out = append(out, s)
	}
	return out, nil
}
