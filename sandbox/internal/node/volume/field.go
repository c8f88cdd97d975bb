// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Field returns what a fieldRef stands for. Status fields are taken from
// pod.Status.
func Field(pod *corev1.Pod, fieldPath string) (string, error) {
	if name, key, ok := strings.Cut(strings.TrimSuffix(fieldPath, "']"), "['"); ok {
		switch name {
		case "metadata.annotations":
			return pod.Annotations[key], nil
		case "metadata.labels":
			return pod.Labels[key], nil
		}
	}
	switch fieldPath {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	case "status.hostIPs":
		return joinIPs(pod.Status.HostIPs, func(ip corev1.HostIP) string { return ip.IP }), nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		return joinIPs(pod.Status.PodIPs, func(ip corev1.PodIP) string { return ip.IP }), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %s", fieldPath)
}

func joinIPs[T any](ips []T, text func(T) string) string {
	var all []string
	for _, ip := range ips {
		all = append(all, text(ip))
	}
	return strings.Join(all, ",")
}

func formatMap(m map[string]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, key+"="+strconv.Quote(m[key]))
	}
	return strings.Join(lines, "\n")
}

// Resource returns what a resourceFieldRef stands for. A limit that is not set
// is what the node has.
func Resource(r corev1.ResourceRequirements, ref *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	kind, name, _ := strings.Cut(ref.Resource, ".")
	var quantity resource.Quantity
	switch kind {
	case "limits":
		quantity = r.Limits[corev1.ResourceName(name)]
		if quantity.IsZero() {
			quantity = allocatable[corev1.ResourceName(name)]
		}
	case "requests":
		quantity = r.Requests[corev1.ResourceName(name)]
	default:
		return "", fmt.Errorf("unsupported container resource: %s", ref.Resource)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == string(corev1.ResourceCPU) {
		return divideUp(quantity.MilliValue(), divisor.MilliValue()), nil
	}
	return divideUp(quantity.Value(), divisor.Value()), nil
}

func divideUp(value, divisor int64) string {
	return strconv.FormatInt(int64(math.Ceil(float64(value)/float64(divisor))), 10)
}
