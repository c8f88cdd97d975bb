// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"strings"
)

// Positions tells on which line of a file each field of a release stands. A nil Positions belongs to a release that did
// not come from a file.
type Positions struct {
	file  string
	lines map[string]int
}

// Where names the place of a field for people: "release.yaml:12" when it came from a file, the field path otherwise.
// A field that the file leaves out stands where its parent is.
func (p *Positions) Where(path string) string {
	if p == nil {
		return path
	}
	if line := p.line(path); line > 0 {
		return fmt.Sprintf("%s:%d", p.file, line)
	}
	return p.file
}

// line returns the line of the field or of its nearest parent that the file has, 0 for none.
func (p *Positions) line(path string) int {
	if p == nil {
		return 0
	}
	for {
		if line, ok := p.lines[path]; ok {
			return line
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return p.lines[""]
		}
		path = path[:cut]
	}
}

// child returns the path of a field of the object at parent.
func child(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}

// item returns the path of an entry of the list at parent.
func item(parent string, index int) string { return fmt.Sprintf("%s[%d]", parent, index) }

// ComponentPath returns the field path of the component with this index in a release.
func ComponentPath(index int) string { return item("spec.components", index) }
