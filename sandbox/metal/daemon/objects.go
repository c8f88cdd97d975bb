// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/sandbox/metal/host"
)

const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// ProviderID is what a machine on a host is known by.
func providerID(m machine) string {
	return fmt.Sprintf("metal3://%s/%s/%s", m.host.Namespace, m.host.Name, m.name)
}

// nodeOf is a machine's Node: what its image brings is in nodeInfo.
func nodeOf(m machine, now time.Time) *corev1.Node {
	boot := sha256.Sum256([]byte(string(m.host.UID) + now.String()))
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: map[string]string{
			"kubernetes.io/hostname": m.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			"metal3.io/uuid": string(m.host.UID),
		}},
		Spec: corev1.NodeSpec{ProviderID: providerID(m)},
		Status: corev1.NodeStatus{
			Capacity: capacity(m.host), Allocatable: capacity(m.host),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: host.Address(m.host)}, {Type: corev1.NodeHostName, Address: m.name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: strings.ReplaceAll(string(m.host.UID), "-", ""), SystemUUID: string(m.host.UID), BootID: hex.EncodeToString(boot[:16]),
				KernelVersion: m.image.Kernel, OSImage: m.image.OSImage, ContainerRuntimeVersion: m.image.Runtime,
				KubeletVersion: m.image.Kubelet, OperatingSystem: "linux", Architecture: "amd64",
			},
		},
	}
	for kind, c := range map[corev1.NodeConditionType]corev1.NodeCondition{
		corev1.NodeReady:          {Status: corev1.ConditionTrue, Reason: "KubeletReady"},
		corev1.NodeMemoryPressure: {Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory"},
		corev1.NodeDiskPressure:   {Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure"},
		corev1.NodePIDPressure:    {Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID"},
	} {
		c.Type, c.LastTransitionTime = kind, metav1.NewTime(now)
		n.Status.Conditions = append(n.Status.Conditions, c)
	}
	if m.controlPlane {
		n.Labels[controlPlaneLabel] = ""
		n.Spec.Taints = []corev1.Taint{{Key: controlPlaneLabel, Effect: corev1.TaintEffectNoSchedule}}
	}
	return n
}

func capacity(h host.Host) corev1.ResourceList {
	list := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	if hw := h.Status.Hardware; hw != nil {
		list[corev1.ResourceCPU] = *resource.NewQuantity(int64(hw.CPU.Count), resource.DecimalSI)
		list[corev1.ResourceMemory] = *resource.NewQuantity(int64(hw.RAMMebibytes)<<20, resource.BinarySI)
	}
	return list
}

// staticPod is the mirror Pod of a control plane component.
func staticPod(component string, m machine) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: component + "-" + m.name,
			Labels:      map[string]string{"component": component, "tier": "control-plane"},
			Annotations: map[string]string{corev1.MirrorPodAnnotationKey: string(m.host.UID)},
		},
		Spec: corev1.PodSpec{NodeName: m.name, Containers: []corev1.Container{{
			Name: component, Image: "registry.k8s.io/" + component + ":" + m.image.Kubelet,
		}}},
		Status: runningStatus(),
	}
}

// proxyPod is a machine's Pod of the kube-proxy DaemonSet.
func proxyPod(m machine) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: "kube-proxy-" + m.name, Labels: proxyLabels(),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "DaemonSet", Name: "kube-proxy", UID: "kube-proxy", Controller: &yes,
			}},
		},
		Spec:   corev1.PodSpec{NodeName: m.name, Containers: []corev1.Container{{Name: "kube-proxy", Image: "registry.k8s.io/kube-proxy:" + m.image.Kubelet}}},
		Status: runningStatus(),
	}
}

func proxyLabels() map[string]string { return map[string]string{"k8s-app": "kube-proxy"} }

func runningStatus() corev1.PodStatus {
	return corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// setPodReady says whether it changed anything.
func setPodReady(p *corev1.Pod, status corev1.ConditionStatus) bool {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type == corev1.PodReady && c.Status != status {
			c.Status = status
			return true
		}
	}
	return false
}

// kubeadmObjects are what kubeadm leaves in a new cluster and KubeadmControlPlane looks for.
func kubeadmObjects(m machine) []client.Object {
	system := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}
	}
	replicas := int32(2)
	return []client.Object{
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:get-nodes"},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:get-nodes"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kubeadm:get-nodes"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "system:bootstrappers:kubeadm:default-node-token"}},
		},
		&corev1.ConfigMap{ObjectMeta: system("kubeadm-config"), Data: map[string]string{"ClusterConfiguration": ""}},
		&corev1.ConfigMap{ObjectMeta: system("coredns"), Data: map[string]string{"Corefile": ".:53 {}"}},
		&appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-proxy", UID: "kube-proxy", Labels: proxyLabels()},
			Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: proxyLabels()},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: proxyLabels()},
					Spec: corev1.PodSpec{
						Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
						Containers:  []corev1.Container{{Name: "kube-proxy", Image: "registry.k8s.io/kube-proxy:" + m.image.Kubelet}},
					},
				},
			},
		},
		&appsv1.Deployment{
			ObjectMeta: system("coredns"),
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas,
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"k8s-app": "kube-dns"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "coredns", Image: "registry.k8s.io/coredns/coredns:v1.13.1"}}},
				},
			},
		},
	}
}

// countProxies keeps the status of the one DaemonSet there is.
func (w *workload) countProxies(ctx context.Context) error {
	var ds appsv1.DaemonSet
	err := w.client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "kube-proxy"}, &ds)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get kube-proxy: %w", err)
	}
	nodes, err := w.nodes(ctx)
	if err != nil {
		return err
	}
	all, ready := int32(0), int32(0)
	for i := range nodes {
		all++
		for _, c := range nodes[i].Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	next := appsv1.DaemonSetStatus{
		ObservedGeneration: ds.Status.ObservedGeneration, CurrentNumberScheduled: all, DesiredNumberScheduled: all, UpdatedNumberScheduled: all,
		NumberReady: ready, NumberAvailable: ready, NumberUnavailable: all - ready,
	}
	if next.NumberReady == ds.Status.NumberReady && next.DesiredNumberScheduled == ds.Status.DesiredNumberScheduled {
		return nil
	}
	next.ObservedGeneration = ds.Generation + 1 // the in-memory server counts this very write as a new generation
	ds.Status = next
	if err := w.client.Update(ctx, &ds); err != nil {
		return fmt.Errorf("update kube-proxy: %w", err)
	}
	return nil
}
