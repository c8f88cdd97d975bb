// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Images shows the image catalog.
type Images struct {
	// Images are the entries by name.
	Images []v1alpha1.NodeImage
	// Now is the time up to which ages are measured.
	Now time.Time
	// Next is the command to type.
	Next string
}

// ImagesObject is what programs get of Images.
type ImagesObject struct {
	meta
	Images []ImageEntry `json:"images"`
}

// ImageEntry is one image of an ImagesObject.
type ImageEntry struct {
	Name      string                 `json:"name"`
	CreatedAt metav1.Time            `json:"createdAt"`
	Spec      v1alpha1.NodeImageSpec `json:"spec"`
}

// Object returns the catalog for programs.
func (d *Images) Object() any {
	out := ImagesObject{meta: meta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ImageList"}, Images: []ImageEntry{}}
	for i := range d.Images {
		out.Images = append(out.Images, ImageEntry{Name: d.Images[i].Name, CreatedAt: d.Images[i].CreationTimestamp, Spec: d.Images[i].Spec})
	}
	return out
}

// Text returns the screen.
func (d *Images) Text(s Style) string {
	if len(d.Images) == 0 {
		return "No image in the catalog\n" + nextLine(s, d.Next)
	}
	t := newTable("NAME", "OS", "KERNEL", "RUNTIME", "KUBELET", "ARCH", "FORMAT", "SIZE", "AGE")
	for i := range d.Images {
		spec, size := &d.Images[i].Spec, ""
		if spec.SizeBytes > 0 {
			size = bytesText(spec.SizeBytes)
		}
		c := &spec.Contents
		t.add(d.Images[i].Name, c.OSImage, c.KernelVersion, c.ContainerRuntimeVersion, c.KubeletVersion, c.Architecture, spec.Format, size,
			span(d.Now.Sub(d.Images[i].CreationTimestamp.Time)))
		t.note(cmp.Or(spec.URL, spec.ID))
	}
	return t.String() + nextLine(s, d.Next)
}
