// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// workloadTimeout is how long a workload cluster may take to answer a plan's question.
	workloadTimeout = 10 * time.Second
	// coreDNSName is what kubeadm calls CoreDNS's Deployment, ConfigMap and container.
	coreDNSName = "coredns"
)

// changeTopic asks the API server for the change that is asked about, as a dry run: its schema, its rules and the
// webhooks of the providers answer as they would to the real one. It is looked into after nodesTopic.
func changeTopic() topic {
	return topic{name: world.TopicNodeChange, begin: func(_ context.Context, s *surveyor) (func(context.Context) error, error) {
		return func(ctx context.Context) error {
			if s.ask.Nodes == nil {
				return nil
			}
			clusters, err := s.askedClusters()
			if err != nil {
				return err
			}
			return forEach(len(clusters), s.parallel, func(i int) error { return s.tryChange(ctx, clusters[i]) })
		}, nil
	}}
}

// askedClusters are the clusters that are asked about and that nobody deletes.
func (s *surveyor) askedClusters() ([]*world.NodeCluster, error) {
	if s.out.Nodes == nil {
		return nil, errors.New("the clusters could not be listed")
	}
	var out []*world.NodeCluster
	for i := range s.out.Nodes.Clusters {
		if c := &s.out.Nodes.Clusters[i]; !c.Deleting && s.ask.Nodes.Includes(c) {
			out = append(out, c)
		}
	}
	return out, nil
}

// tryChange tries the change of one cluster: that of its topology where it has one, otherwise that of each owner of
// Machines.
func (s *surveyor) tryChange(ctx context.Context, c *world.NodeCluster) error {
	ask := s.ask.Nodes
	if c.Topology != nil {
		if ask.Version == "" || !ask.ControlPlanes {
			return nil
		}
		var err error
		c.Change, err = s.tryPatch(ctx, c.Ref, map[string]any{"spec": map[string]any{"topology": map[string]any{"version": ask.Version}}})
		return err
	}
	if cp := c.ControlPlane; cp != nil && ask.ControlPlanes {
		var err error
		if patch := controlPlanePatch(ask, cp); patch != nil {
			if cp.Change, err = s.tryPatch(ctx, cp.Ref, patch); err != nil {
				return err
			}
		}
	}
	for i := range c.Pools {
		if ask.Version == "" || c.Pools[i].Version == ask.Version {
			continue
		}
		var err error
		patch := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"version": ask.Version}}}}
		if c.Pools[i].Change, err = s.tryPatch(ctx, c.Pools[i].Ref, patch); err != nil {
			return err
		}
	}
	return nil
}

// controlPlanePatch is the change of a control plane, nil if there is none.
func controlPlanePatch(ask *world.AskNodes, cp *world.ControlPlane) map[string]any {
	spec := map[string]any{}
	if ask.Version != "" && cp.Version != ask.Version {
		spec["version"] = ask.Version
	}
	if ask.DNSTag != "" && cp.Kubeadm() && cp.DNSTag != ask.DNSTag {
		spec["kubeadmConfigSpec"] = map[string]any{"clusterConfiguration": map[string]any{"dns": map[string]any{"imageTag": ask.DNSTag}}}
	}
	if len(spec) == 0 {
		return nil
	}
	return map[string]any{"spec": spec}
}

// tryPatch returns the API server's answer to a patch that is not made. Only where there is no answer it is an error.
func (s *surveyor) tryPatch(ctx context.Context, ref world.Ref, patch map[string]any) (world.Answer, error) {
	m, err := s.mapping(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	if err != nil {
		return world.Answer{}, fmt.Errorf("find kind %s: %w", ref.Kind, err)
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return world.Answer{}, fmt.Errorf("encode the change of %s: %w", ref, err)
	}
	_, err = s.clients.resource(m, ref.Namespace).Patch(ctx, ref.Name, types.MergePatchType, data,
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "capstan"})
	switch diagnose.Classify(err) {
	case diagnose.ClassNone, diagnose.ClassNotFound, diagnose.ClassConflict:
		return world.Answer{}, nil
	case diagnose.ClassUnreachable:
		return world.Answer{}, fmt.Errorf("try the change of %s: %w", ref, err)
	case diagnose.ClassWebhookSilent:
		return world.Answer{Refused: diagnose.Words(err), Silent: true}, nil
	default:
		return world.Answer{Refused: diagnose.Words(err)}, nil
	}
}

// dnsTopic looks at CoreDNS in the workload clusters whose control planes are asked about and would touch it. What can't
// be reached is in the result. It is looked into after nodesTopic.
func dnsTopic() topic {
	return topic{name: world.TopicDNS, begin: func(_ context.Context, s *surveyor) (func(context.Context) error, error) {
		return func(ctx context.Context) error {
			clusters, err := s.askedClusters()
			if err != nil {
				return err
			}
			return forEach(len(clusters), s.parallel, func(i int) error {
				if touchesDNS(s.ask.Nodes, clusters[i].ControlPlane) {
					clusters[i].DNS = s.readDNS(ctx, clusters[i])
				}
				return nil
			})
		}, nil
	}}
}

// touchesDNS tells whether a control plane may change the cluster's CoreDNS: it does so only where it names a tag or a
// repository for it.
func touchesDNS(ask *world.AskNodes, cp *world.ControlPlane) bool {
	if ask == nil || !ask.ControlPlanes || cp == nil || !cp.Kubeadm() || cp.SkipDNS {
		return false
	}
	return ask.DNSTag != "" || cp.Configures && (cp.DNSTag != "" || cp.DNSRepository != "" || cp.ImageRepository != "")
}

func (s *surveyor) readDNS(ctx context.Context, c *world.NodeCluster) *world.DNS {
	target := &workload{
		name: clusterName{namespace: c.Ref.Namespace, name: c.Ref.Name}, management: s.clients, proxy: s.proxy, timeout: workloadTimeout,
	}
	out, err := readDNS(ctx, target)
	if err != nil {
		return &world.DNS{Failed: diagnose.Words(err)}
	}
	return out
}

func readDNS(ctx context.Context, target *workload) (*world.DNS, error) {
	ctx, cancel := context.WithTimeout(ctx, target.timeout)
	defer cancel()
	cfg, err := target.kubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	there, err := newClients(cfg)
	if err != nil {
		return nil, err
	}
	get := func(group, resource string) (*unstructured.Unstructured, error) {
		gvr := corev1.SchemeGroupVersion.WithResource(resource)
		gvr.Group = group
		return there.dynamic.Resource(gvr).Namespace(metav1.NamespaceSystem).Get(ctx, coreDNSName, metav1.GetOptions{})
	}
	config, err := get("", "configmaps")
	if diagnose.Classify(err) == diagnose.ClassNotFound {
		return &world.DNS{Absent: true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read CoreDNS's ConfigMap: %w", err)
	}
	deployment, err := get("apps", "deployments")
	if diagnose.Classify(err) == diagnose.ClassNotFound {
		return &world.DNS{Absent: true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read CoreDNS's Deployment: %w", err)
	}
	out := &world.DNS{Corefile: stringAt(config, "data", "Corefile")}
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	for _, item := range containers {
		if m, ok := item.(map[string]any); ok && m["name"] == coreDNSName {
			out.Image, _ = m["image"].(string)
		}
	}
	return out, nil
}
