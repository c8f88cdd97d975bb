// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
)

// ReasonOffline means that a source is in the network although only local ones are wanted.
const ReasonOffline = "SourceNotLocal"

// offline refuses a release that is not whole on this machine and in the cluster, before anything is asked for.
func (f *Fetcher) offline(from found) error {
	if !f.Offline {
		return nil
	}
	var refused []error
	for i, c := range from.release.Spec.Components {
		at := release.ComponentPath(i)
		if inNetwork(c.Source) {
			refused = append(refused, ofComponent(notLocal(release.Describe(c.Source)), c.Name, from.where.Where(at+".source")))
		}
		if c.Metadata != nil && inNetwork(*c.Metadata) {
			refused = append(refused, ofComponent(notLocal(release.Describe(*c.Metadata)), c.Name, from.where.Where(at+".metadata")))
		}
	}
	return first(refused)
}

// inNetwork tells whether the content of a source is in the network.
func inNetwork(s v1alpha1.Source) bool { return s.URL != "" || s.OCI != "" }

func notLocal(what string) error {
	return problem.Blocked(ReasonOffline, "%s is in the network, and --offline allows only what is here", what).
		WithRemedy("download it into the release directory and name it by path, with its digest")
}

// tooBusy is the answer of a server that asks to come back later than anybody here waits.
func tooBusy(status string, wait fmt.Stringer) string {
	return fmt.Sprintf("it answers %s and asks to come back in %s", status, wait)
}
