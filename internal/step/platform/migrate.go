// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/storage"
	"github.com/capstan-dev/capstan/internal/world"
)

// migrate writes stored objects so that versions can go. For each resource, in this order, each left out where there is
// nothing to do:
//
//	flip      the live CRD stores in a version that stays, if the one it stores in goes
//	rewrite   every object is written as it is, which stores it in that version; in the same request, entries of
//	          managedFields and ownerReferences at versions that go are repaired
//	trim      status.storedVersions says so
//
// It comes before the CRDs of its component, while the old controllers and their webhooks run. No write changes what an
// object says, so it may be left at any point and begun anew.
type migrate struct {
	base

	resources []v1alpha1.Migration
}

// migrateSummary is the step's one line.
func migrateSummary(c v1alpha1.PlannedComponent) string {
	var objects int64
	var names, drop []string
	for _, m := range c.Migrate {
		objects += m.Objects
		names = append(names, m.Resource)
		for _, v := range m.Drop {
			if !slices.Contains(drop, v) {
				drop = append(drop, v)
			}
		}
	}
	text := fmt.Sprintf("Migrate %s of %s", phrase.Count(int(objects), "stored object"), names[0])
	if more := len(names) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(drop) > 0 {
		text += " off " + strings.Join(drop, ", ")
	}
	return text
}

// Want asks for the resources to be gone through.
func (s *migrate) Want() world.Want { return world.Want{ID: s.id, Migrate: s.resources} }

// seen returns what was observed, in the order of the resources.
func (s *migrate) seen(w *world.World) ([]world.Migrating, bool) {
	set, ok := w.Sets[s.id]
	return set.Migrating, ok && len(set.Migrating) == len(s.resources)
}

// Progress is Done when no version that goes is left anywhere.
func (s *migrate) Progress(w *world.World) step.Progress {
	seen, ok := s.seen(w)
	if !ok {
		return step.Progress{State: step.Waiting, Detail: "Not observed yet"}
	}
	p := step.Progress{State: step.Done}
	var mark strings.Builder
	var details, done []string
	for i, m := range seen {
		fmt.Fprintf(&mark, "%s:%s:%t:%v:%d:%d:%t;", m.Resource, m.Storage, m.Follows, m.Stale, m.Passed, len(m.Open), m.Walked)
		if m.Settled() {
			done = append(done, settled(s.resources[i], m))
			continue
		}
		state, detail := standing(s.resources[i], m)
		details = append(details, detail)
		p.Causes = append(p.Causes, refusals(m)...)
		if state == step.Pending || p.State == step.Done {
			p.State = state
		}
	}
	p.Mark, p.Detail = mark.String(), summarize(details)
	if p.State == step.Done {
		p.Detail = summarize(done)
	}
	return p
}

func settled(want v1alpha1.Migration, m world.Migrating) string {
	text := fmt.Sprintf("%d objects of %s read back, %d when planned", m.Passed, m.Resource, want.Objects)
	if len(want.Drop) > 0 {
		text += "; none is stored in " + strings.Join(want.Drop, ", ")
	}
	return text
}

// standing says how far a resource is that is not settled.
func standing(want v1alpha1.Migration, m world.Migrating) (step.State, string) {
	switch {
	case m.Unreadable != "":
		return step.Waiting, fmt.Sprintf("objects of %s can't be read: %s", m.Resource, m.Unreadable)
	case m.Flip:
		return step.Pending, fmt.Sprintf("CRD %s stores in %s, which goes", m.Resource, m.Storage)
	case !m.Follows:
		return step.Waiting, fmt.Sprintf("the API server has yet to store %s in %s", m.Resource, m.Storage)
	case len(m.Open) > 0 || !m.Walked:
		return step.Pending, fmt.Sprintf("%d of about %d objects of %s are written", m.Passed, want.Objects, m.Resource)
	}
	return step.Pending, fmt.Sprintf("CRD %s still lists %s in status.storedVersions", m.Resource, strings.Join(m.Stale, ", "))
}

// refusals are the causes by which the API server does not take objects as they are.
func refusals(m world.Migrating) []world.Cause {
	if m.Unreadable != "" {
		return []world.Cause{{
			Reason: v1alpha1.StopWebhookSilent, Message: fmt.Sprintf("Objects of %s can't be read: %s", m.Resource, m.Unreadable),
			Remedy: "look at the Pods behind the webhook that is named, then `capstan resume`", Object: m.Definition,
		}}
	}
	var out []world.Cause
	for _, o := range m.Open {
		if o.Refused == "" {
			continue
		}
		out = append(out, world.Cause{
			Reason: v1alpha1.StopRejected, Message: fmt.Sprintf("%s can't be written as it is: %s", o.Ref, o.Refused),
			Remedy: "correct the object, or what refuses it, then `capstan resume`", Object: o.Ref, Definite: true,
		})
	}
	return out
}

// Apply writes the next objects of each resource.
func (s *migrate) Apply(ctx context.Context, w *world.World, a step.Actuator) error {
	seen, ok := s.seen(w)
	if !ok {
		return fmt.Errorf("apply %s: not observed", s.id)
	}
	for i, m := range seen {
		changes, err := changesOf(s.resources[i], m)
		if err != nil {
			return fmt.Errorf("apply %s: %w", s.id, err)
		}
		if len(changes) == 0 {
			continue
		}
		if err := a.PatchAll(ctx, changes); err != nil {
			return fmt.Errorf("migrate %s: %w", m.Resource, err)
		}
	}
	return nil
}

// changesOf returns what has to be written to a resource now.
func changesOf(want v1alpha1.Migration, m world.Migrating) ([]step.Change, error) {
	switch {
	case m.Unreadable != "" || m.Settled():
		return nil, nil
	case m.Flip:
		return flip(want, m)
	case !m.Follows:
		return nil, nil
	case len(m.Open) > 0:
		return rewrites(want, m)
	case m.Walked:
		return trim(m)
	}
	return nil, nil
}

// flip makes the version that stays the storage version.
func flip(want v1alpha1.Migration, m world.Migrating) ([]step.Change, error) {
	if !slices.Contains(m.Versions, want.Storage) {
		return nil, fmt.Errorf("CRD %s no longer has %s, which its objects were to be stored in: make a new plan", m.Resource, want.Storage)
	}
	patch := []map[string]any{{"op": "replace", "path": "/metadata/resourceVersion", "value": m.ResourceVersion}}
	for i, v := range m.Versions {
		patch = append(patch, map[string]any{"op": "replace", "path": fmt.Sprintf("/spec/versions/%d/storage", i), "value": v == want.Storage})
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode the new storage version of %s: %w", m.Resource, err)
	}
	return []step.Change{{Ref: m.Definition, Patch: data, JSON: true}}, nil
}

// rewrites write the open objects. One that needs no repair is sent an empty patch, which can't conflict: the API server
// compares what it would store with what is stored, and writes if the version differs.
func rewrites(want v1alpha1.Migration, m world.Migrating) ([]step.Change, error) {
	out := make([]step.Change, 0, len(m.Open))
	for _, o := range m.Open {
		metadata := map[string]any{}
		if len(o.Fields) > 0 {
			fields, err := storage.RepairFields(want, m.Storage, o.Fields)
			if err != nil {
				return nil, fmt.Errorf("repair managedFields of %s: %w", o.Ref, err)
			}
			metadata["managedFields"] = fields
		}
		if len(o.Owners) > 0 {
			metadata["ownerReferences"] = storage.RepairOwners(want, o.Owners)
		}
		patch := map[string]any{}
		if len(metadata) > 0 {
			metadata["resourceVersion"] = o.ResourceVersion
			patch["metadata"] = metadata
		}
		data, err := json.Marshal(patch)
		if err != nil {
			return nil, fmt.Errorf("encode the patch of %s: %w", o.Ref, err)
		}
		out = append(out, step.Change{Ref: o.Ref, Patch: data})
	}
	return out, nil
}

// trim says that every object is stored in the storage version, guarded against a CRD that was changed meanwhile.
func trim(m world.Migrating) ([]step.Change, error) {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": m.ResourceVersion},
		"status":   map[string]any{"storedVersions": []string{m.Storage}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the stored versions of %s: %w", m.Resource, err)
	}
	return []step.Change{{Ref: m.Definition, Subresource: "status", Patch: data}}, nil
}
