// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/knowledge"
	"github.com/capstan-dev/capstan/internal/version"
)

// Validate judges the content of a release. The error is one problem with the first fault by line, and how many more
// there are. where may be nil for a release that did not come from a file.
func Validate(r *v1alpha1.Release, where *Positions) error {
	f := &faults{where: where}
	for _, check := range []func(*v1alpha1.Release, *faults){
		checkHeader, checkComponents, checkUnique, checkNeeds, checkCycle, checkUpgradeFrom, checkKubernetes, checkKnownRisks, checkDependents,
	} {
		check(r, f)
	}
	return f.err()
}

// Make sure that the release has a name, a version and something in it.
func checkHeader(r *v1alpha1.Release, f *faults) {
	switch problems := validation.IsDNS1123Subdomain(r.Name); {
	case r.Name == "":
		f.add("metadata.name", ReasonMissingField, "is missing").next("give the release a name")
	case len(problems) > 0:
		f.add("metadata.name", ReasonBadName, "%q can't be the name of a Kubernetes object: lower case letters, digits, '-' and '.' are allowed", r.Name)
	}
	checkVersion(f, "spec.version", r.Spec.Version)
	if len(r.Spec.Components) == 0 {
		f.add("spec.components", ReasonMissingField, "the release has no components")
	}
}

// Make sure that each component is well formed in itself.
func checkComponents(r *v1alpha1.Release, f *faults) {
	for i, c := range r.Spec.Components {
		at := ComponentPath(i)
		switch {
		case c.Name == "":
			f.add(child(at, "name"), ReasonMissingField, "component %d has no name", i+1)
		case len(validation.IsDNS1123Label(c.Name)) > 0:
			f.add(child(at, "name"), ReasonBadName, "%q can't be a component's name: up to 63 lower case letters, digits and '-' are allowed", c.Name)
		}
		if c.Version != "" || c.Source.Repository == "" {
			checkVersion(f, child(at, "version"), c.Version)
		}
		checkType(f, at, c)
		checkSource(f, child(at, "source"), c.Source)
		checkRanges(f, child(at, "kubernetes"), c.Kubernetes)
		if c.Source.Repository != "" {
			checkRepository(f, at, c)
		}
		if c.Metadata != nil {
			checkSource(f, child(at, "metadata"), *c.Metadata)
		}
		for _, name := range slices.Sorted(maps.Keys(c.Variables)) {
			if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name) {
				f.add(child(child(at, "variables"), name), ReasonBadVariable, "%q can't be the name of a variable: letters, digits and '_' are allowed", name)
			}
		}
	}
}

// Make sure that a component has a type, and what that type asks for and nothing else.
func checkType(f *faults, at string, c v1alpha1.Component) {
	switch c.Type {
	case v1alpha1.ComponentProvider:
		checkProvider(f, at, c)
	case v1alpha1.ComponentManifest:
		if c.Provider != nil {
			f.add(child(at, "provider"), ReasonBadProvider, "component %q of type manifest can't have a provider identity", c.Name).
				next("set type: provider, or leave provider out")
		}
		if c.Metadata != nil {
			f.add(child(at, "metadata"), ReasonBadProvider, "component %q of type manifest can't have provider metadata", c.Name).
				next("leave metadata out")
		}
	case "":
		f.add(child(at, "type"), ReasonMissingField, "component %q has no type", c.Name).next("set type: provider or type: manifest")
	default:
		f.add(child(at, "type"), ReasonBadProvider, "component %q has the unknown type %q", c.Name, c.Type).next("set type: provider or type: manifest")
	}
}

// Make sure that a provider can be found again in the clusterctl inventory.
func checkProvider(f *faults, at string, c v1alpha1.Component) {
	path := child(at, "provider")
	if c.Provider == nil {
		f.add(path, ReasonBadProvider, "component %q of type provider has no provider identity", c.Name).
			next("add provider with name, type and namespace as the clusterctl inventory has them")
		return
	}
	for _, field := range []struct{ name, value string }{{"name", c.Provider.Name}, {"namespace", c.Provider.Namespace}} {
		switch {
		case field.value == "":
			f.add(child(path, field.name), ReasonMissingField, "provider %s of component %q is missing", field.name, c.Name)
		case len(validation.IsDNS1123Label(field.value)) > 0:
			f.add(child(path, field.name), ReasonBadName, "%q can't be a provider %s: up to 63 lower case letters, digits and '-' are allowed", field.value, field.name)
		}
	}
	types := providerTypes()
	if c.Provider.Type == "" {
		f.add(child(path, "type"), ReasonMissingField, "provider type of component %q is missing", c.Name).next("one of %s", strings.Join(types, ", "))
		return
	}
	if !slices.Contains(types, c.Provider.Type) {
		f.add(child(path, "type"), ReasonBadProvider, "component %q has the unknown provider type %q", c.Name, c.Provider.Type).
			next("one of %s", strings.Join(types, ", "))
	}
}

// providerTypes are clusterctl's provider types in the order in which it installs them.
func providerTypes() []string {
	return []string{
		string(clusterctlv1.CoreProviderType),
		string(clusterctlv1.BootstrapProviderType),
		string(clusterctlv1.ControlPlaneProviderType),
		string(clusterctlv1.InfrastructureProviderType),
		string(clusterctlv1.IPAMProviderType),
		string(clusterctlv1.RuntimeExtensionProviderType),
		string(clusterctlv1.AddonProviderType),
	}
}

// Make sure that components can be told apart, by name and in the clusterctl inventory.
func checkUnique(r *v1alpha1.Release, f *faults) {
	names := map[string]int{}
	identities := map[string]string{}
	for i, c := range r.Spec.Components {
		if c.Name == "" {
			continue
		}
		if first, ok := names[c.Name]; ok {
			fault := f.add(child(ComponentPath(i), "name"), ReasonDuplicateComponent, "a component named %q is there already", c.Name)
			if line := f.where.line(ComponentPath(first)); line > 0 {
				fault.message += ", see line " + strconv.Itoa(line)
			}
			continue
		}
		names[c.Name] = i
		if c.Provider == nil || c.Provider.Name == "" {
			continue
		}
		identity := c.Provider.Type + " " + c.Provider.Name
		if other, ok := identities[identity]; ok {
			f.add(child(ComponentPath(i), "provider"), ReasonDuplicateComponent, "components %q and %q are both the %s", other, c.Name, identity)
			continue
		}
		identities[identity] = c.Name
	}
}

// Make sure that what a component needs is there.
func checkNeeds(r *v1alpha1.Release, f *faults) {
	for i, c := range r.Spec.Components {
		var others []string
		for _, other := range r.Spec.Components {
			if other.Name != c.Name {
				others = append(others, other.Name)
			}
		}
		for j, need := range c.Needs {
			at := item(child(ComponentPath(i), "needs"), j)
			switch {
			case need == c.Name:
				f.add(at, ReasonNeedCycle, "component %q needs itself", c.Name)
			case slices.Index(c.Needs, need) < j:
				f.add(at, ReasonDuplicateField, "component %q needs %q twice", c.Name, need)
			case !slices.Contains(others, need):
				fault := f.add(at, ReasonUnknownNeed, "component %q needs %q, which is not in the release", c.Name, need)
				if guess := nearest(need, others); guess != "" {
					fault.next("did you mean %q?", guess)
				}
			}
		}
	}
}

// Make sure that the components can be put in an order.
func checkCycle(r *v1alpha1.Release, f *faults) {
	if cycle := findCycle(r.Spec.Components); len(cycle) > 2 {
		i := slices.IndexFunc(r.Spec.Components, func(c v1alpha1.Component) bool { return c.Name == cycle[0] })
		j := slices.Index(r.Spec.Components[i].Needs, cycle[1])
		f.add(item(child(ComponentPath(i), "needs"), j), ReasonNeedCycle, "components need each other in a circle: %s", strings.Join(cycle, " -> ")).
			next("remove one of these needs")
	}
}

// Make sure that the releases it may be reached from are versions.
func checkUpgradeFrom(r *v1alpha1.Release, f *faults) {
	for i, from := range r.Spec.UpgradeFrom {
		checkVersion(f, item("spec.upgradeFrom", i), from)
	}
}

// Make sure that the supported Kubernetes versions are ranges.
func checkKubernetes(r *v1alpha1.Release, f *faults) {
	checkRanges(f, "spec.kubernetes", r.Spec.Kubernetes)
}

func checkRanges(f *faults, at string, ranges *v1alpha1.KubernetesRanges) {
	if ranges == nil {
		return
	}
	for _, one := range []struct {
		path string
		r    *v1alpha1.VersionRange
	}{
		{child(at, "management"), ranges.Management},
		{child(at, "workload"), ranges.Workload},
	} {
		if _, err := version.ParseRange(one.r); err != nil {
			f.add(one.path, ReasonBadRange, "%v", err)
		}
	}
}

// Make sure that what the release knows to be bad can be matched.
func checkKnownRisks(r *v1alpha1.Release, f *faults) {
	for i, risk := range r.Spec.KnownRisks {
		at := item("spec.knownRisks", i)
		if err := knowledge.Judge(risk); err != nil {
			f.add(at, ReasonBadRisk, "%v", err)
		}
		if slices.ContainsFunc(r.Spec.KnownRisks[:i], func(other v1alpha1.KnownRisk) bool { return other.ID == risk.ID }) {
			f.add(at, ReasonBadRisk, "there is a risk %q already", risk.ID)
		}
	}
}

// Make sure that dependent objects can be found and their version read.
func checkDependents(r *v1alpha1.Release, f *faults) {
	for i, d := range r.Spec.Dependents {
		at := item("spec.dependents", i)
		for _, field := range []struct{ name, value string }{
			{"apiVersion", d.APIVersion}, {"kind", d.Kind}, {"fieldPath", d.FieldPath}, {"component", d.Component},
		} {
			if field.value == "" {
				f.add(child(at, field.name), ReasonMissingField, "%s is missing", field.name)
			}
		}
		known := slices.ContainsFunc(r.Spec.Components, func(c v1alpha1.Component) bool { return c.Name == d.Component })
		if d.Component != "" && !known {
			f.add(child(at, "component"), ReasonBadDependent, "component %q is not in the release", d.Component)
		}
		if _, err := schema.ParseGroupVersion(d.APIVersion); err != nil {
			f.add(child(at, "apiVersion"), ReasonBadDependent, "%q is not a group and a version", d.APIVersion)
		}
		if d.Pattern == "" {
			continue
		}
		if re, err := regexp.Compile(d.Pattern); err != nil || re.NumSubexp() < 1 {
			f.add(child(at, "pattern"), ReasonBadDependent, "%q is not a regular expression with a group for the version", d.Pattern)
		}
	}
}

func checkVersion(f *faults, path, value string) {
	if value == "" {
		f.add(path, ReasonMissingField, "is missing").next("give a semantic version with a leading v, such as v1.2.3")
		return
	}
	if _, err := version.Parse(value); err != nil {
		f.add(path, ReasonBadVersion, "%v", err)
	}
}
