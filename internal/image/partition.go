// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unicode/utf16"
)

const (
	maxGPTEntries = 1024
	maxLogical    = 128
)

// partition is a part of a disk. A disk without a partition table is one partition with the number 0.
type partition struct {
	Partition
	reader *io.SectionReader
}

// findPartitions returns the kind of the partition table and the partitions.
func findPartitions(d disk) (string, []partition, error) {
	if err := probe(d, d.Size()); err != nil {
		return "", nil, err
	}
	kind, found, err := gpt(d)
	if err != nil {
		return "", nil, err
	}
	if kind == "" {
		kind, found = mbr(d)
	}
	if kind == "" {
		found = []Partition{{SizeBytes: d.Size()}}
	}
	out := make([]partition, 0, len(found))
	for _, p := range found {
		if p.StartBytes < 0 || p.SizeBytes < 0 || p.StartBytes > d.Size()-p.SizeBytes {
			return "", nil, fail(ReasonTruncated, remedyAgain, "is truncated: its disk has %d bytes, and partition %d reaches to %d",
				d.Size(), p.Number, uint64(p.StartBytes)+uint64(p.SizeBytes))
		}
		out = append(out, partition{Partition: p, reader: io.NewSectionReader(d, p.StartBytes, p.SizeBytes)})
	}
	return kind, out, nil
}

// gpt reads a GUID partition table of disks with sectors of 512 or 4096 bytes, the copy at the end if the first is damaged.
func gpt(d disk) (string, []Partition, error) {
	for _, sector := range []int64{512, 4096} {
		for _, at := range []int64{sector, d.Size()/sector*sector - sector} {
			entries, count, size := gptHeader(d, at, sector)
			if entries == 0 {
				continue
			}
			raw := make([]byte, count*size)
			if err := readFull(d, raw, entries); err != nil {
				if errors.Is(err, io.ErrUnexpectedEOF) {
					return "", nil, fail(ReasonTruncated, remedyAgain, "is truncated: its disk has %d bytes and ends within the partition table", d.Size())
				}
				return "", nil, fmt.Errorf("read partition table: %w", err)
			}
			return "gpt", gptEntries(raw, size, sector), nil
		}
	}
	return "", nil, nil
}

func gptHeader(d disk, at, sector int64) (entries, count, size int64) {
	h := make([]byte, 92)
	if at < sector || readFull(d, h, at) != nil || string(h[:8]) != "EFI PART" {
		return 0, 0, 0
	}
	le := binary.LittleEndian
	sum := le.Uint32(h[16:])
	clear(h[16:20])
	lba := le.Uint64(h[72:])
	count, size = int64(le.Uint32(h[80:])), int64(le.Uint32(h[84:]))
	if le.Uint32(h[12:]) != 92 || crc32.ChecksumIEEE(h) != sum || count > maxGPTEntries || size < 128 || size > 4096 || lba > maxDisk/512 || lba == 0 {
		return 0, 0, 0
	}
	return int64(lba) * sector, count, size
}

func gptEntries(raw []byte, size, sector int64) []Partition {
	var out []Partition
	le := binary.LittleEndian
	for i := int64(0); (i+1)*size <= int64(len(raw)); i++ {
		e := raw[i*size : (i+1)*size]
		if bytes.Equal(e[:16], make([]byte, 16)) {
			continue
		}
		p := Partition{Number: int(i) + 1, Type: guid(e), UUID: guid(e[16:]), Label: utf16Text(e[56:128]), StartBytes: -1}
		first, last := le.Uint64(e[32:]), le.Uint64(e[40:])
		p.StartBytes, p.SizeBytes = span(first, last-first+1, sector)
		out = append(out, p)
	}
	return out
}

// span turns sectors into bytes; what no disk has becomes a partition that does not fit.
func span(first, count uint64, sector int64) (start, size int64) {
	limit := uint64(maxDisk / sector)
	return int64(min(first, limit)) * sector, int64(min(count, limit)) * sector
}

func guid(b []byte) string {
	le := binary.LittleEndian
	return fmt.Sprintf("%08x-%04x-%04x-%s-%s", le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), hex.EncodeToString(b[8:10]), hex.EncodeToString(b[10:16]))
}

func utf16Text(b []byte) string {
	var units []uint16
	for i := 0; i+1 < len(b); i += 2 {
		u := binary.LittleEndian.Uint16(b[i:])
		if u == 0 {
			break
		}
		units = append(units, u)
	}
	return clean(string(utf16.Decode(units)))
}

// mbr reads the old partition table, with the logical partitions of an extended one.
func mbr(d disk) (string, []Partition) {
	s := []byte(start(d, 512))
	if len(s) < 512 || s[510] != 0x55 || s[511] != 0xaa || isFileSystem(d) {
		return "", nil
	}
	var out []Partition
	le := binary.LittleEndian
	for i := range 4 {
		e := s[446+16*i:]
		kind, first, count := e[4], le.Uint32(e[8:]), le.Uint32(e[12:])
		if e[0]&0x7f != 0 { // neither bootable nor not: this is code or data, no partition table
			return "", nil
		}
		switch {
		case kind == 0 || count == 0:
		case kind == 0x05 || kind == 0x0f || kind == 0x85:
			out = append(out, logical(d, int64(first))...)
		default:
			out = append(out, mbrPartition(i+1, kind, int64(first), count))
		}
	}
	if len(out) == 0 {
		return "", nil
	}
	return "mbr", out
}

func mbrPartition(number int, kind byte, first int64, count uint32) Partition {
	start, size := span(uint64(first), uint64(count), 512)
	return Partition{Number: number, Type: fmt.Sprintf("0x%02x", kind), StartBytes: start, SizeBytes: size}
}

func logical(d disk, base int64) []Partition {
	var out []Partition
	le := binary.LittleEndian
	s := make([]byte, 512)
	for at, n := base, 5; n < 5+maxLogical; n++ {
		if readFull(d, s, at*512) != nil || s[510] != 0x55 || s[511] != 0xaa {
			break
		}
		if count := le.Uint32(s[446+12:]); count != 0 {
			out = append(out, mbrPartition(n, s[446+4], at+int64(le.Uint32(s[446+8:])), count))
		}
		next := int64(le.Uint32(s[462+8:]))
		if next == 0 || s[462+4] == 0 {
			break
		}
		at = base + next
	}
	return out
}

// signature is how a kind of content is recognised.
type signature struct {
	kind string
	at   int64
	is   string
}

func signatures() []signature {
	return []signature{
		{"ext", 1080, "\x53\xef"},
		{"xfs", 0, "XFSB"},
		{"btrfs", 0x10040, "_BHRfS_M"},
		{"luks", 0, "LUKS\xba\xbe"},
		{"lvm", 512, "LABELONE"},
		{"vfat", 0x36, "FAT"},
		{"vfat", 0x52, "FAT32"},
		{"swap", 4086, "SWAPSPACE2"},
		{"squashfs", 0, "hsqs"},
		{"erofs", 1024, "\xe2\xe1\xf5\xe0"},
		{"f2fs", 1024, "\x10\x20\xf5\xf2"},
		{"iso9660", 0x8001, "CD001"},
	}
}

// probe reads what signatures are looked for in, so that a disk that can't be read is not taken for an empty one.
func probe(r io.ReaderAt, size int64) error {
	return readFull(r, make([]byte, min(size, 0x10048)), 0)
}

// contentOf recognises what a partition holds; "" is not known.
func contentOf(r io.ReaderAt) string {
	for _, s := range signatures() {
		b := make([]byte, len(s.is))
		if readFull(r, b, s.at) == nil && string(b) == s.is {
			return s.kind
		}
	}
	return ""
}

// isFileSystem tells a boot sector of a file system from a partition table; both end alike.
func isFileSystem(d disk) bool {
	switch contentOf(d) {
	case "", "iso9660":
		return false
	}
	return true
}
