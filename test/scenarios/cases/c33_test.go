// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// workload is a manager of a kind in docker-system.
func workload(kind, image string) string {
	template := `
  template:
    metadata: {labels: {app: manager}}
    spec: {restartPolicy: RESTART, containers: [{name: manager, image: "` + image + `", args: [--leader-elect]}]}
`
	restart, more := "Always", "\n  selector: {matchLabels: {app: manager}}"
	group := "apps/v1"
	switch kind {
	case "Job":
		restart, more, group = "Never", "", "batch/v1"
	case "StatefulSet":
		more += "\n  serviceName: manager\n  replicas: 2"
	case "Deployment":
		more += "\n  replicas: 2"
	}
	return docker + "---\napiVersion: " + group + "\nkind: " + kind + "\nmetadata: {name: manager, namespace: docker-system}\nspec:" + more + strings.ReplaceAll(template, "RESTART", restart)
}

// waitingPod is a new Pod whose container waits for a reason.
func waitingPod(image, reason, message string, restarts int) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: manager-new, namespace: docker-system, labels: {app: manager}}
spec: {nodeName: node-1, containers: [{name: manager, image: %q}]}
status:
  phase: Pending
  containerStatuses:
  - {name: manager, image: %q, imageID: "", ready: false, restartCount: %d, state: {waiting: {reason: %s, message: %q}}}
`, image, image, restarts, reason, message)
}

// TestC33_DoneMeansDone writes what controllers and kubelets report of a rollout that does not come to its end. None
// passes for success, the inventory stays at the old version, and the answer names what does not work.
func TestC33_DoneMeansDone(t *testing.T) {
	t.Parallel()
	const image = "registry.example.com/docker:v1.1.0"
	pull := waitingPod(image, "ImagePullBackOff", `Back-off pulling image "`+image+`": ErrImagePull: not found`, 0)
	available := `{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}`
	late := `{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "ReplicaSet \"manager-2\" has timed out progressing."}`
	for name, tc := range map[string]struct {
		kind string
		// status is of the workload once it was changed, pods is what there is beside.
		status, pods string
		pieces       []string
	}{
		"Available with a Pod that can't pull": {
			kind:   "Deployment",
			status: `{"observedGeneration": GEN, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "conditions": [` + available + `,` + late + `]}`,
			pods:   pull, pieces: []string{"Pod docker-system/manager-new", "ImageNotFound", "ImagePullBackOff", image},
		},
		"Available with a Pod that crashes": {
			kind:   "Deployment",
			status: `{"observedGeneration": GEN, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 2, "availableReplicas": 2, "conditions": [` + available + `]}`,
			pods:   waitingPod(image, "CrashLoopBackOff", "back-off 20s restarting failed container", 4), pieces: []string{"Pod docker-system/manager-new", "Crashing", image},
		},
		"Available for the spec before": {
			kind:   "Deployment",
			status: `{"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2, "conditions": [` + available + `]}`,
			pieces: []string{"has yet to see the change"},
		},
		"no new Pod is allowed": {
			kind: "Deployment",
			status: `{"observedGeneration": GEN, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "conditions": [` + available +
				`, {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "pods \"manager-2-x\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2"}]}`,
			pieces: []string{"exceeded quota", "ResourceQuota"},
		},
		"too late, without a word about a Pod": {
			kind:   "Deployment",
			status: `{"observedGeneration": GEN, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 2, "availableReplicas": 2, "conditions": [` + available + `,` + late + `]}`,
			pieces: []string{"timed out progressing"},
		},
		"a StatefulSet": {
			kind:   "StatefulSet",
			status: `{"observedGeneration": GEN, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "currentReplicas": 1}`,
			pods:   pull, pieces: []string{"Pod docker-system/manager-new", image},
		},
		"a DaemonSet": {
			kind:   "DaemonSet",
			status: `{"observedGeneration": GEN, "desiredNumberScheduled": 1, "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": 0, "numberMisscheduled": 0}`,
			pods:   pull, pieces: []string{"Pod docker-system/manager-new", image},
		},
		"a Job": {
			kind:   "Job",
			status: `{"active": 1, "ready": 0}`,
			pods:   strings.Replace(pull, "labels: {app: manager}", "labels: {app: manager, batch.kubernetes.io/controller-uid: UID, batch.kubernetes.io/job-name: manager, controller-uid: UID, job-name: manager}", 1),
			pieces: []string{"Pod docker-system/manager-new", image},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, apitest.Options{})
			old := part{name: "docker", version: "v1.0.0", provider: "InfrastructureProvider", manifests: workload(tc.kind, "registry.example.com/docker:v1.0.0")}
			b.installed(t, old)
			group := "apps/v1"
			if tc.kind == "Job" {
				group = "batch/v1"
				b.apply(t, docker)
			} else {
				b.apply(t, old.manifests)
			}
			next := old
			next.version, next.manifests = "v1.1.0", workload(tc.kind, image)
			dir := writeRelease(t, "v1.1.0", "", next)
			stop := b.report(t, group, tc.kind, image, tc.status, tc.pods)
			r := b.capstan(t, "upgrade", dir, "--yes", "--stall-limit", "4s")
			stop()
			want(t, r, problem.ExitFailed, append(tc.pieces, tc.kind+" docker-system/manager", "capstan resume")...)
			got := b.get(t, "clusterctl.cluster.x-k8s.io/v1alpha3", "Provider", "docker-system", "infrastructure-docker")
			if got.Object["version"] != "v1.0.0" {
				t.Errorf("the inventory says %v, want v1.0.0", got.Object["version"])
			}
		})
	}
}

// report writes a workload's status, as its controller would, and its Pods once it has the new image. The returned
// function ends that.
func (b *bed) report(t *testing.T, apiVersion, kind, image, status, pods string) func() {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace("docker-system")
	c := b.of(t, u)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			live, err := c.Get(ctx, "manager", metav1.GetOptions{})
			if err != nil || !strings.Contains(fmt.Sprint(live.Object["spec"]), image) {
				continue
			}
			text := strings.ReplaceAll(status, "GEN", fmt.Sprint(live.GetGeneration()))
			if pods != "" {
				b.apply(t, strings.ReplaceAll(pods, "UID", string(live.GetUID()))) //nolint:contextcheck // the bed's helpers take the test's
			}
			b.patch(t, live, `{"status": `+text+`}`, "status") //nolint:contextcheck // the bed's helpers take the test's
			return
		}
	}()
	return func() { cancel(); <-done }
}
