// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/release"
)

// Keep returns a component with the operator's changes carried over into its manifests, and what was carried over. The
// component itself is not changed.
//
// Not carried over is what the new version would not understand or what nobody is known to have wanted: a feature gate
// that the earlier manifest had and the new one has no more, the tag of an image, a setting of a container that is gone,
// and guesses, apart from feature gates that both versions know.
func Keep(r *release.Rendered, changes []Change) (*release.Rendered, []v1alpha1.KeptSetting, error) {
	out := *r
	out.Objects = slices.Clone(r.Objects)
	copies := map[*unstructured.Unstructured]*unstructured.Unstructured{}
	var kept []v1alpha1.KeptSetting
	for _, c := range changes {
		i := slices.Index(r.Objects, c.wanted)
		if i < 0 || !c.keepable() {
			continue
		}
		if copies[c.wanted] == nil {
			copies[c.wanted] = c.wanted.DeepCopy()
			out.Objects[i] = copies[c.wanted]
		}
		if !c.carry(copies[c.wanted]) {
			continue
		}
		kept = append(kept, v1alpha1.KeptSetting{
			Object: v1alpha1.ObjectReference(c.Object), Setting: c.String(), Value: c.Show(c.Live), Release: c.Show(c.released()),
		})
	}
	if len(kept) == 0 {
		return r, nil, nil
	}
	data, err := release.Encode(out.Objects)
	if err != nil {
		return nil, nil, fmt.Errorf("keep settings of %s: %w", r.Component.Name, err)
	}
	out.Digest = release.Digest(data)
	return &out, kept, nil
}

// released is what the new manifest itself says.
func (c Change) released() Value { return read(c.wanted)[c.Setting] }

func (c Change) keepable() bool {
	switch c.Basis {
	case Compared, Written:
		return c.Kind != Gate || !c.dropped()
	case Guessed:
		return c.Kind == Gate && c.released().Set
	case Manifest:
	}
	return false
}

// dropped tells that a feature gate of the earlier manifest is none of the new one's: most likely the program does not
// know it any more, and would not start with it.
func (c Change) dropped() bool { return c.Old.Set && !c.released().Set }

// carry writes the live setting into the new object, and tells whether that changed anything.
func (c Change) carry(to *unstructured.Unstructured) bool {
	switch c.Kind {
	case Replicas:
		return c.carryField(to, "spec", "replicas")
	case Data:
		return c.carryField(to, "data", c.Name)
	case NodeSelector:
		return c.carryField(to, "spec", "template", "spec", "nodeSelector", c.Name)
	case Pod:
		return c.carryField(to, "spec", "template", "spec", c.Name)
	case Toleration:
		return c.carryToleration(to)
	case Gate, Argument, Environment, Resource, Image:
	}
	theirs, ours := container(c.live, c.Container), container(to, c.Container)
	if theirs == nil || ours == nil {
		return false
	}
	switch c.Kind {
	case Gate:
		return c.carryGate(ours)
	case Argument:
		return c.carryArgument(theirs, ours)
	case Environment:
		return carryNamed(theirs, ours, "env", c.Name)
	case Image:
		return c.carryImage(ours)
	case Resource:
		side, what, _ := strings.Cut(c.Name, ".")
		return carryEntry(theirs, ours, "resources", side, what)
	case Replicas, Data, NodeSelector, Pod, Toleration:
	}
	return false
}

func (c Change) carryField(to *unstructured.Unstructured, path ...string) bool {
	return carryEntry(c.live.Object, to.Object, path...)
}

// carryEntry copies a field, or removes it where it is not there.
func carryEntry(from, to map[string]any, path ...string) bool {
	v, found, err := unstructured.NestedFieldCopy(from, path...)
	if err != nil {
		return false
	}
	if !found {
		unstructured.RemoveNestedField(to, path...)
		return true
	}
	return unstructured.SetNestedField(to, v, path...) == nil
}

func (c Change) carryToleration(to *unstructured.Unstructured) bool {
	spec := podSpec(to)
	if spec == nil {
		return false
	}
	is := func(t map[string]any) bool {
		s := map[Setting]Value{}
		readPod(map[string]any{"tolerations": []any{t}}, s)
		_, same := s[c.Setting]
		return same
	}
	var list []any
	for _, t := range entries(spec["tolerations"]) {
		if !is(t) {
			list = append(list, t)
		}
	}
	for _, t := range entries(podSpec(c.live)["tolerations"]) {
		if is(t) {
			list = append(list, t)
		}
	}
	spec["tolerations"] = list
	return true
}

func container(u *unstructured.Unstructured, name string) map[string]any {
	for _, c := range containers(podSpec(u)) {
		if c["name"] == name {
			return c
		}
	}
	return nil
}

// carryNamed copies an entry of a list by its name, or removes it where it is not there.
func carryNamed(from, to map[string]any, field, name string) bool {
	var list []any
	for _, e := range entries(to[field]) {
		if e["name"] != name {
			list = append(list, e)
		}
	}
	for _, e := range entries(from[field]) {
		if e["name"] == name {
			list = append(list, e)
		}
	}
	to[field] = list
	return true
}

// carryImage keeps where an image comes from, a mirror for example: the version is what the upgrade is for.
func (c Change) carryImage(ours map[string]any) bool {
	next, _ := ours["image"].(string)
	from, to := repository(c.Live.Text), repository(next)
	if from == "" || from == to {
		return false
	}
	ours["image"] = from + strings.TrimPrefix(next, to)
	return true
}

func (c Change) carryGate(ours map[string]any) bool {
	var f *flag
	for _, have := range flags(ours) {
		if have.name == c.Flag {
			f = have
		}
	}
	if f == nil {
		f = &flag{name: c.Flag}
	}
	var parts []string
	done := false
	for _, g := range f.gates() {
		if g.name == c.Name {
			if done = true; !c.Live.Set {
				continue
			}
			g.value = c.Live.Text
		}
		parts = append(parts, g.name+"="+g.value)
	}
	if !done && c.Live.Set {
		parts = append(parts, c.Name+"="+c.Live.Text)
	}
	var words []any
	if len(parts) > 0 {
		words = []any{c.Flag + "=" + strings.Join(parts, ",")}
	}
	replaceFlag(ours, c.Flag, words)
	return true
}

// carryArgument takes a flag over as it stands. Words that belong to no flag have an order of their own and stay.
func (c Change) carryArgument(theirs, ours map[string]any) bool {
	if !strings.HasPrefix(c.Name, "-") {
		return false
	}
	var words []any
	for _, f := range flags(theirs) {
		if f.name == c.Name {
			words = f.raw
		}
	}
	replaceFlag(ours, c.Name, words)
	return true
}

// replaceFlag puts words in the place of a flag, or at the end of the arguments where there is none.
func replaceFlag(c map[string]any, name string, with []any) {
	placed := false
	for _, field := range []string{"command", "args"} {
		list, ok := c[field].([]any)
		if !ok {
			continue
		}
		var out []any
		for _, w := range words(list) {
			switch {
			case w.name != name:
				out = append(out, w.raw...)
			case !placed:
				out, placed = append(out, with...), true
			}
		}
		c[field] = out
	}
	if !placed && len(with) > 0 {
		list, _ := c["args"].([]any)
		c["args"] = append(slices.Clone(list), with...)
	}
}
