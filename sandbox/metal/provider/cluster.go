// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

const clusterFinalizer = "metal3cluster." + infraGroup

// clusterReconciler says of a Metal3Cluster that it is provisioned once somebody has given it an endpoint: that is all there is to it.
type clusterReconciler struct{ base }

func (r *clusterReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("metal3cluster").For(object(infraKind("Metal3Cluster"))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
			cl, ok := o.(*clusterv1.Cluster)
			if !ok || cl.Spec.InfrastructureRef.Kind != "Metal3Cluster" {
				return nil
			}
			return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: cl.Namespace, Name: cl.Spec.InfrastructureRef.Name}}}
		})).
		Complete(r)
}

// Reconcile brings a Metal3Cluster's status up to date.
func (r *clusterReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	u, err := r.get(ctx, infraKind("Metal3Cluster"), req.Namespace, req.Name)
	if err != nil || u == nil {
		return ctrl.Result{}, err
	}
	cl, err := r.cluster(ctx, u)
	if err != nil {
		return ctrl.Result{}, err
	}
	if u.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, r.delete(ctx, req.Namespace, req.Name)
	}
	if cl == nil {
		return ctrl.Result{}, nil // Cluster API has not adopted it yet
	}
	if paused, err := r.paused(ctx, cl, u); err != nil || paused {
		return ctrl.Result{}, err
	}
	if err := r.patch(ctx, u, func() { controllerutil.AddFinalizer(u, clusterFinalizer) }); err != nil {
		return ctrl.Result{}, err
	}
	if text(u, "spec", "controlPlaneEndpoint", "host") == "" {
		return ctrl.Result{}, r.patchStatus(ctx, u, func() error {
			return r.setCondition(u, "BaremetalInfrastructureReady", metav1.ConditionFalse, "ControlPlaneEndpointFailed",
				"Invalid ControlPlaneEndpoint values")
		})
	}
	return ctrl.Result{}, r.patchStatus(ctx, u, func() error {
		set(u, true, "status", "initialization", "provisioned")
		for _, kind := range []string{"BaremetalInfrastructureReady", "Ready"} {
			if err := r.setCondition(u, kind, metav1.ConditionTrue, "Ready", ""); err != nil {
				return err
			}
		}
		return nil
	})
}

// delete lets a Metal3Cluster go once no machine of its cluster is left.
func (r *clusterReconciler) delete(ctx context.Context, namespace, name string) error {
	u, err := r.get(ctx, infraKind("Metal3Cluster"), namespace, name)
	if err != nil || u == nil {
		return err
	}
	machines := listOf(infraKind("Metal3Machine"))
	if err := r.client.List(ctx, machines, client.InNamespace(namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: u.GetLabels()[clusterv1.ClusterNameLabel]}); err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	if len(machines.Items) > 0 {
		return fmt.Errorf("%d Metal3Machines are left", len(machines.Items))
	}
	return r.patch(ctx, u, func() { controllerutil.RemoveFinalizer(u, clusterFinalizer) })
}
