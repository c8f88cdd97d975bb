// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var (
	// ErrConflict means that somebody else changed the object since it was read: read it again, then decide again.
	ErrConflict = errors.New("changed by somebody else since it was read")
	// ErrNotFound means that the object is not there, which includes that its kind is not.
	ErrNotFound = errors.New("not found")
)

// Store reaches what Capstan keeps in one management cluster. It is safe for concurrent use.
type Store struct {
	client client.Client
	clock  clock.Clock
}

// New returns the store of the cluster that cfg reaches. It makes no call. Unless cfg says otherwise there is no limit of
// our own on calls: renewing the lease must not wait behind anything.
func New(cfg *rest.Config, clk clock.Clock) (*Store, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 {
		cfg.QPS = -1
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make scheme: %w", err)
		}
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme, Mapper: mapper()})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &Store{client: c, clock: clk}, nil
}

// mapper knows the few kinds of this package by heart: no discovery, and a missing CRD is a plain "not found" that goes
// away as soon as the CRD is there.
func mapper() apimeta.RESTMapper {
	m := apimeta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Release", "Plan", "Upgrade", "NodeImage"} {
		m.Add(v1alpha1.GroupVersion.WithKind(kind), apimeta.RESTScopeRoot)
	}
	m.Add(crdKind(), apimeta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), apimeta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("Secret"), apimeta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), apimeta.RESTScopeNamespace)
	m.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), apimeta.RESTScopeNamespace)
	return m
}

func crdKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
}

// translate adds what was tried, and the package's own error where there is one.
func translate(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: %w: %w", what, ErrNotFound, err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%s: %w: %w", what, ErrConflict, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
