// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// chunkSize is how much of an answer is read at a time.
const chunkSize = 64 << 10

// splitter takes the JSON of a list apart while it comes.
//
//	{"kind":"MachineList","items":[{...},{...}],"metadata":{...}}
//	 depth 1                       depth 3       depth 1
type splitter struct {
	size  int
	batch func(raw []byte) error

	// head is all but the items.
	head []byte
	// items are those that were not handed over yet, with what they stand in; count is how many.
	items []byte
	count int

	depth           int
	inItems, inText bool
	escaped         bool
	// text is the last text that stands in the list itself, such as a key.
	text []byte
}

// splitList hands the items of a list over in batches of a size, each as {"items":[...]}, and returns the list without them.
// A list that does not come to its end is an error. Batches may be kept.
func splitList(r io.Reader, size int, batch func(raw []byte) error) (head []byte, err error) {
	s := &splitter{size: size, batch: batch}
	chunk := make([]byte, chunkSize)
	for {
		n, err := r.Read(chunk)
		if feedErr := s.feed(chunk[:n]); feedErr != nil {
			return nil, feedErr
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // the caller says what was read
		}
	}
	if s.depth != 0 || s.inText || len(s.head) == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return s.head, nil
}

// feed takes the next bytes.
func (s *splitter) feed(chunk []byte) error {
	from := 0 // where the bytes begin that were not put anywhere yet
	for i := 0; i < len(chunk); i++ {
		if s.inText {
			i = s.skipText(chunk, i)
			continue
		}
		var err error
		switch b := chunk[i]; {
		case b == '{' || b == '[':
			from = s.begin(chunk, from, i)
		case b == '}' || b == ']':
			from, err = s.end(chunk, from, i)
		case s.between() && !bytes.ContainsRune([]byte(", \t\r\n"), rune(b)):
			err = batchError{fmt.Errorf("an item of the list is no object but begins with %q", b)}
		case b == '"':
			s.inText, s.text = true, s.text[:0]
		}
		if err != nil {
			return err
		}
	}
	if !s.between() {
		s.put(chunk[from:])
	}
	return nil
}

// between tells that the next bytes belong to no item but stand between two.
func (s *splitter) between() bool { return s.inItems && s.depth == 2 }

// begin takes the brace at i, and returns where the bytes begin that were not put anywhere yet.
func (s *splitter) begin(chunk []byte, from, i int) int {
	if s.between() {
		s.open()
		from = i
	}
	s.depth++
	if s.depth == 2 && chunk[i] == '[' && string(s.text) == "items" {
		s.put(chunk[from : i+1])
		s.inItems = true
	}
	return from
}

// end takes the closing brace at i, and returns where the bytes begin that were not put anywhere yet.
func (s *splitter) end(chunk []byte, from, i int) (int, error) {
	last := s.between()
	s.depth--
	switch {
	case last:
		s.inItems = false
		return i, s.flush()
	case s.between():
		s.put(chunk[from : i+1])
		if s.count++; s.count == s.size {
			return i + 1, s.flush()
		}
	}
	return from, nil
}

// skipText goes to the end of a text, or of the chunk.
func (s *splitter) skipText(chunk []byte, i int) int {
	for ; i < len(chunk); i++ {
		switch b := chunk[i]; {
		case s.escaped:
			s.escaped = false
		case b == '\\':
			s.escaped = true
		case b == '"':
			s.inText = false
			return i
		}
		if s.depth == 1 {
			s.text = append(s.text, chunk[i])
		}
	}
	return i
}

// open begins an item.
func (s *splitter) open() {
	if len(s.items) == 0 {
		s.items = append(make([]byte, 0, chunkSize), `{"items":[`...)
		return
	}
	s.items = append(s.items, ',')
}

// put adds bytes to where they belong now.
func (s *splitter) put(b []byte) {
	if s.inItems {
		s.items = append(s.items, b...)
		return
	}
	s.head = append(s.head, b...)
}

// flush hands over the items that are there.
func (s *splitter) flush() error {
	if s.count == 0 {
		return nil
	}
	raw := append(s.items, "]}"...)
	s.items, s.count = nil, 0
	if err := s.batch(raw); err != nil {
		return batchError{err}
	}
	return nil
}
