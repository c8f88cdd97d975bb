// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

// The features of ext file systems that change where things are.
const (
	extCompression = 0x1
	extFileType    = 0x2
	extRecover     = 0x4
	extJournalDev  = 0x8
	extMetaBG      = 0x10
	extExtents     = 0x40
	ext64Bit       = 0x80
	extInlineData  = 0x8000
	// extKnown are those that are read, and those that change nothing for a reader: mmp, flex_bg, ea_inode, csum_seed,
	// largedir, encrypt (of single files) and casefold.
	extKnown = extFileType | extRecover | extMetaBG | extExtents | ext64Bit | extInlineData | 0x100 | 0x200 | 0x400 | 0x2000 | 0x4000 | 0x10000 | 0x20000

	extSparseSuper  = 0x1
	extSparseSuper2 = 0x200
	extJournal      = 0x4
	// ext4Only are features that only ext4 has: huge_file, gdt_csum, dir_nlink, extra_isize and metadata_csum.
	ext4Only = 0x8 | 0x10 | 0x20 | 0x40 | 0x400
)

// ext4 is an ext2, ext3 or ext4 file system, read only. Its journal is not replayed.
type ext4 struct {
	r              io.ReaderAt
	size           int64
	blockSize      int64
	blocks         uint64
	firstBlock     int64
	blocksPerGroup int64
	inodes         uint64
	inodesPerGroup uint64
	inodeSize      int64
	descSize       int64
	compat         uint32
	incompat       uint32
	roCompat       uint32
	firstMetaBG    int64
	label, uuid    string
}

func openExt4(r io.ReaderAt, size int64) (*ext4, error) {
	s := make([]byte, 1024)
	if err := readFull(r, s, 1024); err != nil {
		return nil, fmt.Errorf("read superblock: %w", err)
	}
	le := binary.LittleEndian
	f := &ext4{
		r: r, size: size, firstBlock: int64(le.Uint32(s[20:])), blocks: uint64(le.Uint32(s[4:])),
		blocksPerGroup: int64(le.Uint32(s[32:])), inodes: uint64(le.Uint32(s)), inodesPerGroup: uint64(le.Uint32(s[40:])),
		inodeSize: 128, descSize: 32, label: cString(s[120:136]), uuid: uuidText(s[104:120]),
	}
	if le.Uint32(s[76:]) > 0 { // revision
		f.inodeSize = int64(le.Uint16(s[88:]))
		f.compat, f.incompat, f.roCompat = le.Uint32(s[92:]), le.Uint32(s[96:]), le.Uint32(s[100:])
		f.firstMetaBG = int64(le.Uint32(s[260:]))
	}
	if f.incompat&ext64Bit != 0 {
		f.blocks |= uint64(le.Uint32(s[0x150:])) << 32
		f.descSize = max(64, int64(le.Uint16(s[254:])))
	}
	return f, f.check(le.Uint32(s[24:]))
}

func (f *ext4) check(logBlock uint32) error {
	if bad := f.incompat &^ extKnown; bad != 0 {
		return fmt.Errorf("it uses features that are not known (incompatible bits %#x)", bad)
	}
	if logBlock > 6 {
		return fmt.Errorf("its superblock asks for blocks of 2^%d bytes", uint64(logBlock)+10)
	}
	f.blockSize = 1024 << logBlock
	switch {
	case f.inodeSize < 128 || f.inodeSize > f.blockSize || f.inodesPerGroup == 0 || f.blocksPerGroup == 0 || f.descSize > f.blockSize:
		return fmt.Errorf("its superblock is damaged: inodes of %d bytes, %d in a group of %d blocks", f.inodeSize, f.inodesPerGroup, f.blocksPerGroup)
	case f.blocks > uint64(f.size/f.blockSize):
		return fail(ReasonTruncated, remedyAgain, "is truncated: a file system needs %d blocks of %d bytes, there are %d", f.blocks, f.blockSize, f.size/f.blockSize)
	}
	return nil
}

// about is what the file system says of itself; dirty tells that its journal has to be replayed.
func (f *ext4) about() (kind, label, uuid string, dirty bool) {
	return f.kind(), f.label, f.uuid, f.incompat&extRecover != 0
}

// kind is the name that people use.
func (f *ext4) kind() string {
	switch {
	case f.incompat&(extExtents|ext64Bit) != 0, f.roCompat&ext4Only != 0:
		return "ext4"
	case f.compat&extJournal != 0:
		return "ext3"
	}
	return "ext2"
}

// hasCopy tells whether a group begins with a copy of the superblock.
func (f *ext4) hasCopy(group int64) bool {
	if group <= 1 || f.roCompat&extSparseSuper == 0 {
		return group == 0 || f.compat&extSparseSuper2 == 0
	}
	for _, base := range []int64{3, 5, 7} {
		n := group
		for n%base == 0 {
			n /= base
		}
		if n == 1 {
			return true
		}
	}
	return false
}

// descriptorAt is where the descriptor of a group is, in bytes.
func (f *ext4) descriptorAt(group int64) int64 {
	each := f.blockSize / f.descSize
	set := group / each
	if f.incompat&extMetaBG == 0 || set < f.firstMetaBG {
		return (f.firstBlock+1)*f.blockSize + group*f.descSize
	}
	first := set * each
	block := f.firstBlock + first*f.blocksPerGroup
	if f.hasCopy(first) {
		block++
	}
	return block*f.blockSize + group%each*f.descSize
}

// inode returns the bytes of an inode.
func (f *ext4) inode(number uint64) ([]byte, error) {
	if number == 0 || number > f.inodes {
		return nil, fmt.Errorf("there is no inode %d", number)
	}
	group, index := (number-1)/f.inodesPerGroup, (number-1)%f.inodesPerGroup
	desc := make([]byte, f.descSize)
	if err := readFull(f.r, desc, f.descriptorAt(int64(group))); err != nil {
		return nil, fmt.Errorf("read descriptor of group %d: %w", group, err)
	}
	table := uint64(binary.LittleEndian.Uint32(desc[8:]))
	if f.descSize >= 64 {
		table |= uint64(binary.LittleEndian.Uint32(desc[40:])) << 32
	}
	if table >= f.blocks {
		return nil, fmt.Errorf("the inodes of group %d are said to be at block %d of %d", group, table, f.blocks)
	}
	raw := make([]byte, f.inodeSize)
	if err := readFull(f.r, raw, int64(table)*f.blockSize+int64(index)*f.inodeSize); err != nil {
		return nil, fmt.Errorf("read inode %d: %w", number, err)
	}
	return raw, nil
}

func cString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return clean(string(b[:i]))
		}
	}
	return clean(string(b))
}

func uuidText(b []byte) string {
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
