// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"

	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// componentLabel and versionAnnotation are Capstan's record of a component on each of its objects.
	componentLabel    = "capstan.dev/component"
	versionAnnotation = "capstan.dev/version"

	// clusterctl's record of the cert-manager that it installed.
	clusterctlCoreLabel          = "clusterctl.cluster.x-k8s.io/core"
	clusterctlCertManager        = "cert-manager"
	clusterctlCertManagerVersion = "cert-manager.clusterctl.cluster.x-k8s.io/version"
	// clusterctlFirstCertManager is what clusterctl takes a cert-manager without a recorded version for.
	clusterctlFirstCertManager = "v0.11.0"

	recordedByCapstan    = "capstan"
	recordedByClusterctl = "clusterctl"
)

// management reads the management cluster itself.
func (r *round) management(ctx context.Context) (world.Management, error) {
	var m world.Management
	err := together(
		func() (err error) { m.UID, err = r.clusterUID(ctx); return err },
		func() (err error) { m.KubernetesVersion, err = r.serverVersion(ctx); return err },
		func() (err error) { m.Nodes, err = r.readNodes(ctx); return err },
		func() (err error) { m.Providers, m.Inventory, err = r.inventory(ctx); return err },
		func() (err error) { m.Manifests, err = r.manifests(ctx); return err },
	)
	return m, err
}

func (r *round) clusterUID(ctx context.Context) (string, error) {
	ns, err := r.clients.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fault(ctx, "read namespace kube-system", err)
	}
	return string(ns.UID), nil
}

func (r *round) serverVersion(ctx context.Context) (string, error) {
	raw, err := r.clients.discovery.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", fault(ctx, "read the API server's version", err)
	}
	var v apimachineryversion.Info
	if err := json.Unmarshal(raw, &v); err != nil {
		return "", fmt.Errorf("read the API server's version: %w", err)
	}
	return v.GitVersion, nil
}

func (r *round) readNodes(ctx context.Context) ([]world.Node, error) {
	nodes, err := typedList[corev1.Node](ctx, r.clients.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("nodes")), metav1.ListOptions{})
	if err != nil {
		return nil, fault(ctx, "list nodes", err)
	}
	var out []world.Node
	for _, n := range nodes {
		out = append(out, world.Node{
			Name:              n.Name,
			Ready:             nodeReady(n),
			AllocatableMemory: n.Status.Allocatable.Memory().Value(),
			AllocatableCPU:    n.Status.Allocatable.Cpu().MilliValue(),
		})
	}
	slices.SortFunc(out, func(a, b world.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// inventory reads clusterctl's record of providers and tells whether there is one at all.
func (r *round) inventory(ctx context.Context) ([]world.Provider, bool, error) {
	m, err := r.mappings(schema.GroupKind{Group: "clusterctl.cluster.x-k8s.io", Kind: "Provider"})
	if err != nil {
		return nil, false, fault(ctx, "find the clusterctl inventory", err)
	}
	if len(m) == 0 {
		return nil, false, nil
	}
	items, err := list(ctx, r.clients.resource(m[0], ""), metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fault(ctx, "list the clusterctl inventory", err)
	}
	var out []world.Provider
	for i := range items {
		out = append(out, providerOf(&items[i]))
	}
	slices.SortFunc(out, func(a, b world.Provider) int {
		return cmp.Or(cmp.Compare(a.ManifestLabel, b.ManifestLabel), cmp.Compare(a.Namespace, b.Namespace))
	})
	return out, true, nil
}

func providerOf(u *unstructured.Unstructured) world.Provider {
	field := func(name string) string {
		s, _, _ := unstructured.NestedString(u.Object, name)
		return s
	}
	p := world.Provider{
		Name:             field("providerName"),
		Type:             field("type"),
		Namespace:        u.GetNamespace(),
		Version:          field("version"),
		WatchedNamespace: field("watchedNamespace"),
	}
	p.ManifestLabel = manifestLabel(p.Name, p.Type)
	return p
}

// manifestLabel is the value of the label cluster.x-k8s.io/provider on a provider's objects.
func manifestLabel(name, providerType string) string {
	switch providerType {
	case "BootstrapProvider":
		return "bootstrap-" + name
	case "ControlPlaneProvider":
		return "control-plane-" + name
	case "InfrastructureProvider":
		return "infrastructure-" + name
	case "IPAMProvider":
		return "ipam-" + name
	case "RuntimeExtensionProvider":
		return "runtime-extension-" + name
	case "AddonProvider":
		return "addon-" + name
	}
	return name
}

// manifests finds the components of type manifest by the records on their objects. Deployments, CRDs and Namespaces are
// enough: every component has one of them.
func (r *round) manifests(ctx context.Context) ([]world.Manifest, error) {
	resources := []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		{Version: "v1", Resource: "namespaces"},
	}
	selectors := []string{componentLabel, clusterctlCoreLabel + "=" + clusterctlCertManager}
	found := make([][]metav1.PartialObjectMetadata, len(resources)*len(selectors))
	err := forEach(len(found), r.parallel, func(i int) error {
		resource := resources[i/len(selectors)]
		items, err := listMetadata(ctx, r.clients.metadata.Resource(resource), metav1.ListOptions{LabelSelector: selectors[i%len(selectors)]})
		if err != nil {
			return fault(ctx, "list recorded "+resource.Resource, err)
		}
		found[i] = items
		return nil
	})
	if err != nil {
		return nil, err
	}
	return manifestsOf(slices.Concat(found...)), nil
}

// manifestsOf returns each recorded component once, at the lowest version that any of its objects has: a component is
// at a version when all of it is.
func manifestsOf(objects []metav1.PartialObjectMetadata) []world.Manifest {
	lowest := map[string]world.Manifest{}
	add := func(m world.Manifest) {
		old, known := lowest[m.Name]
		if !known || lowerVersion(m.Version, old.Version) || (m.Version == old.Version && m.RecordedBy == recordedByCapstan) {
			lowest[m.Name] = m
		}
	}
	for _, o := range objects {
		if name, v := o.Labels[componentLabel], o.Annotations[versionAnnotation]; name != "" && v != "" {
			add(world.Manifest{Name: name, Version: v, RecordedBy: recordedByCapstan})
			continue
		}
		if o.Labels[clusterctlCoreLabel] == clusterctlCertManager {
			v := cmp.Or(o.Annotations[clusterctlCertManagerVersion], clusterctlFirstCertManager)
			add(world.Manifest{Name: clusterctlCertManager, Version: v, RecordedBy: recordedByClusterctl})
		}
	}
	var out []world.Manifest
	for _, m := range lowest {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b world.Manifest) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// lowerVersion tells whether a is below b. What is not a version is below all that are.
func lowerVersion(a, b string) bool {
	va, errA := version.ParseSemantic(a)
	vb, errB := version.ParseSemantic(b)
	if errA != nil || errB != nil {
		return errA != nil && (errB == nil || a < b)
	}
	return va.LessThan(vb)
}
