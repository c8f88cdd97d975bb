// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

// observeQuiet counts the Pods of a Deployment, which outlive it for a moment.
func (r *round) observeQuiet(ctx context.Context, t *task) error {
	ref := t.result.Ref
	asked, settled := true, true
	if t.mapping != nil {
		live, err := r.clients.resource(t.mapping, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fault(ctx, "read "+ref.String(), err)
		}
		if err == nil {
			replicas, found, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
			asked = (found && replicas == 0) || live.GetDeletionTimestamp() != nil
			observed, _, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
			settled = observed >= live.GetGeneration()
			t.result.Terminating = live.GetDeletionTimestamp() != nil
		}
	}
	pods, err := r.podsOfDeployment(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return fault(ctx, "count the Pods of "+ref.String(), err)
	}
	t.result.InSync = asked
	t.result.Found = len(pods) > 0 || !asked || !settled
	t.result.Health = &world.Health{OK: !t.result.Found, Message: quietMessage(ref, len(pods), asked), Progress: progress("quiet", pods, asked, settled)}
	return nil
}

func quietMessage(ref world.Ref, pods int, asked bool) string {
	switch {
	case !asked:
		return fmt.Sprintf("%s is not scaled to 0; it has %s", ref, phrase.Count(pods, "Pod"))
	case pods > 0:
		return fmt.Sprintf("%s still has %s", ref, phrase.Count(pods, "Pod"))
	}
	return ""
}
