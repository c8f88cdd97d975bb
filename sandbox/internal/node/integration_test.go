// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/sandbox/internal/netns"
)

const (
	// envBin points at a directory with etcd and the kube binaries.
	envBin = "CAPSTAN_SANDBOX_BIN"
	// envInside is set in the sandbox the test makes for itself.
	envInside = "CAPSTAN_NODE_TEST_INSIDE"
)

// TestSandboxRunsPods enters a sandbox and runs TestInside there.
func TestSandboxRunsPods(t *testing.T) {
	if os.Getenv(envBin) == "" {
		t.Skipf("set %s to a directory with etcd, kube-apiserver, kube-controller-manager and kube-scheduler", envBin)
	}
	exe, err := os.Executable()
	must(t, err)
	run := "^TestInside$"
	if pattern := os.Getenv("CAPSTAN_NODE_TEST_RUN"); pattern != "" {
		run += "/" + pattern
	}
	cmd, err := netns.Start(netns.Options{
		Init: []string{exe, "netns-init"}, Argv: []string{exe, "-test.run=" + run, "-test.v=" + vFlag(), "-test.timeout=3m"},
		Env: append(os.Environ(), envInside+"=1"), Stdout: os.Stdout, Stderr: os.Stderr, DieWithParent: true,
	})
	must(t, err)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("inside the sandbox: %v", err)
	}
}

func vFlag() string {
	if testing.Verbose() {
		return "true"
	}
	return "false"
}

type fixture struct {
	*cluster
	agent *Agent
	image string
}

func TestInside(t *testing.T) {
	if os.Getenv(envInside) == "" {
		t.Skip("runs in a sandbox only: see TestSandboxRunsPods")
	}
	ctx, cancel := context.WithCancel(t.Context())
	network, err := netns.NewPodNetwork()
	must(t, err)
	host := network.Gateway().String()
	c := startCluster(ctx, t, os.Getenv(envBin), host)
	c.push(t, "example.org/app:v1", nil)
	exe, err := os.Executable()
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("CAPSTAN_NODE_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	agent, err := New(Config{
		Client: c.client, NodeName: "node-1", NodeIP: network.Gateway(), Registry: c.registry, Dir: c.dir,
		APIHost: host, APIPort: 6443, Network: network, SelfArgs: []string{exe, "container-init"}, Log: log, BackoffScale: 0.1,
	})
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("agent: %v", err)
		}
	}()
	c.ready(ctx, t, "node-1")
	f := &fixture{cluster: c, agent: agent, image: "example.org/app:v1"}
	for name, test := range map[string]func(context.Context, *testing.T, *fixture){
		"a Pod runs with its environment, volumes, token and logs":          testRuns,
		"a missing image is reported and heals when it is pushed":           testMissingImage,
		"a crashing container backs off":                                    testCrashLoop,
		"a container over its memory limit is OOMKilled":                    testOOM,
		"a command that does not exist is a StartError":                     testNoCommand,
		"a hardened container can't write to its root":                      testHardened,
		"a Pod waits for its Secret and sees it change":                     testSecret,
		"init containers run in order and a finished Pod has Succeeded":     testInit,
		"a deleted Pod gets SIGTERM and is gone":                            testDelete,
		"readiness and liveness probes work":                                testProbes,
		"a Pod that asks for too much is Unschedulable until there is room": testUnschedulable,
	} {
		t.Run(name, func(t *testing.T) { test(ctx, t, f) })
	}
}

// pod returns a Pod with one container, changed by change.
func (f *fixture) pod(ctx context.Context, t *testing.T, name string, args []string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](5),
			Containers:                    []corev1.Container{{Name: "main", Image: f.image, Args: args, ImagePullPolicy: corev1.PullIfNotPresent}},
		},
	}
	if change != nil {
		change(pod)
	}
	pod, err := f.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		err := f.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)})
		if err != nil && !strings.Contains(err.Error(), "not found") {
			t.Error(err)
		}
	})
	return pod
}

// until waits until the Pod is as check wants it.
func (f *fixture) until(ctx context.Context, t *testing.T, name, what string, check func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var last *corev1.Pod
	defer func() {
		if t.Failed() && last != nil {
			t.Logf("last status: %+v", last.Status)
			for _, previous := range []bool{true, false} {
				data, err := f.client.CoreV1().Pods("default").GetLogs(name, &corev1.PodLogOptions{Previous: previous}).DoRaw(ctx)
				t.Logf("log (previous: %t): %s %v", previous, data, err)
			}
			events, err := f.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
			for _, e := range events.Items {
				t.Logf("event: %s %s (%d) %v", e.Reason, e.Message, e.Count, err)
			}
		}
	}()
	eventually(ctx, t, "Pod "+name+" "+what, func(ctx context.Context) (bool, error) {
		pod, err := f.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		last = pod
		return check(pod), nil
	})
	return last
}

func (f *fixture) logs(ctx context.Context, t *testing.T, name string, opts corev1.PodLogOptions) string {
	t.Helper()
	stream, err := f.client.CoreV1().Pods("default").GetLogs(name, &opts).Stream(ctx)
	must(t, err)
	defer stream.Close()
	data, err := io.ReadAll(stream)
	must(t, err)
	return string(data)
}

func wantLines(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing in:\n%s", line, got)
		}
	}
}

func waiting(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Waiting != nil {
			return s.State.Waiting.Reason
		}
	}
	return ""
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func testRuns(ctx context.Context, t *testing.T, f *fixture) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"color": "blue"}}
	_, err := f.client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{})
	must(t, err)
	f.pod(ctx, t, "runs", []string{
		"whoami", "env=FROM_IMAGE", "env=KUBERNETES_SERVICE_HOST", "print=node is $(NODE), $$(NODE)", "env=COLOR", "cat=/etc/settings/color",
		"cat=/var/run/secrets/kubernetes.io/serviceaccount/namespace", "cat=/etc/hostname", "write=/tmp/x:1", "write=/scratch/y:2", "cat=/scratch/y",
		"write=/dev/termination-log:bye", "term",
	}, func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{
			{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
			{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "color",
			}}},
		}
		p.Spec.Volumes = []corev1.Volume{
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
			}}},
		}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
			{Name: "scratch", MountPath: "/scratch"}, {Name: "settings", MountPath: "/etc/settings"},
		}
	})
	begin := time.Now()
	pod := f.until(ctx, t, "runs", "is ready", isReady)
	t.Logf("ready after %s", time.Since(begin))
	if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" || pod.Status.HostIP == "" || pod.Status.StartTime == nil {
		t.Errorf("status: %+v", pod.Status)
	}
	logs := ""
	eventually(ctx, t, "log is complete", func(ctx context.Context) (bool, error) {
		logs = f.logs(ctx, t, "runs", corev1.PodLogOptions{})
		return strings.Contains(logs, "/scratch/y"), nil
	})
	t.Log(logs)
	wantLines(t, logs, "pid=1 ", "wd=/ host=runs", "FROM_IMAGE=yes", "KUBERNETES_SERVICE_HOST=10.244.0.1", "node is node-1, $(NODE)",
		"COLOR=blue", "/etc/settings/color: blue", "namespace: default", "/etc/hostname: runs", "/scratch/y: 2")
	if got := f.logs(ctx, t, "runs", corev1.PodLogOptions{TailLines: ptr.To[int64](1)}); got != "/scratch/y: 2\n" {
		t.Errorf("tail: %q", got)
	}
}

func testMissingImage(ctx context.Context, t *testing.T, f *fixture) {
	f.pod(ctx, t, "missing", []string{"term"}, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "example.org/later:v1" })
	pod := f.until(ctx, t, "missing", "has ErrImagePull", func(p *corev1.Pod) bool { return waiting(p) == waitErrPull })
	wantLines(t, pod.Status.ContainerStatuses[0].State.Waiting.Message, "example.org/later:v1", "404")
	pod = f.until(ctx, t, "missing", "has ImagePullBackOff", func(p *corev1.Pod) bool { return waiting(p) == waitPullBackOff })
	wantLines(t, pod.Status.ContainerStatuses[0].State.Waiting.Message, "Back-off pulling image \"example.org/later:v1\"")
	f.push(t, "example.org/later:v1", nil)
	f.until(ctx, t, "missing", "is ready", isReady)
}

func testCrashLoop(ctx context.Context, t *testing.T, f *fixture) {
	f.pod(ctx, t, "crash", []string{"print=about to fail", "exit=3"}, func(p *corev1.Pod) {
		p.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	})
	pod := f.until(ctx, t, "crash", "is in CrashLoopBackOff", func(p *corev1.Pod) bool { return waiting(p) == waitCrashLoop })
	s := pod.Status.ContainerStatuses[0]
	last := s.LastTerminationState.Terminated
	if last == nil || last.ExitCode != 3 || last.Reason != reasonError || last.Message != "about to fail\n" || s.RestartCount != 1 {
		t.Errorf("container status: %+v", s)
	}
	f.until(ctx, t, "crash", "was restarted 3 times", func(p *corev1.Pod) bool { return p.Status.ContainerStatuses[0].RestartCount >= 3 })
	wantLines(t, f.logs(ctx, t, "crash", corev1.PodLogOptions{Previous: true, Timestamps: true}), "Z about to fail")
}

func testOOM(ctx context.Context, t *testing.T, f *fixture) {
	f.pod(ctx, t, "oom", []string{"alloc=200"}, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	pod := f.until(ctx, t, "oom", "has Failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	end := pod.Status.ContainerStatuses[0].State.Terminated
	if end == nil || end.Reason != reasonOOMKilled || end.ExitCode != 137 {
		t.Errorf("terminated: %+v", end)
	}
}

func testNoCommand(ctx context.Context, t *testing.T, f *fixture) {
	f.pod(ctx, t, "nocommand", nil, func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"/bin/nothing"} })
	f.until(ctx, t, "nocommand", "has RunContainerError", func(p *corev1.Pod) bool { return waiting(p) == waitRunError })
	pod := f.until(ctx, t, "nocommand", "is in CrashLoopBackOff", func(p *corev1.Pod) bool { return waiting(p) == waitCrashLoop })
	last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last == nil || last.Reason != reasonStartError || last.ExitCode != 128 || !strings.Contains(last.Message, "no such file") {
		t.Errorf("last: %+v", last)
	}
}

func testHardened(ctx context.Context, t *testing.T, f *fixture) {
	f.pod(ctx, t, "hardened", []string{"whoami", "write=/scratch/x:1", "write=/x:1"}, func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.SecurityContext = &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	})
	f.until(ctx, t, "hardened", "has Failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	wantLines(t, f.logs(ctx, t, "hardened", corev1.PodLogOptions{}), "pid=1", "open /x: read-only file system")
}

func testSecret(ctx context.Context, t *testing.T, f *fixture) {
	f.pod(ctx, t, "secret", []string{"serve=:8080", "term"}, func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "cert", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "cert"}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "cert", MountPath: "/cert", ReadOnly: true}}
	})
	eventually(ctx, t, "FailedMount is reported", func(ctx context.Context) (bool, error) {
		events, err := f.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=secret,reason=FailedMount"})
		return err == nil && len(events.Items) > 0, err
	})
	f.until(ctx, t, "secret", "is waiting", func(p *corev1.Pod) bool { return waiting(p) == waitCreating })
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cert"}, StringData: map[string]string{"tls.crt": "one"}}
	_, err := f.client.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{})
	must(t, err)
	pod := f.until(ctx, t, "secret", "is ready", isReady)
	url := "http://" + pod.Status.PodIP + ":8080/file/cert/tls.crt"
	untilBody(ctx, t, url, "one")
	secret.StringData["tls.crt"] = "two"
	_, err = f.client.CoreV1().Secrets("default").Update(ctx, secret, metav1.UpdateOptions{})
	must(t, err)
	untilBody(ctx, t, url, "two")
}

func testInit(ctx context.Context, t *testing.T, f *fixture) {
	f.pod(ctx, t, "init", []string{"cat=/shared/b", "exit=0"}, func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.Volumes = []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		mounts := []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}}
		p.Spec.Containers[0].VolumeMounts = mounts
		p.Spec.InitContainers = []corev1.Container{
			{Name: "side", Image: f.image, Args: []string{"term"}, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
			{Name: "a", Image: f.image, Args: []string{"write=/shared/a:1"}, VolumeMounts: mounts},
			{Name: "b", Image: f.image, Args: []string{"cat=/shared/a", "write=/shared/b:2"}, VolumeMounts: mounts},
		}
	})
	pod := f.until(ctx, t, "init", "has Succeeded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
			t.Errorf("container %s: %+v", s.Name, s.State)
		}
	}
	wantLines(t, f.logs(ctx, t, "init", corev1.PodLogOptions{Container: "main"}), "/shared/b: 2")
}

func testDelete(ctx context.Context, t *testing.T, f *fixture) {
	f.pod(ctx, t, "delete", []string{"print=up", "term"}, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60) })
	f.until(ctx, t, "delete", "is ready", isReady)
	follow, err := f.client.CoreV1().Pods("default").GetLogs("delete", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	must(t, err)
	defer follow.Close()
	begin := time.Now()
	must(t, f.client.CoreV1().Pods("default").Delete(ctx, "delete", metav1.DeleteOptions{}))
	data, err := io.ReadAll(follow)
	must(t, err)
	wantLines(t, string(data), "terminated")
	eventually(ctx, t, "Pod is gone", func(ctx context.Context) (bool, error) {
		_, err := f.client.CoreV1().Pods("default").Get(ctx, "delete", metav1.GetOptions{})
		return err != nil, nil
	})
	t.Logf("gone after %s", time.Since(begin))
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("deletion took %s", took)
	}
}
