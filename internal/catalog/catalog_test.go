// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/catalog"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/store"
)

const head = "apiVersion: capstan.dev/v1alpha1\nkind: NodeImage\nmetadata:\n  name: u2404\nspec:\n"

// cluster is a catalog that knows one image.
type cluster struct{ err error }

func (c cluster) NodeImage(_ context.Context, name string) (*v1alpha1.NodeImage, error) {
	if c.err != nil {
		return nil, c.err
	}
	if name != "known" {
		return nil, fmt.Errorf("read: %w", store.ErrNotFound)
	}
	return &v1alpha1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

func TestParseReadsAnImage(t *testing.T) {
	t.Parallel()
	got, err := catalog.Parse(t.Context(), "i.yaml", []byte(head+"  url: http://img/u\n  checksumType: sha256\n  sizeBytes: 7\n  contents:\n    packages: {curl: \"8.5\"}\n"))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	want := v1alpha1.NodeImageSpec{
		URL: "http://img/u", ChecksumType: "sha256", SizeBytes: 7,
		Contents: v1alpha1.NodeImageContents{Packages: map[string]string{"curl": "8.5"}},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, where, reason, message string }{
		"an empty file":             {"# nothing\n", "i.yaml", "NodeImageEmpty", "an image was expected"},
		"another kind":              {"apiVersion: capstan.dev/v1alpha1\nkind: Release\n", "i.yaml:2", "WrongKind", "want NodeImage"},
		"an unknown field":          {head + "  url: http://img/u\n  checksumtype: md5\n", "i.yaml:7", "UnknownField", "spec.checksumtype"},
		"a field given twice":       {head + "  url: http://img/u\n  url: http://img/v\n", "i.yaml:7", "DuplicateField", "url"},
		"a number that is text":     {head + "  url: http://img/u\n  sizeBytes: many\n", "i.yaml:7", "WrongType", "a whole number"},
		"two documents":             {head + "  url: http://img/u\n---\nkind: NodeImage\n", "i.yaml:8", "ManyDocuments", "an image is exactly one"},
		"neither url nor id":        {head + "  format: raw\n", "i.yaml:5", catalog.ReasonBadImage, "an image needs a url or an id"},
		"an unknown checksum type":  {head + "  url: http://img/u\n  checksumType: sha1\n", "i.yaml:7", catalog.ReasonBadImage, "sha256"},
		"an unknown format":         {head + "  url: http://img/u\n  format: gz\n", "i.yaml:7", catalog.ReasonBadImage, "qcow2"},
		"a negative size":           {head + "  url: http://img/u\n  sizeBytes: -1\n", "i.yaml:7", catalog.ReasonBadImage, "sizeBytes"},
		"a URL that is too long":    {head + "  url: http://" + strings.Repeat("x", 600) + "\n", "i.yaml:6", catalog.ReasonBadImage, "spec.url"},
		"a name that can't be one":  {strings.Replace(head, "u2404", "U_2404", 1) + "  url: http://img/u\n", "i.yaml:4", catalog.ReasonBadImage, "U_2404"},
		"a document without a name": {strings.Replace(head, "  name: u2404", "  labels: {}", 1) + "  url: http://img/u\n", "i.yaml:3", catalog.ReasonBadImage, "metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := catalog.Parse(t.Context(), "i.yaml", []byte(tc.in))
			p, ok := errors.AsType[*problem.Error](err)
			if !ok {
				t.Fatalf("got %v, want a problem", err)
			}
			if p.Where != tc.where || p.Reason != tc.reason || !strings.Contains(p.Message, tc.message) {
				t.Errorf("got %s %s %q, want %s %s with %q", p.Where, p.Reason, p.Message, tc.where, tc.reason, tc.message)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, large := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "large.qcow2")
	for file, content := range map[string]string{good: head + "  id: ami-1\n", large: strings.Repeat("x", 2<<20)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct{ ref, image, reason, message string }{
		"a file":                                {ref: good, image: "u2404"},
		"a name":                                {ref: "known", image: "known"},
		"a name that is not there":              {ref: "other", reason: catalog.ReasonNoImage, message: "neither a NodeImage other"},
		"a file that is not there":              {ref: filepath.Join(dir, "none"), reason: catalog.ReasonNoImage, message: "There is no file"},
		"a YAML file that is not there":         {ref: "none.yaml", reason: catalog.ReasonNoImage, message: "There is no file none.yaml"},
		"a directory":                           {ref: dir, reason: catalog.ReasonNoImage, message: "is not a file"},
		"nothing":                               {reason: catalog.ReasonNoImage, message: "no image is named"},
		"a disk image instead of its catalogue": {ref: large, reason: "TooLarge", message: "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := catalog.Load(t.Context(), cluster{}, tc.ref)
			if tc.reason == "" {
				if err != nil || got.Name != tc.image {
					t.Fatalf("got %v, %v; want image %s", got, err, tc.image)
				}
				return
			}
			p, ok := errors.AsType[*problem.Error](err)
			if !ok || p.Reason != tc.reason || !strings.Contains(p.Message, tc.message) {
				t.Errorf("got %v, want %s with %q", err, tc.reason, tc.message)
			}
		})
	}
}

func TestLoadPassesOnWhatTheClusterSays(t *testing.T) {
	t.Parallel()
	broken := errors.New("no route")
	if _, err := catalog.Load(t.Context(), cluster{err: broken}, "known"); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}
