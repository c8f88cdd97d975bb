// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

const (
	clusterNameLabel = "cluster.x-k8s.io/cluster-name"
	pollInterval     = 500 * time.Millisecond
)

// The resources that are looked at.
func clusters() schema.GroupVersionResource { return capi("cluster.x-k8s.io", "clusters") }
func machines() schema.GroupVersionResource { return capi("cluster.x-k8s.io", "machines") }
func kcps() schema.GroupVersionResource {
	return capi("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes")
}

func secrets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
}

func capi(group, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1beta2", Resource: resource}
}

// State is how far a workload cluster is.
type State struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase"`
	// Available is the Available condition of the Cluster and of its control plane, together.
	Available bool `json:"available"`
	// Machines is how many there are, Running how many of them run.
	Machines int `json:"machines"`
	Running  int `json:"running"`
	// Endpoint is the workload cluster's API server.
	Endpoint string `json:"endpoint,omitempty"`
	// Message says what is missing.
	Message string `json:"message,omitempty"`
}

// Whole says whether a cluster has all its machines running and is available.
func (s State) Whole(want int) bool { return s.Available && s.Machines == want && s.Running == want }

// List returns the state of all workload clusters, sorted by name.
func List(ctx context.Context, client dynamic.Interface) ([]State, error) {
	list, err := client.Resource(clusters()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	states := make([]State, 0, len(list.Items))
	for i := range list.Items {
		s, err := stateOf(ctx, client, &list.Items[i])
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}
	slices.SortFunc(states, func(a, b State) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return states, nil
}

func stateOf(ctx context.Context, client dynamic.Interface, cl *unstructured.Unstructured) (State, error) {
	s := State{Namespace: cl.GetNamespace(), Name: cl.GetName(), Phase: field(cl, "status", "phase")}
	var err error
	if s.Endpoint, err = endpoint(ctx, client, s.Namespace, s.Name); err != nil {
		return s, err
	}
	up, why := condition(cl, "Available")
	s.Available, s.Message = up, why
	opts := metav1.ListOptions{LabelSelector: clusterNameLabel + "=" + s.Name}
	planes, err := client.Resource(kcps()).Namespace(s.Namespace).List(ctx, opts)
	if err != nil {
		return s, fmt.Errorf("list control planes of cluster %s/%s: %w", s.Namespace, s.Name, err)
	}
	for i := range planes.Items {
		name := "KubeadmControlPlane " + planes.Items[i].GetName()
		if up, why := condition(&planes.Items[i], "Available"); !up {
			s.Available, s.Message = false, name+": "+why
		}
		for _, kind := range []string{"ControlPlaneComponentsHealthy", "EtcdClusterHealthy"} {
			if well, why := condition(&planes.Items[i], kind); !well {
				s.Available, s.Message = false, name+": "+why
			}
		}
		// Its status follows its Machines at a distance, and who asks whether anything moves reads the status.
		if moves, _ := condition(&planes.Items[i], "ScalingUp"); moves || !counted(&planes.Items[i]) {
			s.Available, s.Message = false, name+": has not counted its Machines yet"
		}
	}
	all, err := client.Resource(machines()).Namespace(s.Namespace).List(ctx, opts)
	if err != nil {
		return s, fmt.Errorf("list machines of cluster %s/%s: %w", s.Namespace, s.Name, err)
	}
	for i := range all.Items {
		s.Machines++
		if field(&all.Items[i], "status", "phase") == "Running" {
			s.Running++
		}
	}
	return s, nil
}

// endpoint is where the cluster's kubeconfig says its API server is; empty when there is no kubeconfig yet. Cluster.spec.controlPlaneEndpoint is
// no answer: the docker provider moves the endpoint with its Pod, and Cluster API copies it once.
func endpoint(ctx context.Context, client dynamic.Interface, namespace, name string) (string, error) {
	u, err := client.Resource(secrets()).Namespace(namespace).Get(ctx, name+"-kubeconfig", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get kubeconfig of cluster %s/%s: %w", namespace, name, err)
	}
	data, err := base64.StdEncoding.DecodeString(field(u, "data", "value"))
	if err != nil {
		return "", fmt.Errorf("decode kubeconfig of cluster %s/%s: %w", namespace, name, err)
	}
	kc, err := clientcmd.Load(data)
	if err != nil {
		return "", fmt.Errorf("read kubeconfig of cluster %s/%s: %w", namespace, name, err)
	}
	c, ok := kc.Clusters[name]
	if !ok {
		return "", fmt.Errorf("read kubeconfig of cluster %s/%s: it has no cluster of that name", namespace, name)
	}
	return c.Server, nil
}

// Wait waits until each cluster is whole. note is told how far the clusters are whenever that has changed.
func Wait(ctx context.Context, client dynamic.Interface, clk clock.Clock, want []Cluster, limit time.Duration, note func(string)) error {
	deadline := clk.Now().Add(limit)
	for last := ""; ; {
		states, err := List(ctx, client)
		if err == nil {
			missing, progress := compare(states, want)
			if len(missing) == 0 {
				return nil
			}
			if progress != last {
				note(progress)
				last = progress
			}
			err = fmt.Errorf("not whole: %s", strings.Join(missing, "; "))
		}
		if clk.Now().After(deadline) {
			return fmt.Errorf("workload clusters after %s: %w", limit, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for workload clusters: %w", context.Cause(ctx))
		case <-clk.After(pollInterval):
		}
	}
}

// compare returns what each cluster that is not whole is missing, and one line of progress.
func compare(states []State, want []Cluster) (missing []string, progress string) {
	running, total := 0, 0
	for _, c := range want {
		n := c.ControlPlanes + c.Workers
		total += n
		i := slices.IndexFunc(states, func(s State) bool { return s.Namespace == c.Namespace && s.Name == c.Name })
		if i < 0 {
			missing = append(missing, c.Name+": there is no such Cluster")
			continue
		}
		s := states[i]
		running += s.Running
		if !s.Whole(n) {
			missing = append(missing, fmt.Sprintf("%s: %d of %d Machines run, available: %t %s", c.Name, s.Running, n, s.Available, oneLine(s.Message)))
		}
	}
	return missing, fmt.Sprintf("%d of %d Machines run, %d of %d clusters whole", running, total, len(want)-len(missing), len(want))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// condition reads a condition: whether it is true, and what it says otherwise.
func condition(u *unstructured.Unstructured, kind string) (isTrue bool, message string) {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range list {
		c, ok := item.(map[string]any)
		if !ok || c["type"] != kind {
			continue
		}
		if c["status"] == "True" {
			return true, ""
		}
		return false, fmt.Sprint(c["message"])
	}
	return false, "no " + kind + " condition yet"
}

// counted tells whether an owner of Machines says that it has as many as it wants.
func counted(u *unstructured.Unstructured) bool {
	want, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	have, _, _ := unstructured.NestedInt64(u.Object, "status", "replicas")
	return want == have
}

func field(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}
