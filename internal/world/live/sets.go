// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

// shareFrom is how many wanted objects of one kind in one namespace make one list cheaper than as many reads.
const shareFrom = 5

// task is one object to observe, however many sets want it.
type task struct {
	wanted world.Wanted
	hash   string
	key    string
	// mapping is nil if the kind is not served.
	mapping *apimeta.RESTMapping
	// metadata is the live object's if it was read with others of its kind.
	metadata *metav1.PartialObjectMetadata
	// listed tells that it was, so that no metadata means no object.
	listed bool

	// depth is how much of the object the sets that want it ask for.
	depth depth

	// called tells that a set wants what it serves called.
	called bool

	// at is when the result was true.
	at     time.Time
	result world.Object
	live   *unstructured.Unstructured
	// seen is when this process first saw the object's generation.
	seen time.Time
}

// depth is how much of an object is kept.
type depth int

const (
	// stateOnly is whether the object is as wanted.
	stateOnly depth = iota
	// contents adds the object, and what an apply would make of it where people change settings.
	contents
	// everything adds what an apply would make of each, and the schemas of CRDs.
	everything
)

func depthOf(w world.Want) depth {
	switch {
	case w.Diff:
		return everything
	case w.Content:
		return contents
	}
	return stateOnly
}

// keep returns what an apply would lead to if somebody asked for it, else nil.
func (t *task) keep(applied *unstructured.Unstructured) *unstructured.Unstructured {
	if t.depth == everything || t.depth == contents && world.HoldsSettings(t.wanted.Object) {
		applied.SetManagedFields(nil)
		return applied
	}
	return nil
}

// sets observes all wanted objects, each once, and puts the results together by set.
func (r *round) sets(ctx context.Context, wants []world.Want) (map[string]world.Set, error) {
	out := map[string]world.Set{}
	wants = slices.DeleteFunc(slices.Clone(wants), func(w world.Want) bool {
		set, trusted := r.memo.set(w, r.at, r.trust)
		if trusted {
			out[w.ID] = set
		}
		return trusted
	})
	tasks, index, err := r.tasks(wants)
	if err != nil {
		return nil, err
	}
	open := slices.DeleteFunc(slices.Clone(tasks), r.trusted)
	if err := r.prefetch(ctx, open); err != nil {
		return nil, err
	}
	err = forEach(len(open), r.parallel, func(i int) error { return r.observe(ctx, open[i]) })
	if err != nil {
		return nil, err
	}
	pools, err := r.pools(ctx, wants)
	if err != nil {
		return nil, err
	}
	for w, want := range wants {
		set, err := r.set(ctx, want, index[w])
		if err != nil {
			return nil, err
		}
		if len(want.Pools) > 0 {
			set.Pools = pools[w]
		}
		out[want.ID] = set
		r.memo.setSet(want, set, oldest(r.at, index[w]))
	}
	return out, nil
}

// set puts a set together from its observed members, and adds what is known only of them together.
func (r *round) set(ctx context.Context, want world.Want, members []*task) (world.Set, error) {
	var set world.Set
	for i, t := range members {
		set.Objects = append(set.Objects, t.result)
		if o := &set.Objects[i]; depthOf(want) == stateOnly {
			o.Result, o.Managed = nil, nil
		} else {
			o.Live = t.live
		}
	}
	if want.Probe {
		if err := r.probe(ctx, members, set.Objects); err != nil {
			return world.Set{}, err
		}
	}
	for _, m := range want.Migrate {
		migrating, err := r.migrating(ctx, m)
		if err != nil {
			return world.Set{}, err
		}
		set.Migrating = append(set.Migrating, migrating)
	}
	if want.Lead {
		if err := r.lead(ctx, members, set.Objects); err != nil {
			return world.Set{}, err
		}
	}
	var err error
	set.Leftovers, err = r.leftovers(ctx, want)
	return set, err
}

// tasks returns the distinct objects of all wants, and for each want its tasks in order.
func (r *round) tasks(wants []world.Want) ([]*task, [][]*task, error) {
	var all []*task
	known := map[string]*task{}
	index := make([][]*task, len(wants))
	for w, want := range wants {
		for _, wanted := range want.Objects {
			t, err := r.task(wanted)
			if err != nil {
				return nil, nil, err
			}
			t.depth, t.at, t.called = depthOf(want), r.at, want.Probe
			if same := known[t.key]; same != nil {
				same.depth, same.called = max(same.depth, t.depth), same.called || t.called
				index[w] = append(index[w], same)
				continue
			}
			known[t.key] = t
			all = append(all, t)
			index[w] = append(index[w], t)
		}
	}
	return all, index, nil
}

func (r *round) task(wanted world.Wanted) (*task, error) {
	ref := world.RefOf(wanted.Object)
	t := &task{wanted: wanted, result: world.Object{Ref: ref, Presence: wanted.Presence}}
	if wanted.Presence == world.Present {
		hash, err := r.memo.hash(wanted.Object, r.at)
		if err != nil {
			return nil, err
		}
		t.hash = hash
	}
	t.key = strings.Join([]string{string(wanted.Presence), ref.APIVersion, ref.Kind, ref.Namespace, ref.Name, t.hash}, "|")
	return t, nil
}

// prefetch finds how each object is reached, and reads the metadata of many of a kind at once.
func (r *round) prefetch(ctx context.Context, tasks []*task) error {
	groups := map[string][]*task{}
	for _, t := range tasks {
		m, err := r.mapping(t.wanted.Object.GroupVersionKind())
		if apimeta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fault(ctx, "find kind "+t.result.Ref.Kind, err)
		}
		t.mapping = m
		key := m.Resource.String() + "|" + t.result.Ref.Namespace
		groups[key] = append(groups[key], t)
	}
	var large [][]*task
	for _, g := range groups {
		if len(g) >= shareFrom {
			large = append(large, g)
		}
	}
	return forEach(len(large), r.parallel, func(i int) error { return r.prefetchGroup(ctx, large[i]) })
}

// prefetchGroup reads the metadata of a kind in a namespace with one request, unless there is far more than is wanted.
func (r *round) prefetchGroup(ctx context.Context, group []*task) error {
	t := group[0]
	page, err := r.clients.metadataOf(t.mapping, t.result.Ref.Namespace).List(ctx, metav1.ListOptions{Limit: pageSize})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || diagnose.Classify(err) == diagnose.ClassWebhookSilent {
		// Each object's own request tells more.
		return nil
	}
	if err != nil {
		return fault(ctx, "list "+t.mapping.Resource.Resource, err)
	}
	if page.Continue != "" {
		return nil
	}
	byName := make(map[string]*metav1.PartialObjectMetadata, len(page.Items))
	for i := range page.Items {
		byName[page.Items[i].Name] = &page.Items[i]
	}
	for _, t := range group {
		t.listed, t.metadata = true, byName[t.result.Ref.Name]
	}
	return nil
}

// observe fills in the task's result.
func (r *round) observe(ctx context.Context, t *task) error {
	if t.wanted.Presence == world.Quiet {
		return r.observeQuiet(ctx, t)
	}
	if t.mapping == nil {
		t.result.Unserved = true
		return nil
	}
	meta, err := r.metadata(ctx, t)
	switch diagnose.Classify(err) {
	case diagnose.ClassNone:
	case diagnose.ClassNotFound:
		return r.observeMissing(ctx, t)
	case diagnose.ClassWebhookSilent, diagnose.ClassForbidden:
		// It is there, as there is something to convert or to hide, but it can't be read.
		t.result.Found = true
		t.result.Refused, t.result.Silent = diagnose.Words(err), diagnose.Classify(err) == diagnose.ClassWebhookSilent
		return nil
	default:
		return fault(ctx, "read "+t.result.Ref.String(), err)
	}
	t.result.Found = true
	if t.result.Terminating = meta.DeletionTimestamp != nil; t.result.Terminating {
		t.result.Held = r.held(ctx, t.result.Ref, meta)
	}
	if t.wanted.Presence == world.Absent {
		return r.observeGoing(ctx, t)
	}
	return r.observePresent(ctx, t, meta)
}

func (r *round) metadata(ctx context.Context, t *task) (*metav1.PartialObjectMetadata, error) {
	if t.listed && t.metadata == nil {
		return nil, apierrors.NewNotFound(t.mapping.Resource.GroupResource(), t.result.Ref.Name)
	}
	if t.metadata != nil {
		return t.metadata, nil
	}
	return r.clients.metadataOf(t.mapping, t.result.Ref.Namespace).Get(ctx, t.result.Ref.Name, metav1.GetOptions{})
}

// observeGoing reads an object that is to go, where somebody wants to see it.
func (r *round) observeGoing(ctx context.Context, t *task) error {
	if t.depth != everything {
		return nil
	}
	live, err := r.clients.resource(t.mapping, t.result.Ref.Namespace).Get(ctx, t.result.Ref.Name, metav1.GetOptions{})
	switch diagnose.Classify(err) {
	case diagnose.ClassNone:
		live.SetManagedFields(nil)
		t.live = live
	case diagnose.ClassNotFound:
		t.result.Found = false
	case diagnose.ClassWebhookSilent, diagnose.ClassForbidden:
		// It is known to be there, and stays unseen.
	default:
		return fault(ctx, "read "+t.result.Ref.String(), err)
	}
	return nil
}

// observeMissing asks whether the API server would take an object that is not there.
func (r *round) observeMissing(ctx context.Context, t *task) error {
	if t.wanted.Presence == world.Absent || t.depth == stateOnly && r.memo.answered("create|"+t.key, t.hash, r.at) {
		return nil
	}
	c, err := r.dryRun(ctx, t, nil)
	if err != nil {
		return err
	}
	t.result.Immutable, t.result.Refused, t.result.Silent, t.result.Result = c.immutable, c.refused, c.silent, c.result
	if c.lasting {
		r.memo.setAnswered("create|"+t.key, t.hash, r.at)
	}
	return nil
}

// observePresent compares a live object with what is wanted, and looks at its health.
func (r *round) observePresent(ctx context.Context, t *task, meta *metav1.PartialObjectMetadata) error {
	e := r.memo.state(t.key, r.at)
	if e == nil || e.resourceVersion != meta.ResourceVersion || !e.compared.lasting || !e.holds(r.since) || e.depth < t.depth {
		next, err := r.read(ctx, t, e)
		if err != nil || next == nil {
			return err
		}
		e = next
		r.memo.setState(t.key, e)
	}
	e.looked = r.at
	t.is(e)
	health, err := r.health(ctx, e.live)
	t.result.Health = health
	return err
}

// is fills in the result with what is known of a live object but its health.
func (t *task) is(e *stateEntry) {
	c := e.compared
	t.live, t.seen = e.live, e.seen
	t.result.Found, t.result.Terminating = true, e.live.GetDeletionTimestamp() != nil
	t.result.InSync, t.result.Drift, t.result.Cosmetic = c.inSync(), c.text(), c.cosmetic()
	t.result.Immutable, t.result.Refused, t.result.Silent = c.immutable, c.refused, c.silent
	t.result.Change, t.result.Result, t.result.Managed = c.change, c.result, e.managed
	t.result.Stored, t.result.Conflicts = c.stored, c.conflicts
}

// read reads a live object in full and compares it, by a dry run only if its content is not the one that old knows. It
// returns nil if the object went in between.
func (r *round) read(ctx context.Context, t *task, old *stateEntry) (*stateEntry, error) {
	live, err := r.clients.resource(t.mapping, t.result.Ref.Namespace).Get(ctx, t.result.Ref.Name, metav1.GetOptions{})
	switch diagnose.Classify(err) {
	case diagnose.ClassNone:
	case diagnose.ClassNotFound:
		t.result.Found = false
		return nil, nil
	case diagnose.ClassWebhookSilent, diagnose.ClassForbidden:
		t.result.Refused, t.result.Silent = diagnose.Words(err), diagnose.Classify(err) == diagnose.ClassWebhookSilent
		return nil, nil
	default:
		return nil, fault(ctx, "read "+t.result.Ref.String(), err)
	}
	key, err := contentKey(live)
	if err != nil {
		return nil, err
	}
	e := &stateEntry{
		used: r.at, seen: old.seenSince(live, r.at), resourceVersion: live.GetResourceVersion(), content: key, own: ownKey(live),
		since: r.since, persons: writtenByPersons(live), depth: t.depth,
	}
	if old != nil && old.stillHolds(key, e.own) && old.compared.lasting && old.holds(r.since) && old.depth >= t.depth {
		e.compared = old.compared
	} else if e.compared, err = r.dryRun(ctx, t, live); err != nil {
		return nil, err
	}
	if t.depth != stateOnly && world.HoldsSettings(live) {
		e.managed = live.GetManagedFields()
	}
	if t.depth == everything {
		live.SetManagedFields(nil)
		e.live = live
		return e, nil
	}
	e.live = pruned(live)
	return e, nil
}

// comparison is what a dry run says about a wanted object.
type comparison struct {
	// drift is what would change; empty for nothing.
	drift string
	// change identifies everything that would change, also what drift does not show.
	change string
	// result is what the object would be, if somebody asked for it.
	result *unstructured.Unstructured
	// works tells that nothing would change but labels and annotations.
	works bool
	// installers still own fields.
	installers []string
	immutable  bool
	refused    string
	// silent tells that refused is no answer: a webhook did not give one; stored that only stored versions are in the way.
	silent, stored bool
	// conflicts are fields of others that have to be taken away.
	conflicts []world.FieldConflict
	// lasting tells that the answer stays as long as the object does: a refusal may be over the next moment.
	lasting bool
}

// cosmetic tells that the object differs, but works as wanted.
func (c comparison) cosmetic() bool {
	return !c.inSync() && c.works && !c.immutable && c.refused == ""
}

func (c comparison) inSync() bool {
	return c.drift == "" && len(c.installers) == 0 && !c.immutable && c.refused == ""
}

func (c comparison) text() string {
	var parts []string
	if c.drift != "" {
		parts = append(parts, c.drift)
	}
	if len(c.installers) > 0 {
		parts = append(parts, "fields are still owned by "+strings.Join(c.installers, ", "))
	}
	return strings.Join(parts, "; ")
}
