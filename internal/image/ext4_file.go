// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
)

const (
	inodeExtents = 0x80000
	inodeInline  = 0x10000000
	inodeEncrypt = 0x800

	// maxRuns bounds the memory for one file's map, maxNodes the blocks of the map itself.
	maxRuns, maxNodes = 1 << 18, 1 << 16
	// maxListing bounds what is read of one directory.
	maxListing = 32 << 20
)

// run is a piece of a file that is in one piece on the disk. At zero is a hole.
type run struct{ logical, length, physical int64 }

// root is the directory that all paths begin at.
func (f *ext4) root() (*node, error) { return f.node(2) }

func (f *ext4) node(number uint64) (*node, error) {
	raw, err := f.inode(number)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	n := &node{number: number, raw: raw, size: int64(le.Uint32(raw[4:]))}
	switch le.Uint16(raw) & 0xf000 {
	case 0x4000:
		n.kind = kindDirectory
	case 0x8000:
		n.kind = kindFile
	case 0xa000:
		n.kind = kindLink
	}
	if n.kind == kindFile {
		n.size |= int64(le.Uint32(raw[108:])) << 32
	}
	if n.size < 0 || n.size > maxDisk {
		return nil, fmt.Errorf("inode %d is said to have %d bytes", number, uint64(n.size))
	}
	return n, nil
}

func (f *ext4) flags(n *node) uint32 { return binary.LittleEndian.Uint32(n.raw[32:]) }

// content returns the bytes of a file, a link or a directory.
func (f *ext4) content(n *node) (*io.SectionReader, error) {
	flags := f.flags(n)
	switch {
	case flags&inodeEncrypt != 0:
		return nil, errors.New("it is encrypted")
	case flags&inodeInline != 0:
		data := append(bytes.Clone(n.raw[40:100]), f.inlineRest(n)...)
		return io.NewSectionReader(bytes.NewReader(data), 0, min(n.size, int64(len(data)))), nil
	case n.kind == kindLink && n.size < 60 && flags&inodeExtents == 0:
		return io.NewSectionReader(bytes.NewReader(n.raw[40:100]), 0, n.size), nil
	}
	m := &mapper{f: f, need: (n.size + f.blockSize - 1) / f.blockSize}
	var err error
	if flags&inodeExtents != 0 {
		err = m.extents(n.raw[40:100], 6)
	} else {
		err = m.blockMap(n.raw[40:100])
	}
	if err != nil {
		return nil, fmt.Errorf("read the map of inode %d: %w", n.number, err)
	}
	sort.Slice(m.runs, func(i, j int) bool { return m.runs[i].logical < m.runs[j].logical })
	return io.NewSectionReader(&mapped{r: f.r, blockSize: f.blockSize, runs: m.runs, size: n.size}, 0, n.size), nil
}

// inlineRest is the part of inline data that did not fit into the block map: the attribute system.data.
func (f *ext4) inlineRest(n *node) []byte {
	le := binary.LittleEndian
	if len(n.raw) < 132 {
		return nil
	}
	at := 128 + int(le.Uint16(n.raw[128:]))
	if at+4 > len(n.raw) || le.Uint32(n.raw[at:]) != 0xea020000 {
		return nil
	}
	base := n.raw[at+4:]
	for e := base; len(e) >= 16 && le.Uint32(e) != 0; {
		length := int(e[0])
		if 16+length > len(e) {
			return nil
		}
		offset, size := int(le.Uint16(e[2:])), int64(le.Uint32(e[8:]))
		if e[1] == 7 && string(e[16:16+length]) == "data" && offset <= len(base) && size <= int64(len(base)-offset) {
			return base[offset : int64(offset)+size]
		}
		e = e[min(len(e), (16+length+3)&^3):]
	}
	return nil
}

// mapper collects where the blocks of one file are.
type mapper struct {
	f     *ext4
	need  int64
	nodes int
	runs  []run
}

func (m *mapper) add(logical, length, physical int64) error {
	if physical == 0 || logical >= m.need {
		return nil
	}
	if physical < 0 || length < 0 || uint64(physical)+uint64(length) > m.f.blocks {
		return fmt.Errorf("block %d is past the end of the file system", physical)
	}
	if last := len(m.runs) - 1; last >= 0 {
		if r := &m.runs[last]; r.logical+r.length == logical && r.physical+r.length == physical {
			r.length += length
			return nil
		}
	}
	if len(m.runs) == maxRuns {
		return errors.New("it is in too many pieces")
	}
	m.runs = append(m.runs, run{logical, length, physical})
	return nil
}

// block reads a block of the map.
func (m *mapper) block(number int64) ([]byte, error) {
	if m.nodes++; m.nodes > maxNodes {
		return nil, errors.New("its map has too many blocks")
	}
	if number <= 0 || uint64(number) >= m.f.blocks {
		return nil, fmt.Errorf("block %d is past the end of the file system", number)
	}
	b := make([]byte, m.f.blockSize)
	return b, readFull(m.f.r, b, number*m.f.blockSize)
}

// extents reads a node of an extent tree that is at most so deep.
func (m *mapper) extents(b []byte, limit int) error {
	le := binary.LittleEndian
	entries, depth := int(le.Uint16(b[2:])), int(le.Uint16(b[6:]))
	if le.Uint16(b) != 0xf30a || depth >= limit || 12+12*entries > len(b) {
		return errors.New("its extent tree is damaged")
	}
	for i := range entries {
		e := b[12+12*i:]
		logical := int64(le.Uint32(e))
		if depth > 0 {
			child, err := m.block(int64(le.Uint32(e[4:])) | int64(le.Uint16(e[8:]))<<32)
			if err != nil {
				return err
			}
			if err := m.extents(child, depth); err != nil {
				return err
			}
			continue
		}
		length := int64(le.Uint16(e[4:]))
		if length > 32768 { // reserved and not written: zeros
			continue
		}
		if err := m.add(logical, length, int64(le.Uint16(e[6:]))<<32|int64(le.Uint32(e[8:]))); err != nil {
			return err
		}
	}
	return nil
}

// blockMap reads the older map: twelve blocks, then tables of one, two and three levels.
func (m *mapper) blockMap(b []byte) error {
	le := binary.LittleEndian
	for i := range int64(12) {
		if err := m.add(i, 1, int64(le.Uint32(b[4*i:]))); err != nil {
			return err
		}
	}
	at, each := int64(12), m.f.blockSize/4
	covers := each
	for level := range 3 {
		if err := m.indirect(int64(le.Uint32(b[48+4*level:])), at, covers); err != nil {
			return err
		}
		at += covers
		covers *= each
	}
	return nil
}

// indirect reads a table that covers so many blocks.
func (m *mapper) indirect(table, at, covers int64) error {
	if table == 0 || at >= m.need {
		return nil
	}
	b, err := m.block(table)
	if err != nil {
		return err
	}
	each := covers / (m.f.blockSize / 4)
	for i := 0; i < len(b); i += 4 {
		block := int64(binary.LittleEndian.Uint32(b[i:]))
		if each == 1 {
			err = m.add(at, 1, block)
		} else {
			err = m.indirect(block, at, each)
		}
		if err != nil {
			return err
		}
		at += each
	}
	return nil
}

// mapped reads a file by its map.
type mapped struct {
	r         io.ReaderAt
	blockSize int64
	runs      []run
	size      int64
}

// ReadAt reads from the file; holes are zeros.
func (x *mapped) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) && off < x.size {
		block, within := off/x.blockSize, off%x.blockSize
		length := x.size - off
		i := sort.Search(len(x.runs), func(i int) bool { return x.runs[i].logical+x.runs[i].length > block })
		hole := i == len(x.runs) || x.runs[i].logical > block
		switch {
		case !hole:
			length = min(length, (x.runs[i].logical+x.runs[i].length-block)*x.blockSize-within)
		case i < len(x.runs):
			length = min(length, (x.runs[i].logical-block)*x.blockSize-within)
		}
		part := p[done : done+int(min(int64(len(p)-done), length))]
		if hole {
			clear(part)
		} else if err := readFull(x.r, part, (x.runs[i].physical+block-x.runs[i].logical)*x.blockSize+within); err != nil {
			return done, err
		}
		done += len(part)
		off += int64(len(part))
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// list calls visit for each entry of a directory until it returns false. Directories with an index are read as a list: the
// index is hidden in entries that are not in use.
func (f *ext4) list(n *node, visit func(name string, number uint64) bool) error {
	content, err := f.content(n)
	if err != nil {
		return err
	}
	if content.Size() > maxListing {
		return fmt.Errorf("a directory of %d bytes is not read", content.Size())
	}
	data := make([]byte, content.Size())
	if _, err := io.ReadFull(content, data); err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	if f.flags(n)&inodeInline == 0 {
		for len(data) > 0 {
			block := data[:min(int64(len(data)), f.blockSize)]
			if !entries(block, visit) {
				return nil
			}
			data = data[len(block):]
		}
		return nil
	}
	// Inline: four bytes for the parent, then entries up to the end of the block map, then those in the attribute.
	if len(data) > 4 && entries(data[4:min(60, len(data))], visit) && len(data) > 60 {
		entries(data[60:], visit)
	}
	return nil
}

func entries(b []byte, visit func(name string, number uint64) bool) bool {
	for len(b) >= 8 {
		number, length, name := binary.LittleEndian.Uint32(b), int(binary.LittleEndian.Uint16(b[4:])), int(b[6])
		if length == 0 { // 65536 in a block of that size
			length = len(b)
		}
		if length < 8 || length > len(b) || 8+name > length {
			return true
		}
		if number != 0 && name != 0 {
			if text := string(b[8 : 8+name]); text != "." && text != ".." && !visit(text, uint64(number)) {
				return false
			}
		}
		b = b[length:]
	}
	return true
}
