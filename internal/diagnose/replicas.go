// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// ReplicaSet returns why a ReplicaSet can't create its Pods: the API server refuses them.
func ReplicaSet(rs *appsv1.ReplicaSet) []world.Cause {
	for _, c := range rs.Status.Conditions {
		if c.Type != appsv1.ReplicaSetReplicaFailure || c.Status != corev1.ConditionTrue {
			continue
		}
		ref := world.Ref{APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: rs.Namespace, Name: rs.Name}
		return []world.Cause{PodsRefused(ref, c.Message)}
	}
	return nil
}

// PodsRefused explains an answer to a controller that wanted to create a Pod. It is text only: the controller put it
// into a condition.
func PodsRefused(ref world.Ref, message string) world.Cause {
	c := world.Cause{Reason: v1alpha1.StopRejected, Object: ref, Definite: true}
	said := fmt.Sprintf("%s can't create its Pods: ", ref)
	text := short(message, 300)
	switch {
	case webhookSilent(message):
		c.Reason, c.Definite = v1alpha1.StopWebhookSilent, false
		c.Message = said + "a webhook for Pods does not answer: " + text
		c.Remedy = resume("check the Pods behind the webhook's Service")
	case strings.Contains(message, "exceeded quota"):
		c.Message = said + "a quota is used up: " + text
		c.Remedy = resume(fmt.Sprintf("raise the ResourceQuota in namespace %s", ref.Namespace))
	case strings.Contains(message, "violates PodSecurity"):
		c.Message = said + "the namespace's Pod security level forbids it: " + text
		c.Remedy = resume(fmt.Sprintf("set the label pod-security.kubernetes.io/enforce of namespace %s to a level that allows it", ref.Namespace))
	case deniedByWebhook(message):
		c.Message = said + "a webhook refuses them: " + text
		c.Remedy = resume("do what the webhook asks for")
	case strings.Contains(message, "serviceaccount") && strings.Contains(message, "not found"):
		// Comes right by itself when the account follows in the same set.
		c.Definite = false
		c.Message = said + "the service account is missing: " + text
		c.Remedy = resume("create the service account that is named")
	default:
		c.Message = said + text
		c.Remedy = resume("remove what forbids the Pods")
	}
	return c
}
