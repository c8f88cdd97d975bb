// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestSlowAnswerDoesNotMakeTheLeaseLonger stores each change at once and answers late. Another process counts from when the
// change was stored, so the lease must not count as held for longer than that.
func TestSlowAnswerDoesNotMakeTheLeaseLonger(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakeClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	var late time.Duration
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			err := c.Create(ctx, o, opts...)
			clk.Step(late)
			return err
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			err := c.Update(ctx, o, opts...)
			clk.Step(late)
			return err
		},
	})
	l := (&Store{client: c, clock: clk}).Lease(LeaseOptions{})
	late = l.duration
	if err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.Valid() {
		t.Error("taken with an answer as late as the lease is long, it counts as held")
	}
	late = 0
	if err := l.Renew(t.Context()); err != nil || !l.Valid() {
		t.Fatalf("renewed at once: %v, held %t", err, l.Valid())
	}
	late = l.duration - time.Second
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if clk.Step(2 * time.Second); l.Valid() {
		t.Error("renewed with a late answer, it counts as held for longer than it is long")
	}
}
