// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/capstan-dev/capstan/sandbox/metal/host"
)

// clusterReconciler makes each workload cluster what its hosts run.
type clusterReconciler struct {
	client client.Client
	site   *site
	clock  clock.PassiveClock
}

func (r *clusterReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("cluster").For(&clusterv1.Cluster{}).
		Watches(object(hostKind()), handler.EnqueueRequestsFromMapFunc(r.inNamespace)).
		Watches(object(metalMachineKind()), handler.EnqueueRequestsFromMapFunc(r.inNamespace)).
		Complete(r)
}

// inNamespace asks for all clusters beside an object. A host that lost its consumer does not say any more whose it was.
func (r *clusterReconciler) inNamespace(ctx context.Context, o client.Object) []ctrl.Request {
	var list clusterv1.ClusterList
	if err := r.client.List(ctx, &list, client.InNamespace(o.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List clusters")
		return nil
	}
	var all []ctrl.Request
	for i := range list.Items {
		all = append(all, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return all
}

// machine is an operating system that runs on a host.
type machine struct {
	name         string
	controlPlane bool
	host         host.Host
	image        host.KnownImage
	// up says that the host has power and its management controller did not take it away.
	up bool
}

// Reconcile brings one workload cluster in line with its hosts.
func (r *clusterReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cl clusterv1.Cluster
	if err := r.client.Get(ctx, req.NamespacedName, &cl); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, r.site.forget(req.NamespacedName)
		}
		return ctrl.Result{}, fmt.Errorf("get cluster: %w", err)
	}
	if cl.Spec.InfrastructureRef.Kind != "Metal3Cluster" || !cl.Spec.ControlPlaneEndpoint.IsValid() {
		return ctrl.Result{}, nil
	}
	running, again, err := r.machines(ctx, &cl)
	if err != nil {
		return ctrl.Result{}, err
	}
	w, err := r.site.open(ctx, r.client, req.NamespacedName, cl.Spec.ControlPlaneEndpoint.Port)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := w.settle(ctx, running); err != nil {
		return ctrl.Result{}, err
	}
	if again == 0 {
		again = 5 * time.Second // Nodes that Cluster API deleted leave Pods behind
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// machines lists what runs on the cluster's hosts, and when the next one will have come up.
func (r *clusterReconciler) machines(ctx context.Context, cl *clusterv1.Cluster) ([]machine, time.Duration, error) {
	hosts := listOf(hostKind())
	if err := r.client.List(ctx, hosts, client.InNamespace(cl.Namespace)); err != nil {
		return nil, 0, fmt.Errorf("list hosts: %w", err)
	}
	images, err := knownImages(ctx, r.client)
	if err != nil {
		return nil, 0, err
	}
	var running []machine
	var again time.Duration
	for i := range hosts.Items {
		h, err := hostOf(&hosts.Items[i])
		if err != nil {
			return nil, 0, err
		}
		m, left, err := r.boot(ctx, cl, h, images)
		if err != nil {
			return nil, 0, err
		}
		switch {
		case left > 0 && (again == 0 || left < again):
			again = left
		case m != nil:
			running = append(running, *m)
		}
	}
	slices.SortFunc(running, func(a, b machine) int { return strings.Compare(a.name, b.name) })
	return running, again, nil
}

// boot tells what runs on a host: nothing of this cluster, or a machine, or one that comes up in some time.
func (r *clusterReconciler) boot(ctx context.Context, cl *clusterv1.Cluster, h host.Host, images []host.KnownImage,
) (*machine, time.Duration, error) {
	ref, on := h.Spec.ConsumerRef, h.Status.Provisioning
	if ref == nil || ref.Kind != "Metal3Machine" || on.State != host.StateProvisioned || on.Image == nil || h.Spec.UserData == nil {
		return nil, 0, nil
	}
	owner, err := r.machineOf(ctx, types.NamespacedName{Namespace: h.Namespace, Name: ref.Name})
	if err != nil || owner == nil || owner.Spec.ClusterName != cl.Name {
		return nil, 0, err
	}
	settings, defaults, err := settingsOf(ctx, r.client, h.Namespace, h.Name)
	if err != nil || settings.Fails(host.FailBoot) {
		return nil, 0, err
	}
	if end := h.Status.OperationHistory.Provision.End; end != nil {
		if left := settings.Times(defaults).Boot - r.clock.Since(end.Time); left > 0 {
			return nil, left, nil
		}
	}
	image, ok := host.FindImage(images, on.Image.URL)
	if !ok {
		image = host.KnownImage{OSImage: "unknown", Kernel: "unknown", Runtime: "unknown", Kubelet: owner.Spec.Version}
	}
	if settings.Fails(host.FailImage) {
		image = otherImage(images, image)
	}
	_, controlPlane := owner.Labels[clusterv1.MachineControlPlaneLabel]
	return &machine{name: ref.Name, controlPlane: controlPlane, host: h, image: image, up: h.Status.PoweredOn && !settings.Fails(host.FailPower)}, 0, nil
}

// otherImage is any image but one.
func otherImage(images []host.KnownImage, not host.KnownImage) host.KnownImage {
	for _, i := range images {
		if i.URL != not.URL {
			return i
		}
	}
	return not
}

// machineOf returns the Machine a Metal3Machine belongs to, or nothing.
func (r *clusterReconciler) machineOf(ctx context.Context, key types.NamespacedName) (*clusterv1.Machine, error) {
	u := object(metalMachineKind())
	if err := r.client.Get(ctx, key, u); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	for _, o := range u.GetOwnerReferences() {
		if o.Kind != "Machine" {
			continue
		}
		m := &clusterv1.Machine{}
		if err := r.client.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: o.Name}, m); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return m, nil
	}
	return nil, nil
}
