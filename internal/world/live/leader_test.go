// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/world"
)

func TestAwaitsLeader(t *testing.T) {
	t.Parallel()
	lease := func(name, holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new(holder)}}
	}
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "manager-7c9f8d6b5-x2x2x"}}}
	for name, tc := range map[string]struct {
		leases []*coordinationv1.Lease
		want   string
		// wantStale tells that a lease is held by a Pod that is not among the Deployment's.
		wantStale bool
	}{
		"no lease at all":                       {},
		"the new Pod leads":                     {leases: []*coordinationv1.Lease{lease("l", "manager-7c9f8d6b5-x2x2x_4f")}},
		"the new Pod leads beside a free lease": {leases: []*coordinationv1.Lease{lease("a", ""), lease("l", "manager-7c9f8d6b5-x2x2x_4f")}},
		"the old Pod has not let go": {
			leases: []*coordinationv1.Lease{lease("l", "manager-6b7f8d6b5-z9z9z_4f")},
			want:   "none of its Pods leads yet, Lease ns/l is still held by manager-6b7f8d6b5-z9z9z_4f", wantStale: true,
		},
		"the old Pod let go and nobody took it": {
			leases: []*coordinationv1.Lease{lease("l", "")},
			want:   "none of its Pods leads yet, Lease ns/l is free",
		},
		"another Deployment whose name begins alike": {leases: []*coordinationv1.Lease{lease("l", "manager-cainjector-6b7f8d6b5-z9z9z_4f")}},
		"a free lease elsewhere is anybody's":        {leases: []*coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "x"}}}},
		"somebody else":                              {leases: []*coordinationv1.Lease{lease("l", "node-1")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, stale := awaitsLeader(world.Ref{Kind: "Deployment", Namespace: "ns", Name: "manager"}, pods, tc.leases)
			if got != tc.want || (stale != nil) != tc.wantStale {
				t.Errorf("got %q, stale %v; want %q, stale %t", got, stale, tc.want, tc.wantStale)
			}
		})
	}
}
