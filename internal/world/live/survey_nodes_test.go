// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/world"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestCountsInTheWordsOfEitherVersion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		object string
		want   world.Counts
	}{
		"v1beta2": {
			object: "{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 2, replicas: 4, readyReplicas: 3, availableReplicas: 2, upToDateReplicas: 1}}",
			want:   world.Counts{Desired: 3, Current: 4, Ready: 3, Available: 2, UpToDate: 1, Known: true},
		},
		"v1beta1 with the newer counts": {
			object: "{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 1, replicas: 3, readyReplicas: 1, updatedReplicas: 3, v1beta2: {readyReplicas: 2, availableReplicas: 2, upToDateReplicas: 2}}}",
			want:   world.Counts{Desired: 3, Current: 3, Ready: 2, Available: 2, UpToDate: 2},
		},
		"v1beta1 of old": {
			object: "{spec: {replicas: 3}, status: {replicas: 3, readyReplicas: 3, updatedReplicas: 3}}",
			want:   world.Counts{Desired: 3, Current: 3, Ready: 3, UpToDate: 3, Known: true},
		},
		"nothing said yet": {object: "{spec: {replicas: 1}}", want: world.Counts{Desired: 1, UpToDate: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, countsOf(object(t, "{apiVersion: a/v1, kind: A, "+tc.object[1:]))); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhereAControlPlaneKeepsItsData(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind, spec string
		want       world.Etcd
	}{
		"kubeadm":                       {kind: "KubeadmControlPlane", spec: "{}", want: world.EtcdStacked},
		"kubeadm with a local etcd":     {kind: "KubeadmControlPlane", spec: "{kubeadmConfigSpec: {clusterConfiguration: {etcd: {local: {dataDir: /x}}}}}", want: world.EtcdStacked},
		"kubeadm with an external etcd": {kind: "KubeadmControlPlane", spec: "{kubeadmConfigSpec: {clusterConfiguration: {etcd: {external: {endpoints: [a]}}}}}", want: world.EtcdExternal},
		"k0s":                           {kind: "K0sControlPlane", spec: "{}", want: world.EtcdStacked},
		"k0s with another storage":      {kind: "K0sControlPlane", spec: "{k0sConfigSpec: {k0s: {spec: {storage: {type: kine}}}}}", want: world.EtcdExternal},
		"RKE2":                          {kind: "RKE2ControlPlane", spec: "{}", want: world.EtcdStacked},
		"a hosted one":                  {kind: "KamajiControlPlane", spec: "{}", want: world.EtcdUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := object(t, "apiVersion: controlplane.cluster.x-k8s.io/v1beta1\nkind: "+tc.kind+"\nspec: "+tc.spec+"\n")
			if got := etcdOf(u); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestPreflightsInConditionsOfEitherForm(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	set := world.Ref{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Namespace: "d", Name: "s"}
	for name, tc := range map[string]struct {
		status string
		want   []world.Preflight
	}{
		"the newer form, two checks": {
			status: `{conditions: [{type: ScalingUp, status: "True", reason: ScalingUp, lastTransitionTime: "2026-01-01T00:00:00Z", message: "Scaling up from 0 to 3 replicas is blocked because:\n* K d/cp is upgrading (\"ControlPlaneIsStable\" preflight check failed)\n* too old (\"KubeadmVersionSkew\" preflight check failed)"}]}`,
			want: []world.Preflight{
				{Set: set, Check: "ControlPlaneIsStable", Message: "K d/cp is upgrading", Since: since},
				{Set: set, Check: "KubeadmVersionSkew", Message: "too old", Since: since},
			},
		},
		"the same in both forms counts once": {
			status: `{v1beta2: {conditions: [{type: ScalingUp, reason: ScalingUp, message: "x is blocked because:\n* a is b (\"ControlPlaneIsStable\" preflight check failed)"}]}, conditions: [{type: MachinesCreated, status: "False", reason: PreflightCheckFailed, message: "a is b (\"ControlPlaneIsStable\" preflight check failed)"}]}`,
			want:   []world.Preflight{{Set: set, Check: "ControlPlaneIsStable", Message: "a is b"}},
		},
		"an older one without a name": {
			status: `{conditions: [{type: MachinesCreated, status: "False", reason: PreflightCheckFailed, message: "control plane is not stable"}]}`,
			want:   []world.Preflight{{Set: set, Message: "control plane is not stable"}},
		},
		"nothing is held": {status: `{conditions: [{type: ScalingUp, status: "False", reason: NotScalingUp}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := object(t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineSet\nmetadata: {namespace: d, name: s}\nstatus: "+tc.status+"\n")
			if diff := cmp.Diff(tc.want, preflightsOf(u)); diff != "" {
				t.Errorf("preflights (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBlockingHooksInTheTopologysWords(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		message string
		want    []world.HookWait
	}{
		"one among other lines": {
			message: "Cluster is upgrading to v1.34.1\n  * Following hooks are blocking upgrade: BeforeClusterUpgrade: not yet: disk full\n  * KubeadmControlPlane pending upgrade to version v1.34.1",
			want:    []world.HookWait{{Hook: "BeforeClusterUpgrade", Message: "not yet: disk full"}},
		},
		"several": {
			message: "Following hooks are blocking upgrade: AfterControlPlaneUpgrade: one; two; BeforeWorkersUpgrade",
			want:    []world.HookWait{{Hook: "AfterControlPlaneUpgrade", Message: "one; two"}, {Hook: "BeforeWorkersUpgrade"}},
		},
		"an older Cluster API": {
			message: `hook "BeforeClusterUpgrade" is blocking: not yet`,
			want:    []world.HookWait{{Hook: "BeforeClusterUpgrade", Message: `hook "BeforeClusterUpgrade" is blocking: not yet`}},
		},
		"none": {message: "KubeadmControlPlane upgrading to version v1.34.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, blockingHooks(tc.message)); diff != "" {
				t.Errorf("hooks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVersionsWrittenIntoTemplates(t *testing.T) {
	t.Parallel()
	u := object(t, `
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: K0sWorkerConfigTemplate
spec:
  template:
    spec:
      version: v1.30.4+k0s.0
      preStartCommands: ["apt-get install -y kubelet=1.30.4-1.1", "curl https://pkgs.example.org/core:/stable:/v1.31/deb"]
      files: [{content: "containerd 1.7.2, address 10.31.0.1"}]
`)
	want := map[string]string{
		"spec.template.spec.version": "v1.30.4+k0s.0", "spec.template.spec.preStartCommands[0]": "1.30.4", "spec.template.spec.preStartCommands[1]": "v1.31",
	}
	if diff := cmp.Diff(want, versionsIn(u, versionWord())); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

func TestWhoSetAField(t *testing.T) {
	t.Parallel()
	entry := func(manager, fields string, hour int) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC))
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	by, at := setter([]metav1.ManagedFieldsEntry{
		entry("old", `{"f:spec":{"f:paused":{}}}`, 1), entry("new", `{"f:spec":{"f:paused":{}}}`, 2), entry("other", `{"f:spec":{"f:replicas":{}}}`, 3),
	}, "f:spec", "f:paused")
	if by != "new" || at.Hour() != 2 {
		t.Errorf("set by %q at %s, want new at 02:00", by, at)
	}
}
