// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/version"
)

// renderProvider lets clusterctl's own code make the objects, so that names, namespaces and labels are exactly those
// that clusterctl would apply and later look for.
func (r *Rendered) renderProvider(raw, metadata []byte) error {
	c := r.Component
	if c.Provider == nil {
		return problem.Usage(ReasonBadProvider, "", "component %q of type provider has no provider identity", c.Name)
	}
	processed, err := substitute(c, raw)
	if err != nil {
		return err
	}
	parsed, err := parseObjects(c.Name, Describe(c.Source), processed)
	if err != nil {
		return err
	}
	components, err := clusterctlComponents(c, parsed)
	if err != nil {
		return problem.Usage(ReasonBadManifest, Describe(c.Source), "component %q: clusterctl can't use the manifests: %v", c.Name, err).WithCause(err)
	}
	for _, o := range components.Objs() {
		u, err := normalize(o.Object)
		if err != nil {
			return fmt.Errorf("render component %q: %w", c.Name, err)
		}
		r.Objects = append(r.Objects, u)
	}
	inventory := components.InventoryObject()
	r.Inventory = &inventory
	return r.readContract(metadata)
}

// clusterctlComponents runs the objects, whose variables are substituted already, through clusterctl.
func clusterctlComponents(c v1alpha1.Component, objects []located) (repository.Components, error) {
	var stream bytes.Buffer
	for _, o := range objects {
		encoded, err := json.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		stream.WriteString("---\n")
		stream.Write(encoded)
		stream.WriteByte('\n')
	}
	return repository.NewComponents(repository.ComponentsInput{
		Provider:     config.NewProvider(c.Provider.Name, "", clusterctlv1.ProviderType(c.Provider.Type)),
		ConfigClient: noConfig{},
		Processor:    asIs{},
		RawYaml:      stream.Bytes(),
		Options:      repository.ComponentsOptions{Version: c.Version, TargetNamespace: c.Provider.Namespace},
	})
}

// normalize gives numbers the types that they have in objects from the API server.
func normalize(object map[string]any) (*unstructured.Unstructured, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(encoded, &u.Object); err != nil {
		return nil, err
	}
	return u, nil
}

// readContract finds the contract in the metadata, or in the labels of the CRDs when there is none.
func (r *Rendered) readContract(metadata []byte) error {
	if len(metadata) == 0 {
		r.Contract = contractOfCRDs(r.Objects)
		return nil
	}
	parsed, contract, err := readMetadata(r.Component, metadata)
	if err != nil {
		return err
	}
	if contract == "" {
		contract = contractOfCRDs(r.Objects)
	}
	r.Metadata, r.Contract = parsed, contract
	return nil
}

// JudgeMetadata says what is wrong with the metadata of a provider, nil for nothing.
func JudgeMetadata(c v1alpha1.Component, metadata []byte) error {
	_, _, err := readMetadata(c, metadata)
	return err
}

// readMetadata reads clusterctl's metadata.yaml and finds the contract of the component's version in it. That of a
// pre-release may be empty: metadata often gets its new series with the release itself.
func readMetadata(c v1alpha1.Component, metadata []byte) (*clusterctlv1.Metadata, string, error) {
	where := "metadata"
	if c.Metadata != nil {
		where = Describe(*c.Metadata)
	}
	parsed := &clusterctlv1.Metadata{}
	if err := yaml.UnmarshalStrict(metadata, parsed); err != nil {
		return nil, "", problem.Usage(ReasonBadMetadata, where, "component %q: the provider metadata can't be read: %v", c.Name, err).WithCause(err)
	}
	// An empty kind is let through, as clusterctl does: several providers publish their metadata so.
	if parsed.APIVersion != clusterctlv1.GroupVersion.String() || (parsed.Kind != "Metadata" && parsed.Kind != "") {
		return nil, "", problem.Usage(ReasonBadMetadata, where, "component %q: the provider metadata is %s %s, want %s Metadata",
			c.Name, parsed.APIVersion, parsed.Kind, clusterctlv1.GroupVersion)
	}
	v, err := version.Parse(c.Version)
	if err != nil {
		return nil, "", problem.Usage(ReasonBadVersion, "", "component %q: %v", c.Name, err).WithCause(err)
	}
	contract, ok := version.Contract(parsed, v)
	if !ok && v.PreRelease() == "" {
		p := problem.Blocked(ReasonBadMetadata, "component %q: the provider metadata has no release series for %s", c.Name, c.Version).
			WithRemedy("use the metadata.yaml that was published with %s", c.Version)
		p.Where = where
		return nil, "", p
	}
	return parsed, contract, nil
}

// coreCRD is the CRD whose newest API version is, by Cluster API's convention, the contract of the core provider; core's
// own CRDs have no contract labels.
const coreCRD = "clusters.cluster.x-k8s.io"

// contractOfCRDs returns the newest contract that a CRD of the provider implements, "" for none.
func contractOfCRDs(objects []*unstructured.Unstructured) string {
	var contracts []string
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		if o.GetName() == coreCRD {
			contracts = append(contracts, apiVersions(o)...)
		}
		for _, c := range version.ContractsOfLabels(o.GetLabels()) {
			contracts = append(contracts, c.Contract)
		}
	}
	return version.NewestAPIVersion(contracts)
}

// apiVersions returns the names of a CRD's versions.
func apiVersions(crd *unstructured.Unstructured) []string {
	var names []string
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return nil // The API server refuses such a CRD with a better message.
	}
	for _, entry := range versions {
		if fields, ok := entry.(map[string]any); ok {
			if name, ok := fields["name"].(string); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// asIs is a template processor for manifests that have no variables left.
type asIs struct{}

// GetTemplateName is not called for provider components.
func (asIs) GetTemplateName(string, string) string { return "" }

// GetClusterClassTemplateName is not called for provider components.
func (asIs) GetClusterClassTemplateName(string, string) string { return "" }

// GetVariables returns none.
func (asIs) GetVariables([]byte) ([]string, error) { return nil, nil }

// GetVariableMap returns none.
func (asIs) GetVariableMap([]byte) (map[string]*string, error) { return nil, nil }

// Process returns the manifests unchanged.
func (asIs) Process(raw []byte, _ func(string) (string, error)) ([]byte, error) { return raw, nil }

// noConfig is an empty clusterctl configuration: no file, no environment, no image overrides.
type noConfig struct{}

// CertManager is not asked for when components are made.
func (noConfig) CertManager() config.CertManagerClient { return nil }

// Providers is not asked for when components are made.
func (noConfig) Providers() config.ProvidersClient { return nil }

// Variables knows none.
func (c noConfig) Variables() config.VariablesClient { return c }

// ImageMeta changes no image.
func (c noConfig) ImageMeta() config.ImageMetaClient { return c }

// Get knows no value.
func (noConfig) Get(key string) (string, error) { return "", fmt.Errorf("%s is not set", key) }

// Set is not called when components are made.
func (noConfig) Set(string, string) {}

// AlterImage returns the image as it is.
func (noConfig) AlterImage(_, image string) (string, error) { return image, nil }
