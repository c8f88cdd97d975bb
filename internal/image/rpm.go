// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
)

// maxHeader bounds one package's header in an rpm database.
const maxHeader = 16 << 20

// rpm reads the first rpm database that there is, in any of its three formats.
func (l *looker) rpm() {
	for _, dir := range []string{"/usr/lib/sysimage/rpm", "/var/lib/rpm"} {
		for _, kind := range []rpmKind{{"rpmdb.sqlite", sqliteBlobs}, {"Packages.db", ndbBlobs}, {"Packages", bdbBlobs}} {
			if l.rpmDatabase(path.Join(dir, kind.file), kind) {
				return
			}
		}
	}
}

// rpmKind is one of the formats: its file, and what visits each package in it.
type rpmKind struct {
	file string
	read func(r *io.SectionReader, visit func([]byte) error) error
}

// rpmDatabase reads one database, and tells whether there was anything to be read.
func (l *looker) rpmDatabase(name string, kind rpmKind) bool {
	r, _, err := l.tree.open(name)
	if err != nil {
		l.tried(name, err)
		return false
	}
	var found []Package
	err = kind.read(r, func(blob []byte) error {
		if len(found) == maxPackages {
			return errors.New("it has too many packages")
		}
		p, err := rpmHeader(blob)
		if err == nil && p.Name != "gpg-pubkey" {
			found = append(found, p)
		}
		return err
	})
	l.tried(name, err)
	if wal, _, err := l.tree.open(name + "-wal"); err == nil && wal.Size() > 0 {
		l.report.unread(name+"-wal", errors.New("the database was not closed, and the newest packages may be in this file, which is not read"))
	}
	if err != nil && len(found) == 0 {
		return false
	}
	l.database("rpm", found)
	return true
}

// The tags of a package's header that are read.
const (
	rpmName    = 1000
	rpmVersion = 1001
	rpmRelease = 1002
	rpmEpoch   = 1003
	rpmArch    = 1022
)

// rpmHeader reads one package: an index of tags, and the data they point to.
func rpmHeader(b []byte) (Package, error) {
	be := binary.BigEndian
	if len(b) < 8 {
		return Package{}, errors.New("a package's header is too short")
	}
	count, length := int64(be.Uint32(b)), int64(be.Uint32(b[4:]))
	if 8+16*count+length > int64(len(b)) {
		return Package{}, fmt.Errorf("a package's header of %d bytes is said to have %d entries", len(b), count)
	}
	data := b[8+16*count : 8+16*count+length]
	text, epoch := map[uint32]string{}, ""
	for i := range count {
		e := b[8+16*i:]
		tag, at := be.Uint32(e), int64(be.Uint32(e[8:]))
		if at >= length {
			continue
		}
		switch tag {
		case rpmName, rpmVersion, rpmRelease, rpmArch:
			text[tag] = cString(data[at:min(length, at+1024)])
		case rpmEpoch:
			if at+4 <= length {
				if n := be.Uint32(data[at:]); n != 0 {
					epoch = strconv.FormatUint(uint64(n), 10) + ":"
				}
			}
		}
	}
	if text[rpmName] == "" {
		return Package{}, errors.New("a package has no name")
	}
	return Package{Name: text[rpmName], Version: epoch + text[rpmVersion] + "-" + text[rpmRelease], Architecture: text[rpmArch], Database: "rpm"}, nil
}

// ndbBlobs reads SUSE's format: a table of slots, each pointing to a blob.
func ndbBlobs(r *io.SectionReader, visit func([]byte) error) error {
	h := make([]byte, 32)
	le := binary.LittleEndian
	if err := readFull(r, h, 0); err != nil || string(h[:4]) != "RpmP" {
		return errors.New("it is no rpm database of the format ndb")
	}
	pages := int64(le.Uint32(h[12:]))
	if pages*4096 > r.Size() {
		return errors.New("it ends too early")
	}
	slot, head := make([]byte, 16), make([]byte, 16)
	for at := int64(32); at+16 <= pages*4096; at += 16 {
		if err := readFull(r, slot, at); err != nil {
			return err
		}
		if string(slot[:4]) != "Slot" || le.Uint32(slot[4:]) == 0 {
			continue
		}
		where := int64(le.Uint32(slot[8:])) * 16
		if err := readFull(r, head, where); err != nil || string(head[:4]) != "BlbS" {
			return fmt.Errorf("there is no package at %d", where)
		}
		blob, err := piece(r, where+16, int64(le.Uint32(head[12:])))
		if err != nil {
			return err
		}
		if err := visit(blob); err != nil {
			return err
		}
	}
	return nil
}

func piece(r *io.SectionReader, at, length int64) ([]byte, error) {
	if length > maxHeader || at+length > r.Size() {
		return nil, fmt.Errorf("a package of %d bytes at %d does not fit", length, at)
	}
	b := make([]byte, length)
	return b, readFull(r, b, at)
}

// bdbBlobs reads a hash table of Berkeley DB: every second item of its pages is a package, most of them on overflow pages.
func bdbBlobs(r *io.SectionReader, visit func([]byte) error) error {
	h := make([]byte, 512)
	if err := readFull(r, h, 0); err != nil {
		return fmt.Errorf("read database: %w", err)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if order.Uint32(h[12:]) != 0x61561 {
		order = binary.BigEndian
	}
	size, last := int64(order.Uint32(h[20:])), int64(order.Uint32(h[32:]))
	if order.Uint32(h[12:]) != 0x61561 || size < 512 || size > 65536 || last*size > r.Size() {
		return errors.New("it is no hash table of Berkeley DB, or a damaged one")
	}
	d := &bdb{r: r, order: order, size: size, last: last, left: last + 1}
	page := make([]byte, size)
	for n := int64(1); n <= last; n++ {
		if err := readFull(r, page, n*size); err != nil {
			return fmt.Errorf("read page %d: %w", n, err)
		}
		if page[25] != 13 && page[25] != 2 {
			continue
		}
		if err := d.items(page, visit); err != nil {
			return err
		}
	}
	return nil
}

type bdb struct {
	r          *io.SectionReader
	order      binary.ByteOrder
	size, last int64
	// left is how many overflow pages may still be read: each belongs to one item.
	left int64
}

func (d *bdb) items(page []byte, visit func([]byte) error) error {
	count := int(d.order.Uint16(page[20:]))
	for i := 1; i < count && 26+2*i+2 <= len(page); i += 2 {
		before, at := int(d.order.Uint16(page[24+2*i:])), int(d.order.Uint16(page[26+2*i:]))
		if at+12 > len(page) || before > len(page) || at >= before {
			continue // too small for a package: the table's own note
		}
		blob, err := page[at+1:before], error(nil)
		if page[at] == 3 {
			blob, err = d.overflow(int64(d.order.Uint32(page[at+4:])), int64(d.order.Uint32(page[at+8:])))
		} else if page[at] != 1 || len(blob) < 16 {
			continue
		}
		if err != nil {
			return err
		}
		if err := visit(blob); err != nil {
			return err
		}
	}
	return nil
}

func (d *bdb) overflow(n, length int64) ([]byte, error) {
	if length > maxHeader {
		return nil, fmt.Errorf("a package of %d bytes is not read", length)
	}
	var b bytes.Buffer
	page := make([]byte, d.size)
	for n != 0 && int64(b.Len()) < length {
		if d.left--; n > d.last || d.left < 0 {
			return nil, fmt.Errorf("page %d is not there, or its pages run in a circle", n)
		}
		if err := readFull(d.r, page, n*d.size); err != nil {
			return nil, err
		}
		used := int64(d.order.Uint16(page[22:]))
		if page[25] != 7 || 26+used > d.size {
			return nil, fmt.Errorf("page %d is damaged", n)
		}
		b.Write(page[26 : 26+used])
		n = int64(d.order.Uint32(page[16:]))
	}
	if int64(b.Len()) < length {
		return nil, fmt.Errorf("a package has %d bytes of %d", b.Len(), length)
	}
	return b.Bytes()[:length], nil
}
