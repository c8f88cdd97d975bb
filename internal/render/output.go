// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// Format is how a document is written.
type Format string

const (
	// FormatText is for people.
	FormatText Format = "text"
	// FormatJSON is for programs; see the package comment.
	FormatJSON Format = "json"
	// FormatYAML is FormatJSON in other clothes.
	FormatYAML Format = "yaml"
)

// Formats returns the formats that can be asked for.
func Formats() []Format { return []Format{FormatText, FormatJSON, FormatYAML} }

// Document is something a command was asked for.
type Document interface {
	// Text returns the screen for people. It ends with a line break.
	Text(s Style) string
	// Object returns what is encoded for programs.
	Object() any
}

// Prompt returns a command line that can be typed: "capstan" and the words, with the flags that lead to the same cluster.
type Prompt func(words ...string) string

// Write writes a document.
func Write(w io.Writer, f Format, s Style, d Document) error {
	out := []byte(d.Text(s))
	if f != FormatText {
		var err error
		if out, err = encode(f, d.Object()); err != nil {
			return err
		}
	}
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func encode(f Format, object any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(object); err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	if f == FormatJSON {
		return b.Bytes(), nil
	}
	out, err := yaml.JSONToYAML(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	return out, nil
}

// meta is the head of each object that is not one of the API's kinds.
type meta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}
