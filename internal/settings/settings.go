// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package settings finds what an upgrade resets: arguments, feature gates, environment, replicas, resources and the like
// that somebody changed on live objects. It compares three ways (the earlier manifest, the live object, what the new
// manifest makes of it), and can carry changes over into the new manifests. It is pure; whether a loss keeps an upgrade
// from starting is for package check to say.
package settings

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/internal/mask"
)

// Kind is what sort of setting it is.
type Kind string

const (
	// Gate is one feature gate in an argument such as --feature-gates.
	Gate Kind = "Gate"
	// Argument is one argument of a container.
	Argument Kind = "Argument"
	// Environment is one environment variable of a container.
	Environment Kind = "Environment"
	// Resource is one request or limit of a container.
	Resource Kind = "Resource"
	// Image is the image of a container.
	Image Kind = "Image"
	// Replicas is how many Pods there are to be.
	Replicas Kind = "Replicas"
	// NodeSelector is one entry of the Pods' node selector.
	NodeSelector Kind = "NodeSelector"
	// Toleration is one toleration of the Pods.
	Toleration Kind = "Toleration"
	// Pod is another field of the Pods.
	Pod Kind = "Pod"
	// Data is one key of a ConfigMap.
	Data Kind = "Data"
)

// Setting names one thing that can be set in an object. Its String is unique in the object.
type Setting struct {
	Kind Kind
	// Container is the container's name where the setting is one's.
	Container string
	// Flag is the argument that holds a feature gate.
	Flag string
	// Name is the gate, argument, variable, field or key.
	Name string
}

// String says which setting it is, in words.
func (s Setting) String() string {
	var text string
	switch s.Kind {
	case Gate:
		text = "feature gate " + s.Name
		if s.Flag != featureGates {
			text += " in " + s.Flag
		}
	case Argument:
		text = "argument " + s.Name
	case Environment:
		text = "environment variable " + s.Name
	case Resource:
		text = "resources." + s.Name
	case Image:
		text = "image"
	case Replicas:
		text = "replicas"
	case NodeSelector:
		text = "node selector " + s.Name
	case Toleration:
		text = "toleration " + s.Name
	case Pod:
		text = s.Name + " of the Pods"
	case Data:
		text = "key " + s.Name
	}
	if s.Container != "" {
		text += " of container " + s.Container
	}
	return text
}

// secret tells whether the setting's value is nobody's business.
func (s Setting) secret() bool {
	switch s.Kind {
	case Argument, Environment, Data:
		return mask.Looks(s.Name)
	case Gate, Resource, Image, Replicas, NodeSelector, Toleration, Pod:
	}
	return false
}

// Value is what a setting is set to.
type Value struct {
	// Set tells that it is set at all.
	Set bool
	// Text is the value; it may be one that nobody should read.
	Text string
}

func set(text string) Value { return Value{Set: true, Text: text} }

// shown is how much of a value is shown.
const shown = 60

// Show returns a value for people: hidden where the setting looks like a secret, shortened where it is long.
func (s Setting) Show(v Value) string {
	switch {
	case !v.Set:
		return "not set"
	case s.secret():
		return mask.Value([]byte(v.Text))
	case v.Text == "" && s.Kind == Argument:
		return "set"
	case v.Text == "":
		return `""`
	case s.Kind == Data || strings.ContainsAny(v.Text, "\n"):
		return fmt.Sprintf("%d bytes (sha256 %s)", len(v.Text), mask.Digest([]byte(v.Text)))
	}
	if r := []rune(v.Text); len(r) > shown {
		return string(r[:shown]) + "…"
	}
	return v.Text
}

// encoded returns a value that is no text as text.
func encoded(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	raw, err := json.Marshal(v)
	if err != nil { // what came as JSON is JSON
		return fmt.Sprint(v)
	}
	return string(raw)
}
