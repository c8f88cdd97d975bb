// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/roll"
	"github.com/capstan-dev/capstan/internal/world"
)

// fromRoll makes the function of a check out of what was found while the roll was planned.
func fromRoll(id string) func(*world.World, *Target) []v1alpha1.Finding {
	return func(_ *world.World, t *Target) []v1alpha1.Finding {
		if t.nodes().Roll == nil {
			return nil
		}
		var out []v1alpha1.Finding
		for _, f := range t.nodes().Roll.Findings {
			if f.ID == id {
				out = append(out, f)
			}
		}
		return out
	}
}

// rollChecks are about owners of Machines and their templates when an image is rolled.
func rollChecks() []Check {
	return []Check{
		rollTemplate(), rollOwner(), rollStrategy(), rollDrift(),
		{
			ID: roll.IDAutoscaler, Scope: Nodes, Title: "No autoscaler changes a pool while it is rolled",
			Doc: "While old Machines wait for their turn the cluster autoscaler may find a pool too large. The pool then gets fewer Machines, and which ones go is " +
				"Cluster API's choice: new ones for the most part.",
			Fix:     "Turn scaling down off for the time of the roll.",
			Sources: []string{"https://github.com/kubernetes/autoscaler/issues/8494"}, Run: fromRoll(roll.IDAutoscaler),
		},
		{
			ID: roll.IDUnavailable, Scope: Nodes, Waivable: true, Title: "All Machines of a pool are available before it is rolled",
			Doc: "Cluster API counts Machines that are not available against those that a roll may take away. With too many of them before it begins, the numbers of old and " +
				"new Machines stay as they are, and no object says so. A control plane with a member that is not well takes no step at all.",
			Fix:     "Bring the Machines back, or delete them so that they are replaced, before the roll.",
			Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/1049", "https://github.com/kubernetes-sigs/cluster-api/issues/8987"}, Run: fromRoll(roll.IDUnavailable),
		},
		{
			ID: roll.IDHealthCheck, Scope: Nodes, Title: "Health checks leave new Machines the time that they need",
			Doc: "A MachineHealthCheck replaces a Machine that is no node after nodeStartupTimeout, 10 minutes unless it says otherwise. On bare metal the clock starts with the " +
				"Machine, before its host is cleaned and written, so each new Machine may be deleted before it is a node, over and over. The roll pauses the health " +
				"checks of a pool and takes the pause away at its end.",
			Fix: "Set nodeStartupTimeout to more than the slowest host needs.",
			Sources: []string{
				"https://github.com/aws/eks-anywhere/issues/3918", "https://github.com/aws/eks-anywhere/issues/4709", "https://github.com/kubernetes-sigs/cluster-api/issues/3026",
			}, Run: fromRoll(roll.IDHealthCheck),
		},
	}
}

func rollTemplate() Check {
	return Check{
		ID: roll.IDTemplate, Scope: Nodes, Title: "Each pool's machine template can get the image",
		Doc: "Machines get another image by a new template: the old one is copied under another name, with the image's fields changed, and the control plane or " +
			"MachineDeployment is pointed to the copy. Editing a template in place is refused by some providers, and by the others it rolls nothing. Which fields " +
			"carry the image depends on the kind of the template.",
		Fix:     "Name an image that has what the kind needs (a url, or an id), and see that each pool's template is there.",
		Sources: []string{"https://github.com/k0rdent/kcm/issues/1107"},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			if t.nodes().Image == nil {
				return nil
			}
			if why, failed := w.Survey.Failed(world.TopicPools); failed {
				return []v1alpha1.Finding{unknown(string(world.TopicPools)+" could not be looked at: "+why, "make it readable for the account that you use, then plan again")}
			}
			return fromRoll(roll.IDTemplate)(w, t)
		},
	}
}

func rollOwner() Check {
	return Check{
		ID: roll.IDOwner, Scope: Nodes, Title: "Each pool follows a new template by itself, and nothing sets it back",
		Doc: "A paused owner takes a change and does nothing. With strategy OnDelete it waits until somebody deletes Machines. A pool that a ClusterClass makes gets its " +
			"template from the class: what is written to the pool is set back at once.",
		Fix: "Take the pause away, set the strategy to RollingUpdate, or change the image where the ClusterClass takes it from.",
		Run: fromRoll(roll.IDOwner),
	}
}

func rollStrategy() Check {
	return Check{
		ID: roll.IDStrategy, Scope: Nodes, Title: "A pool that has to let a Machine go first can do without it",
		Doc: "Without a free host the old Machine has to go before the new one comes. Cluster API lets a control plane do that with three replicas or more, as etcd " +
			"needs two of three members meanwhile. A pool of one worker would be empty meanwhile. A pool with maxSurge 0 and maxUnavailable 0 can do neither.",
		Fix:     "Add a host so that the new Machine can come first, or scale the pool up before the roll.",
		Sources: []string{"https://github.com/airshipit/airshipctl/issues/621", "https://github.com/rancher/cluster-api-provider-rke2/issues/166"},
		Run:     fromRoll(roll.IDStrategy),
	}
}

func rollDrift() Check {
	return Check{
		ID: roll.IDDrift, Scope: Nodes, Waivable: true, Title: "No template was edited in place",
		Doc: "Where a provider lets a machine template be edited, nothing is rolled by that: running Machines keep what they have, and only those that are made later, by a " +
			"repair or by scaling, get the new content. A pool then has two images without anybody having said so.",
		Fix:     "Roll the pool with a new template, or set the template back to what the Machines have.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/4145", "https://github.com/kubernetes-sigs/cluster-api-provider-openstack/issues/858"},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			if t.nodes().Roll != nil {
				return fromRoll(roll.IDDrift)(w, t)
			}
			if w.Survey == nil || w.Survey.Pools == nil {
				return nil
			}
			maps, err := roll.BuiltIn()
			if err != nil {
				return []v1alpha1.Finding{unknown("Capstan's own list of template kinds can't be read: "+err.Error(), "report it as a fault of Capstan")}
			}
			return roll.Drift(w.Survey.Pools.Clusters, maps)
		},
	}
}

// hostChecks are about bare-metal hosts when an image is rolled.
func hostChecks() []Check {
	return []Check{
		{
			ID: roll.IDSpare, Scope: Nodes, Title: "A host is free for a Machine that comes first",
			Doc: "With maxSurge 1 the new Machine comes before the old one goes, and needs a host that no Machine has: of the pool's namespace, with the labels that its template " +
				"selects, available, and neither paused, detached, in error nor reserved for another pool. Without one Cluster API waits for ever and no object says what for. " +
				"Free hosts are counted over all pools in the order of the roll, and every host is told with its reason.",
			Fix: "Add a host, or let the old Machine go first: `--strategy scale-in`.",
			Sources: []string{
				"https://github.com/openshift/cluster-api-provider-baremetal/issues/103", "https://github.com/aws/eks-anywhere/issues/7818",
				"https://github.com/metal3-io/cluster-api-provider-metal3/issues/3190",
			}, Run: fromRoll(roll.IDSpare),
		},
		{
			ID: roll.IDHeld, Scope: Nodes, Waivable: true, Title: "Each pool's hosts can be freed and written",
			Doc: "An old Machine is gone only when its host was deprovisioned. A host that is paused, detached or in error is not, and its Machine is then deleted for ever, while no " +
				"object names the reason.",
			Fix: "Bring the host back before the roll, or take its Machine out of the pool.", Run: fromRoll(roll.IDHeld),
		},
		{
			ID: roll.IDFit, Scope: Nodes, Waivable: true, Title: "The image fits the hosts of each pool",
			Doc: "The root disk must not be smaller than the disk in the image, a qcow2 file is unpacked in memory, and the architecture has to be the host's. What does not fit is " +
				"found by the provisioner when the old image is gone.",
			Fix: "Take an image that fits, or take the host out of the pool.", Run: fromRoll(roll.IDFit),
		},
		{
			ID: roll.IDCleaning, Scope: Nodes, Waivable: true, Title: "No disk is wiped that holds data",
			Doc: "Between two images a host is cleaned, and the default mode, metadata, erases the partition tables of all disks, not of the root disk alone: volumes of Ceph, " +
				"Longhorn or local storage are lost with them. The template's mode goes before the host's.",
			Fix: "Set automatedCleaningMode: disabled and rootDeviceHints, or accept the finding where no disk holds data.",
			Sources: []string{
				"https://github.com/metal3-io/baremetal-operator/issues/2589", "https://github.com/metal3-io/baremetal-operator/issues/626",
			}, Run: fromRoll(roll.IDCleaning),
		},
	}
}
