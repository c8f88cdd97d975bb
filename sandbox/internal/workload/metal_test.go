// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHostsOfPools(t *testing.T) {
	t.Parallel()
	const c, w = PoolControlPlane, PoolWorkers
	for name, tc := range map[string]struct {
		count, controlPlanes, workers int
		want                          []string
	}{
		"as many as machines":                      {5, 3, 2, []string{c, c, c, w, w}},
		"the first spare is for the control plane": {6, 3, 2, []string{c, c, c, w, w, c}},
		"the second for the workers":               {7, 3, 2, []string{c, c, c, w, w, c, w}},
		"without workers":                          {2, 1, 0, []string{c, c}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			macs := map[string]bool{}
			for _, h := range Hosts(1, tc.count, tc.controlPlanes, tc.workers) {
				got = append(got, h.Pool)
				macs[h.MAC] = true
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("pools (-got +want):\n%s", diff)
			}
			if len(macs) != tc.count {
				t.Errorf("%d hosts share %d addresses", tc.count, len(macs))
			}
		})
	}
}

func TestObjectsOnMetal(t *testing.T) {
	t.Parallel()
	c := Cluster{Name: "metal-1", Namespace: "metal-1", Kubernetes: "v1.36.3", ControlPlanes: 1, Workers: 1, Metal: &Metal{
		Hosts: Hosts(1, 2, 1, 1), EndpointHost: "192.0.2.1", EndpointPort: 20000, Image: Images("v1.36.3")[0],
	}}
	objects, err := c.Objects()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range objects {
		got = append(got, u.GetKind()+" "+u.GetName())
	}
	// Hosts come before the Cluster: see Apply.
	want := []string{
		"Namespace metal-1", "Secret host-1-bmc", "BareMetalHost host-1", "Secret host-2-bmc", "BareMetalHost host-2",
		"Cluster metal-1", "Metal3Cluster metal-1", "Metal3MachineTemplate metal-1-control-plane", "KubeadmControlPlane metal-1-control-plane",
		"Metal3MachineTemplate metal-1-workers", "KubeadmConfigTemplate metal-1-workers", "MachineDeployment metal-1-workers",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("objects (-got +want):\n%s", diff)
	}
}
