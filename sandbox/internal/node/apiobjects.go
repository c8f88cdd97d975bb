// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
)

// newCaches watches the Node's own Pods, and all Secrets and ConfigMaps: without
// who last wrote which field, which is most of their size.
func newCaches(client kubernetes.Interface, nodeName string) caches {
	slim := informers.WithTransform(func(obj any) (any, error) {
		if m, err := apimeta.Accessor(obj); err == nil {
			m.SetManagedFields(nil)
		}
		return obj, nil
	})
	own := informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", nodeName).String()
	})
	return caches{
		podFactory: informers.NewSharedInformerFactoryWithOptions(client, 0, own, slim),
		factory:    informers.NewSharedInformerFactoryWithOptions(client, 0, slim),
		unused:     informers.NewSharedInformerFactory(client, 0),
	}
}

// secret reads from the cache, and asks the API server for what is not there:
// it may be too new.
func (a *Agent) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret, err := a.informers.factory.Core().V1().Secrets().Lister().Secrets(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		secret, err = a.cfg.Client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	return secret, err
}

// configMap is secret for ConfigMaps.
func (a *Agent) configMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	cm, err := a.informers.factory.Core().V1().ConfigMaps().Lister().ConfigMaps(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		cm, err = a.cfg.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	return cm, err
}

// token asks for a token that is bound to the Pod.
func (a *Agent) token(ctx context.Context, pod *corev1.Pod, audience string, seconds *int64) (string, time.Time, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	got, err := a.cfg.Client.CoreV1().ServiceAccounts(pod.Namespace).
		CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return "", time.Time{}, err
	}
	return got.Status.Token, got.Status.ExpirationTimestamp.Time, nil
}

// finalizePod writes the last status and deletes the Pod from the API, which
// keeps it until its node says that it is gone. It tries until ctx ends.
func (a *Agent) finalizePod(ctx context.Context, w *worker) {
	pod := w.snapshot()
	patcher := statusPatcher{a.cfg.Client.CoreV1()}.Pods(pod.Namespace)
	a.persist(ctx, "update status of Pod "+w.name(), func() error {
		_, err := patcher.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
	a.persist(ctx, "delete Pod "+w.name(), func() error {
		return a.cfg.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
	})
}

// persist repeats a call until it succeeds, is pointless, or ctx ends.
func (a *Agent) persist(ctx context.Context, what string, call func() error) {
	for delay := retryFirst; ; delay = min(2*delay, retryMax) {
		err := call()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
			return
		}
		a.cfg.Log.Warn("call API server", "what", what, "err", err, "retryAfter", delay)
		select {
		case <-a.cfg.Clock.After(delay):
		case <-ctx.Done():
			return
		}
	}
}

// newLimiter spaces the attempts at one Pod; it has no limit over all Pods.
func newLimiter() workqueue.TypedRateLimiter[any] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[any](retryFirst/10, retryMax)
}

// retryForever is for virtual-kubelet, which otherwise forgets a Pod after 20
// failures: an API server may be away for longer.
func retryForever(_ context.Context, _ string, tried int, _ time.Time, err error) (*time.Duration, error) {
	if errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("stopped: %w", err)
	}
	delay := retryFirst
	for range min(tried, 16) {
		delay = min(2*delay, retryMax)
	}
	return &delay, nil
}
