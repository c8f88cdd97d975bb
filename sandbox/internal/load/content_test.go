// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestShapesAddUp(t *testing.T) {
	t.Parallel()
	for _, size := range []Size{{}, {Clusters: 1, Machines: 1}, {Clusters: 7, Machines: 7}, {Clusters: 10, Machines: 99}, {Clusters: 1000, Machines: 10000}, {Clusters: 3, Machines: 5000}} {
		if err := size.Validate(); err != nil {
			t.Errorf("%+v: %v", size, err)
		}
		machines := 0
		shapes := size.shapes()
		for _, s := range shapes {
			if s.controlPlanes%2 == 0 {
				t.Errorf("%+v: a control plane of %d Machines", size, s.controlPlanes)
			}
			machines += s.controlPlanes
			for _, n := range s.pools {
				if n < 1 {
					t.Errorf("%+v: a pool of %d Machines", size, n)
				}
				machines += n
			}
		}
		if len(shapes) != size.Clusters || machines != size.Machines {
			t.Errorf("%+v: %d Clusters with %d Machines", size, len(shapes), machines)
		}
	}
}

func TestSizesThatMakeNoFleet(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]Size{
		"fewer Machines than Clusters": {Clusters: 2, Machines: 1},
		"Machines of no Cluster":       {Machines: 1},
		"less than nothing":            {CRDs: -1},
	} {
		if size.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// fleetOf returns the objects of a fleet by kind.
func fleetOf(s Size) map[string][]*unstructured.Unstructured {
	out := map[string][]*unstructured.Unstructured{}
	for _, shape := range s.shapes() {
		for _, it := range clusterItems(shape, s.Parts) {
			u := it.object.DeepCopy()
			if it.status != nil {
				u.Object["status"] = it.status
			}
			out[u.GetKind()] = append(out[u.GetKind()], u)
		}
	}
	return out
}

func TestAFleetIsAtRest(t *testing.T) {
	t.Parallel()
	fleet := fleetOf(Size{Clusters: 40, Machines: 400, Parts: true})
	count := func(kind string) int { return len(fleet[kind]) }
	if count("Cluster") != 40 || count("KubeadmControlPlane") != 40 || count("Machine") != 400 || count("MachineSet") != count("MachineDeployment") {
		t.Errorf("%d Clusters, %d KubeadmControlPlanes, %d Machines, %d MachineSets of %d MachineDeployments",
			count("Cluster"), count("KubeadmControlPlane"), count("Machine"), count("MachineSet"), count("MachineDeployment"))
	}
	if count("DevMachine") != 400 || count("KubeadmConfig") != 400 {
		t.Errorf("%d DevMachines and %d KubeadmConfigs", count("DevMachine"), count("KubeadmConfig"))
	}
	machines := map[string]int64{} // by namespace/name of what they go back to
	for _, m := range fleet["Machine"] {
		labels := m.GetLabels()
		owner := labels[controlPlaneNameLabel]
		if owner == "" {
			owner = labels[deploymentNameLabel]
		}
		machines[m.GetNamespace()+"/"+owner]++
		if phase, _, _ := unstructured.NestedString(m.Object, "status", "phase"); phase != "Running" {
			t.Errorf("Machine %s is %q", m.GetName(), phase)
		}
		if node, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name"); node == "" {
			t.Errorf("Machine %s has no node", m.GetName())
		}
	}
	for _, kind := range []string{"KubeadmControlPlane", "MachineDeployment"} {
		for _, o := range fleet[kind] {
			for _, path := range [][]string{
				{"spec", "replicas"}, {"status", "replicas"}, {"status", "readyReplicas"}, {"status", "availableReplicas"}, {"status", "upToDateReplicas"},
			} {
				n, found, _ := unstructured.NestedInt64(o.Object, path...)
				if want := machines[o.GetNamespace()+"/"+o.GetName()]; !found || n != want {
					t.Errorf("%s %s: %s is %d, want %d Machines", kind, o.GetName(), strings.Join(path, "."), n, want)
				}
			}
		}
	}
	for _, c := range fleet["Cluster"] {
		if paused, _, _ := unstructured.NestedBool(c.Object, "spec", "paused"); !paused {
			t.Errorf("Cluster %s is not paused: its controllers would look for Machines that do not exist", c.GetName())
		}
	}
}

func TestReferencesLeadSomewhere(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	fleet := fleetOf(Size{Clusters: 10, Machines: 100, Parts: true})
	for kind, all := range fleet {
		for _, o := range all {
			key := kind + "/" + o.GetNamespace() + "/" + o.GetName()
			if there[key] {
				t.Errorf("%s is there twice", key)
			}
			there[key] = true
		}
	}
	seen := 0
	var follow func(namespace string, v any)
	follow = func(namespace string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if _, is := v["apiGroup"]; is {
				seen++
				if key := fmt.Sprintf("%v/%s/%v", v["kind"], namespace, v["name"]); !there[key] {
					t.Errorf("nothing is at %s", key)
				}
			}
			for _, child := range v {
				follow(namespace, child)
			}
		case []any:
			for _, child := range v {
				follow(namespace, child)
			}
		}
	}
	for _, all := range fleet {
		for _, o := range all {
			follow(o.GetNamespace(), o.Object["spec"])
		}
	}
	if seen < 250 {
		t.Errorf("only %d references were looked at", seen)
	}
}

func TestContentIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	size := Size{Clusters: 10, Machines: 60, Parts: true}
	if diff := cmp.Diff(fleetOf(size), fleetOf(size)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(extraCRD(7).item().object, extraCRD(7).item().object); diff != "" {
		t.Error(diff)
	}
}

func TestExtraCRDsAreDifferentAndHaveUpToThreeObjects(t *testing.T) {
	t.Parallel()
	names, counts := map[string]bool{}, map[int]int{}
	for i := range 500 {
		c := extraCRD(i)
		names[c.item().object.GetName()] = true
		counts[len(c.instances())]++
		if want := c.plural() + "." + c.group(); c.item().object.GetName() != want {
			t.Errorf("CRD %s, want %s", c.item().object.GetName(), want)
		}
	}
	if len(names) != 500 {
		t.Errorf("%d different names of 500", len(names))
	}
	if diff := cmp.Diff(map[int]int{0: 125, 1: 125, 2: 125, 3: 125}, counts); diff != "" {
		t.Errorf("CRDs by number of objects, -want +got:\n%s", diff)
	}
}
