// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// programs are main packages of our own. They are text here, because they belong to other modules.
//
//go:embed programs
var programs embed.FS

// CertManager builds the controller, webhook and CA injector of cert-manager; the package comment says what is left out.
//
// Its programs use packages that only cert-manager itself may import, so they are built inside a copy of its module.
func (b *Builder) CertManager(ctx context.Context, version string) (Set, error) {
	if err := checkVersion("cert-manager", version); err != nil {
		return Set{}, err
	}
	tool, err := b.findGo(ctx)
	if err != nil {
		return Set{}, err
	}
	module := moduleVersion{certManagerModule, version}
	f, err := b.upstream(ctx, tool, module)
	if err != nil {
		return Set{}, err
	}
	lent, err := b.borrow(ctx, tool, module, pinsOf(f))
	if err != nil {
		return Set{}, err
	}
	for _, path := range sortedKeys(lent) {
		if err := f.AddReplace(path, "", path, lent[path]); err != nil {
			return Set{}, fmt.Errorf("align cert-manager %s: %w", version, err)
		}
	}
	goMod, err := f.Format()
	if err != nil {
		return Set{}, fmt.Errorf("write go.mod of cert-manager %s: %w", version, err)
	}
	files, err := certManagerMains(version)
	if err != nil {
		return Set{}, err
	}
	return b.ensure(ctx, tool, recipe{
		name: "cert-manager", version: version, goMod: goMod, files: files, source: module,
		targets: []target{
			{pkg: "./cmd/controller", binary: CertManagerController},
			{pkg: "./cmd/webhook", binary: CertManagerWebhook},
			{pkg: "./cmd/cainjector", binary: CertManagerCAInjector},
		},
		ldflags: fmt.Sprintf("-X %s/pkg/util.AppVersion=%s", certManagerModule, version),
	})
}

// certManagerMains are the files to add to cert-manager's module.
func certManagerMains(version string) (map[string][]byte, error) {
	flags := "controller_flags.go.txt"
	if semver.Compare(version, "v1.21.0-0") >= 0 {
		flags = "controller_flags_v1.21.go.txt"
	}
	return programFiles("certmanager", map[string]string{
		"cmd/controller/main.go":  "controller.go.txt",
		"cmd/controller/flags.go": flags,
		"cmd/webhook/main.go":     "webhook.go.txt",
		"cmd/cainjector/main.go":  "cainjector.go.txt",
	})
}

// TestPod builds the program of the test image. It has no dependencies and no version but its text.
func (b *Builder) TestPod(ctx context.Context) (Set, error) {
	tool, err := b.findGo(ctx)
	if err != nil {
		return Set{}, err
	}
	files, err := programFiles("testpod", map[string]string{"testpod/main.go": "main.go.txt"})
	if err != nil {
		return Set{}, err
	}
	language, _, _ := strings.Cut(strings.TrimPrefix(tool.version, "v"), "-")
	return b.ensure(ctx, tool, recipe{
		name: "testpod", version: "v1", files: files,
		goMod:   []byte("module sandbox.capstan.dev/testpod\n\ngo " + language + "\n"),
		targets: []target{{pkg: "./testpod", binary: TestPodProgram}},
	})
}

// programFiles reads embedded programs: the keys are where they go, the values are their names in the folder.
func programFiles(folder string, names map[string]string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for to, from := range names {
		text, err := programs.ReadFile("programs/" + folder + "/" + from)
		if err != nil {
			return nil, err
		}
		files[to] = text
	}
	return files, nil
}
