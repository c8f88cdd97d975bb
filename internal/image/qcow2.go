// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

const (
	qcowMagic = "QFI\xfb"
	// maxDisk is larger than any node's system disk. QEMU has the same limit at its usual cluster size.
	maxDisk = 64 << 40
	// maxL1 is QEMU's limit for the first table, in bytes.
	maxL1 = 32 << 20
	// keptTables and keptClusters bound the memory: at most 64 MiB of the largest clusters.
	keptTables, keptClusters = 16, 16

	offsetMask     = 0x00fffffffffffe00
	flagCompressed = 1 << 62
	flagZero       = 1
)

// The incompatible features of a qcow2 header.
const (
	qcowDirty = 1 << iota
	qcowCorrupt
	qcowDataFile
	qcowCompression
	qcowExtendedL2
	qcowKnown = qcowDirty | qcowCorrupt | qcowDataFile | qcowCompression | qcowExtendedL2
)

// qcow2 is the disk in a qcow2 file. It is not safe for concurrent use.
type qcow2 struct {
	file        io.ReaderAt
	fileSize    int64
	size        int64
	version     int
	clusterBits uint
	zstd        bool
	dirty       bool
	snapshots   int
	l1          []uint64
	tables      *recent[uint64, []uint64]
	clusters    *recent[uint64, []byte]
	decoder     *zstd.Decoder
}

// openQcow2 reads the header and both levels of tables, so that what is missing is known before anything is read.
func openQcow2(file io.ReaderAt, size int64) (*qcow2, error) {
	header := make([]byte, 112)
	n, err := file.ReadAt(header, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read header: %w", err)
	}
	if n < 72 {
		return nil, fail(ReasonTruncated, remedyAgain, "is truncated: it ends within the qcow2 header")
	}
	q := &qcow2{file: file, fileSize: size, tables: newRecent[uint64, []uint64](keptTables), clusters: newRecent[uint64, []byte](keptClusters)}
	if err := q.header(header, n); err != nil {
		return nil, err
	}
	if err := q.readL1(header); err != nil {
		return nil, err
	}
	if err := q.checkTables(); err != nil {
		return nil, err
	}
	return q, nil
}

func (q *qcow2) header(h []byte, n int) error {
	be := binary.BigEndian
	q.version = int(be.Uint32(h[4:]))
	if q.version != 2 && q.version != 3 {
		return fail(ReasonUnsupported, remedyConvert, "is qcow version %d; Capstan reads versions 2 and 3", be.Uint32(h[4:]))
	}
	if bits := be.Uint32(h[20:]); bits < 9 || bits > 21 {
		return fail(ReasonCorrupt, remedyRebuild, "is corrupt: its header asks for clusters of 2^%d bytes, qcow2 allows 2^9 to 2^21", bits)
	}
	q.clusterBits = uint(be.Uint32(h[20:]))
	if v := be.Uint64(h[24:]); v > maxDisk {
		return fail(ReasonTooLarge, remedyRebuild, "is corrupt or no node image: its header asks for a disk of %d bytes, more than 64 TiB", v)
	}
	q.size = int64(be.Uint64(h[24:]))
	q.snapshots = int(be.Uint32(h[60:]))
	if q.version == 3 {
		if err := q.features(h, n); err != nil {
			return err
		}
	}
	if method := be.Uint32(h[32:]); method != 0 {
		return fail(ReasonEncrypted, "make an image without encryption: qemu-img convert -O qcow2 --object secret,… OLD NEW",
			"is encrypted (%s), so neither Capstan nor a host can read it", cryptMethod(method))
	}
	if at := be.Uint64(h[8:]); at != 0 {
		return fail(ReasonBacking, remedyConvert, "has a backing file%s: without it the image is only a part of a disk", q.text(at, be.Uint32(h[16:])))
	}
	if q.size == 0 {
		return fail(ReasonEmpty, remedyRebuild, "holds a disk of 0 bytes")
	}
	return nil
}

func cryptMethod(n uint32) string {
	switch n {
	case 1:
		return "AES"
	case 2:
		return "LUKS"
	}
	return fmt.Sprintf("method %d", n)
}

func (q *qcow2) features(h []byte, n int) error {
	if n < 104 {
		return fail(ReasonTruncated, remedyAgain, "is truncated: it ends within the qcow2 header")
	}
	be := binary.BigEndian
	flags := be.Uint64(h[72:])
	switch {
	case flags&qcowDataFile != 0:
		return fail(ReasonBacking, remedyConvert, "keeps its data in an external data file: the image itself holds only tables")
	case flags&qcowCorrupt != 0:
		return fail(ReasonCorrupt, remedyRebuild, "is marked as corrupt by the program that wrote it last")
	case flags&qcowExtendedL2 != 0:
		return fail(ReasonUnsupported, remedyConvert, "uses extended L2 entries (subclusters), which Capstan does not read")
	case flags&^qcowKnown != 0:
		return fail(ReasonUnsupported, remedyConvert, "uses qcow2 features that are not known (bits %#x)", flags&^qcowKnown)
	}
	q.dirty = flags&qcowDirty != 0
	length := be.Uint32(h[100:])
	if length < 104 || int64(length) > 1<<q.clusterBits {
		return fail(ReasonCorrupt, remedyRebuild, "is corrupt: its header says that it is %d bytes long", length)
	}
	var kind byte
	if length > 104 && n > 104 {
		kind = h[104]
	}
	if kind > 1 {
		return fail(ReasonUnsupported, remedyConvert, "is compressed by method %d; Capstan reads zlib and zstd", kind)
	}
	if kind == 1 && flags&qcowCompression == 0 {
		return fail(ReasonCorrupt, remedyRebuild, "is corrupt: it names zstd but does not say that readers must know it")
	}
	q.zstd = kind == 1
	return nil
}

// text reads a name in the header, with a space before it, or returns "" where there is none to be read.
func (q *qcow2) text(at uint64, length uint32) string {
	if length == 0 || length > 1023 || at > uint64(q.fileSize) {
		return ""
	}
	name := make([]byte, length)
	if _, err := q.file.ReadAt(name, int64(at)); err != nil {
		return ""
	}
	return " " + clean(string(name))
}

func (q *qcow2) readL1(h []byte) error {
	entries, at := int64(binary.BigEndian.Uint32(h[36:])), binary.BigEndian.Uint64(h[40:])
	each := int64(1) << (2*q.clusterBits - 3) // bytes of the disk behind one entry
	need := (q.size + each - 1) / each
	switch {
	case need*8 > maxL1 || entries*8 > maxL1:
		return fail(ReasonTooLarge, remedyRebuild, "is corrupt: its first table would have %d entries, more than QEMU reads", max(need, entries))
	case entries < need:
		return fail(ReasonCorrupt, remedyRebuild, "is corrupt: its first table has %d entries, a disk of %d bytes needs %d", entries, q.size, need)
	case at > uint64(q.fileSize) || int64(at)+need*8 > q.fileSize:
		return fail(ReasonTruncated, remedyAgain, "is truncated: it has %d bytes, and its first table begins at %d", q.fileSize, at)
	}
	raw := make([]byte, need*8)
	if err := readFull(q.file, raw, int64(at)); err != nil {
		return fmt.Errorf("read first table: %w", err)
	}
	q.l1 = words(raw)
	return nil
}

// checkTables looks at each second table once and refuses what points past the end of the file.
func (q *qcow2) checkTables() error {
	seen := map[uint64]bool{}
	for i, entry := range q.l1 {
		at := entry & offsetMask
		if at == 0 || seen[at] {
			continue
		}
		seen[at] = true
		table, err := q.table(at)
		if err != nil {
			return err
		}
		first := int64(i) << (2*q.clusterBits - 3)
		for j, e := range table {
			if guest := first + int64(j)<<q.clusterBits; guest < q.size {
				if err := q.checkEntry(e, min(int64(1)<<q.clusterBits, q.size-guest)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (q *qcow2) checkEntry(e uint64, need int64) error {
	if e&flagCompressed != 0 {
		at, _ := q.compressedAt(e)
		need, e = 1, at
	} else {
		if q.version == 3 && e&flagZero != 0 {
			return nil
		}
		e &= offsetMask
		if e&(1<<q.clusterBits-1) != 0 {
			return fail(ReasonCorrupt, remedyRebuild, "is corrupt: a cluster begins at %d, which is no cluster's border", e)
		}
	}
	if e != 0 && int64(e)+need > q.fileSize {
		return fail(ReasonTruncated, remedyAgain, "is truncated: it has %d bytes, and holds data at %d", q.fileSize, e)
	}
	return nil
}

func (q *qcow2) table(at uint64) ([]uint64, error) {
	if t, ok := q.tables.get(at); ok {
		return t, nil
	}
	length := int64(1) << q.clusterBits
	switch {
	case at&uint64(length-1) != 0:
		return nil, fail(ReasonCorrupt, remedyRebuild, "is corrupt: a table begins at %d, which is no cluster's border", at)
	case int64(at)+length > q.fileSize:
		return nil, fail(ReasonTruncated, remedyAgain, "is truncated: it has %d bytes, and a table of its disk begins at %d", q.fileSize, at)
	}
	raw := make([]byte, length)
	if err := readFull(q.file, raw, int64(at)); err != nil {
		return nil, fmt.Errorf("read table at %d: %w", at, err)
	}
	t := words(raw)
	q.tables.put(at, t)
	return t, nil
}

// compressedAt returns where a compressed cluster begins and how long it is at most.
func (q *qcow2) compressedAt(e uint64) (at uint64, length int64) {
	shift := 62 - (q.clusterBits - 8)
	at = e & (1<<shift - 1)
	sectors := int64(e>>shift&(1<<(q.clusterBits-8)-1)) + 1
	return at, sectors*512 - int64(at&511)
}

// Size is the size of the disk.
func (q *qcow2) Size() int64 { return q.size }

// ReadAt reads from the disk.
func (q *qcow2) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= q.size {
		return 0, io.EOF
	}
	done := 0
	for done < len(p) && off < q.size {
		within := off & (1<<q.clusterBits - 1)
		part := p[done:]
		part = part[:min(int64(len(part)), 1<<q.clusterBits-within, q.size-off)]
		if err := q.readCluster(part, off, within); err != nil {
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

func (q *qcow2) readCluster(p []byte, off, within int64) error {
	at := q.l1[off>>(2*q.clusterBits-3)] & offsetMask
	if at == 0 {
		clear(p)
		return nil
	}
	table, err := q.table(at)
	if err != nil {
		return err
	}
	e := table[off>>q.clusterBits&int64(len(table)-1)]
	switch {
	case e&flagCompressed != 0:
		cluster, err := q.uncompress(e)
		if err != nil {
			return err
		}
		copy(p, cluster[within:])
		return nil
	case q.version == 3 && e&flagZero != 0 || e&offsetMask == 0:
		clear(p)
		return nil
	}
	if err := readFull(q.file, p, int64(e&offsetMask)+within); err != nil {
		return fmt.Errorf("read cluster: %w", err)
	}
	return nil
}

func (q *qcow2) uncompress(e uint64) ([]byte, error) {
	if c, ok := q.clusters.get(e); ok {
		return c, nil
	}
	at, length := q.compressedAt(e)
	from := io.NewSectionReader(q.file, int64(at), min(length, q.fileSize-int64(at)))
	cluster := make([]byte, 1<<q.clusterBits)
	if err := q.inflate(cluster, from); err != nil {
		return nil, fail(ReasonCorrupt, remedyAgain, "is corrupt or truncated: the compressed data at %d of %d bytes can't be read: %v", at, q.fileSize, err)
	}
	q.clusters.put(e, cluster)
	return cluster, nil
}

func (q *qcow2) inflate(into []byte, from io.Reader) error {
	if !q.zstd {
		r := flate.NewReader(from)
		_, err := io.ReadFull(r, into)
		return err
	}
	if q.decoder == nil {
		d, err := newZstd(nil)
		if err != nil {
			return err
		}
		q.decoder = d
	}
	if err := q.decoder.Reset(from); err != nil {
		return err
	}
	_, err := io.ReadFull(q.decoder, into)
	return err
}

// close frees the decoder.
func (q *qcow2) close() {
	if q.decoder != nil {
		q.decoder.Close()
	}
}

func words(raw []byte) []uint64 {
	out := make([]uint64, len(raw)/8)
	for i := range out {
		out[i] = binary.BigEndian.Uint64(raw[i*8:])
	}
	return out
}

// clean makes text of an image fit to be shown.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}
