// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/problem"
)

const seed = "../image/testdata/seeds/"

func TestImagesAreReadWithoutACluster(t *testing.T) {
	t.Parallel()
	f := &fake{}
	got := call(t, f, "image", "inspect", seed+"ext4.raw.gz", "--module", "x", "--digest", "md5", "-o", "json")
	if got.exit != problem.ExitDone || f.closed {
		t.Fatalf("exit %d, connected %t: %s", got.exit, f.closed, got.err)
	}
	var report struct {
		Kind             string            `json:"kind"`
		Compression      string            `json:"compression"`
		VirtualSizeBytes int64             `json:"virtualSizeBytes"`
		Digests          map[string]string `json:"digests"`
		OS               struct {
			PrettyName string `json:"prettyName"`
		} `json:"os"`
		Modules []struct {
			Name string `json:"name"`
		} `json:"modules"`
	}
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Kind != "ImageReport" || report.Compression != "gzip" || report.VirtualSizeBytes != 160<<10 || len(report.Digests) != 2 ||
		report.OS.PrettyName != "X 1" || len(report.Modules) != 3 {
		t.Errorf("report: %s", got.out)
	}
	for _, args := range [][]string{
		{"image", "inspect", seed + "gpt.raw.gz", "--package", "containerd"},
		{"image", "diff", seed + "ext4.raw.gz", seed + "ext2.raw.gz"},
	} {
		got := call(t, f, args...)
		if got.exit != problem.ExitDone || got.out == "" {
			t.Errorf("%v: exit %d, %s", args, got.exit, got.err)
		}
	}
}

func TestAFaultyImageIsOneErrorWithTheNextStep(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "node.qcow2")
	if err := os.WriteFile(file, []byte("QFI\xfb\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"image", "inspect", file}, {"image", "diff", seed + "ext4.raw.gz", file}} {
		got := call(t, &fake{}, args...)
		if got.exit != problem.ExitError || got.out != "" || !strings.Contains(got.err, file+" is truncated") {
			t.Errorf("%v: exit %d, out %q, err %q", args, got.exit, got.out, got.err)
		}
	}
	for _, args := range [][]string{{"image", "inspect"}, {"image", "diff", file}, {"image", "inspect", file, "--digest", "crc"}, {"image", "burn"}, {"image", "inspect", file, "--package", " "}} {
		if got := call(t, &fake{}, args...); got.exit != problem.ExitUsage {
			t.Errorf("%v: exit %d, %s", args, got.exit, got.err)
		}
	}
}
