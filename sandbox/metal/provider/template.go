// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// templateReconciler passes the one field on that a template hands to machines it was cloned to before: how their hosts are cleaned. Everything else of a
// template may change without any consequence and without a word.
type templateReconciler struct{ base }

func (r *templateReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("metal3machinetemplate").For(object(infraKind("Metal3MachineTemplate"))).Complete(r)
}

// Reconcile writes a template's cleaning mode to its machines.
func (r *templateReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t, err := r.get(ctx, infraKind("Metal3MachineTemplate"), req.Namespace, req.Name)
	if err != nil || t == nil || t.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, err
	}
	mode := text(t, "spec", "template", "spec", "automatedCleaningMode")
	if mode == "" {
		return ctrl.Result{}, nil
	}
	machines := listOf(infraKind("Metal3Machine"))
	if err := r.client.List(ctx, machines, client.InNamespace(req.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list machines: %w", err)
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		if m.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation] != req.Name {
			continue
		}
		if err := r.patch(ctx, m, func() { set(m, mode, "spec", "automatedCleaningMode") }); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}
