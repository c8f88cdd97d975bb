// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package knowledge

import (
	_ "embed" // the knowledge file is part of the binary
	"errors"
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/version"
)

//go:embed knowledge.yaml
var builtIn []byte

// file is the content of a knowledge file.
type file struct {
	Risks []v1alpha1.KnownRisk `json:"risks"`
}

// BuiltIn returns the risks that this version of Capstan knows.
func BuiltIn() ([]v1alpha1.KnownRisk, error) {
	return Parse("knowledge.yaml", builtIn)
}

// Parse reads and judges a knowledge file. name is how errors call it.
func Parse(name string, data []byte) ([]v1alpha1.KnownRisk, error) {
	var f file
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	seen := map[string]bool{}
	for i, r := range f.Risks {
		if err := Judge(r); err != nil {
			return nil, fmt.Errorf("%s: risk %d (%s): %w", name, i+1, r.ID, err)
		}
		if seen[r.ID] {
			return nil, fmt.Errorf("%s: risk %d: there is a risk %s already", name, i+1, r.ID)
		}
		seen[r.ID] = true
	}
	return f.Risks, nil
}

// Judge says what is wrong with a risk, nil for nothing.
func Judge(r v1alpha1.KnownRisk) error {
	switch {
	case len(validation.IsDNS1123Label(r.ID)) > 0:
		return fmt.Errorf("id %q is not made of lower case letters, digits and '-'", r.ID)
	case r.Verdict != "" && r.Verdict != v1alpha1.VerdictBlock && r.Verdict != v1alpha1.VerdictWarn:
		return fmt.Errorf("verdict %q is neither Block nor Warn", r.Verdict)
	case r.Summary == "":
		return errors.New("summary is missing")
	case r.When == (v1alpha1.RiskCondition{}):
		return errors.New("when is empty, so it would hold everywhere")
	case len(r.Sources) == 0:
		return errors.New("sources are missing: say where this is known from")
	}
	for _, s := range r.Sources {
		if u, err := url.Parse(s); err != nil || u.Host == "" {
			return fmt.Errorf("source %q is not an address", s)
		}
	}
	if err := judgeCondition(r.When); err != nil {
		return fmt.Errorf("when: %w", err)
	}
	if r.Requires == nil {
		return nil
	}
	if *r.Requires == (v1alpha1.RiskCondition{}) {
		return errors.New("requires is empty")
	}
	if err := judgeCondition(*r.Requires); err != nil {
		return fmt.Errorf("requires: %w", err)
	}
	return nil
}

func judgeCondition(c v1alpha1.RiskCondition) error {
	if c.Component == "" && (c.Version != "" || c.From != "") {
		return errors.New("version and from need a component")
	}
	for _, one := range []struct{ name, value string }{
		{"version", c.Version},
		{"from", c.From},
		{"kubernetes", c.Kubernetes},
		{"kubernetesFrom", c.KubernetesFrom},
		{"managementKubernetes", c.ManagementKubernetes},
	} {
		if one.value == "" {
			continue
		}
		if _, err := version.ParseConstraint(one.value); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}
