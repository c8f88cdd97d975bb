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

// The features of xfs of version 5 that are known to change nothing here, or are handled: ftype, sparse inodes, meta_uuid,
// big timestamps, needs repair, 64-bit extent counters, exchange range, parent pointers.
const (
	xfsFileType = 0x1
	xfsNrext64  = 0x20
	xfsKnown    = xfsFileType | 0x2 | 0x4 | 0x8 | 0x10 | xfsNrext64 | 0x40 | 0x80

	// xfsLeaf is where the index of a directory begins, in bytes; the entries are before it.
	xfsLeaf = 32 << 30
)

// xfs is an xfs file system of version 4 or 5, read only. Its log is not replayed.
type xfs struct {
	r           io.ReaderAt
	blockSize   int64
	blocks      uint64
	rootInode   uint64
	agBlocks    uint64
	agCount     uint64
	agLog       uint
	inodeSize   int64
	perBlockLog uint
	dirSize     int64
	five        bool
	fileTypes   bool
	nrext64     bool
	label, uuid string
}

func openXFS(r io.ReaderAt, size int64) (*xfs, error) {
	s := make([]byte, 512)
	if err := readFull(r, s, 0); err != nil {
		return nil, fmt.Errorf("read superblock: %w", err)
	}
	be := binary.BigEndian
	f := &xfs{
		r: r, blockSize: int64(be.Uint32(s[4:])), blocks: be.Uint64(s[8:]), rootInode: be.Uint64(s[56:]), agBlocks: uint64(be.Uint32(s[84:])),
		agCount: uint64(be.Uint32(s[88:])), agLog: uint(s[124]), inodeSize: int64(be.Uint16(s[104:])), perBlockLog: uint(s[123]),
		five: be.Uint16(s[100:])&0xf == 5, label: cString(s[108:120]), uuid: uuidText(s[32:48]),
	}
	if f.five {
		features := be.Uint32(s[216:])
		if bad := features &^ xfsKnown; bad != 0 {
			return nil, fmt.Errorf("it uses features that are not known (incompatible bits %#x)", bad)
		}
		f.fileTypes, f.nrext64 = features&xfsFileType != 0, features&xfsNrext64 != 0
	} else {
		f.fileTypes = be.Uint32(s[200:])&0x200 != 0
	}
	if n := f.blockSize; n < 512 || n > 65536 || n&(n-1) != 0 || f.inodeSize < 256 || f.inodeSize > 2048 || f.agLog > 31 || f.perBlockLog > 8 ||
		f.inodeSize<<f.perBlockLog != n || s[192] > 7 || f.agBlocks == 0 || f.agBlocks > 1<<f.agLog {
		return nil, errors.New("its superblock is damaged")
	}
	f.dirSize = f.blockSize << s[192]
	if f.blocks > uint64(size/f.blockSize) {
		return nil, fail(ReasonTruncated, remedyAgain, "is truncated: a file system needs %d blocks of %d bytes, there are %d", f.blocks, f.blockSize, size/f.blockSize)
	}
	return f, nil
}

func (f *xfs) about() (kind, label, uuid string, dirty bool) { return "xfs", f.label, f.uuid, false }

func (f *xfs) root() (*node, error) { return f.node(f.rootInode) }

// at is where a block is, in bytes; blocks are numbered by allocation group.
func (f *xfs) at(block uint64) (int64, error) {
	group, within := block>>f.agLog, block&(1<<f.agLog-1)
	if group >= f.agCount || within >= f.agBlocks || group*f.agBlocks+within >= f.blocks {
		return 0, fmt.Errorf("block %d is past the end of the file system", block)
	}
	return int64(group*f.agBlocks+within) * f.blockSize, nil
}

func (f *xfs) node(number uint64) (*node, error) {
	at, err := f.at(number >> f.perBlockLog)
	if err != nil {
		return nil, fmt.Errorf("find inode %d: %w", number, err)
	}
	raw := make([]byte, f.inodeSize)
	if err := readFull(f.r, raw, at+int64(number&(1<<f.perBlockLog-1))*f.inodeSize); err != nil {
		return nil, fmt.Errorf("read inode %d: %w", number, err)
	}
	be := binary.BigEndian
	n := &node{number: number, raw: raw, size: int64(be.Uint64(raw[56:]))}
	if string(raw[:2]) != "IN" || n.size < 0 || n.size > maxDisk {
		return nil, fmt.Errorf("inode %d is damaged", number)
	}
	switch be.Uint16(raw[2:]) & 0xf000 {
	case 0x4000:
		n.kind = kindDirectory
	case 0x8000:
		n.kind = kindFile
	case 0xa000:
		n.kind = kindLink
	}
	return n, nil
}

// fork is the part of an inode that says where its data is, or is the data.
func (f *xfs) fork(n *node) []byte {
	begin := 100
	if n.raw[4] >= 3 {
		begin = 176
	}
	end := len(n.raw)
	if offset := int(n.raw[82]) * 8; offset > 0 && begin+offset < end {
		end = begin + offset
	}
	return n.raw[begin:end]
}

// runs returns where a file is, in blocks that are numbered from the beginning of the disk.
func (f *xfs) runs(n *node) ([]run, error) {
	fork, be := f.fork(n), binary.BigEndian
	m := &xfsMap{f: f}
	var err error
	switch n.raw[5] {
	case 2:
		count := uint64(be.Uint32(n.raw[76:]))
		if f.nrext64 {
			count = be.Uint64(n.raw[24:])
		}
		if count > uint64(len(fork)/16) {
			return nil, errors.New("its list of extents is damaged")
		}
		err = m.extents(fork[:16*count])
	case 3:
		if len(fork) < 4 {
			return nil, errors.New("its tree of extents is damaged")
		}
		err = m.children(fork[4:], int(be.Uint16(fork[2:])), int(be.Uint16(fork)))
	default:
		err = fmt.Errorf("its format %d is not known", n.raw[5])
	}
	sort.Slice(m.runs, func(i, j int) bool { return m.runs[i].logical < m.runs[j].logical })
	return m.runs, err
}

// xfsMap collects where the blocks of one file are.
type xfsMap struct {
	f     *xfs
	nodes int
	runs  []run
}

func (m *xfsMap) extents(b []byte) error {
	be := binary.BigEndian
	for ; len(b) >= 16; b = b[16:] {
		hi, lo := be.Uint64(b), be.Uint64(b[8:])
		count := int64(lo & (1<<21 - 1))
		if hi>>63 != 0 || count == 0 { // reserved and not written: zeros
			continue
		}
		at, err := m.f.at((hi&0x1ff)<<43 | lo>>21)
		if err != nil {
			return err
		}
		if len(m.runs) == maxRuns {
			return errors.New("it is in too many pieces")
		}
		m.runs = append(m.runs, run{int64(hi << 1 >> 10), count, at / m.f.blockSize})
	}
	return nil
}

// children reads what a node of the tree points to: keys come first, then the places.
func (m *xfsMap) children(b []byte, count, level int) error {
	most := len(b) / 16
	if count > most || level > 12 || level < 1 {
		return errors.New("its tree of extents is damaged")
	}
	for i := range count {
		at, err := m.f.at(binary.BigEndian.Uint64(b[8*most+8*i:]))
		if err != nil {
			return err
		}
		if m.nodes++; m.nodes > maxNodes {
			return errors.New("its map has too many blocks")
		}
		block := make([]byte, m.f.blockSize)
		if err := readFull(m.f.r, block, at); err != nil {
			return err
		}
		below, records, head := int(binary.BigEndian.Uint16(block[4:])), int(binary.BigEndian.Uint16(block[6:])), 24
		if m.f.five {
			head = 72
		}
		if below != level-1 || head+16*records > len(block) {
			return errors.New("its tree of extents is damaged")
		}
		if below > 0 {
			err = m.children(block[head:], records, below)
		} else {
			err = m.extents(block[head : head+16*records])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// content returns the bytes of a file, a link or a directory.
func (f *xfs) content(n *node) (*io.SectionReader, error) {
	if n.raw[5] == 1 {
		b := f.fork(n)
		return io.NewSectionReader(bytes.NewReader(b), 0, min(n.size, int64(len(b)))), nil
	}
	runs, err := f.runs(n)
	if err != nil {
		return nil, fmt.Errorf("read the map of inode %d: %w", n.number, err)
	}
	file := &mapped{r: f.r, blockSize: f.blockSize, runs: runs, size: n.size}
	if n.kind == kindLink && f.five { // the target is behind a header
		file.size += 56
		return io.NewSectionReader(file, 56, n.size), nil
	}
	return io.NewSectionReader(file, 0, n.size), nil
}

// list calls visit for each entry of a directory until it returns false.
func (f *xfs) list(n *node, visit func(name string, number uint64) bool) error {
	if n.raw[5] == 1 {
		return f.shortList(f.fork(n), visit)
	}
	runs, err := f.runs(n)
	if err != nil {
		return fmt.Errorf("read the map of directory %d: %w", n.number, err)
	}
	size := int64(0)
	for _, r := range runs {
		if end := (r.logical + r.length) * f.blockSize; end <= xfsLeaf {
			size = max(size, end)
		}
	}
	if size > maxListing {
		return fmt.Errorf("a directory of %d bytes is not read", size)
	}
	data := make([]byte, size)
	if err := readFull(&mapped{r: f.r, blockSize: f.blockSize, runs: runs, size: size}, data, 0); err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	for ; int64(len(data)) >= f.dirSize; data = data[f.dirSize:] {
		if !f.dirBlock(data[:f.dirSize], visit) {
			return nil
		}
	}
	return nil
}

// shortList reads entries within the inode.
func (f *xfs) shortList(b []byte, visit func(name string, number uint64) bool) error {
	if len(b) < 6 {
		return errors.New("a directory is damaged")
	}
	count, width := int(b[0]), 4
	if b[1] > 0 {
		count, width = max(count, int(b[1])), 8
	}
	b = b[2+width:]
	for range count {
		if len(b) < 3 {
			return errors.New("a directory is damaged")
		}
		name, end := int(b[0]), 3+int(b[0])+width
		if f.fileTypes {
			end++
		}
		if end > len(b) {
			return errors.New("a directory is damaged")
		}
		if !visit(string(b[3:3+name]), uint64(bigEndian(b[end-width:end]))) {
			return nil
		}
		b = b[end:]
	}
	return nil
}

// dirBlock reads the entries of one block; one that is the whole directory has its index at the end.
func (f *xfs) dirBlock(b []byte, visit func(name string, number uint64) bool) bool {
	be := binary.BigEndian
	magic, head := string(b[:4]), 16
	if f.five {
		head = 64
	}
	end := len(b)
	switch magic {
	case "XDB3", "XD2B":
		end -= 8 + 8*int(min(be.Uint32(b[len(b)-8:]), uint32(len(b)/8)))
	case "XDD3", "XD2D":
	default:
		return true
	}
	for at := head; at+12 <= end; {
		if be.Uint16(b[at:]) == 0xffff {
			length := int(be.Uint16(b[at+2:]))
			if length < 8 {
				return true
			}
			at += length
			continue
		}
		name := int(b[at+8])
		length := 8 + 1 + name + 2
		if f.fileTypes {
			length++
		}
		if at+length > end {
			return true
		}
		if text := string(b[at+9 : at+9+name]); text != "." && text != ".." && !visit(text, be.Uint64(b[at:])) {
			return false
		}
		at += (length + 7) &^ 7
	}
	return true
}
