// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/world"
)

// forget is how long something that nobody asks for any more is remembered.
const forget = 5 * time.Minute

// memo remembers what is known of objects as long as their resource version stays.
type memo struct {
	mu     sync.Mutex
	hashes map[*unstructured.Unstructured]*hashEntry
	states map[string]*stateEntry
	probes map[string]probeEntry
	sets   map[string]setEntry
}

// setEntry is a set as it was last seen whole.
type setEntry struct {
	set   world.Set
	depth depth
	at    time.Time
}

type hashEntry struct {
	hash string
	used time.Time
}

// stateEntry is one wanted object as last read.
type stateEntry struct {
	used time.Time
	// resourceVersion is the live object's.
	resourceVersion string
	// content identifies what a dry run depends on: it outlives changes of the status.
	content string
	// compared is the result of the dry run for content.
	compared comparison
	// own identifies what Capstan's last apply owns; see ownKey.
	own string
	// seen is when this process first saw the object's generation.
	seen time.Time
	// looked is when an observation last found the object so; zero if it is known from an apply alone. applied is when that was.
	looked, applied time.Time
	// since is from when on repairs by hand were respected in the comparison, and persons whether anybody made changes by
	// hand at all: only then since matters.
	since   time.Time
	persons bool
	// live is the object, without what is big and not needed again.
	live *unstructured.Unstructured
	// depth is how much of it is here; managed is whose fields are whose, if that was asked for.
	depth   depth
	managed []metav1.ManagedFieldsEntry
}

// probeEntry says that a webhook answered in a situation; another situation is another probe.
type probeEntry struct {
	situation string
	used      time.Time
}

func newMemo() *memo {
	return &memo{
		hashes: map[*unstructured.Unstructured]*hashEntry{},
		states: map[string]*stateEntry{},
		probes: map[string]probeEntry{},
		sets:   map[string]setEntry{},
	}
}

// hash returns the digest of a wanted object. It is computed once for each object in memory: CRDs are half a megabyte.
func (m *memo) hash(u *unstructured.Unstructured, now time.Time) (string, error) {
	m.mu.Lock()
	e := m.hashes[u]
	if e != nil {
		e.used = now
	}
	m.mu.Unlock()
	if e != nil {
		return e.hash, nil
	}
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return "", fmt.Errorf("hash %s: %w", world.RefOf(u), err)
	}
	sum := sha256.Sum256(raw)
	e = &hashEntry{hash: hex.EncodeToString(sum[:]), used: now}
	m.mu.Lock()
	m.hashes[u] = e
	m.mu.Unlock()
	return e.hash, nil
}

func (m *memo) state(key string, now time.Time) *stateEntry {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.states[key]
	if e != nil {
		e.used = now
	}
	return e
}

func (m *memo) setState(key string, e *stateEntry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.states[key] = e
}

// set returns a set that was seen whole less than trust ago.
func (m *memo) set(want world.Want, now time.Time, trust time.Duration) (world.Set, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, found := m.sets[want.ID]
	if len(want.Pools) > 0 {
		return world.Set{}, false // Machines move by themselves
	}
	return e.set, found && len(e.set.Objects) == len(want.Objects) && len(e.set.Migrating) == len(want.Migrate) && e.depth >= depthOf(want) && now.Sub(e.at) < trust
}

// setSet remembers a set if every object in it is as wanted and works.
func (m *memo) setSet(want world.Want, set world.Set, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(want.Pools) > 0 || slices.ContainsFunc(set.Objects, func(o world.Object) bool { return !whole(o) }) ||
		slices.ContainsFunc(set.Migrating, func(m world.Migrating) bool { return !m.Settled() }) {
		delete(m.sets, want.ID)
		return
	}
	m.sets[want.ID] = setEntry{set: set, depth: depthOf(want), at: now}
}

func whole(o world.Object) bool {
	if o.Presence != world.Present {
		return !o.Found
	}
	return o.Found && o.InSync && !o.Terminating && (o.Health == nil || o.Health.OK)
}

// answered tells whether a probe already succeeded in this situation.
func (m *memo) answered(key, situation string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, found := m.probes[key]
	if !found || e.situation != situation {
		return false
	}
	m.probes[key] = probeEntry{situation: situation, used: now}
	return true
}

func (m *memo) setAnswered(key, situation string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.probes[key] = probeEntry{situation: situation, used: now}
}

func (m *memo) prune(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, e := range m.hashes {
		if now.Sub(e.used) > forget {
			delete(m.hashes, k)
		}
	}
	for k, e := range m.states {
		if now.Sub(e.used) > forget {
			delete(m.states, k)
		}
	}
	for k, e := range m.probes {
		if now.Sub(e.used) > forget {
			delete(m.probes, k)
		}
	}
}

// contentKey identifies what a dry run against an object depends on. Kinds with a generation keep it when only their
// status changes; their metadata, which does not count in the generation, is taken along.
func contentKey(u *unstructured.Unstructured) (string, error) {
	if u.GetGeneration() == 0 {
		return string(u.GetUID()) + "/" + u.GetResourceVersion(), nil
	}
	var managed []metav1.ManagedFieldsEntry
	for _, e := range u.GetManagedFields() {
		if e.Subresource == "" {
			e.Time = nil
			managed = append(managed, e)
		}
	}
	raw, err := json.Marshal([]any{
		u.GetUID(), u.GetGeneration(), u.GetLabels(), u.GetAnnotations(), u.GetOwnerReferences(), u.GetFinalizers(), u.GetDeletionTimestamp(), managed,
	})
	if err != nil {
		return "", fmt.Errorf("identify %s: %w", world.RefOf(u), err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// Applied tells the Observer what an apply of a wanted object led to. The API server's own answer is as good as a dry run
// against the object in that state; whether it still is in that state is seen by its resource version.
func (o *Observer) Applied(wanted, now *unstructured.Unstructured) {
	r := &round{Observer: o, at: o.clock.Now()}
	t, err := r.task(world.Wanted{Presence: world.Present, Object: wanted})
	if err != nil {
		return // the next observation asks the API server
	}
	content, err := contentKey(now)
	if err != nil {
		return
	}
	o.memo.setState(t.key, &stateEntry{
		used: r.at, seen: o.memo.state(t.key, r.at).seenSince(now, r.at), resourceVersion: now.GetResourceVersion(), content: content,
		own: ownKey(now), applied: r.at, since: o.since, persons: writtenByPersons(now), compared: comparison{works: true, lasting: true}, live: pruned(now),
	})
}

// holds tells whether the comparison is good for this moment of respect.
func (e *stateEntry) holds(since time.Time) bool { return !e.persons || e.since.Equal(since) }

// writtenByPersons tells whether a person changed the object with a tool of theirs.
func writtenByPersons(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(u.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return world.ManagerOf(e.Manager, e.Operation) == world.ManagerPerson
	})
}

// pruned returns an object without the parts that are big and not read again. It shares what it does not change.
func pruned(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	out.Object["metadata"] = without(u.Object["metadata"], "managedFields")
	if u.GetKind() != "CustomResourceDefinition" {
		return out
	}
	spec, _ := u.Object["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	slim := make([]any, len(versions))
	for i, v := range versions {
		slim[i] = without(v, "schema")
	}
	spec = maps.Clone(spec)
	spec["versions"] = slim
	out.Object["spec"] = spec
	return out
}

// without returns a copy of a map without a key; anything else as it is.
func without(v any, key string) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	m = maps.Clone(m)
	delete(m, key)
	return m
}
