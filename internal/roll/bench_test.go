// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"fmt"
	"testing"

	"github.com/capstan-dev/capstan/internal/world"
)

// BenchmarkPlan plans 500 clusters with 10,000 Machines, all hosts in one namespace and open to every pool.
func BenchmarkPlan(b *testing.B) {
	maps, err := BuiltIn()
	if err != nil {
		b.Fatal(err)
	}
	t := &testing.T{}
	var clusters []world.PoolCluster
	var hosts []world.BareHost
	for i := range 500 {
		c := bareCluster(t, fmt.Sprintf("c%03d", i), 3, 17)
		hosts = append(hosts, c.Hosts...)
		clusters = append(clusters, c)
	}
	for i := range clusters {
		clusters[i].Hosts = hosts
	}
	for b.Loop() {
		r, err := Plan(clusters, picture(), Options{Maps: maps})
		if err != nil || len(r.Pools) != 1000 {
			b.Fatalf("Plan() = %v", err)
		}
	}
}
