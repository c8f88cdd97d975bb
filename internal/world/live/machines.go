// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/world"
)

// fullGets is up to how many Machines are read one by one rather than by another list of all.
const fullGets = 25

// machine is a Machine's metadata together with what only its full object tells.
type machine struct {
	metadata *metav1.ObjectMeta
	cluster  string
	facts    machineFacts
}

// machineFacts is what only a Machine's full object tells. A change of spec changes the generation, so facts of the
// present generation are true; a health check's verdict is in the status, and is read again while the Machine goes.
type machineFacts struct {
	generation int64
	version    string
	remediated bool
}

// machines reads all Machines. The first time it reads them in full; later only their metadata, which takes a tenth of
// the bytes, and in full those that are new, changed or being deleted.
func (r *round) machines(ctx context.Context) ([]machine, error) {
	var out []machine
	err := r.acrossVersions(ctx, schema.GroupKind{Group: capiGroup, Kind: "Machine"}, func(m *apimeta.RESTMapping, _ string) (err error) {
		if len(r.fleet.machines) == 0 {
			out, err = r.fullMachines(ctx, m)
			return err
		}
		out, err = r.machinesByMetadata(ctx, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	known := make(map[string]machineFacts, len(out))
	for _, m := range out {
		known[string(m.metadata.UID)] = m.facts
	}
	r.fleet.machines = known
	return out, nil
}

func (r *round) fullMachines(ctx context.Context, m *apimeta.RESTMapping) ([]machine, error) {
	from := r.clients.resource(m, "")
	return paged(metav1.ListOptions{}, func(opts metav1.ListOptions) ([]machine, string, error) {
		page, err := from.List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		out := make([]machine, 0, len(page.Items))
		for i := range page.Items {
			out = append(out, fullMachine(&page.Items[i]))
		}
		return out, page.GetContinue(), nil
	})
}

func (r *round) machinesByMetadata(ctx context.Context, m *apimeta.RESTMapping) ([]machine, error) {
	from := r.clients.metadataOf(m, "")
	var unknown []int
	out, err := paged(metav1.ListOptions{}, func(opts metav1.ListOptions) ([]machine, string, error) {
		page, err := from.List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		out := make([]machine, 0, len(page.Items))
		for i := range page.Items {
			meta := &page.Items[i].ObjectMeta
			out = append(out, machine{metadata: slim(meta), cluster: clusterKey(meta), facts: r.fleet.machines[string(meta.UID)]})
		}
		return out, page.GetContinue(), nil
	})
	if err != nil {
		return nil, err
	}
	for i, machine := range out {
		if machine.facts.generation != machine.metadata.Generation || machine.metadata.DeletionTimestamp != nil {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) > fullGets {
		return r.fullMachines(ctx, m)
	}
	err = forEach(len(unknown), r.parallel, func(i int) error {
		at := &out[unknown[i]]
		full, err := r.clients.resource(m, at.metadata.Namespace).Get(ctx, at.metadata.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			// It went in between; the next reading will not have it.
			return nil
		}
		if err != nil {
			return err
		}
		if full.GetUID() == at.metadata.UID {
			*at = fullMachine(full)
		}
		return nil
	})
	return out, err
}

func fullMachine(u *unstructured.Unstructured) machine {
	meta := slim(&metav1.ObjectMeta{
		Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(), Generation: u.GetGeneration(),
		Labels: u.GetLabels(), Annotations: u.GetAnnotations(), OwnerReferences: u.GetOwnerReferences(), DeletionTimestamp: u.GetDeletionTimestamp(),
	})
	return machine{metadata: meta, cluster: clusterKey(meta), facts: machineFacts{
		generation: u.GetGeneration(),
		version:    stringAt(u, "spec", "version"),
		remediated: conditionIs(u, "OwnerRemediated", "False"),
	}}
}

// slim keeps what a picture of the fleet needs; managed fields are most of a Machine's metadata.
func slim(m *metav1.ObjectMeta) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, Generation: m.Generation,
		Labels: m.Labels, Annotations: m.Annotations, OwnerReferences: m.OwnerReferences, DeletionTimestamp: m.DeletionTimestamp,
	}
}

func clusterKey(m *metav1.ObjectMeta) string { return m.Namespace + "/" + m.Labels[clusterLabel] }

// in returns the Machine as part of a Cluster with the given control plane. apiVersion is the one that owners of
// Cluster API's own kinds have in references.
func (m machine) in(apiVersion string, controlPlane world.Ref) world.Machine {
	_, asked := m.metadata.Annotations[remediateAnnotation]
	return world.Machine{
		Name:       m.metadata.Name,
		UID:        string(m.metadata.UID),
		Owner:      m.owner(apiVersion, controlPlane),
		Version:    m.facts.version,
		Deleting:   m.metadata.DeletionTimestamp != nil,
		Remediated: asked || m.facts.remediated,
	}
}

// owner finds what the Machine goes back to: by Cluster API's labels, which name the MachineDeployment behind a
// MachineSet, or else by its controller.
func (m machine) owner(apiVersion string, controlPlane world.Ref) world.Ref {
	labels, ns := m.metadata.Labels, m.metadata.Namespace
	controller := metav1.GetControllerOf(m.metadata)
	if _, is := labels[controlPlaneLabel]; is {
		if controlPlane.Name != "" {
			return controlPlane
		}
		if controller == nil {
			return world.Ref{Namespace: ns, Name: labels[controlPlaneNameLabel]}
		}
	}
	for _, by := range []struct{ label, kind string }{
		{deploymentLabel, "MachineDeployment"}, {setLabel, "MachineSet"}, {poolLabel, "MachinePool"},
	} {
		if name := labels[by.label]; name != "" {
			return world.Ref{APIVersion: apiVersion, Kind: by.kind, Namespace: ns, Name: name}
		}
	}
	if controller != nil {
		return world.Ref{APIVersion: controller.APIVersion, Kind: controller.Kind, Namespace: ns, Name: controller.Name}
	}
	return world.Ref{}
}

// conditionIs tells whether an object has a condition with a status, in metav1 conditions or those of older API versions.
func conditionIs(u *unstructured.Unstructured, conditionType, status string) bool {
	for _, path := range [][]string{
		{"status", "conditions"}, {"status", "v1beta2", "conditions"}, {"status", "deprecated", "v1beta1", "conditions"},
	} {
		conditions, _, _ := unstructured.NestedSlice(u.Object, path...)
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["type"] == conditionType && m["status"] == status {
				return true
			}
		}
	}
	return false
}
