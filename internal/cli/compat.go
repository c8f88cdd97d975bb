// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/knowledge"
	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/problem"
)

// compatOptions are what an operator says about versions when a plan is made.
type compatOptions struct {
	allowPrerelease bool
	knowledge       string
}

func (o *compatOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.allowPrerelease, "allow-prerelease", false, "allow pre-releases that the release names")
	f.StringVar(&o.knowledge, "knowledge", "", "`FILE` with combinations of versions that are known to be bad, beside those that Capstan knows")
}

// words say the same again on a command line.
func (o *compatOptions) words() []string {
	var out []string
	if o.allowPrerelease {
		out = append(out, "--allow-prerelease")
	}
	if o.knowledge != "" {
		out = append(out, "--knowledge", o.knowledge)
	}
	return out
}

// into puts them into the options of a plan.
func (o *compatOptions) into(d *operation.DraftOptions) error {
	d.AllowPrerelease = o.allowPrerelease
	risks, err := o.risks()
	d.Knowledge = risks
	return err
}

func (o *compatOptions) risks() ([]v1alpha1.KnownRisk, error) {
	if o.knowledge == "" {
		return nil, nil
	}
	data, err := os.ReadFile(o.knowledge)
	if err != nil {
		return nil, problem.Usage("BadKnowledge", "--knowledge", "The file can't be read: %v", err).WithCause(err)
	}
	risks, err := knowledge.Parse(o.knowledge, data)
	if err != nil {
		return nil, problem.Usage("BadKnowledge", "--knowledge", "%s", capital(err.Error())).WithCause(err).
			WithRemedy("see docs/release-format.md, spec.knownRisks, for the format")
	}
	return risks, nil
}
