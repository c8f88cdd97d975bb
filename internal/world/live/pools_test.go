// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

func TestWhatAMachineWaitsFor(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const going = "deletionTimestamp: '2025-12-31T23:00:00Z'"
	for name, tc := range map[string]struct {
		metadata, status, infrastructure string
		message, reason                  string
		since                            time.Time
	}{
		"a drain in the newer form tells when it began": {
			metadata: going,
			status: `{deletion: {nodeDrainStartTime: '2026-01-01T00:00:00Z'}, conditions: [{type: Deleting, status: 'True', reason: DrainingNode,
				lastTransitionTime: '2025-12-31T23:00:00Z', message: "* Pod app/db-0: cannot evict pod as it would violate the pod's disruption budget. PDB app/db"}]}`,
			message: "* Pod app/db-0: cannot evict pod as it would violate the pod's disruption budget. PDB app/db", reason: "DrainingNode", since: since,
		},
		"a drain in v1beta1 with the newer conditions": {
			metadata: going,
			status: `{v1beta2: {conditions: [{type: Deleting, status: 'True', reason: DrainingNode, lastTransitionTime: '2026-01-01T00:00:00Z', message: new}]},
				conditions: [{type: DrainingSucceeded, status: 'False', reason: Draining, message: old}]}`,
			message: "new", reason: "DrainingNode", since: since,
		},
		"a drain in the old conditions": {
			metadata: going,
			status:   `{conditions: [{type: DrainingSucceeded, status: 'False', reason: Draining, message: "Pod app/db-0", lastTransitionTime: '2026-01-01T00:00:00Z'}]}`,
			message:  "Pod app/db-0", reason: "DrainingNode", since: since,
		},
		"volumes in the old conditions, after the drain": {
			metadata: going,
			status:   `{conditions: [{type: DrainingSucceeded, status: 'True'}, {type: VolumeDetachSucceeded, status: 'False', reason: WaitingForVolumeDetach}]}`,
			message:  "WaitingForVolumeDetach", reason: "WaitingForVolumeDetach",
		},
		"infrastructure that goes in the old conditions": {
			metadata: going, status: `{conditions: [{type: InfrastructureReady, status: 'False', reason: Deleting, message: deprovisioning}]}`,
			message: "deprovisioning", reason: "WaitingForInfrastructureDeletion",
		},
		"a deletion that nothing is said of": {metadata: going, status: "{}", message: "it is being deleted", reason: "Deleting", since: since.Add(-time.Hour)},
		"no host, in the infrastructure's own words": {
			status:         `{conditions: [{type: InfrastructureReady, status: 'False', reason: NotReady, message: summary}]}`,
			infrastructure: `{conditions: [{type: Updating, status: 'False', reason: NotUpdating}, {type: Paused, status: 'False', reason: x}, {type: Ready, status: 'False', reason: x, message: y}, {type: AssociateBMH, status: 'False', reason: WaitingForBMH, message: no available host found}]}`,
			message:        "AssociateBMH: no available host found", reason: "WaitingForBMH",
		},
		"infrastructure that says nothing": {
			status:  `{conditions: [{type: BootstrapReady, status: 'True'}, {type: InfrastructureReady, status: 'False', reason: WaitingForInfrastructure}]}`,
			message: "WaitingForInfrastructure", reason: "WaitingForInfrastructure", infrastructure: "{}",
		},
		"a configuration that is missing comes first": {
			status:  `{conditions: [{type: InfrastructureReady, status: 'False', message: b}, {type: BootstrapConfigReady, status: 'False', reason: NotReady, message: a}]}`,
			message: "a", reason: "NotReady",
		},
		"a node that does not join": {
			status:  `{conditions: [{type: InfrastructureReady, status: 'True'}, {type: NodeHealthy, status: Unknown, reason: NodeInspectionFailed, message: waiting for a Node}]}`,
			message: "waiting for a Node", reason: "NodeInspectionFailed",
		},
		"a node that is there waits for nothing": {status: `{nodeRef: {name: node-1}, conditions: [{type: InfrastructureReady, status: 'False', message: b}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := object(t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: m, "+tc.metadata+"}\nstatus: "+tc.status+"\n")
			infrastructure := object(t, "apiVersion: i/v1\nkind: I\nmetadata: {name: m}\n")
			if tc.infrastructure != "" {
				infrastructure = object(t, "apiVersion: i/v1\nkind: I\nmetadata: {name: m}\nstatus: "+tc.infrastructure+"\n")
			}
			message, reason, at := blockerOf(m, infrastructure)
			if message != tc.message || reason != tc.reason || !at.Equal(tc.since) {
				t.Errorf("got %q, %q, %s; want %q, %q, %s", message, reason, at, tc.message, tc.reason, tc.since)
			}
		})
	}
}

func TestPartsOfAControlPlaneThatAreNotWell(t *testing.T) {
	t.Parallel()
	const well = "{type: APIServerPodHealthy, status: 'True'}, {type: ControllerManagerPodHealthy, status: 'True'}, {type: SchedulerPodHealthy, status: 'True'}"
	const etcd = ", {type: EtcdPodHealthy, status: 'True'}, {type: EtcdMemberHealthy, status: 'False', reason: R, message: no leader}"
	for name, tc := range map[string]struct {
		status   string
		external bool
		want     []string
	}{
		"v1beta2":                       {status: "{conditions: [" + well + etcd + "]}", want: []string{"EtcdMemberHealthy: no leader"}},
		"v1beta1 with newer conditions": {status: "{conditions: [{type: Ready, status: 'True'}], v1beta2: {conditions: [" + well + etcd + "]}}", want: []string{"EtcdMemberHealthy: no leader"}},
		"the newer form counts where both are there": {
			status: "{v1beta2: {conditions: [" + well + etcd + "]}, conditions: [{type: EtcdMemberHealthy, status: 'True'}]}", want: []string{"EtcdMemberHealthy: no leader"},
		},
		"old conditions":   {status: "{conditions: [" + well + "], deprecated: {}}", want: []string{"EtcdPodHealthy: nothing is reported yet", "EtcdMemberHealthy: nothing is reported yet"}},
		"an external etcd": {status: "{conditions: [" + well + "]}", external: true},
		"nothing yet, with an external etcd": {status: "{}", external: true, want: []string{
			"APIServerPodHealthy: nothing is reported yet", "ControllerManagerPodHealthy: nothing is reported yet", "SchedulerPodHealthy: nothing is reported yet",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := object(t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: m}\nstatus: "+tc.status+"\n")
			if diff := cmp.Diff(tc.want, unhealthyParts(m, tc.external)); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestABareMetalHost(t *testing.T) {
	t.Parallel()
	got := bareHost(object(t, `
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata:
  namespace: metal
  name: h
  labels: {infrastructure.cluster.x-k8s.io/node-reuse: md-w}
  annotations: {baremetalhost.metal3.io/paused: '', capi.metal3.io/unhealthy: ''}
spec:
  online: true
  automatedCleaningMode: disabled
  rootDeviceHints: {deviceName: /dev/sda}
  consumerRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3Machine, name: m}
status:
  operationalStatus: error
  errorType: provisioning error
  errorMessage: checksum mismatch
  poweredOn: true
  provisioning: {state: provisioning, image: {url: 'http://a/b', checksum: abc}}
  hardware: {ramMebibytes: 16384, cpu: {arch: x86_64}, storage: [{name: /dev/sda, sizeBytes: 1000}]}
`))
	want := world.BareHost{
		Namespace: "metal", Name: "h", Labels: map[string]string{"infrastructure.cluster.x-k8s.io/node-reuse": "md-w"}, State: "provisioning", Operational: "error",
		Error: "checksum mismatch", Consumer: world.Ref{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine", Namespace: "metal", Name: "m"},
		Paused: true, Unhealthy: true, ReservedFor: "md-w", PoweredOn: true, Online: true, Cleaning: "disabled", Architecture: "x86_64", MemoryMiB: 16384,
		Disks: []world.Disk{{Name: "/dev/sda", SizeBytes: 1000}}, RootHints: true, Image: "http://a/b", ImageChecksum: "abc",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("host (-want +got):\n%s", diff)
	}
}

func TestHowANodeIs(t *testing.T) {
	t.Parallel()
	contents := v1alpha1.NodeImageContents{KernelVersion: "6"}
	for name, tc := range map[string]struct {
		node, status string
		reports      map[string]nodeReport
		trouble      string
	}{
		"the cluster's word counts":             {node: "n", status: "{conditions: [{type: NodeReady, status: 'False'}]}", reports: map[string]nodeReport{"n": {contents: contents}}},
		"a node in trouble":                     {node: "n", reports: map[string]nodeReport{"n": {trouble: "node n is cordoned"}}, trouble: "node n is cordoned"},
		"a node that the cluster does not have": {node: "n", reports: map[string]nodeReport{}, trouble: "node n is not in the cluster"},
		"no node":                               {trouble: "it has no node yet", reports: map[string]nodeReport{}},
		"by the Machine in v1beta1":             {node: "n", status: "{conditions: [{type: NodeHealthy, status: 'True'}]}"},
		"by the Machine in v1beta2":             {node: "n", status: "{conditions: [{type: NodeReady, status: 'False', message: kubelet stopped}]}", trouble: "kubelet stopped"},
		"by a Machine that does not say":        {node: "n", trouble: "Cluster API does not say how its node is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := world.RolledMachine{Node: tc.node}
			judgeNode(&m, object(t, "apiVersion: a/v1\nkind: A\nstatus: "+tc.status+"\n"), tc.reports)
			if m.NodeTrouble != tc.trouble || m.NodeReady != (tc.trouble == "") {
				t.Errorf("got %t, %q; want %q", m.NodeReady, m.NodeTrouble, tc.trouble)
			}
		})
	}
}

func TestNodesInTrouble(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cordoned bool
		status   string
		want     string
	}{
		"ready":                    {status: "True"},
		"cordoned":                 {status: "True", cordoned: true, want: "node n is cordoned"},
		"not ready":                {status: "False", want: "node n is not Ready: stopped"},
		"a kubelet that is silent": {status: "Unknown", cordoned: true, want: "node n is not Ready: stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n leanNode
			n.Metadata.Name, n.Spec.Unschedulable = "n", tc.cordoned
			n.Status.Conditions = append(n.Status.Conditions, struct {
				Type    string `json:"type"`
				Status  string `json:"status"`
				Reason  string `json:"reason"`
				Message string `json:"message"`
			}{Type: "Ready", Status: tc.status, Message: "stopped"})
			if got := n.trouble(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestASetWithPoolsIsNeverTakenAsItWas(t *testing.T) {
	t.Parallel()
	m := newMemo()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m.setSet(world.Want{ID: "a"}, world.Set{}, at)
	m.setSet(world.Want{ID: "b", Pools: []world.WantPool{{}}}, world.Set{}, at)
	_, plain := m.set(world.Want{ID: "a"}, at, time.Minute)
	_, pools := m.set(world.Want{ID: "b", Pools: []world.WantPool{{}}}, at, time.Minute)
	_, grown := m.set(world.Want{ID: "a", Pools: []world.WantPool{{}}}, at, time.Minute)
	if !plain || pools || grown {
		t.Errorf("trusted: a plain set %t, one with pools %t, one that got some %t; want only the first", plain, pools, grown)
	}
}
