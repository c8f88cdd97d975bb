// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

// Bundle is a release with everything it is made of, rendered.
type Bundle struct {
	// Release is the release.
	Release *v1alpha1.Release
	// Components are in an order in which each comes after what it needs.
	Components []*Rendered
	// Levels hold the names of the components that can move side by side, in order.
	Levels [][]string
	// Needs are what each component needs, what its type implies included.
	Needs map[string][]string
	// Skipped are versions that were passed over where the release leaves the choice to Capstan.
	Skipped []Skipped
	// Digest is over the release's name and spec and the digests of all components.
	Digest string
}

// Skipped is a version that was not taken although it is newer than the one that was.
type Skipped struct {
	// Component is the component's name, empty for a version of the release itself.
	Component string
	// Version is the version that was passed over, Taken the one that was taken instead.
	Version, Taken string
	// Reason says why, in half a sentence.
	Reason string
}

// NewBundle puts a release and its components together. It refuses components that claim the same object: each would
// put its own labels on it, and neither would ever be at its target.
func NewBundle(r *v1alpha1.Release, components []*Rendered) (*Bundle, error) {
	order, err := Order(r.Spec.Components)
	if err != nil {
		return nil, err
	}
	byName := map[string]*Rendered{}
	for _, c := range components {
		byName[c.Component.Name] = c
	}
	b := &Bundle{Release: r, Levels: order.Levels, Needs: order.Needs}
	for _, name := range order.Names() {
		c, ok := byName[name]
		if !ok {
			return nil, fmt.Errorf("bundle release %q: component %q is not rendered", r.Name, name)
		}
		b.Components = append(b.Components, c)
	}
	if err := checkOwners(b.Components); err != nil {
		return nil, err
	}
	b.Digest, err = b.digest()
	return b, err
}

// Component returns a component by name, nil when there is none.
func (b *Bundle) Component(name string) *Rendered {
	for _, c := range b.Components {
		if c.Component.Name == name {
			return c
		}
	}
	return nil
}

// checkOwners makes sure that no object belongs to two components.
func checkOwners(components []*Rendered) error {
	owners := map[string]string{}
	for _, c := range components {
		for _, o := range c.Objects {
			key := objectKey(o)
			if other, ok := owners[key]; ok {
				remedy := "leave it out of one of them"
				if o.GetKind() == "Namespace" && c.Component.Provider != nil { // clusterctl adds the Namespace to each.
					remedy = "give the providers namespaces of their own"
				}
				return problem.Usage(ReasonDuplicateObject, "", "components %q and %q both have %s", other, c.Component.Name, key).WithRemedy("%s", remedy)
			}
			owners[key] = c.Component.Name
		}
	}
	return nil
}

func (b *Bundle) digest() (string, error) {
	spec, err := json.Marshal(b.Release.Spec)
	if err != nil {
		return "", fmt.Errorf("encode release %q: %w", b.Release.Name, err)
	}
	lines := []string{b.Release.Name, string(spec)}
	for _, c := range b.Components {
		lines = append(lines, c.Component.Name+" "+c.Digest)
	}
	return Digest([]byte(strings.Join(lines, "\n"))), nil
}
