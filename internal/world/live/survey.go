// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

// topic is how one topic of a survey is looked into: begin makes its own requests and asks for visits; when all visits
// were made, the function that it returned puts the result together. That may be nil.
type topic struct {
	name  world.Topic
	begin func(ctx context.Context, s *surveyor) (finish func(ctx context.Context) error, err error)
}

// topics lists every topic there is, one file each.
func topics() []topic {
	return []topic{
		nodesTopic(),
		changeTopic(),
		dnsTopic(),
		pausesTopic(),
		rolloutsTopic(),
		hostsTopic(),
		joinsTopic(),
		templatesTopic(),
		contractsTopic(),
		dependentsTopic(),
		storedTopic(),
		webhooksTopic(),
		accessTopic(),
		accountsTopic(),
		endingTopic(),
	}
}

// Survey looks into what a plan asks about. What could not be observed is in the result and is no error: each check says
// for itself that it doesn't know.
func (o *Observer) Survey(ctx context.Context, ask world.Ask) *world.Survey {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &surveyor{
		round: &round{Observer: o, at: o.clock.Now()}, ask: ask,
		out: &world.Survey{Looked: map[world.Topic]string{}}, visits: map[schema.GroupVersionResource]*visit{},
	}
	asked := slices.DeleteFunc(topics(), func(t topic) bool { return !slices.Contains(ask.Topics, t.name) })
	finish := make([]func(context.Context) error, len(asked))
	for i, t := range asked {
		s.current = t.name
		var err error
		finish[i], err = t.begin(ctx, s)
		s.note(t.name, err)
	}
	s.visitAll(ctx)
	for i, t := range asked {
		if _, failed := s.out.Failed(t.name); failed || finish[i] == nil {
			continue
		}
		s.note(t.name, finish[i](ctx))
	}
	return s.out
}

// surveyor is one survey under way.
type surveyor struct {
	*round

	ask world.Ask
	out *world.Survey

	mu      sync.Mutex
	visits  map[schema.GroupVersionResource]*visit
	current world.Topic
}

// visit is one resource to be listed, with those who want to see its objects.
type visit struct {
	mapping  *apimeta.RESTMapping
	visitors []visitor
}

type visitor struct {
	topic world.Topic
	see   func(*unstructured.Unstructured)
}

// note records whether a topic could be observed; the first error stays.
func (s *surveyor) note(t world.Topic, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.out.Looked[t] == "" {
		s.out.Looked[t] = diagnose.Words(err)
		return
	}
	if _, known := s.out.Looked[t]; !known {
		s.out.Looked[t] = ""
	}
}

// visit asks for every object of a resource to be shown to see, one after the other; see must not keep the object. However
// many topics ask, a resource is listed once, in pages. Objects of several resources come at the same time, but never two
// to the topics' functions at once. To be called from begin.
func (s *surveyor) visit(m *apimeta.RESTMapping, see func(*unstructured.Unstructured)) {
	v := s.visits[m.Resource]
	if v == nil {
		v = &visit{mapping: m}
		s.visits[m.Resource] = v
	}
	v.visitors = append(v.visitors, visitor{topic: s.current, see: see})
}

// visitKind is visit for a kind in its preferred version; it does nothing for a kind that is not served.
func (s *surveyor) visitKind(gk schema.GroupKind, see func(*unstructured.Unstructured)) error {
	ms, err := s.mappings(gk)
	if err != nil {
		return fmt.Errorf("find kind %s: %w", gk, err)
	}
	if len(ms) > 0 {
		s.visit(ms[0], see)
	}
	return nil
}

// visitAll makes the visits.
func (s *surveyor) visitAll(ctx context.Context) {
	all := make([]*visit, 0, len(s.visits))
	for _, v := range s.visits {
		all = append(all, v)
	}
	// Errors belong to topics and are noted there.
	_ = forEach(len(all), s.parallel, func(i int) error {
		if err := s.walk(ctx, all[i]); err != nil {
			for _, v := range all[i].visitors {
				s.note(v.topic, fmt.Errorf("list %s: %w", all[i].mapping.Resource.GroupResource(), err))
			}
		}
		return nil
	})
}

// walk lists a resource page by page and keeps none of them. When the API server has dropped the snapshot, the rest is
// read from a newer one, which may show an object twice or miss one that was made meanwhile; see has to live with that.
func (s *surveyor) walk(ctx context.Context, v *visit) error {
	from := s.clients.resource(v.mapping, "")
	opts := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := from.List(ctx, opts)
		switch {
		case apierrors.IsNotFound(err):
			return nil // the kind is gone, and so are its objects
		case apierrors.IsResourceExpired(err) && opts.Continue != "":
			if opts.Continue = restart(err); opts.Continue != "" {
				continue
			}
			return err
		case err != nil:
			return err
		}
		s.show(v, page.Items)
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			return nil
		}
	}
}

// restart returns the token that the API server offers for going on with a newer snapshot.
func restart(err error) string {
	if status, ok := err.(apierrors.APIStatus); ok { //nolint:errorlint // the API server's own answer, as the client returns it
		return status.Status().ListMeta.Continue
	}
	return ""
}

func (s *surveyor) show(v *visit, items []unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range items {
		for _, visitor := range v.visitors {
			visitor.see(&items[i])
		}
	}
}
