// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

const (
	machineFinalizer = "metal3machine." + infraGroup
	// hostAnnotation is on a Metal3Machine and names its host as NAMESPACE/NAME.
	hostAnnotation = "metal3.io/BareMetalHost"

	// retryAfter is how long the real one waits when there is no host, or none is done.
	retryAfter = 30 * time.Second

	associated  = "AssociateBareMetalHost"
	metaDataSet = "AssociateMetal3MachineMetaData"
	ready       = "Ready"
)

// machineReconciler finds a host for each Metal3Machine, has the host provisioned, and gives it back.
type machineReconciler struct{ base }

func (r *machineReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("metal3machine").For(object(infraKind("Metal3Machine"))).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
			m, ok := o.(*clusterv1.Machine)
			if !ok || m.Spec.InfrastructureRef.Kind != "Metal3Machine" {
				return nil
			}
			return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: m.Namespace, Name: m.Spec.InfrastructureRef.Name}}}
		})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster)).
		Watches(object(hostKind()), handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
			u, ok := o.(*unstructured.Unstructured)
			if !ok || text(u, "spec", "consumerRef", "kind") != "Metal3Machine" {
				return nil
			}
			return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: u.GetNamespace(), Name: text(u, "spec", "consumerRef", "name")}}}
		})).
		Complete(r)
}

// ofCluster asks for all machines of a Cluster.
func (r *machineReconciler) ofCluster(ctx context.Context, o client.Object) []ctrl.Request {
	list := listOf(infraKind("Metal3Machine"))
	if err := r.client.List(ctx, list, client.InNamespace(o.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: o.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List machines")
		return nil
	}
	var all []ctrl.Request
	for i := range list.Items {
		all = append(all, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return all
}

// scope is what a reconciliation of one machine works with.
type scope struct {
	cluster *clusterv1.Cluster
	machine *clusterv1.Machine
	infra   *unstructured.Unstructured
}

// Reconcile takes the next step for a Metal3Machine.
func (r *machineReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s, err := r.scope(ctx, req)
	if err != nil || s == nil {
		return ctrl.Result{}, err
	}
	if paused, err := r.paused(ctx, s.cluster, s.infra); err != nil || paused {
		return ctrl.Result{}, err
	}
	var result ctrl.Result
	if s.infra.GetDeletionTimestamp() != nil {
		result, err = r.delete(ctx, s)
	} else {
		result, err = r.normal(ctx, s)
	}
	if apierrors.IsConflict(err) {
		// Somebody else wrote the object since; the real one asks again in the same way.
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	return result, err
}

func (r *machineReconciler) scope(ctx context.Context, req ctrl.Request) (*scope, error) {
	u, err := r.get(ctx, infraKind("Metal3Machine"), req.Namespace, req.Name)
	if err != nil || u == nil {
		return nil, err
	}
	name := owner(u, "Machine")
	if name == "" {
		return nil, nil // Cluster API has not adopted it yet
	}
	m := &clusterv1.Machine{}
	if err := r.client.Get(ctx, types.NamespacedName{Namespace: req.Namespace, Name: name}, m); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	cl := &clusterv1.Cluster{}
	if err := r.client.Get(ctx, types.NamespacedName{Namespace: req.Namespace, Name: m.Spec.ClusterName}, cl); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &scope{cluster: cl, machine: m, infra: u}, nil
}

func (r *machineReconciler) normal(ctx context.Context, s *scope) (ctrl.Result, error) {
	if err := r.patch(ctx, s.infra, func() { controllerutil.AddFinalizer(s.infra, machineFinalizer) }); err != nil {
		return ctrl.Result{}, err
	}
	if done := s.cluster.Status.Initialization.InfrastructureProvisioned; done == nil || !*done {
		return ctrl.Result{}, r.state(ctx, s, associated, metav1.ConditionFalse, "WaitingForClusterInfrastructureReady", "")
	}
	if s.machine.Spec.Bootstrap.DataSecretName == nil {
		return ctrl.Result{}, r.state(ctx, s, associated, metav1.ConditionFalse, "WaitingForBootstrapReady", "")
	}
	host, err := r.hostOf(ctx, s.infra)
	if err != nil {
		return ctrl.Result{}, err
	}
	if host == nil {
		host, err = r.associate(ctx, s)
		if err != nil || host == nil {
			return ctrl.Result{RequeueAfter: retryAfter}, err
		}
	}
	if err := r.settle(ctx, s, host); err != nil {
		return ctrl.Result{}, err
	}
	if text(host, "status", "provisioning", "state") != "provisioned" {
		return ctrl.Result{RequeueAfter: retryAfter}, r.state(ctx, s, ready, metav1.ConditionFalse, "NotReady", "BareMetalHost is not provisioned yet")
	}
	return ctrl.Result{}, r.finish(ctx, s, host)
}

// hostOf returns the host a machine has; nothing when it has none.
func (r *machineReconciler) hostOf(ctx context.Context, infra *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	key, ok := infra.GetAnnotations()[hostAnnotation]
	if !ok {
		return nil, nil
	}
	namespace, name, err := splitKey(key)
	if err != nil {
		return nil, err
	}
	return r.get(ctx, hostKind(), namespace, name)
}

func splitKey(key string) (namespace, name string, err error) {
	for i := range key {
		if key[i] == '/' {
			return key[:i], key[i+1:], nil
		}
	}
	return "", "", fmt.Errorf("annotation %s: %q is not of the form NAMESPACE/NAME", hostAnnotation, key)
}

// associate chooses a host and takes it.
func (r *machineReconciler) associate(ctx context.Context, s *scope) (*unstructured.Unstructured, error) {
	candidates := listOf(hostKind())
	if err := r.client.List(ctx, candidates, client.InNamespace(s.infra.GetNamespace())); err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	selector, err := hostSelector(s.infra)
	if err != nil {
		return nil, r.state(ctx, s, associated, metav1.ConditionFalse, "AssociateBareMetalHostFailed", err.Error())
	}
	choice := choose(candidates.Items, wanted{
		machine: s.infra.GetName(), selector: selector, booking: booking(s.machine), failureDomain: failureDomain(s),
	})
	if choice.host == nil {
		return nil, r.state(ctx, s, associated, metav1.ConditionFalse, "AssociateBareMetalHostFailed", choice.why)
	}
	host := choice.host
	if err := r.patch(ctx, host, func() { take(host, s) }); err != nil {
		return nil, err
	}
	if err := r.patch(ctx, s.infra, func() {
		annotations := s.infra.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[hostAnnotation] = host.GetNamespace() + "/" + host.GetName()
		s.infra.SetAnnotations(annotations)
	}); err != nil {
		return nil, err
	}
	reason := "AssociateBareMetalHostSuccess"
	if choice.reused {
		reason = "AssociateBareMetalHostViaNodeReuseSuccess"
	}
	return host, r.state(ctx, s, associated, metav1.ConditionTrue, reason, "")
}

// settle writes what a host is to be to a host that is already taken. An image is written only where there is none: what a host runs is never changed
// under it.
func (r *machineReconciler) settle(ctx context.Context, s *scope, host *unstructured.Unstructured) error {
	if ref := text(host, "spec", "consumerRef", "name"); ref != s.infra.GetName() {
		return fmt.Errorf("host %s is now used by %q", host.GetName(), ref)
	}
	return r.patch(ctx, host, func() {
		set(host, true, "spec", "online")
		if mode := text(s.infra, "spec", "automatedCleaningMode"); mode != "" {
			set(host, mode, "spec", "automatedCleaningMode")
		}
	})
}

// take writes a machine's claim and its image to a host.
func take(host *unstructured.Unstructured, s *scope) {
	labels := host.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterv1.ClusterNameLabel] = s.cluster.Name
	delete(labels, nodeReuseLabel)
	host.SetLabels(labels)
	host.SetOwnerReferences(append(withoutMachines(host.GetOwnerReferences()), metav1.OwnerReference{
		APIVersion: s.infra.GetAPIVersion(), Kind: "Metal3Machine", Name: s.infra.GetName(), UID: s.infra.GetUID(), Controller: new(true),
	}))
	set(host, map[string]any{
		"apiVersion": s.infra.GetAPIVersion(), "kind": "Metal3Machine", "namespace": s.infra.GetNamespace(), "name": s.infra.GetName(),
	}, "spec", "consumerRef")
	if image, ok, _ := unstructured.NestedStringMap(s.infra.Object, "spec", "image"); ok && text(host, "spec", "image", "url") == "" {
		// The host's name of the field is the older one.
		if format, ok := image["diskFormat"]; ok {
			image["format"] = format
			delete(image, "diskFormat")
		}
		content := map[string]any{}
		for k, v := range image {
			content[k] = v
		}
		set(host, content, "spec", "image")
	}
	if method := text(s.infra, "spec", "customDeploy", "method"); method != "" {
		set(host, map[string]any{"method": method}, "spec", "customDeploy")
	}
	set(host, map[string]any{"name": *s.machine.Spec.Bootstrap.DataSecretName, "namespace": s.infra.GetNamespace()}, "spec", "userData")
	if mode := text(s.infra, "spec", "automatedCleaningMode"); mode != "" {
		set(host, mode, "spec", "automatedCleaningMode")
	}
	set(host, true, "spec", "online")
}

func withoutMachines(refs []metav1.OwnerReference) []metav1.OwnerReference {
	var rest []metav1.OwnerReference
	for _, o := range refs {
		if o.Kind != "Metal3Machine" {
			rest = append(rest, o)
		}
	}
	return rest
}

// finish says that a machine is provisioned, and where.
func (r *machineReconciler) finish(ctx context.Context, s *scope, host *unstructured.Unstructured) error {
	id := fmt.Sprintf("metal3://%s/%s/%s", host.GetNamespace(), host.GetName(), s.infra.GetName())
	if err := r.patch(ctx, s.infra, func() {
		set(s.infra, id, "spec", "providerID")
	}); err != nil {
		return err
	}
	return r.patchStatus(ctx, s.infra, func() error {
		set(s.infra, true, "status", "initialization", "provisioned")
		set(s.infra, map[string]any{"name": *s.machine.Spec.Bootstrap.DataSecretName, "namespace": s.infra.GetNamespace()}, "status", "userData")
		set(s.infra, addresses(host), "status", "addresses")
		for _, kind := range []string{"KubernetesNodeReady", metaDataSet, ready} {
			if err := r.setCondition(s.infra, kind, metav1.ConditionTrue, kind+"Success", ""); err != nil {
				return err
			}
		}
		return nil
	})
}

func addresses(host *unstructured.Unstructured) []any {
	list := []any{map[string]any{"type": "Hostname", "address": host.GetName()}, map[string]any{"type": "InternalDNS", "address": host.GetName()}}
	nics, _, _ := unstructured.NestedSlice(host.Object, "status", "hardware", "nics")
	for _, n := range nics {
		nic, ok := n.(map[string]any)
		if !ok {
			continue
		}
		if ip, ok := nic["ip"].(string); ok && ip != "" {
			list = append(list, map[string]any{"type": "InternalIP", "address": ip})
		}
	}
	return list
}

// state sets one condition of a machine, and Ready with it while that is not true.
func (r *machineReconciler) state(ctx context.Context, s *scope, kind string, is metav1.ConditionStatus, reason, message string) error {
	return r.patchStatus(ctx, s.infra, func() error {
		if is == metav1.ConditionFalse && kind != ready {
			if err := r.setCondition(s.infra, ready, is, "NotReady", message); err != nil {
				return err
			}
		}
		return r.setCondition(s.infra, kind, is, reason, message)
	})
}
