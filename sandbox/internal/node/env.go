// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/sandbox/internal/node/volume"
)

// objects reads what Pods refer to.
type objects interface {
	secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	configMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
}

// envBuilder makes the environment of a container.
type envBuilder struct {
	objects     objects
	pod         *corev1.Pod // with podIP and hostIP in its status
	service     map[string]string
	allocatable corev1.ResourceList
}

// build returns the variables the Pod defines, and those of the API server's
// Service unless the Pod has its own. It fails if a required object is missing.
func (b envBuilder) build(ctx context.Context, c corev1.Container) (map[string]string, error) {
	env := map[string]string{}
	for _, from := range c.EnvFrom {
		values, err := b.envFrom(ctx, from)
		if err != nil {
			return nil, err
		}
		for key, value := range values {
			env[from.Prefix+key] = value
		}
	}
	lookup := func(name string) (string, bool) {
		if value, ok := env[name]; ok {
			return value, true
		}
		value, ok := b.service[name]
		return value, ok
	}
	for _, e := range c.Env {
		value, set, err := b.value(ctx, c, e, lookup)
		if err != nil {
			return nil, err
		}
		if set {
			env[e.Name] = value
		}
	}
	for name, value := range b.service {
		if _, ok := env[name]; !ok {
			env[name] = value
		}
	}
	return env, nil
}

func (b envBuilder) envFrom(ctx context.Context, from corev1.EnvFromSource) (map[string]string, error) {
	values := map[string]string{}
	if ref := from.ConfigMapRef; ref != nil {
		cm, err := b.objects.configMap(ctx, b.pod.Namespace, ref.Name)
		if apierrors.IsNotFound(err) && isTrue(ref.Optional) {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(values, cm.Data)
	}
	if ref := from.SecretRef; ref != nil {
		secret, err := b.objects.secret(ctx, b.pod.Namespace, ref.Name)
		if apierrors.IsNotFound(err) && isTrue(ref.Optional) {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		for key, value := range secret.Data {
			values[key] = string(value)
		}
	}
	return values, nil
}

// value returns the value of one variable, and false if an optional source is
// not there.
func (b envBuilder) value(ctx context.Context, c corev1.Container, e corev1.EnvVar, lookup func(string) (string, bool)) (string, bool, error) {
	from := e.ValueFrom
	if from == nil {
		return expand(e.Value, lookup), true, nil
	}
	switch {
	case from.FieldRef != nil:
		value, err := volume.Field(b.pod, from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err := volume.Resource(b.resources(c, from.ResourceFieldRef.ContainerName), from.ResourceFieldRef, b.allocatable)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		cm, err := b.objects.configMap(ctx, b.pod.Namespace, ref.Name)
		if err != nil {
			return "", false, unlessOptional(err, ref.Optional)
		}
		value, ok := cm.Data[ref.Key]
		if !ok && !isTrue(ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %s in ConfigMap %s/%s", ref.Key, b.pod.Namespace, ref.Name)
		}
		return value, ok, nil
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		secret, err := b.objects.secret(ctx, b.pod.Namespace, ref.Name)
		if err != nil {
			return "", false, unlessOptional(err, ref.Optional)
		}
		value, ok := secret.Data[ref.Key]
		if !ok && !isTrue(ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %s in Secret %s/%s", ref.Key, b.pod.Namespace, ref.Name)
		}
		return string(value), ok, nil
	}
	return "", false, fmt.Errorf("variable %s has a source the sandbox does not know", e.Name)
}

func (b envBuilder) resources(c corev1.Container, name string) corev1.ResourceRequirements {
	if name == "" || name == c.Name {
		return c.Resources
	}
	all := slices.Concat(b.pod.Spec.Containers, b.pod.Spec.InitContainers)
	if i := slices.IndexFunc(all, func(o corev1.Container) bool { return o.Name == name }); i >= 0 {
		return all[i].Resources
	}
	return corev1.ResourceRequirements{}
}

func unlessOptional(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && isTrue(optional) {
		return nil
	}
	return err
}

func isTrue(b *bool) bool { return b != nil && *b }

// expand replaces $(NAME) by what lookup knows; $$ stands for $, and what is not
// known is left alone.
func expand(text string, lookup func(string) (string, bool)) string {
	var out strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i+1 == len(text) {
			out.WriteString(text)
			return out.String()
		}
		out.WriteString(text[:i])
		text = text[i+1:]
		switch text[0] {
		case '$':
			out.WriteByte('$')
			text = text[1:]
		case '(':
			end := strings.IndexByte(text, ')')
			if end < 0 {
				out.WriteByte('$')
				continue
			}
			if value, ok := lookup(text[1:end]); ok {
				out.WriteString(value)
			} else {
				out.WriteString("$" + text[:end+1])
			}
			text = text[end+1:]
		default:
			out.WriteByte('$')
		}
	}
}

// expandAll expands each of texts by env.
func expandAll(texts []string, env map[string]string) []string {
	lookup := func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
	var out []string
	for _, text := range texts {
		out = append(out, expand(text, lookup))
	}
	return out
}

// mergeEnv puts env over the image's own variables, sorted.
func mergeEnv(image []string, env map[string]string) []string {
	merged := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, e := range image {
		if name, value, ok := strings.Cut(e, "="); ok {
			merged[name] = value
		}
	}
	maps.Copy(merged, env)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		out = append(out, name+"="+merged[name])
	}
	return out
}

// commandLine combines what image and Pod say should be executed.
func commandLine(entrypoint, cmd []string, c corev1.Container, env map[string]string) ([]string, error) {
	command, args := expandAll(c.Command, env), expandAll(c.Args, env)
	if len(command) == 0 {
		command = entrypoint
		if len(args) == 0 {
			args = cmd
		}
	}
	line := slices.Concat(command, args)
	if len(line) == 0 {
		return nil, errors.New("no command specified")
	}
	return line, nil
}
