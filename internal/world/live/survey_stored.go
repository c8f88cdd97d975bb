// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/storage"
	"github.com/capstan-dev/capstan/internal/world"
)

// triedWrites is how many objects of a kind that has to be rewritten are tried as a dry run.
const triedWrites = 100

// storedTopic looks at what is stored for the CRDs that are to come: each object once, in the version that it will be
// stored in if that can be had.
func storedTopic() topic {
	return topic{name: world.TopicStored, begin: func(ctx context.Context, s *surveyor) (func(context.Context) error, error) {
		c := &storedCollector{s: s, owners: map[schema.GroupKind]*ownerKind{}, references: map[reference]*world.StaleOwners{}}
		if err := c.definitions(ctx); err != nil {
			return nil, err
		}
		for _, k := range c.kinds {
			if k.mapping != nil {
				s.visit(k.mapping, func(u *unstructured.Unstructured) { k.see(ctx, c, u) })
			}
		}
		return c.finish, nil
	}}
}

// storedCollector puts the picture together.
type storedCollector struct {
	s     *surveyor
	kinds []*storedKind
	// owners says in which versions each kind is served, by its group and kind.
	owners     map[schema.GroupKind]*ownerKind
	references map[reference]*world.StaleOwners
}

// ownerKind is how objects may refer to owners of a kind.
type ownerKind struct {
	// served are the versions that are served afterwards; to is one that is served now as well.
	served []string
	to     string
}

// reference is a way in which objects of a resource refer to owners.
type reference struct{ resource, group, kind, version string }

// definitions reads the live CRDs of those to come.
func (c *storedCollector) definitions(ctx context.Context) error {
	found := make([]*storedKind, len(c.s.ask.CRDs))
	err := forEach(len(found), c.s.parallel, func(i int) (err error) {
		found[i], err = c.definition(ctx, c.s.ask.CRDs[i])
		return err
	})
	if err != nil {
		return err
	}
	for _, k := range found {
		if k == nil {
			continue
		}
		c.kinds = append(c.kinds, k)
		c.owners[k.groupKind()] = ownerVersions(k.Live, k.Next)
	}
	slices.SortFunc(c.kinds, func(a, b *storedKind) int { return cmp.Compare(a.Next.Name, b.Next.Name) })
	return nil
}

// ownerVersions decides in which version owners of a kind are to be named: the next storage version, if it is served already.
func ownerVersions(live, next storage.Definition) *ownerKind {
	o := &ownerKind{served: next.Served()}
	both := storage.Common(next.Served(), live.Served())
	switch {
	case slices.Contains(both, next.Storage()):
		o.to = next.Storage()
	case len(both) > 0:
		o.to = both[0]
	}
	return o
}

// definition returns nil for a CRD that is not there yet.
func (c *storedCollector) definition(ctx context.Context, crd *unstructured.Unstructured) (*storedKind, error) {
	live, err := c.s.clients.resource(definitionMapping(), "").Get(ctx, crd.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read CRD %s: %w", crd.GetName(), err)
	}
	k := &storedKind{next: crd}
	if k.Live, err = storage.Read(live); err != nil {
		return nil, err
	}
	if k.Next, err = storage.Read(crd); err != nil {
		return nil, err
	}
	k.choose()
	k.looser = looserSchema(k, live)
	if k.ReadAt == "" {
		return k, nil
	}
	k.mapping, err = c.s.mapping(k.groupKind().WithVersion(k.ReadAt))
	if apimeta.IsNoMatchError(err) {
		k.ReadAt, k.mapping, err = "", nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find kind %s: %w", k.Next.Kind, err)
	}
	return k, nil
}

// seeOwners notes references at versions that are not served afterwards.
func (c *storedCollector) seeOwners(resource string, gk schema.GroupKind, ref world.Ref, owners []metav1.OwnerReference) {
	counted := map[reference]bool{}
	for _, o := range owners {
		gv, err := schema.ParseGroupVersion(o.APIVersion)
		if err != nil {
			continue
		}
		owner := c.owners[gv.WithKind(o.Kind).GroupKind()]
		key := reference{resource: resource, group: gv.Group, kind: o.Kind, version: gv.Version}
		if owner == nil || slices.Contains(owner.served, gv.Version) || counted[key] {
			continue
		}
		counted[key] = true
		found := c.references[key]
		if found == nil {
			found = &world.StaleOwners{
				Resource: resource, Group: gk.Group, Kind: gk.Kind, OwnerGroup: gv.Group, OwnerKind: o.Kind, OwnerVersion: gv.Version,
				To: owner.to, Served: owner.served,
			}
			c.references[key] = found
		}
		found.Objects.Add(ref)
	}
}

// finish looks at kinds that are not to come but may have owners that are, tries writes, and hands the picture over.
func (c *storedCollector) finish(ctx context.Context) error {
	others, err := c.otherKinds()
	if err != nil {
		return err
	}
	err = forEach(len(others), c.s.parallel, func(i int) error { return c.listOwners(ctx, others[i]) })
	if err != nil {
		return err
	}
	if err := forEach(len(c.kinds), c.s.parallel, func(i int) error { return c.kinds[i].tryWrites(ctx, c.s) }); err != nil {
		return err
	}
	out := &world.Stored{}
	all := map[string]int64{}
	for _, k := range c.kinds {
		all[k.Next.Name] = k.Objects
		out.Kinds = append(out.Kinds, k.StoredKind)
		if k.err != nil {
			return k.err
		}
	}
	for _, r := range c.references {
		if n, known := all[r.Resource]; known {
			r.All = n
		}
		out.Owners = append(out.Owners, *r)
	}
	slices.SortFunc(out.Owners, func(a, b world.StaleOwners) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.OwnerKind, b.OwnerKind), cmp.Compare(a.OwnerGroup, b.OwnerGroup),
			cmp.Compare(a.OwnerVersion, b.OwnerVersion))
	})
	c.s.out.Stored = out
	return nil
}

// otherKinds returns how the kinds are reached that are not to come but have owners that are: what every provider makes
// for its clusters, and other kinds of the same groups. To look at every kind would take as long as all the rest.
func (c *storedCollector) otherKinds() ([]*apimeta.RESTMapping, error) {
	if len(c.kinds) == 0 {
		return nil, nil
	}
	kinds := []schema.GroupKind{{Kind: "Secret"}, {Kind: "ConfigMap"}}
	groups := map[string]bool{}
	for gk := range c.owners {
		groups[gk.Group] = true
	}
	_, lists, err := c.s.clients.discovery.ServerGroupsAndResources()
	if err != nil && len(lists) == 0 {
		return nil, fmt.Errorf("read the kinds that are served: %w", err)
	}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil || !groups[gv.Group] {
			continue
		}
		for _, r := range l.APIResources {
			gk := schema.GroupKind{Group: gv.Group, Kind: r.Kind}
			if c.owners[gk] == nil && slices.Contains(r.Verbs, "list") && !slices.Contains(kinds, gk) {
				kinds = append(kinds, gk)
			}
		}
	}
	var out []*apimeta.RESTMapping
	for _, gk := range kinds {
		ms, err := c.s.mappings(gk)
		if err != nil {
			return nil, fmt.Errorf("find kind %s: %w", gk, err)
		}
		if len(ms) > 0 {
			out = append(out, ms[0])
		}
	}
	return out, nil
}

// listOwners looks at the references of all objects of a resource, of which nothing else is read.
func (c *storedCollector) listOwners(ctx context.Context, m *apimeta.RESTMapping) error {
	from := c.s.clients.metadataOf(m, "")
	resource := m.Resource.GroupResource().String()
	opts := metav1.ListOptions{Limit: pageSize}
	var all int64
	for {
		page, err := from.List(ctx, opts)
		if apierrors.IsResourceExpired(err) && opts.Continue != "" {
			if opts.Continue = restart(err); opts.Continue != "" {
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", resource, err)
		}
		c.s.mu.Lock()
		for i := range page.Items {
			o := &page.Items[i]
			ref := world.Ref{APIVersion: m.GroupVersionKind.GroupVersion().String(), Kind: m.GroupVersionKind.Kind, Namespace: o.Namespace, Name: o.Name}
			c.seeOwners(resource, m.GroupVersionKind.GroupKind(), ref, o.OwnerReferences)
		}
		c.s.mu.Unlock()
		all += int64(len(page.Items))
		if opts.Continue = page.Continue; opts.Continue == "" {
			break
		}
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for key, r := range c.references {
		if key.resource == resource {
			r.All = all
		}
	}
	return nil
}

// tryWrites asks the API server whether it would take objects as they are, where they have to be rewritten.
func (k *storedKind) tryWrites(ctx context.Context, s *surveyor) error {
	if k.mapping == nil || len(k.Drop()) == 0 {
		return nil
	}
	answers := make([]error, len(k.tried))
	_ = forEach(len(k.tried), s.parallel, func(i int) error {
		o := k.tried[i]
		_, answers[i] = s.clients.resource(k.mapping, o.Namespace).Patch(ctx, o.Name, types.MergePatchType, []byte(`{}`),
			metav1.PatchOptions{FieldManager: v1alpha1.FieldOwner, DryRun: []string{metav1.DryRunAll}})
		return nil
	})
	for i, err := range answers {
		switch diagnose.Classify(err) {
		case diagnose.ClassNone, diagnose.ClassNotFound, diagnose.ClassConflict:
		case diagnose.ClassDenied, diagnose.ClassInvalid, diagnose.ClassImmutable, diagnose.ClassForbidden:
			k.Refused.Add(world.RefusedObject{Object: k.tried[i], Why: diagnose.Words(err)})
		case diagnose.ClassUnreachable, diagnose.ClassWebhookSilent:
			return fmt.Errorf("try to write %s: %w", k.tried[i], err)
		}
	}
	return nil
}
