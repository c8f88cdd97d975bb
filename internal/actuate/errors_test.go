// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package actuate

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-dev/capstan/internal/world"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	gr := schema.GroupResource{Group: "apps", Resource: "deployments"}
	gk := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	terminating := apierrors.NewForbidden(gr, "m", errors.New("namespace n is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}

	for name, tc := range map[string]struct {
		err       error
		wantKind  error
		wantAfter time.Duration
	}{
		"a conflict": {err: apierrors.NewConflict(gr, "m", errors.New("x")), wantKind: ErrConflict},
		"an invalid object": {
			err:      apierrors.NewInvalid(gk, "m", field.ErrorList{field.Required(field.NewPath("spec"), "")}),
			wantKind: ErrRefused,
		},
		"no permission, or an admission plugin's denial": {err: apierrors.NewForbidden(gr, "m", errors.New("denied")), wantKind: ErrRefused},
		"a webhook's denial with a code of its own":      {err: status(400, "admission webhook \"w\" denied the request: no"), wantKind: ErrRefused},
		"expired credentials":                            {err: apierrors.NewUnauthorized("expired"), wantKind: ErrRefused},
		"a namespace on its way out":                     {err: terminating, wantKind: ErrRetry},
		"a namespace that is not there yet":              {err: apierrors.NewNotFound(gr, "m"), wantKind: ErrRetry},
		"a kind that is not known yet":                   {err: &apimeta.NoKindMatchError{GroupKind: gk}, wantKind: ErrRetry},
		"overload, with the time to wait":                {err: apierrors.NewTooManyRequests("busy", 7), wantKind: ErrRetry, wantAfter: 7 * time.Second},
		"a webhook that does not answer":                 {err: status(500, "failed calling webhook \"w\": connection refused"), wantKind: ErrRetry},
		"an object that does not fit the schema":         {err: status(500, "failed to create typed patch object (n/m; apps/v1): .spec.x: field not declared in schema"), wantKind: ErrRefused},
		"a time-out":                                     {err: context.DeadlineExceeded, wantKind: ErrRetry},
		"a connection that is down":                      {err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}, wantKind: ErrRetry},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := classify("apply", world.Ref{Kind: "Deployment", Namespace: "n", Name: "m"}, tc.err)
			got, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("got %T, want *Error", err)
			}
			if !errors.Is(err, tc.wantKind) || !errors.Is(got.Kind, tc.wantKind) {
				t.Errorf("kind is %v, want %v", got.Kind, tc.wantKind)
			}
			if got.After != tc.wantAfter {
				t.Errorf("after is %s, want %s", got.After, tc.wantAfter)
			}
			if want := !errors.Is(tc.wantKind, ErrRefused); Retryable(err) != want {
				t.Errorf("retryable is %t, want %t", !want, want)
			}
		})
	}
}

func TestClassifyLeavesACancelledContextAlone(t *testing.T) {
	t.Parallel()
	err := classify("apply", world.Ref{}, context.Canceled)
	if _, ok := errors.AsType[*Error](err); ok || !errors.Is(err, context.Canceled) || Retryable(err) {
		t.Errorf("got %v", err)
	}
}

func status(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}
