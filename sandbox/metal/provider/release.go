// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// delete has a machine's host deprovisioned and gives it back.
func (r *machineReconciler) delete(ctx context.Context, s *scope) (ctrl.Result, error) {
	host, err := r.hostOf(ctx, s.infra)
	if err != nil {
		return ctrl.Result{}, err
	}
	if host != nil && text(host, "spec", "consumerRef", "kind") == "Metal3Machine" && text(host, "spec", "consumerRef", "name") == s.infra.GetName() {
		if waiting, err := r.deprovision(ctx, host); err != nil || waiting {
			if err != nil {
				return ctrl.Result{}, err
			}
			return ctrl.Result{RequeueAfter: retryAfter}, r.state(ctx, s, metaDataSet, metav1.ConditionFalse, "DeletionFailed",
				"deprovisioning BareMetalHost, requeuing")
		}
		if err := r.giveBack(ctx, s, host); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.patch(ctx, s.infra, func() { controllerutil.RemoveFinalizer(s.infra, machineFinalizer) })
}

// deprovision takes a host's image away and says whether the host is still at it.
func (r *machineReconciler) deprovision(ctx context.Context, host *unstructured.Unstructured) (bool, error) {
	wanted := text(host, "spec", "image", "url") != "" || text(host, "spec", "customDeploy", "method") != "" ||
		text(host, "spec", "userData", "name") != "" || flag(host, "spec", "online") && !flag(host, "spec", "disablePowerOff")
	if wanted {
		return true, r.patch(ctx, host, func() {
			for _, field := range []string{"image", "customDeploy", "userData", "metaData", "networkData"} {
				unstructured.RemoveNestedField(host.Object, "spec", field)
			}
			if !flag(host, "spec", "disablePowerOff") {
				set(host, false, "spec", "online")
			}
		})
	}
	// In these the host has nothing of ours on it any more.
	gone := []string{"", "unmanaged", "registering", "match profile", "inspecting", "preparing", "ready", "available"}
	return !slices.Contains(gone, text(host, "status", "provisioning", "state")), nil
}

// giveBack frees a host, booked for the machine that comes next where hosts are to be used again.
func (r *machineReconciler) giveBack(ctx context.Context, s *scope, host *unstructured.Unstructured) error {
	label := ""
	if s.cluster.DeletionTimestamp == nil {
		reuse, err := r.reuses(ctx, s)
		if err != nil {
			return err
		}
		if reuse {
			label = booking(s.machine)
		}
	}
	return r.patch(ctx, host, func() {
		labels := host.GetLabels()
		delete(labels, clusterv1.ClusterNameLabel)
		if label != "" {
			labels[nodeReuseLabel] = label
		}
		host.SetLabels(labels)
		host.SetOwnerReferences(withoutMachines(host.GetOwnerReferences()))
		unstructured.RemoveNestedField(host.Object, "spec", "consumerRef")
	})
}

// reuses says whether the host of a machine is to be used again by the machine's successor. It needs the machine's owner to be there still. Everything
// that is missing means no, and nothing says so.
func (r *machineReconciler) reuses(ctx context.Context, s *scope) (bool, error) {
	name := s.infra.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation]
	if kcp := owner(s.machine, "KubeadmControlPlane"); kcp != "" {
		u, err := r.get(ctx, controlPlaneKind(), s.machine.Namespace, kcp)
		if err != nil || u == nil {
			return false, err
		}
		if r.generation == New {
			name = text(u, "spec", "machineTemplate", "spec", "infrastructureRef", "name")
		}
		return r.templateReuses(ctx, s.machine.Namespace, name)
	}
	deployment, machineSet := s.machine.Labels[clusterv1.MachineDeploymentNameLabel], owner(s.machine, "MachineSet")
	if deployment == "" || machineSet == "" {
		return false, nil
	}
	u, err := r.get(ctx, clusterv1.GroupVersion.WithKind("MachineDeployment"), s.machine.Namespace, deployment)
	if err != nil || u == nil {
		return false, err
	}
	if r.generation == New {
		set, err := r.get(ctx, clusterv1.GroupVersion.WithKind("MachineSet"), s.machine.Namespace, machineSet)
		if err != nil || set == nil {
			return false, err
		}
		name = text(set, "spec", "template", "spec", "infrastructureRef", "name")
	}
	return r.templateReuses(ctx, s.machine.Namespace, name)
}

func (r *machineReconciler) templateReuses(ctx context.Context, namespace, name string) (bool, error) {
	if name == "" {
		return false, nil
	}
	t, err := r.get(ctx, infraKind("Metal3MachineTemplate"), namespace, name)
	if err != nil || t == nil {
		return false, err
	}
	return flag(t, "spec", "nodeReuse"), nil
}
