// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diff"
	"github.com/capstan-dev/capstan/internal/world"
)

// start is when the runs of the fixtures start.
func start() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }

// at is some seconds after start.
func at(seconds int) metav1.Time {
	return metav1.NewTime(start().Add(time.Duration(seconds) * time.Second))
}

func atp(seconds int) *metav1.Time { return new(at(seconds)) }

func prompt(words ...string) string { return "capstan " + strings.Join(words, " ") }

func provider(name, short, kind, from, to string, action v1alpha1.Action) v1alpha1.PlannedComponent {
	return v1alpha1.PlannedComponent{
		Name: name, Type: v1alpha1.ComponentProvider, From: from, To: to, Action: action, Strategy: v1alpha1.StrategyRolling,
		Artifact: "sha256:aa", Changes: 7, Objects: 40,
		Provider: &v1alpha1.ProviderIdentity{Name: short, Type: kind, Namespace: name + "-system"},
	}
}

func steps(component, to string, needs []string, verbs ...string) []v1alpha1.PlannedStep {
	summaries := map[string]string{
		"stop": "Stop the old controllers of " + component, "crds": "Apply 4 CRDs of " + component + " " + to,
		"swap": "Swap " + component + " to " + to, "record": "Record " + component + " " + to + " in the inventory",
		"storage": "Move the storage version of 1 CRDs of " + component,
	}
	var out []v1alpha1.PlannedStep
	for _, v := range verbs {
		st := v1alpha1.PlannedStep{ID: v + "/" + component + "/" + to, Summary: summaries[v], Component: component, Needs: needs}
		needs = []string{st.ID}
		out = append(out, st)
	}
	return out
}

// readySpec is a plan that may be run.
func readySpec() *v1alpha1.PlanSpec {
	kubeadm := provider("bootstrap-kubeadm", "kubeadm", "BootstrapProvider", "v1.13.4", "v1.14.2", v1alpha1.ActionUpgrade)
	kubeadm.Strategy = v1alpha1.StrategyStopThenStart
	kubeadm.Hazards = []v1alpha1.Hazard{{
		ID: "TwoActiveControllers", Message: "Deployment bootstrap-kubeadm-system/manager: leader election is switched off",
		Decision: "Stop the old controllers before the new ones start, for this component alone; the gap is measured",
	}}
	spec := &v1alpha1.PlanSpec{
		Kind:    v1alpha1.PlanPlatform,
		Release: v1alpha1.ReleaseReference{Name: "capi", Version: "v1.14.2", Digest: "sha256:bb"},
		Base:    v1alpha1.Base{ClusterUID: "uid", KubernetesVersion: "v1.36.3", Clusters: 1, Machines: 6, PlatformVersion: "v1.13.4"},
		Components: []v1alpha1.PlannedComponent{
			{Name: "cert-manager", Type: v1alpha1.ComponentManifest, From: "v1.19.0", To: "v1.19.0", Action: v1alpha1.ActionNone, Strategy: v1alpha1.StrategyRolling, Artifact: "sha256:cc"},
			provider("cluster-api", "cluster-api", "CoreProvider", "v1.13.4", "v1.14.2", v1alpha1.ActionUpgrade),
			kubeadm,
			provider("infrastructure-docker", "docker", "InfrastructureProvider", "", "v1.14.2", v1alpha1.ActionInstall),
		},
		Findings: []v1alpha1.Finding{{
			ID: "CAP-LEFT-CRD", Verdict: v1alpha1.VerdictWarn, Summary: "CRD old.cluster.x-k8s.io is no longer part of cluster-api",
			Remedy: "kubectl delete crd old.cluster.x-k8s.io, once nothing needs it",
		}},
		Forecast: v1alpha1.Forecast{
			Duration: metav1.Duration{Duration: 42 * time.Second}, Basis: "default: 2s a step, 6s a step that rolls a Deployment",
			Gaps: []string{"bootstrap-kubeadm: its old controllers are stopped before the new ones start"},
		},
		PointOfNoReturn: "storage/cluster-api/v1.14.2", Digest: "sha256:dd",
	}
	spec.Steps = append(spec.Steps, steps("cluster-api", "v1.14.2", nil, "crds", "swap", "storage", "record")...)
	spec.Steps = append(spec.Steps, steps("bootstrap-kubeadm", "v1.14.2", []string{"record/cluster-api/v1.14.2"}, "stop", "crds", "swap", "record")...)
	spec.Steps = append(spec.Steps, steps("infrastructure-docker", "v1.14.2", []string{"record/cluster-api/v1.14.2"}, "crds", "swap", "record")...)
	return spec
}

// blockedSpec has a finding that can be accepted and one that can't.
func blockedSpec() *v1alpha1.PlanSpec {
	spec := readySpec()
	spec.Findings = append([]v1alpha1.Finding{
		{
			ID: "CAP-DOWNGRADE", Verdict: v1alpha1.VerdictBlock, Summary: "cluster-api would go from v1.15.0 back to v1.14.2",
			Remedy: "choose a release with cluster-api v1.15.0 or later",
		},
		{
			ID: "CAP-FLEET-AT-REST", Verdict: v1alpha1.VerdictUnknown, Summary: "Cluster default/demo could not be read", Waivable: true,
			Remedy: "see why with: kubectl -n default get cluster demo",
		},
	}, spec.Findings...)
	return spec
}

// richSpec has one of everything that a plan's screen shows.
func richSpec() *v1alpha1.PlanSpec {
	spec := blockedSpec()
	deployment := v1alpha1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "cluster-api-system", Name: "manager"}
	core := &spec.Components[1]
	core.Kept = []v1alpha1.KeptSetting{{
		Object: deployment, Setting: "feature gate ClusterTopology of container manager", Value: "true", Release: "false",
	}}
	core.Replace = []v1alpha1.ObjectReference{{APIVersion: "v1", Kind: "Service", Namespace: "cluster-api-system", Name: "webhook"}}
	var behind []v1alpha1.ObjectReference
	for i := range 8 {
		name := "settings-" + string(rune('a'+i))
		core.Prune = append(core.Prune, v1alpha1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "cluster-api-system", Name: "old-" + name})
		behind = append(behind, v1alpha1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "cert-manager", Name: name})
	}
	spec.Findings = append(spec.Findings,
		v1alpha1.Finding{ID: "CAP-OBJECTS", Verdict: v1alpha1.VerdictWarn, Summary: "8 objects are shared with another release", Objects: behind},
		v1alpha1.Finding{
			ID: "CAP-NAMED", Verdict: v1alpha1.VerdictWarn, Objects: behind, Remedy: "nothing",
			Summary: "8 of 20 objects are not at v2: ConfigMap cert-manager/settings-a, ConfigMap cert-manager/settings-b, and 6 more",
		})
	return spec
}

func entries() []diff.Entry {
	return []diff.Entry{
		{
			Component: "cluster-api", Kind: diff.Change, Object: world.Ref{APIVersion: "v1", Kind: "Secret", Namespace: "cluster-api-system", Name: "creds"},
			Text: "--- live/cluster-api-system/Secret/creds\n+++ release/cluster-api-system/Secret/creds\n@@ -1,4 +1,4 @@\n apiVersion: v1\n data:\n" +
				"-  password: '*** (sha256 0a0b0c0d)'\n+  password: '*** (sha256 01020304)'\n kind: Secret\n",
		},
		{
			Component: "cluster-api", Kind: diff.Remove, Object: world.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "cluster-api-system", Name: "old"},
			Text: "--- live/cluster-api-system/ConfigMap/old\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-apiVersion: v1\n-kind: ConfigMap\n",
		},
	}
}

// doneSpec has nothing to do.
func doneSpec() *v1alpha1.PlanSpec {
	spec := readySpec()
	spec.Steps, spec.Findings, spec.PointOfNoReturn, spec.Forecast = nil, nil, "", v1alpha1.Forecast{Basis: "nothing to do"}
	for i := range spec.Components {
		c := &spec.Components[i]
		c.From, c.Action, c.Hazards = c.To, v1alpha1.ActionNone, nil
	}
	return spec
}

// runWith is a run of readySpec whose first n steps are done, two seconds each; the next one has begun.
func runWith(n int) *v1alpha1.Upgrade {
	u := &v1alpha1.Upgrade{
		ObjectMeta: metav1.ObjectMeta{Name: "to-v1.14.2-20260701-120000", CreationTimestamp: at(0)},
		Spec: v1alpha1.UpgradeSpec{
			Plan: "plan-dd", From: "v1.13.4", To: "v1.14.2", Intent: v1alpha1.IntentRun, RequestedBy: "ann@laptop",
			StallLimit: metav1.Duration{Duration: 2 * time.Minute},
		},
		Status: v1alpha1.UpgradeStatus{
			StartedAt: atp(0), Holder: "ann@laptop, process 42",
			Fence: &v1alpha1.FenceStatus{Machines: 6, Unchanged: 6, Probes: []v1alpha1.ProbeStatus{
				{Cluster: "default/demo", Total: 120},
			}},
		},
	}
	for i, st := range readySpec().Steps {
		if i > n {
			break
		}
		r := v1alpha1.StepRecord{ID: st.ID, State: v1alpha1.StepStarted, Attempts: 1, StartedAt: at(2 * i)}
		if i < n {
			r.State, r.FinishedAt = v1alpha1.StepDone, atp(2*i+2)
		}
		u.Status.Steps = append(u.Status.Steps, r)
	}
	return u
}

func conditions(u *v1alpha1.Upgrade, succeeded metav1.ConditionStatus, reason string, stalled metav1.ConditionStatus) *v1alpha1.Upgrade {
	u.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionSucceeded, Status: succeeded, Reason: reason, LastTransitionTime: at(20)},
		{Type: v1alpha1.ConditionStalled, Status: stalled, Reason: reason, LastTransitionTime: at(20)},
	}
	return u
}

// movingRun waits for an image.
func movingRun() *v1alpha1.Upgrade {
	u := runWith(1)
	u.Status.Waiting = []v1alpha1.Waiting{{Stop: imageStop(), Since: at(4), Definite: true}}
	return u
}

func imageStop() v1alpha1.Stop {
	return v1alpha1.Stop{
		Reason: v1alpha1.StopImageNotFound, Component: "cluster-api", Step: "swap/cluster-api/v1.14.2",
		Message: "Pod cluster-api-system/manager-5f can't start: image registry.local/capi:v1.14.2 does not exist",
		Remedy:  `push the image or correct its name, then run "capstan resume"`,
		Object:  &v1alpha1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "cluster-api-system", Name: "manager-5f"},
	}
}

// stoppedRun stands because of an image that does not exist.
func stoppedRun() *v1alpha1.Upgrade {
	u := conditions(movingRun(), metav1.ConditionFalse, v1alpha1.ReasonStopped, metav1.ConditionTrue)
	u.Status.Stops = []v1alpha1.Stop{imageStop()}
	return u
}

// violatedRun stands because a Machine was replaced.
func violatedRun() *v1alpha1.Upgrade {
	u := conditions(runWith(2), metav1.ConditionFalse, v1alpha1.ReasonFenceViolated, metav1.ConditionTrue)
	message := `KubeadmControlPlane default/demo of cluster default/demo made Machine demo-x and lost Machine demo-a although nobody asked for it: spec.version from "v1.35.0" to "v1.36.0"`
	u.Status.Stops = []v1alpha1.Stop{{
		Reason: v1alpha1.StopFenceViolated, Message: message, Remedy: "find out what made the change",
		Object: &v1alpha1.ObjectReference{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Namespace: "default", Name: "demo"},
	}}
	u.Status.Fence.Unchanged, u.Status.Fence.Violations, u.Status.Fence.Paused = 5, []string{message}, []string{"default/demo"}
	return u
}

// completedRun had a gap in its probes while a component was swapped.
func completedRun() *v1alpha1.Upgrade {
	u := conditions(runWith(len(readySpec().Steps)), metav1.ConditionTrue, v1alpha1.ReasonCompleted, metav1.ConditionFalse)
	u.Status.FinishedAt = atp(22)
	u.Spec.Accepted = []v1alpha1.AcceptedFinding{{ID: "CAP-FLEET-AT-REST", Reason: "demo is being scaled by us"}}
	u.Status.Fence.Expected = []string{"MachineDeployment default/md of cluster default/demo: was scaled from 3 to 4"}
	u.Status.Fence.Probes = []v1alpha1.ProbeStatus{
		{
			Cluster: "default/demo", Total: 120, Failed: 2, LongestGap: metav1.Duration{Duration: 3100 * time.Millisecond},
			Gaps: []string{"2026-07-01T12:00:19Z for 3.1s: connection refused"},
		},
		{Cluster: "default/other", Total: 118},
	}
	return u
}

func management(versions ...string) *world.World {
	w := &world.World{
		At: start(), FleetAt: start(),
		Management: world.Management{
			KubernetesVersion: "v1.36.3", Inventory: true,
			Manifests: []world.Manifest{{Name: "cert-manager", Version: "v1.19.0", RecordedBy: "clusterctl"}},
		},
		Clusters: []world.Cluster{{Namespace: "default", Name: "demo", Machines: make([]world.Machine, 6)}},
	}
	labels := []string{"cluster-api", "bootstrap-kubeadm"}
	for i, v := range versions {
		w.Management.Providers = append(w.Management.Providers, world.Provider{
			ManifestLabel: labels[i], Name: labels[i], Type: []string{"CoreProvider", "BootstrapProvider"}[i], Namespace: labels[i] + "-system", Version: v,
		})
	}
	return w
}
