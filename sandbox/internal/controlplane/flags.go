// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"maps"
	"slices"
)

// flags turns names and values into command line arguments, sorted, so that two starts have the same command line.
func flags(m map[string]string) []string {
	args := make([]string, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		args = append(args, "--"+name+"="+m[name])
	}
	return args
}
