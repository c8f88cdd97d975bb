// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// BaseAnnotation holds the name of the template that the first copy was made of, without a hash.
	BaseAnnotation = "capstan.dev/template-base"
	// lastApplied is kubectl's copy of an object as it was applied.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	// hashLength is how many hexadecimal digits of the hash are in a name, nameLength how long a name may be: Machines are
	// named after templates, and names end up in labels.
	hashLength, nameLength = 10, 63
)

// nodeReusePath is where a Metal3MachineTemplate says that a pool keeps its hosts.
func nodeReusePath() []string { return []string{"spec", "nodeReuse"} }

// TemplateOptions are what else a new template is given.
type TemplateOptions struct {
	// NodeReuse turns the reuse of hosts on, for a roll that takes the old Machine away first.
	NodeReuse bool
	// Anew makes a new template although the old one has the image: it was edited in place, and Machines don't have it.
	Anew bool
}

// Template copies a machine template and gives the copy another image. The copy's name follows from its content. It returns
// nil if the old template has the image already.
func (m Maps) Template(old *unstructured.Unstructured, image *v1alpha1.NodeImage, o TemplateOptions) (*unstructured.Unstructured, error) {
	fields, err := m.For(old)
	if err != nil {
		return nil, err
	}
	next := bare(old)
	if err := fields.Set(next, image); err != nil {
		return nil, err
	}
	if !o.Anew && equality.Semantic.DeepEqual(old.Object["spec"], next.Object["spec"]) {
		return nil, nil //nolint:nilnil // nothing to do is an answer
	}
	if err := rename(next, old); err != nil {
		return nil, err
	}
	if o.NodeReuse {
		if err := unstructured.SetNestedField(next.Object, true, nodeReusePath()...); err != nil {
			return nil, fmt.Errorf("turn on the reuse of hosts in %s: %w", world.RefOf(next), err)
		}
	}
	return next, nil
}

// bare copies a template without what an API server or a controller added.
func bare(old *unstructured.Unstructured) *unstructured.Unstructured {
	next := &unstructured.Unstructured{Object: map[string]any{}}
	next.SetGroupVersionKind(old.GroupVersionKind())
	next.SetNamespace(old.GetNamespace())
	if l := carried(old.GetLabels()); len(l) > 0 {
		next.SetLabels(l)
	}
	if a := carried(old.GetAnnotations()); len(a) > 0 {
		next.SetAnnotations(a)
	}
	if spec, ok := old.Object["spec"].(map[string]any); ok {
		next.Object["spec"] = (&unstructured.Unstructured{Object: spec}).DeepCopy().Object
	}
	return next
}

// carried leaves out the labels and annotations by which a deployment tool knows its own objects: it would remove a copy
// that has them, because the copy is not in its source.
func carried(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		group, _, _ := strings.Cut(k, "/")
		tool := k == lastApplied || k == "app.kubernetes.io/instance" || k == "app.kubernetes.io/managed-by" || group == "meta.helm.sh" ||
			strings.HasSuffix(group, "argocd.argoproj.io") || strings.HasSuffix(group, "toolkit.fluxcd.io") || strings.HasPrefix(group, "objectset.rio.cattle.io")
		if !tool {
			out[k] = v
		}
	}
	return out
}

// rename names a template after its content. A template that was edited in place after it got its name may leave that name
// to other content: then the hash is taken once more.
func rename(next, old *unstructured.Unstructured) error {
	base, err := baseName(old)
	if err != nil {
		return err
	}
	annotations := next.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[BaseAnnotation] = base
	next.SetAnnotations(annotations)
	short := base
	if longest := nameLength - 1 - hashLength; len(short) > longest {
		short = strings.TrimRight(short[:longest], "-.")
	}
	for salt := 0; ; salt++ {
		sum, err := hash(next, salt)
		if err != nil {
			return err
		}
		if name := short + "-" + sum; name != old.GetName() {
			next.SetName(name)
			return nil
		}
	}
}

// baseName is a template's name without the hash that an earlier roll gave it.
func baseName(t *unstructured.Unstructured) (string, error) {
	if base := t.GetAnnotations()[BaseAnnotation]; base != "" {
		return base, nil
	}
	sum, err := hash(t, 0)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(t.GetName(), "-"+sum), nil
}

// hash digests what is in a template, without what a roll turns on for its time.
func hash(t *unstructured.Unstructured, salt int) (string, error) {
	spec, _, err := unstructured.NestedMap(t.Object, "spec")
	if err != nil {
		return "", fmt.Errorf("read %s: %w", world.RefOf(t), err)
	}
	delete(spec, "nodeReuse")
	gvk := t.GroupVersionKind()
	data, err := json.Marshal([]any{gvk.Group, gvk.Kind, spec, salt})
	if err != nil {
		return "", fmt.Errorf("digest %s: %w", world.RefOf(t), err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:hashLength], nil
}
