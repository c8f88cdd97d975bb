// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/capstan-dev/capstan/sandbox/metal/host"
)

// hostReconciler moves hosts along.
type hostReconciler struct {
	client client.Client
	clock  clock.PassiveClock
}

func (r *hostReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("host").For(object(hostKind())).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.all)).
		Complete(r)
}

// all asks for every host: how they behave has changed.
func (r *hostReconciler) all(ctx context.Context, _ client.Object) []ctrl.Request {
	list := listOf(hostKind())
	if err := r.client.List(ctx, list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List hosts")
		return nil
	}
	var all []ctrl.Request
	for i := range list.Items {
		all = append(all, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return all
}

// Reconcile takes one step of a host's life.
func (r *hostReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	u := object(hostKind())
	if err := r.client.Get(ctx, req.NamespacedName, u); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if u.GetDeletionTimestamp() == nil && !controllerutil.ContainsFinalizer(u, host.Finalizer) {
		if _, paused := u.GetAnnotations()[host.PausedAnnotation]; paused {
			return ctrl.Result{}, nil
		}
		before := u.DeepCopy()
		controllerutil.AddFinalizer(u, host.Finalizer)
		if err := r.client.Patch(ctx, u, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, fmt.Errorf("add finalizer: %w", err)
		}
	}
	h, err := hostOf(u)
	if err != nil {
		return ctrl.Result{}, err
	}
	w, err := r.world(ctx, h)
	if err != nil {
		return ctrl.Result{}, err
	}
	next, again, done := host.Step(h, w)
	if done {
		return ctrl.Result{}, r.forget(ctx, u)
	}
	if equality.Semantic.DeepEqual(next, h.Status) {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	if err := r.writeStatus(ctx, u, next); err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: again + 1}, nil
		}
		return ctrl.Result{}, fmt.Errorf("write status: %w", err)
	}
	return ctrl.Result{RequeueAfter: again}, r.writeHardware(ctx, u, next)
}

// writeHardware keeps what inspection has found in an object of its own, as the operator does.
func (r *hostReconciler) writeHardware(ctx context.Context, u *unstructured.Unstructured, status host.Status) error {
	if status.Hardware == nil || status.Provisioning.State != host.StateAvailable {
		return nil
	}
	found, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status.Hardware)
	if err != nil {
		return fmt.Errorf("encode hardware: %w", err)
	}
	data := object(hostKind().GroupVersion().WithKind("HardwareData"))
	data.SetNamespace(u.GetNamespace())
	data.SetName(u.GetName())
	data.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), Controller: new(true),
	}})
	data.Object["spec"] = map[string]any{"hardware": found}
	if err := r.client.Create(ctx, data); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("write hardware data: %w", err)
	}
	return nil
}

func (r *hostReconciler) writeStatus(ctx context.Context, u *unstructured.Unstructured, next host.Status) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	u.Object["status"] = content
	return r.client.Status().Update(ctx, u)
}

func (r *hostReconciler) forget(ctx context.Context, u *unstructured.Unstructured) error {
	before := u.DeepCopy()
	if !controllerutil.RemoveFinalizer(u, host.Finalizer) {
		return nil
	}
	return client.IgnoreNotFound(r.client.Patch(ctx, u, client.MergeFrom(before)))
}

func (r *hostReconciler) world(ctx context.Context, h host.Host) (host.World, error) {
	settings, defaults, err := settingsOf(ctx, r.client, h.Namespace, h.Name)
	if err != nil {
		return host.World{}, err
	}
	images, err := knownImages(ctx, r.client)
	if err != nil {
		return host.World{}, err
	}
	w := host.World{Now: r.clock.Now(), Settings: settings, Defaults: defaults, Images: images, CredentialsFound: true}
	if h.Status.Provisioning.State == host.StateRegistering {
		var s corev1.Secret
		err := r.client.Get(ctx, types.NamespacedName{Namespace: h.Namespace, Name: h.Spec.BMC.CredentialsName}, &s)
		w.CredentialsFound = err == nil
		if client.IgnoreNotFound(err) != nil {
			return w, fmt.Errorf("get BMC credentials: %w", err)
		}
	}
	return w, nil
}

func hostOf(u *unstructured.Unstructured) (host.Host, error) {
	var h host.Host
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &h); err != nil {
		return h, fmt.Errorf("decode host %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return h, nil
}

// config reads a key of one of the sandbox's ConfigMaps; what is not there is empty.
func config(ctx context.Context, c client.Reader, name string) (map[string]string, error) {
	var cm corev1.ConfigMap
	if err := c.Get(ctx, types.NamespacedName{Namespace: host.ConfigNamespace, Name: name}, &cm); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read configuration of hosts: %w", err)
	}
	return cm.Data, nil
}

func settingsOf(ctx context.Context, c client.Reader, namespace, name string) (own, shared host.Settings, err error) {
	data, err := config(ctx, c, host.SettingsConfig)
	if err != nil {
		return own, shared, err
	}
	if own, err = host.ParseSettings(data[host.SettingsKey(namespace, name)]); err != nil {
		return own, shared, err
	}
	shared, err = host.ParseSettings(data[host.DefaultKey])
	return own, shared, err
}

func knownImages(ctx context.Context, c client.Reader) ([]host.KnownImage, error) {
	data, err := config(ctx, c, host.ImagesConfig)
	if err != nil {
		return nil, err
	}
	return host.ParseImages(data[host.ImagesKey])
}
