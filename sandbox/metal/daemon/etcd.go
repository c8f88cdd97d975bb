// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// startEtcd makes a machine a member of the cluster's etcd. In the in-memory provider a member is its Pod: its annotations carry the IDs of member and
// cluster, and since when it leads.
func (w *workload) startEtcd(ctx context.Context, m machine) error {
	pod := staticPod("etcd", m)
	have := &corev1.Pod{}
	err := w.client.Get(ctx, client.ObjectKeyFromObject(pod), have)
	switch {
	case apierrors.IsNotFound(err):
		if err := w.addMember(ctx, pod); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("get etcd pod: %w", err)
	default:
		if err := w.run(ctx, pod); err != nil {
			return err
		}
	}
	if w.site.mux.HasEtcdMember(w.name, pod.Name) {
		return nil
	}
	cert, key, err := w.authority(ctx, secret.EtcdCA)
	if err != nil {
		return err
	}
	if err := w.site.mux.AddEtcdMember(w.name, pod.Name, cert, key); err != nil {
		return fmt.Errorf("start etcd member: %w", err)
	}
	return nil
}

func (w *workload) addMember(ctx context.Context, pod *corev1.Pod) error {
	members, err := w.members(ctx)
	if err != nil {
		return err
	}
	cluster := ""
	if len(members) > 0 {
		cluster = members[0].Annotations[cloudv1.EtcdClusterIDAnnotationName]
	}
	if cluster == "" {
		if cluster, err = newID(); err != nil {
			return err
		}
	}
	id, err := newID()
	if err != nil {
		return err
	}
	pod.Annotations[cloudv1.EtcdClusterIDAnnotationName] = cluster
	pod.Annotations[cloudv1.EtcdMemberIDAnnotationName] = id
	if len(members) == 0 {
		pod.Annotations[cloudv1.EtcdLeaderFromAnnotationName] = w.site.clock.Now().Format(time.RFC3339)
	}
	return w.create(ctx, pod)
}

// elect makes a member lead when the leader is gone.
func (w *workload) elect(ctx context.Context) error {
	members, err := w.members(ctx)
	if err != nil || len(members) == 0 {
		return err
	}
	var next *corev1.Pod
	for i := range members {
		m := &members[i]
		if !podReady(m) {
			continue
		}
		if m.Annotations[cloudv1.EtcdLeaderFromAnnotationName] != "" {
			return nil
		}
		if next == nil {
			next = m
		}
	}
	if next == nil {
		return nil
	}
	next.Annotations[cloudv1.EtcdLeaderFromAnnotationName] = w.site.clock.Now().Format(time.RFC3339)
	if err := w.client.Update(ctx, next); err != nil {
		return fmt.Errorf("elect etcd leader: %w", err)
	}
	return nil
}

// members lists the Pods of etcd members that were not removed.
func (w *workload) members(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := w.pods(ctx, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"component": "etcd"})
	if err != nil {
		return nil, err
	}
	var members []corev1.Pod
	for i := range pods {
		if _, removed := pods[i].Annotations[cloudv1.EtcdMemberRemoved]; !removed {
			members = append(members, pods[i])
		}
	}
	return members, nil
}

// newID makes an ID that is not zero.
func newID() (string, error) {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("make etcd ID: %w", err)
	}
	return fmt.Sprint(binary.BigEndian.Uint32(b[:]) | 1), nil
}
