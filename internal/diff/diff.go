// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package diff shows in what two states of an object differ, as a unified diff of YAML. What the API server keeps for
// itself is left out, and values that nobody should read are hidden. It reads plain data and decides nothing.
package diff

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/mask"
	"github.com/capstan-dev/capstan/internal/world"
)

// nowhere is the name of a text that is not there.
const nowhere = "/dev/null"

// Objects returns the difference of two states of one object, whose name it is; nil is an object that is not there. It
// is empty where only something differs that is no content.
func Objects(name string, before, after *unstructured.Unstructured) (string, error) {
	a, err := text(before)
	if err != nil {
		return "", fmt.Errorf("show %s: %w", name, err)
	}
	b, err := text(after)
	if err != nil {
		return "", fmt.Errorf("show %s: %w", name, err)
	}
	from, to := "live/"+name, "release/"+name
	if before == nil {
		from = nowhere
	}
	if after == nil {
		to = nowhere
	}
	return Unified(from, to, a, b), nil
}

func text(u *unstructured.Unstructured) (string, error) {
	if u == nil {
		return "", nil
	}
	u = mask.Object(u)
	delete(u.Object, "status")
	if m, ok := u.Object["metadata"].(map[string]any); ok {
		for _, field := range []string{"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink"} {
			delete(m, field)
		}
	}
	out, err := yaml.Marshal(u.Object)
	return string(out), err
}

// Kind says what happens to an object.
type Kind string

const (
	// Add makes an object.
	Add Kind = "Add"
	// Change changes it.
	Change Kind = "Change"
	// Replace deletes it and makes it anew, because it can't be changed in place.
	Replace Kind = "Replace"
	// Remove deletes it.
	Remove Kind = "Remove"
)

// Entry is what a run would do to one object.
type Entry struct {
	// Component is the component that the object belongs to.
	Component string `json:"component"`
	// Object is the object.
	Object world.Ref `json:"object"`
	// Kind is Add, Change, Replace or Remove.
	Kind Kind `json:"change"`
	// Text is the difference in the unified format.
	Text string `json:"diff"`
}
