// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/sandbox/internal/bundle"
	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// TestMain lets the test's own program play the roles that the sandbox starts itself again for.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case cmdNamespaceInit, cmdSupervise, cmdContainerInit:
			os.Exit(run(os.Args))
		}
	}
	os.Exit(m.Run())
}

const patience = 30 * time.Second

// TestLifeOfASandbox goes through a whole life: start, use, look, crash, clean up.
func TestLifeOfASandbox(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: this test starts a sandbox, and so would first build Kubernetes; `make test` sets it")
	}
	dir := t.TempDir()
	up := []string{"up", "--dir", dir, "--no-capi", "--node-memory", "1Gi"}
	t.Cleanup(func() {
		if _, errOut, code := runCLIWith(context.Background(), "down", "--dir", dir); code != exitDone { //nolint:usetesting // the test's context has ended
			t.Errorf("down: %s", errOut)
		}
	})
	mustRun(t, up...)

	t.Run("a second up has nothing to do", func(t *testing.T) {
		if _, errOut, code := runCLI(t, up...); code != exitDone || !strings.Contains(errOut, "up already") {
			t.Errorf("got exit code %d, stderr %q", code, errOut)
		}
	})
	t.Run("an up that asks for something else is refused", func(t *testing.T) {
		_, errOut, code := runCLI(t, "up", "--dir", dir, "--no-capi", "--node-memory", "2Gi")
		if code != exitError || !strings.Contains(errOut, "not what was asked for") {
			t.Errorf("got exit code %d, stderr %q", code, errOut)
		}
	})
	client := clientOf(t, strings.TrimSpace(mustRun(t, "kubeconfig", "--dir", dir)))
	t.Run("a Pod runs", func(t *testing.T) { podRuns(t, client) })
	t.Run("a dry run is no write", func(t *testing.T) { dryRunIsNoWrite(t, dir, client) })
	t.Run("the node can be changed", func(t *testing.T) {
		mustRun(t, "node", "set", "--dir", dir, "--memory", "300Mi")
		until(t, "the node offers 300Mi", func(ctx context.Context) (bool, error) {
			n, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
			return err == nil && n.Status.Allocatable.Memory().String() == "300Mi" && n.Status.Allocatable.Cpu().String() == "4", err
		})
	})
	t.Run("an image gets another name and loses it", func(t *testing.T) {
		const other = "registry.example.com/other:v1"
		mustRun(t, "image", "add", other, "--dir", dir, "--from", bundle.TestPodImage)
		if out := mustRun(t, "image", "ls", "--dir", dir); !strings.Contains(out, other) {
			t.Errorf("want %s in:\n%s", other, out)
		}
		mustRun(t, "image", "rm", other, "--dir", dir)
		if out := mustRun(t, "image", "ls", "--dir", dir); strings.Contains(out, other) {
			t.Errorf("want no %s in:\n%s", other, out)
		}
	})
	t.Run("a crash leaves nothing running", func(t *testing.T) { crashLeavesNothing(t, dir) })
}

func podRuns(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	pods := client.CoreV1().Pods("default")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: bundle.TestPodImage}}},
	}
	// The service account of a new namespace comes a moment after it.
	until(t, "the Pod can be created", func(ctx context.Context) (bool, error) {
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err), err
	})
	until(t, "the Pod is ready", func(ctx context.Context) (bool, error) {
		p, err := pods.Get(ctx, "p", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		_, ready := podReady(p)
		return ready, nil
	})
}

// dryRunIsNoWrite makes writes of which only some are real, in all the ways in which a request can say so.
func dryRunIsNoWrite(t *testing.T, dir string, client kubernetes.Interface) {
	t.Helper()
	ctx, maps, all := t.Context(), client.CoreV1().ConfigMaps("default"), []string{metav1.DryRunAll}
	cm := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	_, err1 := maps.Create(ctx, cm("dry"), metav1.CreateOptions{DryRun: all})
	_, err2 := maps.Create(ctx, cm("wet"), metav1.CreateOptions{})
	err3 := maps.Delete(ctx, "wet", metav1.DeleteOptions{DryRun: all})
	err4 := maps.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: all}, metav1.ListOptions{LabelSelector: "a=b"})
	err5 := maps.Delete(ctx, "wet", metav1.DeleteOptions{})
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			t.Fatal(err)
		}
	}
	writes := func(args ...string) (got []string) {
		for line := range strings.Lines(mustRun(t, append([]string{"audit", "--dir", dir, "--agent", "STORY", "-o", "json"}, args...)...)) {
			var w struct {
				Verb, Resource, Name string
				DryRun               bool
			}
			if err := json.Unmarshal([]byte(line), &w); err != nil {
				t.Fatal(err)
			}
			if w.Resource == "configmaps" {
				got = append(got, strings.TrimSpace(w.Verb+" "+w.Name)+" "+strconv.FormatBool(w.DryRun))
			}
		}
		return got
	}
	// The API server writes an entry just after it has answered.
	want := []string{"create dry true", "create wet false", "delete wet true", "deletecollection true", "delete wet false"}
	until(t, "all requests are in the log", func(context.Context) (bool, error) { return len(writes("--dry-run")) == len(want), nil })
	if diff := cmp.Diff(writes("--dry-run"), want); diff != "" {
		t.Errorf("requests (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(writes(), []string{"create wet false", "delete wet false"}); diff != "" {
		t.Errorf("writes (-got +want):\n%s", diff)
	}
}

// crashLeavesNothing kills the supervisor the hard way and looks for what it had started.
func crashLeavesNothing(t *testing.T, dir string) {
	t.Helper()
	self, err := supervisor.NewClient(supervisor.Layout{Dir: dir}).HostPID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := descendants(self)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 6 { // the supervisor, four components, a container
		t.Fatalf("got %d processes of the sandbox, want more", len(all))
	}
	if err := syscall.Kill(self, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "every process has ended", func(context.Context) (bool, error) {
		for _, p := range all {
			if state, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/stat"); err == nil && !strings.Contains(string(state), ") Z ") {
				return false, nil
			}
		}
		return true, nil
	})
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), dir) {
		t.Error("mounts are left on the host")
	}
	if _, errOut, code := runCLI(t, "status", "--dir", dir); code != exitError || !strings.Contains(errOut, "no sandbox is running") {
		t.Errorf("status: got exit code %d, stderr %q", code, errOut)
	}
	mustRun(t, "down", "--dir", dir)
	if out := mustRun(t, "audit", "--dir", dir, "--agent", "story"); out == "" {
		t.Error("the audit log can't be read after the end")
	}
}

func clientOf(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.UserAgent = "story/v1"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// until asks again and again; it fails the test with the last error when patience is over.
func until(t *testing.T, what string, ask func(context.Context) (bool, error)) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), pollEvery, patience, true, func(ctx context.Context) (done bool, err error) {
		done, last = ask(ctx)
		return done, nil
	})
	if err != nil {
		t.Fatalf("%s: %v (%v)", what, err, last)
	}
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, errOut, code := runCLI(t, args...)
	if code != exitDone {
		t.Fatalf("sandbox %s: exit code %d\n%s", strings.Join(args, " "), code, errOut)
	}
	return out
}
