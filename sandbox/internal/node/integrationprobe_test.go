// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func untilBody(ctx context.Context, t *testing.T, url, want string) {
	t.Helper()
	eventually(ctx, t, url+" has "+want, func(ctx context.Context) (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false, nil
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return strings.TrimSpace(string(body)) == want, err
	})
}

func testProbes(ctx context.Context, t *testing.T, f *fixture) {
	probe := func(path string, failures int32) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: failures, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("web")},
		}}
	}
	f.pod(ctx, t, "probes", []string{"serve=:8080", "sleep=2s", "write=/tmp/ready:yes", "term"}, func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
		c.StartupProbe = probe("/", 30)
		c.ReadinessProbe = probe("/file/tmp/ready", 1)
		c.LivenessProbe = &corev1.Probe{
			PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 5,
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/app", "app", "exit=0"}}},
		}
	})
	f.until(ctx, t, "probes", "runs without being ready", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && !isReady(p)
	})
	pod := f.until(ctx, t, "probes", "is ready", isReady)
	if pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("restarted: %+v", pod.Status.ContainerStatuses[0])
	}
	f.pod(ctx, t, "sick", []string{"serve=:8080", "term"}, func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
		c.LivenessProbe = probe("/file/none", 2)
	})
	f.until(ctx, t, "sick", "was restarted by its liveness probe", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].RestartCount > 0
	})
}

func testUnschedulable(ctx context.Context, t *testing.T, f *fixture) {
	f.pod(ctx, t, "big", []string{"term"}, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Gi")}
	})
	f.until(ctx, t, "big", "is Unschedulable", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return strings.Contains(c.Message, "Insufficient memory")
			}
		}
		return false
	})
	f.agent.SetCapacity(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("200Gi")})
	defer f.agent.SetCapacity(nil)
	f.until(ctx, t, "big", "is ready", isReady)
}
