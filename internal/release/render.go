// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

const (
	// LabelComponent is on each object of a component of type manifest; its value is the component's name.
	LabelComponent = "capstan.dev/component"
	// AnnotationVersion is on each object of a component of type manifest; its value is the component's version.
	AnnotationVersion = "capstan.dev/version"
	// CertManager is the name of the component that clusterctl knows without its being a provider.
	CertManager = "cert-manager"
)

// Rendered is a component as it is applied.
type Rendered struct {
	// Component is what it was rendered from.
	Component v1alpha1.Component
	// Objects are in the order in which they are applied (see Phase).
	Objects []*unstructured.Unstructured
	// Metadata is the provider's metadata.yaml, nil when the release names none.
	Metadata *clusterctlv1.Metadata
	// Contract is the Cluster API contract of a provider, from its metadata or else from its CRDs; it may be unknown.
	Contract string
	// Inventory is the entry of a provider in the clusterctl inventory once it is at this version; nil for a manifest.
	Inventory *clusterctlv1.Provider
	// Blanks are values of Secrets that an empty variable was written into.
	Blanks []Blank
	// Digest is the sha256 of Encode(Objects).
	Digest string
}

// Phase returns when an object of the component is applied.
func (r *Rendered) Phase(o *unstructured.Unstructured) Phase { return newPhaser(r.Objects).of(o) }

// Render makes the objects of a component from its manifests, and for a provider from its metadata.yaml; metadata may
// be empty. Status and empty creation times, which tools leave in manifests, are taken out.
func Render(c v1alpha1.Component, raw, metadata []byte) (*Rendered, error) {
	r := &Rendered{Component: c}
	var err error
	switch c.Type {
	case v1alpha1.ComponentProvider:
		err = r.renderProvider(raw, metadata)
	case v1alpha1.ComponentManifest:
		err = r.renderManifest(raw)
	default:
		return nil, problem.Usage(ReasonBadProvider, "", "component %q has the unknown type %q", c.Name, c.Type)
	}
	if err != nil {
		return nil, err
	}
	for _, o := range r.Objects {
		clean(o.Object)
	}
	sortForApply(r.Objects)
	if c.Type == v1alpha1.ComponentProvider || len(c.Variables) > 0 { // else nothing is substituted
		if err := r.findBlanks(raw); err != nil {
			return nil, err
		}
	}
	r.Digest, err = digestObjects(r.Objects)
	if err != nil {
		return nil, fmt.Errorf("render component %q: %w", c.Name, err)
	}
	return r, nil
}

// renderManifest labels the objects of a plain manifest so that its installed version can be known.
func (r *Rendered) renderManifest(raw []byte) error {
	if len(r.Component.Variables) > 0 {
		var err error
		if raw, err = substitute(r.Component, raw); err != nil {
			return err
		}
	}
	objects, err := parseObjects(r.Component.Name, Describe(r.Component.Source), raw)
	if err != nil {
		return err
	}
	for _, o := range objects {
		setLabel(o.Unstructured, LabelComponent, r.Component.Name)
		setAnnotation(o.Unstructured, AnnotationVersion, r.Component.Version)
		if r.Component.Name == CertManager {
			recordForClusterctl(o.Unstructured, r.Component.Version)
		}
		r.Objects = append(r.Objects, o.Unstructured)
	}
	return nil
}

// recordForClusterctl sets what clusterctl puts on the objects of a cert-manager that it installs and reads back in
// "clusterctl upgrade plan" (addCerManagerLabel and PlanUpgrade in cmd/clusterctl/client/cluster/cert_manager.go of
// Cluster API v1.14.2). A single object with the old annotation would make it report the old version.
func recordForClusterctl(o *unstructured.Unstructured, version string) {
	setLabel(o, clusterctlv1.ClusterctlLabel, "")
	setLabel(o, clusterctlv1.ClusterctlCoreLabel, clusterctlv1.ClusterctlCoreLabelCertManagerValue)
	setAnnotation(o, clusterctlv1.CertManagerVersionAnnotation, version)
}

func setLabel(o *unstructured.Unstructured, key, value string) {
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	o.SetLabels(labels)
}

func setAnnotation(o *unstructured.Unstructured, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

// clean takes out what is never wanted state: the status, and the creation times that are null because a typed object was
// written. Server-side apply would otherwise claim the one and trip over the other.
func clean(object map[string]any) {
	delete(object, "status")
	dropNullTimes(object)
}

func dropNullTimes(value any) {
	switch typed := value.(type) {
	case map[string]any:
		if metadata, ok := typed["metadata"].(map[string]any); ok {
			if time, ok := metadata["creationTimestamp"]; ok && time == nil {
				delete(metadata, "creationTimestamp")
			}
		}
		for _, v := range typed {
			dropNullTimes(v)
		}
	case []any:
		for _, v := range typed {
			dropNullTimes(v)
		}
	}
}
