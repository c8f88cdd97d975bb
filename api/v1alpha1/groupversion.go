// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "capstan.dev", Version: "v1alpha1"}

// Namespace holds the namespaced objects Capstan keeps in a management cluster: its Lease and the artifacts of runs.
const Namespace = "capstan-system"

// FieldOwner is the field manager of every server-side apply that Capstan makes.
const FieldOwner = "capstan"

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Release{}, &ReleaseList{},
		&Plan{}, &PlanList{},
		&Upgrade{}, &UpgradeList{},
		&NodeImage{}, &NodeImageList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
