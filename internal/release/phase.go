// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Phase is when in the course of a component an object is applied. Phases are in order; within one the objects keep the
// order of the manifest.
type Phase int

// The order serves the first install and the rolling swap alike:
//
//   - Certificates come before what their CA is injected into (CRDs with a conversion webhook, webhook configurations),
//     as in clusterctl, so that cert-manager's injector knows of them when these appear. That holds only where
//     cert-manager itself is another component; custom resources of CRDs in the same component can't precede these.
//   - Workloads come after everything a Pod mounts, runs as or is reached by.
//   - Webhook configurations come last of what belongs to a controller: a new rule may call a path that only the new
//     controller serves, and with failurePolicy Fail every write of that kind would be refused until it does.
//   - Custom resources are the last of all, since they pass through the webhooks before.
const (
	// PhaseNamespaces creates Namespaces.
	PhaseNamespaces Phase = iota
	// PhaseCertificates creates cert-manager Issuers and Certificates.
	PhaseCertificates
	// PhaseDefinitions creates CustomResourceDefinitions.
	PhaseDefinitions
	// PhaseAccess creates service accounts and roles, and classes and quotas that Pods are admitted by.
	PhaseAccess
	// PhaseBindings gives roles; the API server looks at the role when it admits a binding.
	PhaseBindings
	// PhaseConfig creates what Pods mount.
	PhaseConfig
	// PhaseServices creates Services and what else routes to Pods.
	PhaseServices
	// PhaseWorkloads creates Deployments and all else that runs Pods.
	PhaseWorkloads
	// PhaseWebhooks creates what makes the API server call the workloads, or refuse on its own.
	PhaseWebhooks
	// PhaseResources creates everything else, custom resources above all.
	PhaseResources
)

// certManagerGroup is the API group of cert-manager's Issuers and Certificates.
const certManagerGroup = "cert-manager.io"

// kindPhases is the table of kinds; a kind that is not in it is PhaseResources.
func kindPhases() map[string]Phase {
	return map[string]Phase{
		"Namespace":                        PhaseNamespaces,
		"CustomResourceDefinition":         PhaseDefinitions,
		"ServiceAccount":                   PhaseAccess,
		"ClusterRole":                      PhaseAccess,
		"Role":                             PhaseAccess,
		"ClusterRoleBinding":               PhaseBindings,
		"RoleBinding":                      PhaseBindings,
		"PriorityClass":                    PhaseAccess,
		"RuntimeClass":                     PhaseAccess,
		"ResourceQuota":                    PhaseAccess,
		"LimitRange":                       PhaseAccess,
		"NetworkPolicy":                    PhaseAccess,
		"Secret":                           PhaseConfig,
		"ConfigMap":                        PhaseConfig,
		"StorageClass":                     PhaseConfig,
		"PersistentVolume":                 PhaseConfig,
		"PersistentVolumeClaim":            PhaseConfig,
		"Service":                          PhaseServices,
		"Endpoints":                        PhaseServices,
		"EndpointSlice":                    PhaseServices,
		"Ingress":                          PhaseServices,
		"Deployment":                       PhaseWorkloads,
		"StatefulSet":                      PhaseWorkloads,
		"DaemonSet":                        PhaseWorkloads,
		"ReplicaSet":                       PhaseWorkloads,
		"ReplicationController":            PhaseWorkloads,
		"Pod":                              PhaseWorkloads,
		"Job":                              PhaseWorkloads,
		"CronJob":                          PhaseWorkloads,
		"PodDisruptionBudget":              PhaseWorkloads,
		"HorizontalPodAutoscaler":          PhaseWorkloads,
		"APIService":                       PhaseWebhooks,
		"MutatingWebhookConfiguration":     PhaseWebhooks,
		"ValidatingWebhookConfiguration":   PhaseWebhooks,
		"MutatingAdmissionPolicy":          PhaseWebhooks,
		"MutatingAdmissionPolicyBinding":   PhaseWebhooks,
		"ValidatingAdmissionPolicy":        PhaseWebhooks,
		"ValidatingAdmissionPolicyBinding": PhaseWebhooks,
	}
}

// phaser assigns phases to the objects of one component.
type phaser struct {
	kinds map[string]Phase
	// own are the API groups that the component defines itself.
	own map[string]bool
}

func newPhaser(objects []*unstructured.Unstructured) phaser {
	p := phaser{kinds: kindPhases(), own: map[string]bool{}}
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			group, _, err := unstructured.NestedString(o.Object, "spec", "group")
			if err == nil {
				p.own[group] = true
			}
		}
	}
	return p
}

// of returns the phase of one object of the component. A custom resource may have a kind of the table ("Service" of
// serving.knative.dev), so only the groups of Kubernetes itself are looked up in it.
func (p phaser) of(o *unstructured.Unstructured) Phase {
	group := o.GroupVersionKind().Group
	switch {
	case p.own[group]:
		return PhaseResources
	case group == certManagerGroup:
		return PhaseCertificates
	case !isKubernetesGroup(group):
		return PhaseResources
	}
	if phase, ok := p.kinds[o.GetKind()]; ok {
		return phase
	}
	return PhaseResources
}

// isKubernetesGroup tells whether an API group is one that the API server brings along.
func isKubernetesGroup(group string) bool {
	return slices.Contains([]string{
		"", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "autoscaling", "batch",
		"discovery.k8s.io", "networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
	}, group)
}

// sortForApply puts the objects of one component in the order in which they are applied.
func sortForApply(objects []*unstructured.Unstructured) {
	p := newPhaser(objects)
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(p.of(a), p.of(b)) })
}
