// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/ownership"
	"github.com/capstan-dev/capstan/internal/world"
)

// Basis is how it is known that a setting is somebody's own.
type Basis string

const (
	// Compared means that the live object differs from the earlier manifest.
	Compared Basis = "Compared"
	// Written means that the earlier manifest is not known, but who wrote the field is.
	Written Basis = "Written"
	// Guessed means that neither is known. The setting may as well be the earlier manifest's.
	Guessed Basis = "Guessed"
	// Manifest means that the setting is the earlier manifest's, and the new one has it otherwise.
	Manifest Basis = "Manifest"
)

// Earlier is the manifest of a component as it was applied last.
type Earlier struct {
	// Source says where it is from, "run to-v1.13.4-…" for example.
	Source string
	// Objects are its objects; those that hold no settings may be missing.
	Objects []*unstructured.Unstructured
	// Kept are the settings that were carried over into it: they are the operator's although the manifest has them.
	Kept []v1alpha1.KeptSetting
}

// Only returns those objects that hold settings.
func Only(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, o := range objects {
		if world.HoldsSettings(o) && o.GetKind() != "Secret" {
			out = append(out, o)
		}
	}
	return out
}

// Input is what settings of one component are compared from.
type Input struct {
	// Set is the component's objects as they were observed, with their content.
	Set world.Set
	// New are the new manifest's objects, in the same order.
	New []*unstructured.Unstructured
	// Earlier is the earlier manifest, nil if it is not known.
	Earlier *Earlier
}

// Change is a setting that is otherwise after the upgrade than before.
type Change struct {
	Setting

	// Object is where it is set.
	Object world.Ref
	// Old is in the earlier manifest, if that is known; Live is now; New is after the upgrade.
	Old, Live, New Value
	// Basis says how it is known that the setting is somebody's own.
	Basis Basis
	// By is who wrote it last, if that is known.
	By string
	// Source is where the earlier manifest is from.
	Source string

	live, wanted *unstructured.Unstructured
}

// Route says what becomes of the setting: "false (release v1) → true (live) → false (new)".
func (c Change) Route() string {
	var b strings.Builder
	if c.Basis == Compared || c.Basis == Manifest {
		fmt.Fprintf(&b, "%s in the earlier manifest, ", c.Show(c.Old))
	}
	fmt.Fprintf(&b, "%s live", c.Show(c.Live))
	if c.By != "" {
		fmt.Fprintf(&b, " (set by %s)", c.By)
	}
	fmt.Fprintf(&b, ", %s after the upgrade", c.Show(c.New))
	return b.String()
}

// Compare returns the settings that an upgrade resets, sorted.
func Compare(in Input) ([]Change, error) {
	var out []Change
	for i, wanted := range in.New {
		if i >= len(in.Set.Objects) || !world.HoldsSettings(wanted) || wanted.GetKind() == "Secret" {
			continue
		}
		o := in.Set.Objects[i]
		if o.Live == nil || o.InSync {
			continue
		}
		found, err := compareObject(in, o, wanted)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.SortFunc(out, func(a, b Change) int {
		return strings.Compare(a.Object.String()+"\x00"+a.String(), b.Object.String()+"\x00"+b.String())
	})
	return out, nil
}

func compareObject(in Input, o world.Object, wanted *unstructured.Unstructured) ([]Change, error) {
	writers, err := ownership.NewWriters(o.Managed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Ref, err)
	}
	after := o.Result
	if after == nil {
		after = wanted
	}
	j := judge{live: read(o.Live), next: read(after), writers: writers, ref: o.Ref}
	if in.Earlier != nil {
		j.earlier, j.source, j.kept = read(find(in.Earlier.Objects, o.Ref)), in.Earlier.Source, in.Earlier.Kept
		j.known = find(in.Earlier.Objects, o.Ref) != nil
	}
	var out []Change
	for s := range j.all() {
		if c, lost := j.change(s); lost {
			c.Object, c.live, c.wanted = o.Ref, o.Live, wanted
			out = append(out, c)
		}
	}
	return out, nil
}

func find(objects []*unstructured.Unstructured, ref world.Ref) *unstructured.Unstructured {
	i := slices.IndexFunc(objects, func(u *unstructured.Unstructured) bool { return world.RefOf(u).Same(ref) })
	if i < 0 {
		return nil
	}
	return objects[i]
}

// judge decides about the settings of one object.
type judge struct {
	ref                 world.Ref
	earlier, live, next map[Setting]Value
	known               bool
	source              string
	writers             *ownership.Writers
	kept                []v1alpha1.KeptSetting
}

// all returns each setting that is set anywhere.
func (j *judge) all() map[Setting]bool {
	out := map[Setting]bool{}
	for _, m := range []map[Setting]Value{j.earlier, j.live, j.next} {
		for s := range m {
			out[s] = true
		}
	}
	return out
}

// change returns what becomes of a setting, and whether it is one that somebody would lose.
func (j *judge) change(s Setting) (Change, bool) {
	c := Change{Setting: s, Old: j.earlier[s], Live: j.live[s], New: j.next[s], Source: j.source}
	if c.Live == c.New {
		return c, false
	}
	writer, written := j.writer(s)
	if written {
		c.By = writer.Manager
	}
	own := written && j.own(s, writer)
	switch {
	case j.known && (c.Old != c.Live || j.wasKept(s)):
		c.Basis = Compared
		return c, true
	case j.known:
		c.Basis = Manifest
		return c, s.Kind == Gate && c.Live.Text == "true" && c.New.Text == "false"
	case !c.Live.Set:
		// New in the new version, or taken out by somebody: that leaves no trace.
		return c, false
	case own:
		c.Basis = Written
		return c, true
	}
	c.Basis = Guessed
	return c, s.Kind != Image || repository(c.Live.Text) != repository(c.New.Text)
}

// wasKept tells whether an earlier run carried the setting over.
func (j *judge) wasKept(s Setting) bool {
	return slices.ContainsFunc(j.kept, func(k v1alpha1.KeptSetting) bool {
		return world.Ref(k.Object).Same(j.ref) && k.Setting == s.String()
	})
}

// own tells whether who wrote a setting changed it rather than put a whole manifest there. A program that owns the image
// as well did the latter, a GitOps tool for example; one that owns the image alone keeps images up to date.
func (j *judge) own(s Setting, w ownership.Writer) bool {
	switch w.Kind {
	case world.ManagerPerson:
		return true
	case world.ManagerController:
		if s.Container == "" {
			return !j.writers.Owns(w.Manager, "spec", "template", "spec", "containers")
		}
		others := []string{"image"}
		if s.Kind == Image {
			others = []string{"args", "command", "env", "ports", "resources"}
		}
		return !slices.ContainsFunc(others, func(field string) bool { return j.writers.Owns(w.Manager, append(containerPath(s), field)...) })
	case world.ManagerInstaller, world.ManagerCapstan:
	}
	return false
}

func containerPath(s Setting) []any {
	return []any{"spec", "template", "spec", "containers", ownership.Named(s.Container)}
}

// writer returns who set a setting. Arguments belong to somebody as a whole.
func (j *judge) writer(s Setting) (ownership.Writer, bool) {
	pod := []any{"spec", "template", "spec"}
	switch s.Kind {
	case Gate, Argument:
		if w, ok := j.writers.Of(append(containerPath(s), "args")...); ok {
			return w, true
		}
		return j.writers.Of(append(containerPath(s), "command")...)
	case Environment:
		return j.writers.Of(append(containerPath(s), "env", ownership.Named(s.Name))...)
	case Resource:
		side, what, _ := strings.Cut(s.Name, ".")
		return j.writers.Of(append(containerPath(s), "resources", side, what)...)
	case Image:
		return j.writers.Of(append(containerPath(s), "image")...)
	case Replicas:
		return j.writers.Of("spec", "replicas")
	case NodeSelector:
		return j.writers.Of(append(pod, "nodeSelector")...)
	case Toleration:
		return j.writers.Of(append(pod, "tolerations")...)
	case Pod:
		return j.writers.Of(append(pod, s.Name)...)
	case Data:
		return j.writers.Of("data", s.Name)
	}
	return ownership.Writer{}, false
}

// repository returns an image without its tag and digest.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i]
	}
	return image
}
