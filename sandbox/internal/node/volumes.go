// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/sandbox/internal/node/volume"
)

// errUnsupported is a volume the sandbox has nothing for.
var errUnsupported = errors.New("is of a type the sandbox does not support")

// tokenSource asks the API server for a service account token of a Pod.
type tokenSource interface {
	token(ctx context.Context, pod *corev1.Pod, audience string, seconds *int64) (token string, expires time.Time, err error)
}

// volumeSet keeps the volumes of one Pod, in a directory each.
type volumeSet struct {
	dir         string
	hostPaths   string // where the stand-ins for the machine's files are
	objects     objects
	tokens      tokenSource
	allocatable func() corev1.ResourceList
	now         func() time.Time
	ids         idMap

	mu    sync.Mutex
	cache map[string]cachedToken
}

type cachedToken struct {
	uid              types.UID
	value            string
	refresh, expires time.Time
}

// path is where a volume's files are.
func (v *volumeSet) path(name string) string { return filepath.Join(v.dir, name) }

// sync makes all volumes hold what they should now. The error names the volumes
// that do not.
func (v *volumeSet) sync(ctx context.Context, pod *corev1.Pod) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var errs []error
	for _, vol := range pod.Spec.Volumes {
		if err := v.syncOne(ctx, pod, vol); err != nil {
			errs = append(errs, fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", vol.Name, err))
		}
	}
	return errors.Join(errs...)
}

// nextRefresh is when sync is due again although nothing has changed; zero when
// never.
func (v *volumeSet) nextRefresh() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	var next time.Time
	for _, token := range v.cache {
		if next.IsZero() || token.refresh.Before(next) {
			next = token.refresh
		}
	}
	return next
}

func (v *volumeSet) syncOne(ctx context.Context, pod *corev1.Pod, vol corev1.Volume) error {
	path := v.path(vol.Name)
	switch {
	case vol.EmptyDir != nil:
		return makeEmptyDir(path)
	case vol.HostPath != nil:
		_, err := v.hostPath(*vol.HostPath)
		return err
	}
	content, err := v.content(ctx, pod, vol)
	if err != nil {
		return err
	}
	gid := -1
	if sc := pod.Spec.SecurityContext; sc != nil && sc.FSGroup != nil && v.ids.has(int(*sc.FSGroup)) {
		gid = int(*sc.FSGroup)
	}
	_, err = volume.Write(path, content, gid)
	return err
}

func makeEmptyDir(path string) error {
	if err := os.MkdirAll(path, 0o777); err != nil { //nolint:gosec // as a kubelet does
		return fmt.Errorf("make emptyDir: %w", err)
	}
	return os.Chmod(path, 0o777) //nolint:gosec // as a kubelet does
}

// content returns the files of the volume types that are made of objects.
func (v *volumeSet) content(ctx context.Context, pod *corev1.Pod, vol corev1.Volume) (volume.Content, error) {
	switch {
	case vol.Secret != nil:
		s := vol.Secret
		return v.fromSecret(ctx, pod, s.SecretName, s.Items, modeOf(s.DefaultMode), isTrue(s.Optional))
	case vol.ConfigMap != nil:
		c := vol.ConfigMap
		return v.fromConfigMap(ctx, pod, c.Name, c.Items, modeOf(c.DefaultMode), isTrue(c.Optional))
	case vol.DownwardAPI != nil:
		return volume.FromDownward(pod, vol.DownwardAPI.Items, modeOf(vol.DownwardAPI.DefaultMode), v.allocatable())
	case vol.Projected != nil:
		return v.fromProjected(ctx, pod, vol)
	}
	return nil, errUnsupported
}

func modeOf(mode *int32) int32 {
	if mode == nil {
		return 0o644
	}
	return *mode
}

func (v *volumeSet) fromSecret(ctx context.Context, pod *corev1.Pod, name string, items []corev1.KeyToPath, mode int32, optional bool) (volume.Content, error) {
	secret, err := v.objects.secret(ctx, pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional {
		return volume.Content{}, nil
	}
	if err != nil {
		return nil, err
	}
	return volume.FromSecret(secret, items, mode, optional)
}

func (v *volumeSet) fromConfigMap(ctx context.Context, pod *corev1.Pod, name string, items []corev1.KeyToPath, mode int32, optional bool) (volume.Content, error) {
	cm, err := v.objects.configMap(ctx, pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional {
		return volume.Content{}, nil
	}
	if err != nil {
		return nil, err
	}
	return volume.FromConfigMap(cm, items, mode, optional)
}

func (v *volumeSet) fromProjected(ctx context.Context, pod *corev1.Pod, vol corev1.Volume) (volume.Content, error) {
	all, mode := volume.Content{}, modeOf(vol.Projected.DefaultMode)
	for _, source := range vol.Projected.Sources {
		content, err := v.projection(ctx, pod, vol.Name, source, mode)
		if err != nil {
			return nil, err
		}
		all.Add(content)
	}
	return all, nil
}

func (v *volumeSet) projection(ctx context.Context, pod *corev1.Pod, name string, source corev1.VolumeProjection, mode int32) (volume.Content, error) {
	switch {
	case source.Secret != nil:
		return v.fromSecret(ctx, pod, source.Secret.Name, source.Secret.Items, mode, isTrue(source.Secret.Optional))
	case source.ConfigMap != nil:
		return v.fromConfigMap(ctx, pod, source.ConfigMap.Name, source.ConfigMap.Items, mode, isTrue(source.ConfigMap.Optional))
	case source.DownwardAPI != nil:
		return volume.FromDownward(pod, source.DownwardAPI.Items, mode, v.allocatable())
	case source.ServiceAccountToken != nil:
		token, err := v.token(ctx, pod, name, *source.ServiceAccountToken)
		if err != nil {
			return nil, err
		}
		return volume.Content{source.ServiceAccountToken.Path: {Data: []byte(token), Mode: mode}}, nil
	}
	return nil, errUnsupported
}

// token returns a token that has a fifth of its time left at least.
func (v *volumeSet) token(ctx context.Context, pod *corev1.Pod, name string, p corev1.ServiceAccountTokenProjection) (string, error) {
	key := name + "/" + p.Path
	old, ok := v.cache[key]
	now := v.now()
	if ok && old.uid == pod.UID && now.Before(old.refresh) {
		return old.value, nil
	}
	value, expires, err := v.tokens.token(ctx, pod, p.Audience, p.ExpirationSeconds)
	if err != nil {
		if ok && now.Before(old.expires) {
			// Still good: try again soon rather than take it away.
			old.refresh = now.Add(time.Minute)
			v.cache[key] = old
			return old.value, nil
		}
		return "", fmt.Errorf("failed to fetch token: %w", err)
	}
	refresh := now.Add(min(expires.Sub(now)*8/10, 24*time.Hour))
	if v.cache == nil {
		v.cache = map[string]cachedToken{}
	}
	v.cache[key] = cachedToken{uid: pod.UID, value: value, refresh: refresh, expires: expires}
	return value, nil
}

// hostPath returns the stand-in for a file or directory of the machine: empty,
// kept for the life of the sandbox, and the same for all Pods of the Node.
func (v *volumeSet) hostPath(source corev1.HostPathVolumeSource) (string, error) {
	path := filepath.Join(v.hostPaths, filepath.Clean("/"+source.Path))
	kind := corev1.HostPathUnset
	if source.Type != nil {
		kind = *source.Type
	}
	if kind == corev1.HostPathUnset && strings.HasSuffix(path, ".sock") {
		kind = corev1.HostPathSocket
	}
	if _, err := os.Lstat(path); err == nil {
		return path, nil
	}
	var err error
	switch kind {
	case corev1.HostPathSocket:
		err = makeSocket(path)
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		err = makeFile(path)
	case corev1.HostPathCharDev, corev1.HostPathBlockDev:
		return "", fmt.Errorf("hostPath of type %s %w", kind, errUnsupported)
	case corev1.HostPathUnset, corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		err = os.MkdirAll(path, 0o755) //nolint:gosec // as a kubelet does
	}
	if err != nil {
		return "", fmt.Errorf("make stand-in for hostPath %s: %w", source.Path, err)
	}
	return path, nil
}

// references are the Secrets and ConfigMaps whose change concerns a Pod.
type references struct{ secrets, configMaps []string }

func referencesOf(pod *corev1.Pod) references {
	var r references
	for _, vol := range pod.Spec.Volumes {
		if vol.Secret != nil {
			r.secrets = append(r.secrets, vol.Secret.SecretName)
		}
		if vol.ConfigMap != nil {
			r.configMaps = append(r.configMaps, vol.ConfigMap.Name)
		}
		if vol.Projected == nil {
			continue
		}
		for _, source := range vol.Projected.Sources {
			if source.Secret != nil {
				r.secrets = append(r.secrets, source.Secret.Name)
			}
			if source.ConfigMap != nil {
				r.configMaps = append(r.configMaps, source.ConfigMap.Name)
			}
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		r.addEnv(c)
	}
	return r
}

func (r *references) addEnv(c corev1.Container) {
	for _, from := range c.EnvFrom {
		if from.SecretRef != nil {
			r.secrets = append(r.secrets, from.SecretRef.Name)
		}
		if from.ConfigMapRef != nil {
			r.configMaps = append(r.configMaps, from.ConfigMapRef.Name)
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		if ref := e.ValueFrom.SecretKeyRef; ref != nil {
			r.secrets = append(r.secrets, ref.Name)
		}
		if ref := e.ValueFrom.ConfigMapKeyRef; ref != nil {
			r.configMaps = append(r.configMaps, ref.Name)
		}
	}
}
