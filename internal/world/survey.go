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
}

// Survey is what a plan asks about beyond the state of the objects that it wants: costly to find out, and of no use to a
// run. A nil Survey has looked into nothing.
type Survey struct {
	// Looked holds the topics that were looked into, with the empty string, or why they could not be.
	Looked map[Topic]string
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
