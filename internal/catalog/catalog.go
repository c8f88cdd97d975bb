// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package catalog finds an entry of the image catalog: in the management cluster, or in a file that is judged as strictly
// as the API server would, without one. It fetches no image and writes nothing.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/crd"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/schema"
	"github.com/capstan-dev/capstan/internal/store"
)

// Reasons of the errors of this package. They are stable.
const (
	// ReasonNoImage means that there is no such image in the cluster, and no such file.
	ReasonNoImage = "NoImage"
	// ReasonBadImage means that an image breaks a rule of its kind.
	ReasonBadImage = "BadImage"
)

// maxBytes bounds a file: the API server takes no larger object.
const maxBytes = 1 << 20

// Images is the catalog in a management cluster.
type Images interface {
	// NodeImage returns an image, or store.ErrNotFound.
	NodeImage(ctx context.Context, name string) (*v1alpha1.NodeImage, error)
}

// Load returns the image that ref means: a YAML file, or the name of a NodeImage.
func Load(ctx context.Context, images Images, ref string) (*v1alpha1.NodeImage, error) {
	if ref == "" {
		return nil, problem.Usage(ReasonNoImage, "", "no image is named").WithRemedy("give the name of a NodeImage, or a YAML file with one")
	}
	info, err := os.Stat(ref)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return named(ctx, images, ref)
	case err != nil:
		return nil, unreadable(ref, err)
	case !info.Mode().IsRegular():
		return nil, problem.Usage(ReasonNoImage, "", "%s is not a file", ref).WithRemedy("give the name of a NodeImage, or a YAML file with one")
	}
	data, err := read(ref)
	if err != nil {
		return nil, err
	}
	return Parse(ctx, ref, data)
}

// named returns an image in the cluster.
func named(ctx context.Context, images Images, ref string) (*v1alpha1.NodeImage, error) {
	ext := strings.ToLower(filepath.Ext(ref))
	if strings.ContainsAny(ref, `/\`) || ext == ".yaml" || ext == ".yml" || len(validation.IsDNS1123Subdomain(ref)) > 0 {
		return nil, problem.Usage(ReasonNoImage, "", "There is no file %s, and it can't be the name of a NodeImage", ref).
			WithRemedy("give the name of a NodeImage (kubectl get nodeimages), or a YAML file with one")
	}
	image, err := images.NodeImage(ctx, ref)
	if errors.Is(err, store.ErrNotFound) {
		return nil, problem.Usage(ReasonNoImage, "", "There is neither a NodeImage %s in the management cluster nor a file of that name", ref).
			WithRemedy("kubectl get nodeimages").WithObject("NodeImage " + ref)
	}
	if err != nil {
		return nil, fmt.Errorf("find image: %w", err)
	}
	return image, nil
}

// read reads a file up to the bound.
func read(file string) (data []byte, err error) {
	f, err := os.Open(file) //nolint:gosec // The operator names the file.
	if err != nil {
		return nil, unreadable(file, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, unreadable(file, err)
	}
	if len(data) > maxBytes {
		return nil, problem.Usage(release.ReasonTooLarge, "", "%s is larger than %d bytes, no NodeImage is", file, maxBytes).
			WithRemedy("give a YAML file with a NodeImage, not the disk image itself")
	}
	return data, nil
}

func unreadable(file string, err error) error {
	why := err
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		why = p.Err
	}
	return problem.Usage(ReasonNoImage, "", "%s can't be read: %v", file, why).WithCause(err)
}

// Parse reads and judges an image. name is the file name used in messages.
func Parse(ctx context.Context, name string, data []byte) (*v1alpha1.NodeImage, error) {
	image, where, err := release.DecodeKind[v1alpha1.NodeImage](name, data, "NodeImage", "image")
	if err != nil {
		return nil, err
	}
	found, err := judge(ctx, image)
	if err != nil {
		return nil, err
	}
	if bad := validation.IsDNS1123Subdomain(image.Name); len(bad) > 0 {
		found = slices.Insert(found, 0, schema.Fault{Path: "metadata.name", Rule: fmt.Sprintf("%q can't be a name: %s", image.Name, bad[0])})
	}
	if len(found) == 0 {
		return image, nil
	}
	message := found[0].String()
	if more := len(found) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return nil, problem.Usage(ReasonBadImage, where.Where(found[0].Path), "%s", message).WithRemedy("correct the file; kubectl explain nodeimage.spec tells the fields")
}

// judge returns what the kind's own schema and rules say.
func judge(ctx context.Context, image *v1alpha1.NodeImage) ([]schema.Fault, error) {
	data, err := crd.FS.ReadFile("capstan.dev_nodeimages.yaml")
	if err != nil {
		return nil, fmt.Errorf("read CRD: %w", err)
	}
	kind := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &kind.Object); err != nil {
		return nil, fmt.Errorf("parse CRD: %w", err)
	}
	v, err := schema.New(kind, v1alpha1.GroupVersion.Version)
	if err != nil {
		return nil, fmt.Errorf("judge image: %w", err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(image)
	if err != nil {
		return nil, fmt.Errorf("judge image: %w", err)
	}
	return v.Judge(ctx, &unstructured.Unstructured{Object: content}), nil
}
