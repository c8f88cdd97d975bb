// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// sqlite reads tables of an SQLite file: no index, no query, no write-ahead log.
type sqlite struct {
	r      *io.SectionReader
	page   int64
	usable int64
	// left is how many pages may still be read: none belongs to two places.
	left int64
}

// sqliteBlobs visits the second column of the table Packages.
func sqliteBlobs(r *io.SectionReader, visit func([]byte) error) error {
	h := make([]byte, 100)
	if err := readFull(r, h, 0); err != nil || string(h[:16]) != "SQLite format 3\x00" {
		return errors.New("it is no SQLite database")
	}
	s := &sqlite{r: r, page: int64(binary.BigEndian.Uint16(h[16:]))}
	if s.page == 1 {
		s.page = 65536
	}
	s.usable = s.page - int64(h[20])
	if s.page < 512 || s.page&(s.page-1) != 0 || s.usable < 480 {
		return fmt.Errorf("its pages are said to have %d bytes", s.page)
	}
	s.left = r.Size()/s.page + 1
	root := int64(0)
	err := s.walk(1, 0, func(row [][]byte) error {
		if len(row) >= 4 && string(row[0]) == "table" && string(row[1]) == "Packages" {
			root = bigEndian(row[3])
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read its tables: %w", err)
	}
	if root == 0 {
		return errors.New("it has no table of packages")
	}
	return s.walk(root, 0, func(row [][]byte) error {
		if len(row) < 2 {
			return errors.New("a row is too short")
		}
		return visit(row[1])
	})
}

// walk visits the rows of a table, whose tree is at most 20 deep.
func (s *sqlite) walk(n int64, depth int, visit func([][]byte) error) error {
	p, err := s.read(n)
	if err != nil {
		return err
	}
	head := p
	if n == 1 {
		head = p[100:]
	}
	count, first := int(binary.BigEndian.Uint16(head[3:])), 8
	kind := head[0]
	if kind == 5 {
		first = 12
	}
	if kind != 5 && kind != 13 || depth > 20 || first+2*count > len(head) {
		return fmt.Errorf("page %d is damaged", n)
	}
	for i := range count {
		at := int(binary.BigEndian.Uint16(head[first+2*i:]))
		if at+4 > len(p) {
			return fmt.Errorf("page %d is damaged", n)
		}
		if kind == 5 {
			err = s.walk(int64(binary.BigEndian.Uint32(p[at:])), depth+1, visit)
		} else {
			err = s.cell(p[at:s.usable], visit)
		}
		if err != nil {
			return err
		}
	}
	if kind == 5 {
		return s.walk(int64(binary.BigEndian.Uint32(head[8:])), depth+1, visit)
	}
	return nil
}

func (s *sqlite) read(n int64) ([]byte, error) {
	if s.left--; n < 1 || n > s.r.Size()/s.page || s.left < 0 {
		return nil, fmt.Errorf("page %d is not there, or its pages run in a circle", n)
	}
	p := make([]byte, s.page)
	return p, readFull(s.r, p, (n-1)*s.page)
}

// cell reads one row: its length, its number, and as much as fits; the rest is on overflow pages.
func (s *sqlite) cell(b []byte, visit func([][]byte) error) error {
	length, n := varint(b)
	_, m := varint(b[n:])
	b = b[n+m:]
	if n == 0 || m == 0 || length > maxHeader {
		return fmt.Errorf("a row of %d bytes is not read", length)
	}
	local := int64(length)
	if local > s.usable-35 {
		least := (s.usable-12)*32/255 - 23
		local = least + (int64(length)-least)%(s.usable-4)
		if local > s.usable-35 {
			local = least
		}
	}
	if local < 0 || local > int64(len(b)) {
		return errors.New("a row does not fit into its page")
	}
	row := append(make([]byte, 0, min(length, uint64(s.usable)*2)), b[:local]...)
	if uint64(local) < length {
		if int64(len(b)) < local+4 {
			return errors.New("a row does not fit into its page")
		}
		for next := int64(binary.BigEndian.Uint32(b[local:])); uint64(len(row)) < length; {
			p, err := s.read(next)
			if err != nil {
				return err
			}
			row = append(row, p[4:min(uint64(s.usable), 4+length-uint64(len(row)))]...)
			next = int64(binary.BigEndian.Uint32(p))
		}
	}
	columns, err := record(row)
	if err != nil {
		return err
	}
	return visit(columns)
}

// record splits a row into its columns, as raw bytes.
func record(row []byte) ([][]byte, error) {
	length, n := varint(row)
	if n == 0 || length > uint64(len(row)) || length < uint64(n) {
		return nil, errors.New("a row's header is damaged")
	}
	types, data := row[n:length], row[length:]
	var out [][]byte
	for len(types) > 0 {
		kind, n := varint(types)
		if n == 0 || len(out) == 64 {
			return nil, errors.New("a row's header is damaged")
		}
		types = types[n:]
		size := columnSize(kind)
		if size > uint64(len(data)) {
			return nil, errors.New("a row is shorter than its columns")
		}
		out, data = append(out, data[:size]), data[size:]
	}
	return out, nil
}

func columnSize(kind uint64) uint64 {
	switch {
	case kind >= 12:
		return (kind - 12) / 2
	case kind == 5:
		return 6
	case kind == 6 || kind == 7:
		return 8
	case kind >= 8:
		return 0
	}
	return kind
}

// varint returns a number and how many bytes it takes, 0 if there are too few.
func varint(b []byte) (uint64, int) {
	var v uint64
	for i := range min(9, len(b)) {
		if i == 8 {
			return v<<8 | uint64(b[i]), 9
		}
		v = v<<7 | uint64(b[i]&0x7f)
		if b[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

func bigEndian(b []byte) int64 {
	var v int64
	for _, c := range b[:min(8, len(b))] {
		v = v<<8 | int64(c)
	}
	return v
}
