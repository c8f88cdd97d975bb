// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package actuate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/actuate"
	"github.com/capstan-dev/capstan/internal/step"
	"github.com/capstan-dev/capstan/internal/world"
)

// threeWrites makes one write of each kind and returns how many succeeded before the first that did not.
func threeWrites(ctx context.Context, a step.Actuator) (int, error) {
	ref := world.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "c"}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "n", "name": "c"},
	}}
	for i, write := range []func() error{
		func() error { return a.Apply(ctx, obj) },
		func() error { return a.Patch(ctx, ref, []byte(`{"data":{"k":"v"}}`)) },
		func() error { return a.Delete(ctx, ref, step.Cascade) },
	} {
		if err := write(); err != nil {
			return i, err
		}
	}
	return 3, nil
}

func TestFaultyDiesAtAWriteAndStaysDead(t *testing.T) {
	t.Parallel()
	all := []string{"apply ConfigMap n/c", "patch ConfigMap n/c", "delete ConfigMap n/c"}
	for name, tc := range map[string]struct {
		at       int
		when     actuate.Moment
		wantOK   int
		wantMade []string
	}{
		"without a fault all writes are made":                   {wantOK: 3, wantMade: all},
		"before the first write nothing is made":                {at: 1, when: actuate.Before},
		"after the first write it is made and its answer lost":  {at: 1, when: actuate.After, wantMade: all[:1]},
		"before the third write two are made":                   {at: 3, when: actuate.Before, wantOK: 2, wantMade: all[:2]},
		"after the third write all are made, the last one lost": {at: 3, when: actuate.After, wantOK: 2, wantMade: all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder := &actuate.Recorder{}
			faulty := &actuate.Faulty{Next: recorder, At: tc.at, When: tc.when}
			n, err := threeWrites(t.Context(), faulty)
			if n != tc.wantOK {
				t.Errorf("%d writes succeeded, want %d", n, tc.wantOK)
			}
			if dead := tc.at != 0; errors.Is(err, actuate.ErrCrash) != dead {
				t.Errorf("error is %v, want a crash: %t", err, dead)
			}
			if tc.at != 0 {
				if again, err := threeWrites(t.Context(), faulty); again != 0 || !errors.Is(err, actuate.ErrCrash) {
					t.Errorf("after its death %d writes succeeded, error %v", again, err)
				}
			}
			var made []string
			for _, c := range recorder.Calls() {
				made = append(made, c.String())
			}
			if diff := cmp.Diff(made, tc.wantMade); diff != "" {
				t.Errorf("made, got -, want +:\n%s", diff)
			}
		})
	}
}
