// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	inmemoryruntime "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	inmemoryserver "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// site has all workload clusters.
type site struct {
	memory inmemoryruntime.Manager
	mux    *inmemoryserver.WorkloadClustersMux
	clock  clock.PassiveClock
}

// workload is one workload cluster. Its name is that of its listener and of its group of objects too.
type workload struct {
	site   *site
	name   string
	key    types.NamespacedName
	client inmemoryruntime.Client
	// secrets has the certificate authorities that Cluster API made for the cluster.
	secrets client.Client
}

// open returns a workload cluster, making it when it is new. Its listener starts with its first API server.
func (s *site) open(ctx context.Context, secrets client.Client, key types.NamespacedName, port int32) (*workload, error) {
	name := key.String()
	s.memory.AddResourceGroup(name)
	w := &workload{site: s, name: name, key: key, secrets: secrets, client: s.memory.GetResourceGroup(name).GetClient()}
	if _, err := s.mux.InitWorkloadClusterListener(name, port); err != nil {
		return nil, fmt.Errorf("reserve port %d: %w", port, err)
	}
	if err := s.mux.RegisterResourceGroup(name, name); err != nil {
		return nil, fmt.Errorf("register objects: %w", err)
	}
	for _, ns := range []string{metav1.NamespaceDefault, metav1.NamespacePublic, metav1.NamespaceSystem} {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"kubernetes.io/metadata.name": ns}}}
		if err := w.create(ctx, o); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// forget ends a workload cluster.
func (s *site) forget(key types.NamespacedName) error {
	s.memory.DeleteResourceGroup(key.String())
	if err := s.mux.DeleteWorkloadClusterListener(key.String()); err != nil {
		return fmt.Errorf("close workload cluster: %w", err)
	}
	return nil
}

// settle makes the cluster what the machines make of it: the ones that run join, the ones that are gone or dark fall silent.
func (w *workload) settle(ctx context.Context, running []machine) error {
	present := map[string]bool{}
	for _, m := range running {
		present[m.name] = true
		if err := w.join(ctx, m); err != nil {
			return fmt.Errorf("join %s: %w", m.name, err)
		}
	}
	nodes, err := w.nodes(ctx)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for i := range nodes {
		known[nodes[i].Name] = true
		if !present[nodes[i].Name] {
			if err := w.silence(ctx, &nodes[i], true); err != nil {
				return err
			}
		}
	}
	if err := w.collect(ctx, known); err != nil {
		return err
	}
	if err := w.elect(ctx); err != nil {
		return err
	}
	return w.countProxies(ctx)
}

// join makes a machine's node and, on a control plane, its API server and etcd member. All of it is safe to repeat.
func (w *workload) join(ctx context.Context, m machine) error {
	node := nodeOf(m, w.site.clock.Now())
	var have corev1.Node
	err := w.client.Get(ctx, client.ObjectKeyFromObject(node), &have)
	switch {
	case apierrors.IsNotFound(err):
		if err := w.create(ctx, node); err != nil {
			return err
		}
		have = *node
	case err != nil:
		return fmt.Errorf("get node: %w", err)
	}
	if !m.up {
		return w.silence(ctx, &have, false)
	}
	if err := w.ready(ctx, &have, corev1.ConditionTrue, "KubeletReady"); err != nil {
		return err
	}
	if m.controlPlane {
		if err := w.joinControlPlane(ctx, m); err != nil {
			return err
		}
	}
	return w.create(ctx, proxyPod(m))
}

func (w *workload) joinControlPlane(ctx context.Context, m machine) error {
	if err := w.startEtcd(ctx, m); err != nil {
		return err
	}
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if err := w.run(ctx, staticPod(component, m)); err != nil {
			return err
		}
	}
	for _, o := range kubeadmObjects(m) {
		if err := w.create(ctx, o); err != nil {
			return err
		}
	}
	pod := "kube-apiserver-" + m.name
	if w.site.mux.HasAPIServer(w.name, pod) {
		return nil
	}
	cert, key, err := w.authority(ctx, secret.ClusterCA)
	if err != nil {
		return err
	}
	if err := w.site.mux.AddAPIServer(w.name, pod, cert, key); err != nil {
		return fmt.Errorf("start API server: %w", err)
	}
	return nil
}

// silence makes a machine's node unknown and takes its parts of the control plane away: it has no power, or its disk was cleaned. A host that is
// wiped does not delete its Node; Cluster API does.
func (w *workload) silence(ctx context.Context, node *corev1.Node, wiped bool) error {
	if err := w.ready(ctx, node, corev1.ConditionUnknown, "NodeStatusUnknown"); err != nil {
		return err
	}
	if _, controlPlane := node.Labels[controlPlaneLabel]; !controlPlane {
		return nil
	}
	if err := w.stop("kube-apiserver-"+node.Name, "etcd-"+node.Name); err != nil {
		return err
	}
	for _, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: component + "-" + node.Name}}
		if wiped {
			if err := w.client.Delete(ctx, pod); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete pod: %w", err)
			}
			continue
		}
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Errorf("get pod: %w", err)
		}
		if setPodReady(pod, corev1.ConditionFalse) {
			if err := w.client.Update(ctx, pod); err != nil {
				return fmt.Errorf("update pod: %w", err)
			}
		}
	}
	return nil
}

// collect removes the Pods of nodes that are gone, as the Pod garbage collector does, and stops what they served.
func (w *workload) collect(ctx context.Context, nodes map[string]bool) error {
	pods, err := w.pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName == "" || nodes[p.Spec.NodeName] {
			continue
		}
		if err := w.client.Delete(ctx, p); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete pod: %w", err)
		}
		if err := w.stop(p.Name, p.Name); err != nil {
			return err
		}
	}
	return nil
}

// stop takes an API server and an etcd member away, as far as they are there. Without an API server the listener closes.
func (w *workload) stop(apiServer, member string) error {
	if w.site.mux.HasAPIServer(w.name, apiServer) {
		if err := w.site.mux.DeleteAPIServer(w.name, apiServer); err != nil {
			return fmt.Errorf("stop API server: %w", err)
		}
	}
	if w.site.mux.HasEtcdMember(w.name, member) {
		if err := w.site.mux.DeleteEtcdMember(w.name, member); err != nil {
			return fmt.Errorf("stop etcd member: %w", err)
		}
	}
	return nil
}

func (w *workload) nodes(ctx context.Context) ([]corev1.Node, error) {
	return list[corev1.Node](ctx, w, corev1.SchemeGroupVersion.WithKind("Node"))
}

func (w *workload) pods(ctx context.Context, opts ...client.ListOption) ([]corev1.Pod, error) {
	return list[corev1.Pod](ctx, w, corev1.SchemeGroupVersion.WithKind("Pod"), opts...)
}

// list reads objects of a kind. What a client has patched the in-memory server keeps without a Go type, and refuses to put into a list of one.
func list[T any](ctx context.Context, w *workload, kind schema.GroupVersionKind, opts ...client.ListOption) ([]T, error) {
	raw := listOf(kind)
	if err := w.client.List(ctx, raw, opts...); err != nil {
		return nil, fmt.Errorf("list %ss: %w", kind.Kind, err)
	}
	slices.SortFunc(raw.Items, func(a, b unstructured.Unstructured) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	all := make([]T, len(raw.Items))
	for i := range raw.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Items[i].Object, &all[i]); err != nil {
			return nil, fmt.Errorf("decode %s %s: %w", kind.Kind, raw.Items[i].GetName(), err)
		}
	}
	return all, nil
}

// create writes an object unless it is there.
func (w *workload) create(ctx context.Context, o client.Object) error {
	if err := w.client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %T %s: %w", o, o.GetName(), err)
	}
	return nil
}

// run makes sure of a Pod that is ready.
func (w *workload) run(ctx context.Context, want *corev1.Pod) error {
	have := &corev1.Pod{}
	err := w.client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		return w.create(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("get pod: %w", err)
	}
	if !setPodReady(have, corev1.ConditionTrue) {
		return nil
	}
	if err := w.client.Update(ctx, have); err != nil {
		return fmt.Errorf("update pod: %w", err)
	}
	return nil
}

// ready sets a node's Ready condition.
func (w *workload) ready(ctx context.Context, node *corev1.Node, status corev1.ConditionStatus, reason string) error {
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Type != corev1.NodeReady || c.Status == status {
			continue
		}
		c.Status, c.Reason, c.LastTransitionTime = status, reason, metav1.NewTime(w.site.clock.Now())
		if err := w.client.Update(ctx, node); err != nil {
			return fmt.Errorf("update node: %w", err)
		}
	}
	return nil
}

// authority reads one of the cluster's certificate authorities.
func (w *workload) authority(ctx context.Context, purpose secret.Purpose) (*x509.Certificate, *rsa.PrivateKey, error) {
	s, err := secret.Get(ctx, w.secrets, w.key, purpose)
	if err != nil {
		return nil, nil, fmt.Errorf("get %s CA: %w", purpose, err)
	}
	cert, err := certs.DecodeCertPEM(s.Data[secret.TLSCrtDataName])
	if err != nil || cert == nil {
		return nil, nil, fmt.Errorf("read %s CA: certificate: %w", purpose, err)
	}
	signer, err := certs.DecodePrivateKeyPEM(s.Data[secret.TLSKeyDataName])
	if err != nil {
		return nil, nil, fmt.Errorf("read %s CA: key: %w", purpose, err)
	}
	key, ok := signer.(*rsa.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("read %s CA: the key is a %T, the in-memory servers take RSA", purpose, signer)
	}
	return cert, key, nil
}
