// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// hostTimeout is how long one workload cluster may take to answer a survey, and hostsLimit how long all may take
	// together: those that were not reached by then are not judged.
	hostTimeout = 3 * time.Second
	hostsLimit  = 20 * time.Second
	// clonedFromAnnotation names the template that an infrastructure Machine was made from.
	clonedFromAnnotation = "cluster.x-k8s.io/cloned-from-name"
	// answerLimit bounds what is read of an answer.
	answerLimit = 1 << 20
)

// identities are what a node is known by.
type identities struct{ names, providerIDs, uids map[string]bool }

// hosted is a Machine's own word about the node that it is.
type hosted struct{ cluster, node, nodeUID, providerID string }

// hostsTopic finds out which workload clusters answer, and which of them is the management cluster: because it is the same
// API server, or because its Machines are the management cluster's nodes.
func hostsTopic() topic {
	return topic{name: world.TopicHosts, begin: func(_ context.Context, s *surveyor) (func(context.Context) error, error) {
		nodes := identities{names: map[string]bool{}, providerIDs: map[string]bool{}, uids: map[string]bool{}}
		var machines []hosted
		err := s.visitKind(schema.GroupKind{Kind: "Node"}, func(u *unstructured.Unstructured) {
			nodes.names[u.GetName()], nodes.uids[string(u.GetUID())] = true, true
			if id := stringAt(u, "spec", "providerID"); id != "" {
				nodes.providerIDs[id] = true
			}
		})
		if err != nil {
			return nil, err
		}
		err = s.visitKind(schema.GroupKind{Group: capiGroup, Kind: "Machine"}, func(u *unstructured.Unstructured) {
			h := hosted{
				cluster: u.GetNamespace() + "/" + cmp.Or(stringAt(u, "spec", "clusterName"), u.GetLabels()[clusterLabel]),
				node:    stringAt(u, "status", "nodeRef", "name"), nodeUID: stringAt(u, "status", "nodeRef", "uid"),
				providerID: stringAt(u, "spec", "providerID"),
			}
			if h.node != "" || h.providerID != "" {
				machines = append(machines, h)
			}
		})
		return func(ctx context.Context) error { return s.hosts(ctx, nodes, machines) }, err
	}}
}

// hosts puts together what was seen and what the clusters answer.
func (s *surveyor) hosts(ctx context.Context, nodes identities, machines []hosted) error {
	home, err := s.clusterUID(ctx)
	if err != nil {
		return err
	}
	known, err := s.kubeconfigs(ctx)
	if err != nil {
		return err
	}
	out := make([]world.Host, len(s.fleet.clusters))
	calling, cancel := context.WithTimeout(ctx, hostsLimit)
	defer cancel()
	// A cluster that does not answer is what was found, not an error.
	_ = forEach(len(out), s.parallel, func(i int) error {
		c := &s.fleet.clusters[i]
		out[i].Cluster = c.Key()
		uid := ""
		if known[c.Key()] && !c.Deleting && calling.Err() == nil {
			uid, out[i].Asked, out[i].Failed = s.askWho(calling, clusterName{namespace: c.Namespace, name: c.Name})
		}
		out[i].Managing, out[i].Nodes = managing(c.Key(), uid, home, nodes, machines)
		return nil
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range out {
		if out[i].Managing != "" {
			if out[i].Clones, err = s.clones(ctx, &s.fleet.clusters[i]); err != nil {
				return err
			}
		}
	}
	s.fleetOut().Hosts = out
	return nil
}

// managing tells by which fact a cluster is the management cluster, and how many of its nodes its Machines are. A cluster
// that answered as another one is not, whatever its nodes are called.
func managing(cluster, uid, home string, nodes identities, machines []hosted) (string, int) {
	why, n := "", 0
	for _, m := range machines {
		if m.cluster != cluster {
			continue
		}
		switch {
		case m.providerID != "" && nodes.providerIDs[m.providerID]:
			why, n = fmt.Sprintf("node %s has the provider ID of one of its Machines", cmp.Or(m.node, m.providerID)), n+1
		case m.nodeUID != "" && nodes.uids[m.nodeUID]:
			why, n = fmt.Sprintf("node %s is one of its Machines", m.node), n+1
		case m.node != "" && m.nodeUID == "" && nodes.names[m.node] && (m.providerID == "" || len(nodes.providerIDs) == 0):
			why, n = fmt.Sprintf("node %s has the name of one of its nodes", m.node), n+1
		}
	}
	switch {
	case uid == "":
		return why, n
	case uid != home:
		return "", 0
	}
	return "both have the same namespace kube-system", n
}

// kubeconfigs tells which clusters have a Secret with a kubeconfig, by namespace/name.
func (s *surveyor) kubeconfigs(ctx context.Context) (map[string]bool, error) {
	from := s.clients.metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets"))
	list, err := listMetadata(ctx, from, metav1.ListOptions{LabelSelector: clusterLabel})
	if err != nil {
		return nil, fault(ctx, "list the kubeconfigs", err)
	}
	out := map[string]bool{}
	for i := range list {
		if name := list[i].Labels[clusterLabel]; list[i].Name == name+"-kubeconfig" {
			out[list[i].Namespace+"/"+name] = true
		}
	}
	return out, nil
}

// askWho asks a workload cluster who it is. It is not asked where the kubeconfig can't be used at all.
func (s *surveyor) askWho(ctx context.Context, name clusterName) (uid string, asked bool, failed string) {
	w := &workload{name: name, management: s.clients, proxy: s.proxy, timeout: hostTimeout}
	if err := w.ready(ctx, s.at); err != nil {
		return "", false, ""
	}
	defer w.close()
	uid, err := w.identity(ctx)
	if err != nil && ctx.Err() == nil {
		return "", true, diagnose.Words(err)
	}
	return uid, err == nil, ""
}

// identity is the UID of the cluster's namespace kube-system; empty if it answers and does not tell.
func (w *workload) identity(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	address := w.server.JoinPath("/api/v1/namespaces/" + metav1.NamespaceSystem).String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("call the API server: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or of no use any more
	if resp.StatusCode != http.StatusOK {
		return "", nil // an answer all the same
	}
	var ns metav1.PartialObjectMetadata
	if err := json.NewDecoder(io.LimitReader(resp.Body, answerLimit)).Decode(&ns); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return string(ns.UID), nil
}

// clones finds the control plane Machines of a cluster that were made from another template than the present one.
func (s *surveyor) clones(ctx context.Context, c *world.Cluster) (map[string]string, error) {
	ms, err := s.mappings(schema.GroupKind{Group: capiGroup, Kind: "Machine"})
	if err != nil || len(ms) == 0 {
		return nil, err
	}
	selector := clusterLabel + "=" + c.Name + "," + controlPlaneLabel
	machines, err := list(ctx, s.clients.resource(ms[0], c.Namespace), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fault(ctx, "list the Machines of "+c.Key(), err)
	}
	wanted := map[string]bool{}
	for _, o := range c.Owners {
		if name := o.Template["spec.machineTemplate.spec.infrastructureRef.name"]; name != "" {
			wanted[name] = true
		}
	}
	out := map[string]string{}
	for i := range machines {
		from, err := s.clonedFrom(ctx, &machines[i])
		if err != nil {
			return nil, err
		}
		if from != "" && len(wanted) > 0 && !wanted[from] {
			out[machines[i].GetName()] = from
		}
	}
	return out, nil
}

// clonedFrom is the name of the template that a Machine's infrastructure was made from; empty if that is not known.
func (s *surveyor) clonedFrom(ctx context.Context, machine *unstructured.Unstructured) (string, error) {
	ref := []string{"spec", "infrastructureRef"}
	group := stringAt(machine, append(slices.Clone(ref), "apiGroup")...)
	if group == "" {
		gv, err := schema.ParseGroupVersion(stringAt(machine, append(slices.Clone(ref), "apiVersion")...))
		if err != nil {
			return "", nil //nolint:nilerr // a reference that is not well formed leads nowhere
		}
		group = gv.Group
	}
	name := stringAt(machine, append(slices.Clone(ref), "name")...)
	ms, err := s.mappings(schema.GroupKind{Group: group, Kind: stringAt(machine, append(slices.Clone(ref), "kind")...)})
	if err != nil || len(ms) == 0 || name == "" {
		return "", err
	}
	meta, err := s.clients.metadataOf(ms[0], machine.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
	if diagnose.Classify(err) == diagnose.ClassNotFound {
		return "", nil
	}
	if err != nil {
		return "", fault(ctx, "read the infrastructure of Machine "+machine.GetName(), err)
	}
	return meta.Annotations[clonedFromAnnotation], nil
}
