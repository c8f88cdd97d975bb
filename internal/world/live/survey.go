// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

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
		imageTopic(),
		poolsTopic(),
	}
}

// Survey looks into what a plan asks about. What could not be observed is in the result and is no error: each check says
// for itself that it doesn't know.
func (o *Observer) Survey(ctx context.Context, ask world.Ask) *world.Survey {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := newSurveyor(&round{Observer: o, at: o.clock.Now()}, ask)
	s.begin(ctx)
	s.visitAll(ctx)
	return s.end(ctx)
}

// Inspect observes and surveys, which shows the same as one after the other; Machines, of which there are most, are listed
// once for both.
func (o *Observer) Inspect(ctx context.Context, wants []world.Want, ask world.Ask) (*world.World, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &round{Observer: o, at: o.clock.Now(), fleetAnew: true}
	s := newSurveyor(r, ask)
	// Topics ask what is installed and which kinds own Machines, so that has to be known before they begin. Where it can't be
	// read, the observation says so, or shows an older picture.
	if _, err := r.recentManagement(ctx); err != nil {
		return nil, err
	}
	if clusters, err := r.readClusters(ctx); err == nil {
		r.survey, r.clusters = s, clusters
		s.begin(ctx)
	}
	w, err := r.look(ctx, wants)
	s.meanwhile.Wait()
	if err != nil {
		return nil, err
	}
	if r.survey == nil {
		s.begin(ctx)
	}
	s.visitAll(ctx)
	w.Survey = s.end(ctx)
	return w, nil
}

func newSurveyor(r *round, ask world.Ask) *surveyor {
	return &surveyor{
		round: r, ask: ask, out: &world.Survey{Looked: map[world.Topic]string{}}, visits: map[schema.GroupVersionResource]*visit{},
		decoding: make(chan struct{}, batchesDecoded),
		asked:    slices.DeleteFunc(topics(), func(t topic) bool { return !slices.Contains(ask.Topics, t.name) }),
	}
}

// begin lets every topic make its own requests and ask for visits.
func (s *surveyor) begin(ctx context.Context) {
	s.finish = make([]func(context.Context) error, len(s.asked))
	for i, t := range s.asked {
		s.current = t.name
		var err error
		s.finish[i], err = t.begin(ctx, s)
		s.note(t.name, err)
	}
}

// end lets every topic put its result together.
func (s *surveyor) end(ctx context.Context) *world.Survey {
	for i, t := range s.asked {
		if _, failed := s.out.Failed(t.name); failed || s.finish[i] == nil {
			continue
		}
		s.note(t.name, s.finish[i](ctx))
	}
	return s.out
}

// surveyor is one survey under way.
type surveyor struct {
	*round

	ask world.Ask
	out *world.Survey
	// asked are the topics, and finish what each has to do in the end.
	asked  []topic
	finish []func(context.Context) error
	// decoding bounds the batches that are decoded and not yet shown; meanwhile are those that nobody waits for at once.
	decoding  chan struct{}
	meanwhile sync.WaitGroup

	mu      sync.Mutex
	visits  map[schema.GroupVersionResource]*visit
	current world.Topic
	// shown are the managed fields, as JSON, of the object that is being shown.
	shown []byte
}

// visit is one resource to be listed, with those who want to see its objects.
type visit struct {
	mapping  *apimeta.RESTMapping
	visitors []visitor
	// done tells that all objects were shown.
	done bool
	// seen are the UIDs of those that were.
	seen map[types.UID]bool
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
