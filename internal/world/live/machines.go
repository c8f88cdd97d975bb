// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/world"
)

// machine is what a picture of the fleet needs of a Machine. A batch of them is reduced to it before more are decoded.
type machine struct {
	name, uid, cluster string
	version            string
	deleting           bool
	remediated         bool
	labels             machineLabels
	// controller is the Machine's controller in the Machine's own namespace; without a name if it has none.
	controller world.Ref
}

// machineLabels are Cluster API's labels that say whose a Machine is.
type machineLabels struct {
	isControlPlane                      bool
	controlPlane, deployment, set, pool string
}

// leanMachine is the part of a Machine that is decoded. Managed fields and most of the status, which are nine tenths of it,
// are passed over.
type leanMachine struct {
	Metadata struct {
		Name              string                  `json:"name"`
		Namespace         string                  `json:"namespace"`
		UID               string                  `json:"uid"`
		Labels            map[string]string       `json:"labels"`
		Annotations       map[string]string       `json:"annotations"`
		OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
		DeletionTimestamp string                  `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Version string `json:"version"`
	} `json:"spec"`
	Status struct {
		leanConditions
		V1Beta2    leanConditions `json:"v1beta2"`
		Deprecated struct {
			V1Beta1 leanConditions `json:"v1beta1"`
		} `json:"deprecated"`
	} `json:"status"`
}

// leanConditions are conditions in any API version's words.
type leanConditions struct {
	Conditions []struct {
		Type   string `json:"type"`
		Status string `json:"status"`
	} `json:"conditions"`
}

func (c leanConditions) has(conditionType, status string) bool {
	for _, condition := range c.Conditions {
		if condition.Type == conditionType && condition.Status == status {
			return true
		}
	}
	return false
}

// machines reads all Machines, in full: the API server has to put together as much for their metadata alone.
func (r *round) machines(ctx context.Context) ([]machine, error) {
	var out []machine
	err := r.acrossVersions(ctx, schema.GroupKind{Group: capiGroup, Kind: "Machine"}, func(m *apimeta.RESTMapping, _ string) (err error) {
		v := r.guest(m)
		err = r.clients.eachBatch(ctx, m, metav1.ListOptions{}, func() { out = nil }, func(raw []byte) error {
			if v != nil {
				r.survey.receiveMeanwhile(v, raw)
			}
			batch, err := decodeMachines(raw)
			out = append(out, batch...)
			return err
		})
		if v != nil && err == nil {
			v.done = true
		}
		return err
	})
	return out, err
}

func decodeMachines(raw []byte) ([]machine, error) {
	var list struct {
		Items []leanMachine `json:"items"`
	}
	if err := decodeBatch(raw, &list); err != nil {
		return nil, fmt.Errorf("decode machines: %w", err)
	}
	out := make([]machine, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, list.Items[i].reduced())
	}
	return out, nil
}

func (l *leanMachine) reduced() machine {
	m := machine{
		name: l.Metadata.Name, uid: l.Metadata.UID, cluster: l.Metadata.Namespace + "/" + l.Metadata.Labels[clusterLabel],
		version: l.Spec.Version, deleting: l.Metadata.DeletionTimestamp != "",
		labels: labelsOfMachine(l.Metadata.Labels), controller: controllerOf(l.Metadata.Namespace, l.Metadata.OwnerReferences),
	}
	_, asked := l.Metadata.Annotations[remediateAnnotation]
	const condition, verdict = "OwnerRemediated", "False"
	m.remediated = asked || l.Status.has(condition, verdict) || l.Status.V1Beta2.has(condition, verdict) || l.Status.Deprecated.V1Beta1.has(condition, verdict)
	return m
}

func labelsOfMachine(labels map[string]string) machineLabels {
	_, isControlPlane := labels[controlPlaneLabel]
	return machineLabels{
		isControlPlane: isControlPlane, controlPlane: labels[controlPlaneNameLabel],
		deployment: labels[deploymentLabel], set: labels[setLabel], pool: labels[poolLabel],
	}
}

// controllerOf returns the controller among owners.
func controllerOf(namespace string, owners []metav1.OwnerReference) world.Ref {
	for _, o := range owners {
		if o.Controller != nil && *o.Controller {
			return world.Ref{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: namespace, Name: o.Name}
		}
	}
	return world.Ref{}
}

// in returns the Machine as part of a Cluster with the given control plane. apiVersion is the one that owners of
// Cluster API's own kinds have in references.
func (m machine) in(apiVersion string, controlPlane world.Ref) world.Machine {
	namespace, _, _ := strings.Cut(m.cluster, "/")
	return world.Machine{
		Name: m.name, UID: m.uid, Owner: machineOwner(namespace, m.labels, m.controller, apiVersion, controlPlane),
		Version: m.version, Deleting: m.deleting, Remediated: m.remediated,
	}
}

// ownerOfMachine is machineOwner for a whole object that is not part of a control plane.
func ownerOfMachine(u *unstructured.Unstructured) world.Ref {
	namespace := u.GetNamespace()
	return machineOwner(namespace, labelsOfMachine(u.GetLabels()), controllerOf(namespace, u.GetOwnerReferences()), "", world.Ref{})
}

// machineOwner finds what a Machine goes back to: by Cluster API's labels, which name the MachineDeployment behind a
// MachineSet, or else by its controller.
func machineOwner(namespace string, labels machineLabels, controller world.Ref, apiVersion string, controlPlane world.Ref) world.Ref {
	if labels.isControlPlane {
		if controlPlane.Name != "" {
			return controlPlane
		}
		if controller.Name == "" {
			return world.Ref{Namespace: namespace, Name: labels.controlPlane}
		}
	}
	for _, by := range []struct{ name, kind string }{
		{labels.deployment, "MachineDeployment"}, {labels.set, "MachineSet"}, {labels.pool, "MachinePool"},
	} {
		if by.name != "" {
			return world.Ref{APIVersion: apiVersion, Kind: by.kind, Namespace: namespace, Name: by.name}
		}
	}
	return controller
}
