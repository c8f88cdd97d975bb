// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fakeObjects holds Secrets and ConfigMaps by name.
type fakeObjects struct {
	secrets    map[string]map[string]string
	configMaps map[string]map[string]string
}

func (f fakeObjects) secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	data, ok := f.secrets[name]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	secret := &corev1.Secret{Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret, nil
}

func (f fakeObjects) configMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	data, ok := f.configMaps[name]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
	}
	return &corev1.ConfigMap{Data: data}, nil
}

func TestExpand(t *testing.T) {
	t.Parallel()
	lookup := func(name string) (string, bool) { return "<" + name + ">", name != "UNKNOWN" }
	for name, tt := range map[string]struct{ text, want string }{
		"a reference is replaced":              {"a $(B) c", "a <B> c"},
		"an unknown reference stays":           {"$(UNKNOWN)/x", "$(UNKNOWN)/x"},
		"two dollars are one and no reference": {"$$(B)", "$(B)"},
		"a dollar at the end stays":            {"cost$", "cost$"},
		"a reference that is not closed stays": {"$(B", "$(B"},
		"a dollar before other text stays":     {"$B", "$B"},
		"references beside each other":         {"$(A)$(B)", "<A><B>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(expand(tt.text, lookup), tt.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEnvBuilder(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Status: corev1.PodStatus{PodIP: "10.244.0.7"}}
	secretKey := func(name, key string, optional bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: new(optional),
		}}
	}
	for name, tt := range map[string]struct {
		container corev1.Container
		want      map[string]string
		wantErr   bool
	}{
		"the API server's address is there": {want: map[string]string{"HOST": "10.0.0.1"}},
		"the Pod's own value wins and may use what came before": {
			container: corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "$(HOST):1"}, {Name: "HOST", Value: "mine"}, {Name: "B", Value: "$(A) $(HOST)"}}},
			want:      map[string]string{"A": "10.0.0.1:1", "HOST": "mine", "B": "10.0.0.1:1 mine"},
		},
		"fields and Secret keys": {
			container: corev1.Container{Env: []corev1.EnvVar{
				{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
				{Name: "PASS", ValueFrom: secretKey("s", "pass", false)},
				{Name: "GONE", ValueFrom: secretKey("none", "pass", true)},
			}},
			want: map[string]string{"IP": "10.244.0.7", "PASS": "x", "HOST": "10.0.0.1"},
		},
		"envFrom has a prefix and Env wins": {
			container: corev1.Container{
				EnvFrom: []corev1.EnvFromSource{{Prefix: "C_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}},
				Env:     []corev1.EnvVar{{Name: "C_b", Value: "over"}},
			},
			want: map[string]string{"C_a": "1", "C_b": "over", "HOST": "10.0.0.1"},
		},
		"a missing Secret is an error":     {container: corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: secretKey("none", "k", false)}}}, wantErr: true},
		"a missing Secret key is an error": {container: corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: secretKey("s", "none", false)}}}, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := envBuilder{
				pod: pod, service: map[string]string{"HOST": "10.0.0.1"},
				objects: fakeObjects{secrets: map[string]map[string]string{"s": {"pass": "x"}}, configMaps: map[string]map[string]string{"c": {"a": "1", "b": "2"}}},
			}
			got, err := b.build(t.Context(), tt.container)
			if (err != nil) != tt.wantErr {
				t.Fatalf("error: %v", err)
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	entrypoint, cmd := []string{"/manager"}, []string{"--default"}
	for name, tt := range map[string]struct {
		container corev1.Container
		want      []string
	}{
		"the image's own":                     {want: []string{"/manager", "--default"}},
		"args replace the image's arguments":  {container: corev1.Container{Args: []string{"--x=$(X)"}}, want: []string{"/manager", "--x=1"}},
		"command replaces all of the image's": {container: corev1.Container{Command: []string{"/sh"}}, want: []string{"/sh"}},
		"command and args":                    {container: corev1.Container{Command: []string{"/sh"}, Args: []string{"-c"}}, want: []string{"/sh", "-c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := commandLine(entrypoint, cmd, tt.container, map[string]string{"X": "1"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := commandLine(nil, nil, corev1.Container{}, nil); err == nil {
		t.Error("nothing to execute is no error")
	}
}
