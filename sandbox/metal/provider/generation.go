// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"strings"
)

// Generation is the behaviour that a version of the provider has.
type Generation string

// The generations.
const (
	// Old is v1.12 and before: the template that a machine was cloned from says whether its host is used again. When that template is gone, it is
	// not, and nothing says so.
	Old Generation = "old"
	// New is v1.13: for control planes the template that the KubeadmControlPlane names now counts, for workers the MachineSet's.
	New Generation = "new"
)

// GenerationOf returns the generation of a version like v1.12.4.
func GenerationOf(version string) (Generation, error) {
	switch {
	case strings.HasPrefix(version, "v1.12."):
		return Old, nil
	case strings.HasPrefix(version, "v1.13."):
		return New, nil
	}
	return "", fmt.Errorf("provider version %q: there are v1.12 and v1.13", version)
}
