// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/sandbox/internal/node/container"
	"github.com/capstan-dev/capstan/sandbox/internal/node/image"
)

func TestMountPlan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "cert", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "cert"}}},
	}}}
	c := corev1.Container{TerminationMessagePath: "/dev/termination-log", VolumeMounts: []corev1.VolumeMount{
		{Name: "cert", MountPath: "/data/cert"},
		{Name: "data", MountPath: "/data/"},
		{Name: "data", MountPath: "/etc/hosts", SubPathExpr: "$(NAME)/../../hosts", ReadOnly: true},
	}}
	plan := mountPlan{
		source:      func(v corev1.Volume) (string, error) { return filepath.Join(dir, v.Name), nil },
		podFiles:    map[string]string{"/etc/hosts": "/pod/hosts", "/etc/resolv.conf": "/pod/resolv.conf"},
		termination: "/pod/termination-log",
	}
	got, err := plan.build(pod, c, map[string]string{"NAME": "x"})
	if err != nil {
		t.Fatal(err)
	}
	want := []container.Mount{
		{Source: filepath.Join(dir, "data"), Target: "/data"},
		{Source: filepath.Join(dir, "cert"), Target: "/data/cert", ReadOnly: true},
		{Source: "/pod/termination-log", Target: "/dev/termination-log"},
		{Source: filepath.Join(dir, "data", "hosts"), Target: "/etc/hosts", ReadOnly: true},
		{Source: "/pod/resolv.conf", Target: "/etc/resolv.conf"},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
}

func TestSetIdentity(t *testing.T) {
	t.Parallel()
	all, onlyRoot := idMap{{0, 1 << 32}}, idMap{{0, 1}}
	none, err := container.CapabilityMask(nil, []string{"ALL"}, false)
	if err != nil {
		t.Fatal(err)
	}
	usual, err := container.CapabilityMask(nil, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		pod     *corev1.PodSecurityContext
		c       *corev1.SecurityContext
		user    image.User
		ids     idMap
		want    container.Process
		wantErr bool
	}{
		"the image's user": {user: image.User{UID: 5, GID: 6}, ids: all, want: container.Process{UID: 5, GID: 6, Capabilities: usual}},
		"the container's before the Pod's": {
			pod: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1), RunAsGroup: ptr.To[int64](2), FSGroup: ptr.To[int64](3)},
			c: &corev1.SecurityContext{
				RunAsUser: ptr.To[int64](9), AllowPrivilegeEscalation: new(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			ids: all, want: container.Process{UID: 9, GID: 2, Groups: []int{3}, Capabilities: none, NoNewPrivileges: true},
		},
		"a user that does not exist here is root without rights": {
			user: image.User{UID: 65532, GID: 65532}, ids: onlyRoot, want: container.Process{},
		},
		"root is refused if the Pod wants no root": {pod: &corev1.PodSecurityContext{RunAsNonRoot: new(true)}, ids: all, wantErr: true},
		"a name is refused if the Pod wants no root": {
			pod: &corev1.PodSecurityContext{RunAsNonRoot: new(true)}, user: image.User{UID: 5, Name: "app"}, ids: all, wantErr: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: tt.pod}}
			var got container.Process
			err := setIdentity(&got, pod, corev1.Container{SecurityContext: tt.c}, tt.user, tt.ids)
			if (err != nil) != tt.wantErr {
				t.Fatalf("error: %v", err)
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// fakeTokens gives tokens that last an hour, or an error.
type fakeTokens struct {
	now   *time.Time
	calls int
	err   error
}

func (f *fakeTokens) token(context.Context, *corev1.Pod, string, *int64) (string, time.Time, error) {
	f.calls++
	return "token", f.now.Add(time.Hour), f.err
}

func TestTokensAreRefreshedBeforeTheyExpire(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	tokens := &fakeTokens{now: &now}
	v := &volumeSet{dir: t.TempDir(), tokens: tokens, now: func() time.Time { return now }, objects: fakeObjects{}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
		Name: "t", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		}}},
	}}}}
	sync := func() error { return v.sync(t.Context(), pod) }
	var calls []int
	for range 2 {
		if err := sync(); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, tokens.calls)
	}
	if diff := cmp.Diff(v.nextRefresh(), now.Add(48*time.Minute)); diff != "" {
		t.Error(diff)
	}
	now = now.Add(50 * time.Minute)
	tokens.err = errors.New("away")
	if err := sync(); err != nil { // the old one is still good
		t.Error(err)
	}
	now = now.Add(20 * time.Minute)
	if err := sync(); err == nil {
		t.Error("an expired token was kept")
	}
	if diff := cmp.Diff(append(calls, tokens.calls), []int{1, 1, 3}); diff != "" {
		t.Error(diff)
	}
	data, err := os.ReadFile(filepath.Join(v.dir, "t", "token"))
	if diff := cmp.Diff([]any{string(data), err}, []any{"token", nil}); diff != "" {
		t.Error(diff)
	}
}

func TestMissingObjectIsNamedUnlessOptional(t *testing.T) {
	t.Parallel()
	v := &volumeSet{dir: t.TempDir(), objects: fakeObjects{}, now: time.Now}
	volume := func(optional bool) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "cert", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: "tls", Optional: new(optional)},
		}}}}}
	}
	err := v.sync(t.Context(), volume(false))
	if want := "MountVolume.SetUp failed for volume \"cert\" : secrets \"tls\" not found"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := v.sync(t.Context(), volume(true)); err != nil {
		t.Error(err)
	}
}

func TestHostPathIsAStandIn(t *testing.T) {
	t.Parallel()
	v := &volumeSet{hostPaths: t.TempDir()}
	for path, want := range map[string]os.FileMode{"/etc": os.ModeDir, "/var/run/docker.sock": os.ModeSocket, "/../../x": os.ModeDir} {
		got, err := v.hostPath(corev1.HostPathVolumeSource{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(got)
		if err != nil || info.Mode().Type() != want {
			t.Errorf("%s: %v, %v", path, info, err)
		}
		if rel, err := filepath.Rel(v.hostPaths, got); err != nil || rel[0] == '.' {
			t.Errorf("%s is outside: %s", path, got)
		}
	}
}
