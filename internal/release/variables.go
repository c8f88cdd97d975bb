// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/problem"
)

// substitute replaces ${NAME} by clusterctl's rules, with the component's variables and no environment. Lines in
// messages are those of the manifest before the substitution.
func substitute(c v1alpha1.Component, raw []byte) ([]byte, error) {
	processor := yamlprocessor.NewSimpleProcessor()
	used, err := processor.GetVariableMap(raw)
	if err != nil {
		return nil, problem.Usage(ReasonBadManifest, findLine(c, raw, func(line []byte) bool {
			_, err := processor.GetVariableMap(line)
			return err != nil
		}), "component %q: a ${...} can't be read: %v", c.Name, err).WithCause(err)
	}
	if err := checkVariables(c, raw, used); err != nil {
		return nil, err
	}
	processed, err := processor.Process(raw, func(name string) (string, error) {
		value, ok := c.Variables[name]
		if !ok {
			return "", fmt.Errorf("variable %s is not set", name)
		}
		return value, nil
	})
	if err != nil {
		return nil, problem.Usage(ReasonBadManifest, Describe(c.Source), "component %q: variables can't be substituted: %v", c.Name, err).WithCause(err)
	}
	return processed, nil
}

// checkVariables makes sure that each variable without default has a value, and that no value was meant for a variable
// of almost the same name, whose default would stay in place without a word. used holds the default of each variable, nil
// for none. Other values without use are let through: one set of values may serve several providers, as it does in a
// clusterctl configuration.
func checkVariables(c v1alpha1.Component, raw []byte, used map[string]*string) error {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if _, ok := c.Variables[name]; !ok && used[name] == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		p := problem.Blocked(ReasonMissingVariable, "component %q needs a value for %s", c.Name, phrase.Named("variable", missing)).
			WithRemedy("set it under variables of the component; the environment is not looked at")
		p.Where = findLine(c, raw, func(line []byte) bool { return bytes.Contains(line, []byte("${"+missing[0])) })
		return p
	}
	for _, name := range slices.Sorted(maps.Keys(c.Variables)) {
		if _, ok := used[name]; ok {
			continue
		}
		if meant := misspelt(c, name, used); meant != "" {
			p := problem.Blocked(ReasonBadVariable, "component %q sets variable %s, which its manifests do not use", c.Name, name).
				WithRemedy("did you mean %s? If not, remove it", meant)
			p.Where = Describe(c.Source)
			return p
		}
	}
	return nil
}

// misspelt returns the variable without a value that differs from name by one or two letters, "" for none.
func misspelt(c v1alpha1.Component, name string, used map[string]*string) string {
	for _, candidate := range slices.Sorted(maps.Keys(used)) {
		if _, set := c.Variables[candidate]; !set && distance(name, candidate) <= 2 {
			return candidate
		}
	}
	return ""
}

// findLine names the first line of the manifest that match wants, or the manifest when there is none.
func findLine(c v1alpha1.Component, raw []byte, match func([]byte) bool) string {
	file, number := Describe(c.Source), 0
	for line := range bytes.Lines(raw) {
		number++
		if name, ok := bytes.CutPrefix(line, []byte(FileMarker)); ok {
			file, number = string(bytes.TrimSpace(name)), 0
			continue
		}
		if match(line) {
			return place(file, number)
		}
	}
	return Describe(c.Source)
}
