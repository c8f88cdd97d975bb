// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// File is one file of a volume.
type File struct {
	Data []byte
	Mode int32
}

// Content is the files of a volume by their path in it.
type Content map[string]File

// Add puts all files of other in.
func (c Content) Add(other Content) { maps.Copy(c, other) }

// FromSecret returns all keys of a Secret, or those that items name. A missing
// key is an error unless optional.
func FromSecret(secret *corev1.Secret, items []corev1.KeyToPath, mode int32, optional bool) (Content, error) {
	content, missing, err := selectKeys(secret.Data, items, mode)
	if err == nil && missing != "" && !optional {
		err = fmt.Errorf("references non-existent secret key: %s", missing)
	}
	return content, err
}

// FromConfigMap is FromSecret for a ConfigMap.
func FromConfigMap(cm *corev1.ConfigMap, items []corev1.KeyToPath, mode int32, optional bool) (Content, error) {
	data := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for key, value := range cm.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, cm.BinaryData)
	content, missing, err := selectKeys(data, items, mode)
	if err == nil && missing != "" && !optional {
		err = fmt.Errorf("configmap references non-existent config key: %s", missing)
	}
	return content, err
}

func selectKeys(data map[string][]byte, items []corev1.KeyToPath, mode int32) (_ Content, missing string, _ error) {
	content := Content{}
	if len(items) == 0 {
		for key, value := range data {
			content[key] = File{Data: value, Mode: mode}
		}
		return content, "", nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			missing = item.Key
			continue
		}
		if err := checkPath(item.Path); err != nil {
			return nil, "", err
		}
		content[path.Clean(item.Path)] = File{Data: value, Mode: modeOr(item.Mode, mode)}
	}
	return content, missing, nil
}

// FromDownward returns the files of a downward API volume.
func FromDownward(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode int32, allocatable corev1.ResourceList) (Content, error) {
	content := Content{}
	for _, item := range items {
		if err := checkPath(item.Path); err != nil {
			return nil, err
		}
		value, err := downwardValue(pod, item, allocatable)
		if err != nil {
			return nil, err
		}
		content[path.Clean(item.Path)] = File{Data: []byte(value), Mode: modeOr(item.Mode, mode)}
	}
	return content, nil
}

func downwardValue(pod *corev1.Pod, item corev1.DownwardAPIVolumeFile, allocatable corev1.ResourceList) (string, error) {
	if item.FieldRef != nil {
		return Field(pod, item.FieldRef.FieldPath)
	}
	if item.ResourceFieldRef == nil {
		return "", fmt.Errorf("downward API item %s names no field", item.Path)
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == item.ResourceFieldRef.ContainerName })
		if i >= 0 {
			return Resource(list[i].Resources, item.ResourceFieldRef, allocatable)
		}
	}
	return "", fmt.Errorf("downward API item %s: there is no container %q", item.Path, item.ResourceFieldRef.ContainerName)
}

func modeOr(mode *int32, other int32) int32 {
	if mode != nil {
		return *mode
	}
	return other
}

// checkPath repeats what the API server has checked, for the files' sake.
func checkPath(p string) error {
	if p == "" || path.IsAbs(p) || strings.HasPrefix(p, "..") || slices.Contains(strings.Split(p, "/"), "..") {
		return fmt.Errorf("invalid path %q in volume", p)
	}
	return nil
}
