// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Topic is one thing that a survey looks into.
type Topic string

// Ask says what a survey has to look into. What depends on a release is handed over as data, so that who looks need not
// know what a release is.
type Ask struct {
	// Topics are looked into; others are left alone.
	Topics []Topic
	// CRDs are the CustomResourceDefinitions that are to come.
	CRDs []*unstructured.Unstructured
	// Scale tells that each MachineDeployment is scaled as a dry run before its template is compared.
	Scale bool
	// Dependents are kinds whose objects are made for one version of a component.
	Dependents []AskDependents
	// Rights are what Capstan itself will do.
	Rights []AskRight
	// Accounts are service accounts with what they will do.
	Accounts []AskAccount
	// Namespaces are those that objects are to be made in.
	Namespaces []string
	// Nodes narrows the topics about control planes and worker pools; nil asks about all of them and about no change.
	Nodes *AskNodes
	// Image is an image to be probed from here; nil for none.
	Image *AskImage
}

// Survey is what a plan asks about beyond the state of the objects that it wants: costly to find out, and of no use to a
// run. A nil Survey has looked into nothing.
type Survey struct {
	// Looked holds the topics that were looked into, with the empty string, or why they could not be.
	Looked map[Topic]string
	// Contracts is what the cluster says of its providers' contracts.
	Contracts *Contracts
	// Dependents are the fields that were asked about, in the order of what was asked, then by object.
	Dependents []Dependent
	// Fleet is what was found of the workload clusters.
	Fleet *Fleet
	// Nodes are the control planes and worker pools.
	Nodes *Nodes
	// Webhooks are the admission webhooks.
	Webhooks *Webhooks
	// Access is what accounts lack.
	Access *Access
	// Ending are the namespaces of the release that are being deleted.
	Ending []Ending
	// Stored is what is stored for the CRDs that are to come.
	Stored *Stored
	// Pauses are the paused objects of workload clusters, sorted.
	Pauses []Pause
	// Image is what the servers of the image said; nil if none was asked for.
	Image *ImageProbe
	// Pools is what a roll of nodes depends on; nil if nobody asked.
	Pools *PoolSurvey
}

// Failed tells whether a topic could not be observed, and why. A topic that nobody asked for was not observed either.
func (s *Survey) Failed(t Topic) (why string, failed bool) {
	if s == nil {
		return "nobody looked", true
	}
	why, looked := s.Looked[t]
	if !looked {
		return "nobody looked", true
	}
	return why, why != ""
}
