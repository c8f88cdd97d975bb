// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

func TestFromAPIError(t *testing.T) {
	t.Parallel()
	ref := world.Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "capi-system", Name: "capi"}
	kind, resource := schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupResource{Group: "apps", Resource: "deployments"}
	immutable := field.Invalid(field.NewPath("spec", "selector"), "x", "field is immutable")
	const then = `, then run "capstan resume"`

	tests := map[string]struct {
		err       error
		wantClass diagnose.Class
		wantCause world.Cause
	}{
		"no connection": {
			err:       fmt.Errorf("get deployment: %w", errors.New("dial tcp 127.0.0.1:6443: connect: connection refused")),
			wantClass: diagnose.ClassUnreachable,
			wantCause: world.Cause{
				Reason:  v1alpha1.StopNotReady,
				Message: "The API server of the management cluster does not answer about Deployment capi-system/capi: get deployment: dial tcp 127.0.0.1:6443: connect: connection refused",
				Remedy:  "check that the API server is up and reachable" + then,
			},
		},
		"too many requests": {
			err:       apierrors.NewTooManyRequests("slow down", 1),
			wantClass: diagnose.ClassUnreachable,
			wantCause: world.Cause{
				Reason:  v1alpha1.StopNotReady,
				Message: "The API server of the management cluster does not answer about Deployment capi-system/capi: slow down",
				Remedy:  "check that the API server is up and reachable" + then,
			},
		},
		"a webhook that is away": {
			err:       apierrors.NewInternalError(errors.New(`failed calling webhook "v.capi": failed to call webhook: no endpoints available for service "capi-webhook"`)),
			wantClass: diagnose.ClassWebhookSilent,
			wantCause: world.Cause{
				Reason:  v1alpha1.StopWebhookSilent,
				Message: `A webhook does not answer, so the API server can't take Deployment capi-system/capi: Internal error occurred: failed calling webhook "v.capi": failed to call webhook: no endpoints available for service "capi-webhook"`,
				Remedy:  "check the Pods behind the webhook's Service" + then,
			},
		},
		"a webhook that says no": {
			err:       &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: `admission webhook "v.capi" denied the request: no`}},
			wantClass: diagnose.ClassDenied,
			wantCause: world.Cause{
				Reason: v1alpha1.StopRejected, Definite: true,
				Message: `A webhook refuses Deployment capi-system/capi: admission webhook "v.capi" denied the request: no`,
				Remedy:  "do what the webhook asks for, or correct the component's manifests" + then,
			},
		},
		"an immutable field": {
			err:       apierrors.NewInvalid(kind, "capi", field.ErrorList{immutable}),
			wantClass: diagnose.ClassImmutable,
			wantCause: world.Cause{
				Reason: v1alpha1.StopRejected, Definite: true,
				Message: `Deployment capi-system/capi can't be changed in place: spec.selector: Invalid value: "x": field is immutable`,
				Remedy:  "make a new plan: it replaces the object",
			},
		},
		"an immutable field beside another fault would be refused anew too": {
			err:       apierrors.NewInvalid(kind, "capi", field.ErrorList{immutable, field.Required(field.NewPath("spec", "template"), "")}),
			wantClass: diagnose.ClassInvalid,
			wantCause: world.Cause{
				Reason: v1alpha1.StopRejected, Definite: true,
				Message: `The API server refuses Deployment capi-system/capi: spec.selector: Invalid value: "x": field is immutable; spec.template: Required value`,
				Remedy:  "correct the component's manifests" + then,
			},
		},
		"a field that the schema does not know comes as an internal error": {
			err:       apierrors.NewInternalError(errors.New("failed to create typed patch object (a/b; apps/v1, Kind=Deployment): .spec.size: field not declared in schema")),
			wantClass: diagnose.ClassInvalid,
			wantCause: world.Cause{
				Reason: v1alpha1.StopRejected, Definite: true,
				Message: `The API server refuses Deployment capi-system/capi: Internal error occurred: failed to create typed patch object (a/b; apps/v1, Kind=Deployment): .spec.size: field not declared in schema`,
				Remedy:  "correct the component's manifests" + then,
			},
		},
		"a kind that is not there": {
			err:       &apimeta.NoKindMatchError{GroupKind: kind, SearchedVersions: []string{"v1"}},
			wantClass: diagnose.ClassNotFound,
			wantCause: world.Cause{
				Reason: v1alpha1.StopRejected, Definite: true,
				Message: `Deployment capi-system/capi, its namespace or its kind does not exist: no matches for kind "Deployment" in version "apps/v1"`,
				Remedy:  "check that the components it needs are installed" + then,
			},
		},
		"a missing right": {
			err:       apierrors.NewForbidden(resource, "capi", errors.New(`User "lead" cannot patch`)),
			wantClass: diagnose.ClassForbidden,
			wantCause: world.Cause{
				Reason: v1alpha1.StopRejected, Definite: true,
				Message: `The API server forbids it for Deployment capi-system/capi: deployments.apps "capi" is forbidden: User "lead" cannot patch`,
				Remedy:  "give the user the missing right, or lift the quota or policy that is named" + then,
			},
		},
		"a change by somebody else": {
			err:       apierrors.NewConflict(resource, "capi", errors.New("modified")),
			wantClass: diagnose.ClassConflict,
			wantCause: world.Cause{
				Reason:  v1alpha1.StopRejected,
				Message: `Deployment capi-system/capi was changed by somebody else at the same time: Operation cannot be fulfilled on deployments.apps "capi": modified`,
				Remedy:  "find out who changes it" + then,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := diagnose.Classify(test.err); got != test.wantClass {
				t.Errorf("Classify() = %q, want %q", got, test.wantClass)
			}
			test.wantCause.Object = ref
			if diff := cmp.Diff(diagnose.FromAPIError(test.err, ref), test.wantCause); diff != "" {
				t.Errorf("FromAPIError() (-got +want):\n%s", diff)
			}
		})
	}
}

func TestReplicaSet(t *testing.T) {
	t.Parallel()
	const who = "ReplicaSet capi-system/capi-1 can't create its Pods: "
	tests := map[string]struct {
		message string
		want    world.Cause
	}{
		"a used-up quota": {
			message: `pods "x" is forbidden: exceeded quota: q`,
			want: world.Cause{
				Reason: v1alpha1.StopRejected, Definite: true, Message: who + `a quota is used up: pods "x" is forbidden: exceeded quota: q`,
				Remedy: `raise the ResourceQuota in namespace capi-system, then run "capstan resume"`,
			},
		},
		"Pod security": {
			message: `pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged`,
			want: world.Cause{
				Reason: v1alpha1.StopRejected, Definite: true, Message: who + `the namespace's Pod security level forbids it: pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged`,
				Remedy: `set the label pod-security.kubernetes.io/enforce of namespace capi-system to a level that allows it, then run "capstan resume"`,
			},
		},
		"a silent webhook may answer again": {
			message: `Internal error occurred: failed calling webhook "pods": timeout`,
			want: world.Cause{
				Reason: v1alpha1.StopWebhookSilent, Message: who + `a webhook for Pods does not answer: Internal error occurred: failed calling webhook "pods": timeout`,
				Remedy: `check the Pods behind the webhook's Service, then run "capstan resume"`,
			},
		},
		"a service account that is on its way": {
			message: `pods "x" is forbidden: error looking up service account capi-system/m: serviceaccount "m" not found`,
			want: world.Cause{
				Reason: v1alpha1.StopRejected, Message: who + `the service account is missing: pods "x" is forbidden: error looking up service account capi-system/m: serviceaccount "m" not found`,
				Remedy: `create the service account that is named, then run "capstan resume"`,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "capi-system", Name: "capi-1"}}
			if got := diagnose.ReplicaSet(rs); got != nil {
				t.Errorf("ReplicaSet() of a working one = %v, want none", got)
			}
			rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Message: test.message}}
			test.want.Object = world.Ref{APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "capi-system", Name: "capi-1"}
			if diff := cmp.Diff(diagnose.ReplicaSet(rs), []world.Cause{test.want}); diff != "" {
				t.Errorf("ReplicaSet() (-got +want):\n%s", diff)
			}
		})
	}
}
