// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

// Style is how text looks. Its zero value is plain text; nothing is ever said by colour alone.
type Style struct {
	// Colour allows ANSI colours.
	Colour bool
}

const (
	codeBold   = "1"
	codeRed    = "31"
	codeGreen  = "32"
	codeYellow = "33"
)

func (s Style) paint(code, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s Style) good(text string) string   { return s.paint(codeGreen, text) }
func (s Style) bad(text string) string    { return s.paint(codeRed, text) }
func (s Style) warn(text string) string   { return s.paint(codeYellow, text) }
func (s Style) strong(text string) string { return s.paint(codeBold, text) }
