// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/ownership"
)

// dryRun applies a wanted object without effect and compares the outcome with the live object; live is nil if there is
// none. It makes the same decisions as the Actuator: fields that a person repaired are left out, fields that an installer
// left behind are taken out.
func (r *round) dryRun(ctx context.Context, t *task, live *unstructured.Unstructured) (comparison, error) {
	var c comparison
	if live != nil {
		c.installers = leftOver(live.GetManagedFields())
	}
	applied, stale, err := r.applied(ctx, t, live, &c)
	if t.result.Ref.Kind == "CustomResourceDefinition" && !stale {
		// The Actuator takes a CRD over only for what would stay behind.
		c.installers = nil
	}
	switch diagnose.Classify(err) {
	case diagnose.ClassNone:
		c.lasting, c.result = true, t.keep(applied)
		if live != nil {
			c.drift, c.change = difference(live, applied)
			c.works = c.drift == "" || drift(plain(live), plain(applied)) == ""
		}
	case diagnose.ClassNotFound:
		// The namespace or the kind is not there yet, or has just gone.
		if live != nil {
			c.drift = "its namespace or kind has just gone"
		}
	case diagnose.ClassImmutable:
		c.immutable, c.lasting = true, true
		c.drift = diagnose.Words(err)
		c.change = c.drift
	case diagnose.ClassWebhookSilent, diagnose.ClassDenied, diagnose.ClassForbidden, diagnose.ClassInvalid:
		c.refused, c.silent = diagnose.Words(err), diagnose.Classify(err) == diagnose.ClassWebhookSilent
		c.stored = onlyStored(err)
	default:
		return comparison{}, fault(ctx, "compare "+t.result.Ref.String(), err)
	}
	return c, nil
}

// plain returns an object without labels and annotations, which no program's work depends on.
func plain(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: content(u)}
	unstructured.RemoveNestedField(out.Object, "metadata", "labels")
	unstructured.RemoveNestedField(out.Object, "metadata", "annotations")
	return out
}

// applied returns the object as it would be after a takeover and an apply. The takeover can't be part of a dry run, so
// what it would remove is removed in a second one, of an update. stale tells that there was something to remove.
//
// What has to be taken away before the apply is noted in c; then the sum of all is tried as an update.
func (r *round) applied(
	ctx context.Context, t *task, live *unstructured.Unstructured, c *comparison,
) (after *unstructured.Unstructured, stale bool, err error) {
	client := r.clients.resource(t.mapping, t.result.Ref.Namespace)
	wanted := applicable(t.wanted.Object)
	if live != nil && !r.since.IsZero() {
		if wanted, _, err = ownership.Yield(wanted, live, r.since); err != nil {
			return nil, false, err
		}
	}
	dry := []string{metav1.DryRunAll}
	if live != nil {
		remnants, err := ownership.RemnantsOf(live, wanted)
		if err != nil {
			return nil, false, err
		}
		if remnants != nil {
			c.conflicts = remnants.Conflicts
			after, err = client.Update(ctx, remnants.Result, metav1.UpdateOptions{DryRun: dry, FieldManager: v1alpha1.FieldOwner})
			return after, false, err
		}
	}
	after, err = client.Apply(ctx, t.result.Ref.Name, wanted, metav1.ApplyOptions{DryRun: dry, Force: true, FieldManager: v1alpha1.FieldOwner})
	if err != nil || live == nil {
		return after, false, err
	}
	without, stale, err := ownership.Leftovers(after)
	if err != nil || !stale {
		return after, false, err
	}
	after, err = client.Update(ctx, without, metav1.UpdateOptions{DryRun: dry, FieldManager: v1alpha1.FieldOwner})
	return after, true, err
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

// onlyStored tells whether a CRD is refused for nothing but versions in its status that it no longer has: once stored
// objects are migrated it will be taken. The API server reports all faults at once.
func onlyStored(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsInvalid(err) || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		return false
	}
	return !slices.ContainsFunc(status.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool {
		return !strings.HasPrefix(c.Field, "status.storedVersions")
	})
}
