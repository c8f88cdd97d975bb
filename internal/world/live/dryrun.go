// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diagnose"
)

// dryRun applies a wanted object without effect and compares the outcome with the live object; live is nil if there is
// none. Ownership that an installer left behind is looked at beside it, as the dry run can't show what it keeps alive.
func (r *round) dryRun(ctx context.Context, t *task, live *unstructured.Unstructured) (comparison, error) {
	ref := t.result.Ref
	applied, err := r.clients.resource(t.mapping, ref.Namespace).Apply(ctx, ref.Name, applicable(t.wanted.Object), metav1.ApplyOptions{
		DryRun: []string{metav1.DryRunAll}, Force: true, FieldManager: v1alpha1.FieldOwner,
	})
	var c comparison
	if live != nil {
		c.installers = leftOver(live.GetManagedFields())
	}
	switch diagnose.Classify(err) {
	case diagnose.ClassNone:
		c.lasting = true
		if live != nil {
			c.drift = drift(live, applied)
		}
	case diagnose.ClassNotFound:
		// The namespace or the kind is not there yet, or has just gone.
		if live != nil {
			c.drift = "its namespace or kind has just gone"
		}
	case diagnose.ClassImmutable:
		c.immutable, c.lasting = true, true
		c.drift = diagnose.Words(err)
	case diagnose.ClassWebhookSilent, diagnose.ClassDenied, diagnose.ClassForbidden, diagnose.ClassInvalid:
		c.refused = diagnose.Words(err)
	default:
		return comparison{}, fault(ctx, "compare "+ref.String(), err)
	}
	return c, nil
}

// applicable returns a wanted object in the form that server-side apply takes: without fields that only the API server
// sets, which manifests hold now and then. It copies only if it has to.
func applicable(u *unstructured.Unstructured) *unstructured.Unstructured {
	if len(u.GetManagedFields()) == 0 && u.GetResourceVersion() == "" && u.Object["status"] == nil {
		return u
	}
	c := u.DeepCopy()
	c.SetManagedFields(nil)
	c.SetResourceVersion("")
	delete(c.Object, "status")
	return c
}
