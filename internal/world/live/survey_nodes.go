// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/world"
)

const (
	controlPlaneGroup = "controlplane.cluster.x-k8s.io"
	bootstrapGroup    = "bootstrap.cluster.x-k8s.io"
)

// nodesTopic looks at control planes and worker pools. Machines are only counted: there may be ten thousand.
func nodesTopic() topic {
	return topic{name: world.TopicNodes, begin: func(_ context.Context, s *surveyor) (func(context.Context) error, error) {
		c := newNodeCollector()
		err := s.visitEach(map[schema.GroupKind]func(*unstructured.Unstructured){
			{Group: capiGroup, Kind: "Cluster"}:                          c.cluster,
			{Group: capiGroup, Kind: "MachineDeployment"}:                c.pool,
			{Group: capiGroup, Kind: "MachinePool"}:                      c.pool,
			{Group: capiGroup, Kind: "MachineSet"}:                       c.set,
			{Group: capiGroup, Kind: "Machine"}:                          c.machine,
			{Group: bootstrapGroup, Kind: "KubeadmConfigTemplate"}:       c.template,
			{Group: "runtime.cluster.x-k8s.io", Kind: "ExtensionConfig"}: c.extension,
			{Group: controlPlaneGroup, Kind: "KubeadmControlPlane"}:      c.controlPlane,
		})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return c.finish(ctx, s) }, nil
	}}
}

// visitEach is visitKind for several kinds.
func (s *surveyor) visitEach(see map[schema.GroupKind]func(*unstructured.Unstructured)) error {
	for gk, f := range see {
		if err := s.visitKind(gk, f); err != nil {
			return err
		}
	}
	return nil
}

// listKinds shows all objects of kinds that became known only by what was visited.
func (s *surveyor) listKinds(ctx context.Context, kinds map[schema.GroupKind]bool, see func(*unstructured.Unstructured)) error {
	for _, gk := range slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupKind) int { return cmp.Compare(a.String(), b.String()) }) {
		ms, err := s.mappings(gk)
		if err != nil {
			return fmt.Errorf("find kind %s: %w", gk, err)
		}
		if len(ms) == 0 {
			continue
		}
		if err := s.walk(ctx, &visit{mapping: ms[0], visitors: []visitor{{see: see}}}); err != nil {
			return fmt.Errorf("list %s: %w", gk, err)
		}
	}
	return nil
}

// owned names what Machines go back to, without the version of its kind.
type owned struct{ cluster, kind, name string }

// nodeCollector puts the picture together from objects that come in any order.
type nodeCollector struct {
	clusters map[string]*world.NodeCluster
	// controlPlaneOf is the control plane that each cluster names.
	controlPlaneOf map[string]objectKey
	controlPlanes  map[objectKey]*world.ControlPlane
	pools          map[owned]*world.Pool
	// preflights are what holds back MachineSets, by their MachineDeployment.
	preflights map[owned][]world.Preflight
	// machines counts Machines by version.
	machines map[owned]map[string]int
	// templates are versions written into bootstrap templates.
	templates  map[objectKey]map[string]string
	word       *regexp.Regexp
	extensions []extension
}

// controlPlaneKind stands for the control plane of whatever kind in owned.
const controlPlaneKind = "control plane"

func newNodeCollector() *nodeCollector {
	return &nodeCollector{
		clusters: map[string]*world.NodeCluster{}, controlPlaneOf: map[string]objectKey{}, controlPlanes: map[objectKey]*world.ControlPlane{},
		pools: map[owned]*world.Pool{}, preflights: map[owned][]world.Preflight{}, machines: map[owned]map[string]int{},
		templates: map[objectKey]map[string]string{}, word: versionWord(),
	}
}

func (c *nodeCollector) cluster(u *unstructured.Unstructured) {
	n := &world.NodeCluster{Ref: world.RefOf(u), Labels: u.GetLabels(), Deleting: u.GetDeletionTimestamp() != nil, Topology: topologyOf(u)}
	c.clusters[n.Key()] = n
	if key, named := controlPlaneOf(u); named {
		c.controlPlaneOf[n.Key()] = key
	}
}

func (c *nodeCollector) controlPlane(u *unstructured.Unstructured) {
	c.controlPlanes[keyOf(u)] = surveyedControlPlane(u)
}

func (c *nodeCollector) pool(u *unstructured.Unstructured) {
	if cluster := ownClusterKey(u); cluster != "" {
		c.pools[owned{cluster: cluster, kind: u.GetKind(), name: u.GetName()}] = surveyedPool(u)
	}
}

// set takes a MachineSet as a pool of its own, or as a part of its MachineDeployment.
func (c *nodeCollector) set(u *unstructured.Unstructured) {
	cluster := ownClusterKey(u)
	deployment := u.GetLabels()[deploymentLabel]
	if deployment == "" {
		for _, o := range u.GetOwnerReferences() {
			if o.Kind == "MachineDeployment" {
				deployment = o.Name
			}
		}
	}
	switch {
	case cluster == "":
	case deployment == "":
		c.pool(u)
		key := owned{cluster: cluster, kind: u.GetKind(), name: u.GetName()}
		c.pools[key].Preflights = preflightsOf(u)
	default:
		key := owned{cluster: cluster, kind: "MachineDeployment", name: deployment}
		c.preflights[key] = append(c.preflights[key], preflightsOf(u)...)
	}
}

func (c *nodeCollector) machine(u *unstructured.Unstructured) {
	if u.GetDeletionTimestamp() != nil {
		return
	}
	key := owned{cluster: ownClusterKey(u)}
	if _, is := u.GetLabels()[controlPlaneLabel]; is {
		key.kind = controlPlaneKind
	} else {
		owner := ownerOfMachine(u)
		key.kind, key.name = owner.Kind, owner.Name
	}
	if c.machines[key] == nil {
		c.machines[key] = map[string]int{}
	}
	c.machines[key][cmp.Or(stringAt(u, "status", "nodeInfo", "kubeletVersion"), stringAt(u, "spec", "version"))]++
}

func (c *nodeCollector) template(u *unstructured.Unstructured) {
	if v := versionsIn(u, c.word); len(v) > 0 {
		c.templates[keyOf(u)] = v
	}
}

// finish reads the kinds that only the clusters and pools name, and joins everything.
func (c *nodeCollector) finish(ctx context.Context, s *surveyor) error {
	kinds, templates := map[schema.GroupKind]bool{}, map[schema.GroupKind]bool{}
	for _, key := range c.controlPlaneOf {
		kinds[key.kind] = true
	}
	delete(kinds, schema.GroupKind{Group: controlPlaneGroup, Kind: "KubeadmControlPlane"})
	for _, p := range c.pools {
		if gk := groupKind(p.Bootstrap); gk.Kind != "" {
			templates[gk] = true
		}
	}
	delete(templates, schema.GroupKind{Group: bootstrapGroup, Kind: "KubeadmConfigTemplate"})
	if err := s.listKinds(ctx, kinds, c.controlPlane); err != nil {
		return err
	}
	if err := s.listKinds(ctx, templates, c.template); err != nil {
		return err
	}
	hooks, err := s.hooksOf(ctx, c.extensions)
	if err != nil {
		return err
	}
	s.out.Nodes = &world.Nodes{Clusters: c.join(hooks), Hooks: hooks}
	return nil
}

func (c *nodeCollector) join(hooks []world.Hook) []world.NodeCluster {
	for key, p := range c.pools {
		n := c.clusters[key.cluster]
		if n == nil {
			continue // its cluster is gone
		}
		if machines := c.machines[key]; len(machines) > 0 {
			p.Nodes = machines
		}
		p.Counts = counted(p.Counts, p.Version, p.Nodes)
		p.Preflights = append(p.Preflights, c.preflights[key]...)
		p.BootstrapVersions = c.templates[objectKey{kind: groupKind(p.Bootstrap), namespace: p.Bootstrap.Namespace, name: p.Bootstrap.Name}]
		n.Pools = append(n.Pools, *p)
	}
	out := make([]world.NodeCluster, 0, len(c.clusters))
	for _, key := range slices.Sorted(maps.Keys(c.clusters)) {
		n := c.clusters[key]
		slices.SortFunc(n.Pools, func(a, b world.Pool) int {
			return cmp.Or(cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(a.Ref.Name, b.Ref.Name))
		})
		if cp := c.controlPlanes[c.controlPlaneOf[key]]; cp != nil {
			cp.Nodes = c.machines[owned{cluster: key, kind: controlPlaneKind}]
			n.ControlPlane = cp
		}
		if n.Topology != nil {
			blame(n.Topology, n.Ref.Namespace, hooks)
		}
		out = append(out, *n)
	}
	return out
}

// counted completes what an owner's status leaves out: a MachineSet in v1beta1 does not say how many Machines are up to
// date.
func counted(c world.Counts, version string, nodes map[string]int) world.Counts {
	if c.UpToDate < 0 {
		c.UpToDate = int64(nodes[version])
	}
	return c
}

func ownClusterKey(u *unstructured.Unstructured) string {
	name := cmp.Or(stringAt(u, "spec", "clusterName"), u.GetLabels()[clusterLabel])
	if name == "" {
		return ""
	}
	return u.GetNamespace() + "/" + name
}

func groupKind(r world.Ref) schema.GroupKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).GroupKind()
}
