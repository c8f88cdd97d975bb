// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// lead waits until a Pod of each Deployment leads. Others that need the component do not wait for it: they need its
// webhooks, which every Pod answers.
type lead struct {
	base

	deployments []*unstructured.Unstructured
}

// Want asks for the Deployments with their leaders.
func (s *lead) Want() world.Want {
	w := world.Want{ID: s.id, Lead: true}
	for _, d := range s.deployments {
		w.Objects = append(w.Objects, world.Wanted{Presence: world.Present, Object: d})
	}
	return w
}

// Progress is Done when every Deployment is led by one of its present Pods.
func (s *lead) Progress(w *world.World) step.Progress {
	set, ok := w.Sets[s.id]
	if !ok || len(set.Objects) != len(s.deployments) {
		return step.Progress{State: step.Waiting, Detail: "Not observed yet"}
	}
	v := &verdict{}
	for _, o := range set.Objects {
		v.health(o)
	}
	return v.progress(len(s.deployments))
}

// Apply frees the leases that Pods which are gone still hold.
func (s *lead) Apply(ctx context.Context, w *world.World, a step.Actuator) error {
	for _, o := range w.Sets[s.id].Objects {
		if o.Health == nil || o.Health.Handover == nil {
			continue
		}
		if err := handOver(ctx, a, *o.Health.Handover); err != nil {
			return err
		}
	}
	return nil
}

// handOver frees a lease that a Pod which is gone still holds: its successor would otherwise wait for the lease's whole
// duration, with no controller at work. Cluster API's managers do not release their leases when they end.
func handOver(ctx context.Context, a step.Actuator, h world.Handover) error {
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"holderIdentity":""}}`, h.ResourceVersion)
	if err := a.Patch(ctx, h.Lease, patch); err != nil {
		return fmt.Errorf("hand %s over from %s: %w", h.Lease, h.Holder, err)
	}
	return nil
}
