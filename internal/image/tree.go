// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// maxLinks is how many symbolic links one path may lead through, maxDepth how many parts it may have.
const maxLinks, maxDepth = 40, 256

type nodeKind int

const (
	kindOther nodeKind = iota
	kindFile
	kindDirectory
	kindLink
)

// node is a file, a directory or a link.
type node struct {
	number uint64
	kind   nodeKind
	size   int64
	raw    []byte
}

// fileSystem is a file system that can be read.
type fileSystem interface {
	about() (kind, label, uuid string, dirty bool)
	root() (*node, error)
	node(number uint64) (*node, error)
	content(n *node) (*io.SectionReader, error)
	list(n *node, visit func(name string, number uint64) bool) error
}

// tree is the file systems of an image as its own system sees them.
type tree struct{ mounts map[string]fileSystem }

// place is where a path leads.
type place struct {
	fs   fileSystem
	node *node
	path string
}

// find follows a path through links and mounts.
func (t *tree) find(name string) (*place, error) {
	links := 0
	top, err := t.top()
	if err != nil {
		return nil, err
	}
	stack, rest := []*place{top}, parts(name)
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		here := stack[len(stack)-1]
		if part == ".." {
			stack = stack[:max(1, len(stack)-1)]
			continue
		}
		next, err := t.step(here, part)
		if err != nil {
			return nil, err
		}
		if next.node.kind != kindLink {
			stack = append(stack, next)
			continue
		}
		target, err := readLink(next)
		if links++; err == nil && (links > maxLinks || len(rest) > maxDepth) {
			err = errors.New("too many symbolic links")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", next.path, err)
		}
		if strings.HasPrefix(target, "/") {
			stack = stack[:1]
		}
		rest = append(parts(target), rest...)
	}
	return stack[len(stack)-1], nil
}

func (t *tree) top() (*place, error) {
	f, ok := t.mounts["/"]
	if !ok {
		return nil, fs.ErrNotExist
	}
	n, err := f.root()
	if err != nil {
		return nil, err
	}
	return &place{f, n, "/"}, nil
}

// step goes down to one entry of a directory.
func (t *tree) step(here *place, name string) (*place, error) {
	to := path.Join(here.path, name)
	if f, ok := t.mounts[to]; ok {
		n, err := f.root()
		return &place{f, n, to}, err
	}
	if here.node.kind != kindDirectory {
		return nil, fmt.Errorf("%s: %w", to, fs.ErrNotExist)
	}
	var number uint64
	err := here.fs.list(here.node, func(entry string, n uint64) bool {
		if entry == name {
			number = n
		}
		return entry != name
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", here.path, err)
	}
	if number == 0 {
		return nil, fmt.Errorf("%s: %w", to, fs.ErrNotExist)
	}
	n, err := here.fs.node(number)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to, err)
	}
	return &place{here.fs, n, to}, nil
}

func readLink(p *place) (string, error) {
	content, err := p.fs.content(p.node)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(content, 4096))
	return string(b), err
}

func parts(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(p string) bool { return p == "" || p == "." })
}

// open returns a file and the path it really has.
func (t *tree) open(name string) (*io.SectionReader, string, error) {
	p, err := t.find(name)
	if err != nil {
		return nil, "", err
	}
	if p.node.kind != kindFile {
		return nil, "", fmt.Errorf("%s: %w", p.path, fs.ErrNotExist)
	}
	r, err := p.fs.content(p.node)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", p.path, err)
	}
	return r, p.path, nil
}

// read returns a whole file that is no larger than limit.
func (t *tree) read(name string, limit int64) ([]byte, string, error) {
	r, where, err := t.open(name)
	if err != nil {
		return nil, "", err
	}
	if r.Size() > limit {
		return nil, where, fmt.Errorf("%s: %d bytes are more than are read", where, r.Size())
	}
	b := make([]byte, r.Size())
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, where, fmt.Errorf("%s: %w", where, err)
	}
	return b, where, nil
}

// names returns the sorted names in a directory.
func (t *tree) names(dir string) ([]string, error) {
	p, err := t.find(dir)
	if err != nil {
		return nil, err
	}
	if p.node.kind != kindDirectory {
		return nil, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	var out []string
	err = p.fs.list(p.node, func(name string, _ uint64) bool {
		out = append(out, name)
		return true
	})
	slices.Sort(out)
	return out, err
}

// missing tells that there is no such file, which is not a fault.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
