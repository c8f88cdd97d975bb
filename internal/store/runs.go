// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

// specAttempts is how often a change of a run's spec is tried again on a fresh read. The process that drives the run
// writes its status every second or so, which conflicts now and then.
const specAttempts = 10

// PlanName is the name that a plan with this digest has: the same content, the same name.
func PlanName(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return "plan-" + hex[:min(len(hex), 16)]
}

// CreatePlan keeps a plan under PlanName of its digest and returns it as it is kept. A plan that is there already is
// returned as it is.
func (s *Store) CreatePlan(ctx context.Context, p *v1alpha1.Plan) (*v1alpha1.Plan, error) {
	if p.Spec.Digest == "" {
		return nil, errors.New("create plan: it has no digest")
	}
	out := p.DeepCopy()
	out.Name = PlanName(p.Spec.Digest)
	out.ResourceVersion = ""
	err := s.create(ctx, out)
	if !apierrors.IsAlreadyExists(err) {
		return out, translate("create plan "+out.Name, err)
	}
	kept, err := s.Plan(ctx, out.Name)
	if err != nil {
		return nil, err
	}
	if kept.Spec.Digest != p.Spec.Digest {
		return nil, (&problem.Error{
			Reason:  "PlanNameTaken",
			Message: fmt.Sprintf("Plan %s exists with another content (digest %s, not %s)", out.Name, kept.Spec.Digest, p.Spec.Digest),
			Exit:    problem.ExitBlocked,
		}).WithRemedy("kubectl delete plan %s, if no run needs it, then plan again", out.Name)
	}
	return kept, nil
}

// Plan returns a plan by name, or ErrNotFound.
func (s *Store) Plan(ctx context.Context, name string) (*v1alpha1.Plan, error) {
	out := &v1alpha1.Plan{}
	return out, translate("read plan "+name, s.client.Get(ctx, client.ObjectKey{Name: name}, out))
}

// CreateUpgrade starts the record of a run and returns it as it is kept. The name must be free.
func (s *Store) CreateUpgrade(ctx context.Context, u *v1alpha1.Upgrade) (*v1alpha1.Upgrade, error) {
	out := u.DeepCopy()
	out.ResourceVersion = ""
	err := s.create(ctx, out)
	if apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create upgrade %s: %w: %w", u.Name, ErrConflict, err)
	}
	return out, translate("create upgrade "+u.Name, err)
}

// create makes an object of ours. The API server holds up each creation in a kind that it has served for less than two
// seconds, which is every first run; it does not hold up an apply, which creates what is not there. That nobody else makes
// an object of the same name between the look and the apply is the lease's doing.
func (s *Store) create(ctx context.Context, obj client.Object) error {
	gvk, err := s.client.GroupVersionKindFor(obj)
	if err != nil {
		return fmt.Errorf("find kind: %w", err)
	}
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(gvk)
	err = s.client.Get(ctx, client.ObjectKeyFromObject(obj), there)
	if err == nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, obj.GetName())
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return fmt.Errorf("encode %s: %w", gvk.Kind, err)
	}
	made := &unstructured.Unstructured{Object: content}
	made.SetGroupVersionKind(gvk)
	unstructured.RemoveNestedField(made.Object, "status")
	unstructured.RemoveNestedField(made.Object, "metadata", "creationTimestamp")
	if err := s.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(made), client.FieldOwner(v1alpha1.FieldOwner)); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(made.Object, obj)
}

// Upgrade returns a run by name, or ErrNotFound.
func (s *Store) Upgrade(ctx context.Context, name string) (*v1alpha1.Upgrade, error) {
	out := &v1alpha1.Upgrade{}
	return out, translate("read upgrade "+name, s.client.Get(ctx, client.ObjectKey{Name: name}, out))
}

// Upgrades returns all runs, newest first. Where Capstan was never installed there are none.
func (s *Store) Upgrades(ctx context.Context) ([]v1alpha1.Upgrade, error) {
	var list v1alpha1.UpgradeList
	err := s.client.List(ctx, &list)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, translate("list upgrades", err)
	}
	slices.SortFunc(list.Items, newestFirst)
	return list.Items, nil
}

// newestFirst orders by creation, which has whole seconds; among equals the later name comes first.
func newestFirst(a, b v1alpha1.Upgrade) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(b.Name, a.Name))
}

// UpdateStatus writes the run's status, if the run is as it was when u was read; otherwise ErrConflict. u is brought up
// to date with what the server answers.
func (s *Store) UpdateStatus(ctx context.Context, u *v1alpha1.Upgrade) error {
	err := s.client.Status().Update(ctx, u, client.FieldOwner(v1alpha1.FieldOwner))
	return translate("write status of upgrade "+u.Name, err)
}

// ChangeSpec changes what is asked of a run: its intent, its resumes, its accepted findings. change may be called several
// times, each time with the present spec; its error ends the attempt. Nothing is written if it changes nothing.
func (s *Store) ChangeSpec(
	ctx context.Context, name string, change func(spec *v1alpha1.UpgradeSpec) error,
) (*v1alpha1.Upgrade, error) {
	var err error
	for range specAttempts {
		var u *v1alpha1.Upgrade
		if u, err = s.changeSpecOnce(ctx, name, change); !errors.Is(err, ErrConflict) {
			return u, err
		}
	}
	return nil, err
}

func (s *Store) changeSpecOnce(
	ctx context.Context, name string, change func(spec *v1alpha1.UpgradeSpec) error,
) (*v1alpha1.Upgrade, error) {
	before, err := s.Upgrade(ctx, name)
	if err != nil {
		return nil, err
	}
	after := before.DeepCopy()
	if err := change(&after.Spec); err != nil {
		return nil, err
	}
	if equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return before, nil
	}
	err = s.client.Update(ctx, after, client.FieldOwner(v1alpha1.FieldOwner))
	return after, translate("change upgrade "+name, err)
}
