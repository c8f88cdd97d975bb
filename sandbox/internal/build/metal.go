// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/capstan-dev/capstan/sandbox/metal"
)

// Metal builds the program of simulated bare metal from the sources that the sandbox carries. It is compiled with the very versions that Cluster API
// NextClusterAPI is, whose in-memory packages it uses, and so shares nearly all compiled packages with it.
func (b *Builder) Metal(ctx context.Context) (Set, error) {
	tool, err := b.findGo(ctx)
	if err != nil {
		return Set{}, err
	}
	g, err := b.clusterAPIModule(ctx, tool, NextClusterAPI)
	if err != nil {
		return Set{}, err
	}
	g.name, g.path, g.tools = "metal", metal.Module, nil
	goMod, err := g.render()
	if err != nil {
		return Set{}, fmt.Errorf("write go.mod of metal: %w", err)
	}
	files, err := metal.Sources()
	if err != nil {
		return Set{}, err
	}
	h := sha256.New()
	for _, name := range sortedKeys(files) {
		_, _ = fmt.Fprintf(h, "%s %d\n%s", name, len(files[name]), files[name]) // a hash never fails
	}
	return b.ensure(ctx, tool, recipe{
		name: "metal", version: hex.EncodeToString(h.Sum(nil))[:8], files: files, goMod: goMod,
		targets: []target{{pkg: metal.Program, binary: MetalProgram}},
	})
}
