// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package diagnose turns what Kubernetes says about a fault into causes in the operator's words: which Pod, which image,
// which node, what to do. It is the one place where answers of the API server get their words. It reads what it is
// given, asks nobody, and decides nothing about a run.
package diagnose

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/world"
)

// Facts are what a diagnosis may use besides the object itself.
type Facts struct {
	// At is when the objects were read.
	At time.Time
	// Nodes are the nodes of the cluster that the Pod should run on.
	Nodes []world.Node
	// Events are the Pod's events; without them a volume that can't be mounted stays unnamed.
	Events []corev1.Event
}

// Sort returns the causes with definite ones first, each once, otherwise in the given order.
func Sort(causes []world.Cause) []world.Cause {
	var out []world.Cause
	for _, c := range causes {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b world.Cause) int {
		if a.Definite == b.Definite {
			return 0
		}
		if a.Definite {
			return -1
		}
		return 1
	})
	return out
}

// resume ends every remedy: a stopped run goes on where it stopped.
func resume(first string) string { return first + `, then run "capstan resume"` }

// short returns s in one line of at most limit bytes.
func short(s string, limit int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strings.TrimSpace(s[:cut]) + "…"
}
