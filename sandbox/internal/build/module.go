// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// recipeVersion is raised when this package builds differently from the same inputs.
const recipeVersion = "1"

// baseLDFlags leaves out symbols and debug information: half the size, half the link time.
const baseLDFlags = "-s -w"

// key hashes all that makes a set what it is.
func (r recipe) key(tool *goTool) string {
	h := sha256.New()
	part := func(name string, value string) { _, _ = fmt.Fprintf(h, "%s %d\n%s\n", name, len(value), value) } // never fails
	part("recipe", recipeVersion)
	part("go", tool.raw+" linux/"+runtime.GOARCH)
	part("name", r.name)
	part("version", r.version)
	part("go.mod", string(r.goMod))
	part("source", r.source.String())
	part("ldflags", baseLDFlags+" "+r.ldflags)
	for _, t := range r.targets {
		part("target", t.pkg+" "+t.binary)
	}
	for _, name := range sortedKeys(r.files) {
		part("file "+name, string(r.files[name]))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// dirName is what the set is called on disk.
func (r recipe) dirName(key string) string {
	return r.name + "-" + r.version + "-" + key
}

// pins are module versions, by path.
type pins map[string]string

// raise sets the version of a module unless a later one is there.
func (p pins) raise(path, version string) {
	if semver.Compare(version, p[path]) > 0 {
		p[path] = version
	}
}

// pinsOf returns the versions that a go.mod asks for, leaving out those that mean "the copy beside me".
func pinsOf(f *modfile.File) pins {
	found := pins{}
	for _, r := range f.Require {
		if !strings.HasPrefix(r.Mod.Version, "v0.0.0-0001") && r.Mod.Version != "v0.0.0" {
			found[r.Mod.Path] = r.Mod.Version
		}
	}
	return found
}

// localReplaces returns the modules that a go.mod takes from its own repository.
func localReplaces(f *modfile.File) []string {
	var paths []string
	for _, r := range f.Replace {
		if r.New.Version == "" && strings.HasPrefix(r.New.Path, ".") {
			paths = append(paths, r.Old.Path)
		}
	}
	return paths
}

// generated is a module that has no code of its own and only names programs of other modules.
type generated struct {
	// name is the last part of the module's path.
	name string
	// path is the module's path where it does have code, and that code cares.
	path string
	// upstream is the go.mod whose language version and runtime settings are taken over, as they decide how programs behave.
	upstream *modfile.File
	// require and replace are what they are in a go.mod.
	require pins
	replace pins
	// tools are the main packages.
	tools []target
}

// render writes the go.mod.
func (g generated) render() ([]byte, error) {
	f := &modfile.File{}
	path := g.path
	if path == "" {
		path = "sandbox.capstan.dev/build/" + g.name
	}
	if err := f.AddModuleStmt(path); err != nil {
		return nil, err
	}
	if g.upstream.Go != nil {
		if err := f.AddGoStmt(g.upstream.Go.Version); err != nil {
			return nil, err
		}
	}
	for _, d := range g.upstream.Godebug {
		if err := f.AddGodebug(d.Key, d.Value); err != nil {
			return nil, err
		}
	}
	for _, path := range sortedKeys(g.require) {
		f.AddNewRequire(path, g.require[path], false)
	}
	for _, path := range sortedKeys(g.replace) {
		if err := f.AddReplace(path, "", path, g.replace[path]); err != nil {
			return nil, err
		}
	}
	for _, t := range g.tools {
		if err := f.AddTool(t.pkg); err != nil {
			return nil, err
		}
	}
	return f.Format()
}

// parseGoMod reads a published go.mod.
func parseGoMod(m moduleVersion, text []byte) (*modfile.File, error) {
	// Lax: a newer Go may know directives that this one does not need.
	f, err := modfile.ParseLax(m.String()+"/go.mod", text, nil)
	if err != nil {
		return nil, fmt.Errorf("read go.mod of %s: %w", m, err)
	}
	full, err := modfile.Parse(m.String()+"/go.mod", text, nil)
	if err != nil {
		return f, nil //nolint:nilerr // requirements are all there is to learn then
	}
	return full, nil
}

// alignedPins are the versions to borrow: of modules that the set uses and that belong to the shared stack, where the lender has
// another version.
func alignedPins(lender, own, stack pins) pins {
	borrowed := pins{}
	for path, version := range own {
		_, below := stack[path]
		shared := below || strings.HasPrefix(path, "k8s.io/") || path == controllerRuntimeModule
		if theirs, ok := lender[path]; ok && shared && theirs != version {
			borrowed[path] = theirs
		}
	}
	return borrowed
}
