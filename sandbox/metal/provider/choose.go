// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// nodeReuseLabel books a host that nobody uses for the successor of the machine that did.
	nodeReuseLabel     = infraGroup + "/node-reuse"
	failureDomainLabel = infraGroup + "/failure-domain"
)

// wanted is what a machine asks of a host.
type wanted struct {
	machine  string
	selector labels.Selector
	// booking is the value of the node-reuse label that means this machine's owner.
	booking       string
	failureDomain string
}

// choice is a host, or why there is none.
type choice struct {
	host *unstructured.Unstructured
	// reused says that the host was booked.
	reused bool
	why    string
}

const noHost = "no available host found. Requeuing. Object will be requeued after 30s"

// choose picks a host: the one that is the machine's already, else a booked one, else any of the free ones, by chance. A booked host that is not available
// yet makes the machine wait even if another one is; a booked host that has an error is passed over and keeps its label.
func choose(hosts []unstructured.Unstructured, w wanted) choice {
	own, booked, free := sift(hosts, w)
	if own != nil {
		return choice{host: own}
	}
	for _, h := range booked {
		if !available(h) {
			return choice{why: fmt.Sprintf("Found BareMetalHost %s with nodeReuse label, but its state is %q. Object will be requeued after 30s",
				h.GetName(), text(h, "status", "provisioning", "state"))}
		}
	}
	if len(booked) > 0 {
		return choice{host: pick(booked), reused: true}
	}
	if near := inDomain(free, w.failureDomain); len(near) > 0 {
		return choice{host: pick(near)}
	}
	if len(free) > 0 {
		return choice{host: pick(free)}
	}
	return choice{why: noHost}
}

// sift finds the machine's own host, those booked for its owner in whatever state, and those that are free.
func sift(hosts []unstructured.Unstructured, w wanted) (own *unstructured.Unstructured, booked, free []*unstructured.Unstructured) {
	for i := range hosts {
		h := &hosts[i]
		if !w.selector.Matches(labels.Set(h.GetLabels())) {
			continue
		}
		consumer := text(h, "spec", "consumerRef", "name")
		if consumer == w.machine && text(h, "spec", "consumerRef", "kind") == "Metal3Machine" {
			return h, nil, nil
		}
		label, labelled := h.GetLabels()[nodeReuseLabel]
		switch {
		case !usable(h):
		case labelled && label == w.booking:
			booked = append(booked, h)
		case !labelled && consumer == "" && available(h):
			free = append(free, h)
		}
	}
	return nil, booked, free
}

func available(h *unstructured.Unstructured) bool {
	state := text(h, "status", "provisioning", "state")
	return state == "ready" || state == "available"
}

// usable leaves out hosts that are going, in error, paused or known to be unhealthy.
func usable(h *unstructured.Unstructured) bool {
	if h.GetDeletionTimestamp() != nil || text(h, "status", "errorMessage") != "" {
		return false
	}
	for _, annotation := range []string{"baremetalhost.metal3.io/paused", "capm3.metal3.io/unhealthy", "capi.metal3.io/unhealthy"} {
		if _, ok := h.GetAnnotations()[annotation]; ok {
			return false
		}
	}
	return true
}

func pick(from []*unstructured.Unstructured) *unstructured.Unstructured {
	return from[rand.IntN(len(from))] //nolint:gosec // any will do
}

func inDomain(hosts []*unstructured.Unstructured, domain string) []*unstructured.Unstructured {
	if domain == "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(hosts), func(h *unstructured.Unstructured) bool { return h.GetLabels()[failureDomainLabel] != domain })
}

// hostSelector reads a machine's selector; none matches every host.
func hostSelector(infra *unstructured.Unstructured) (labels.Selector, error) {
	raw, ok, err := unstructured.NestedMap(infra.Object, "spec", "hostSelector")
	if err != nil || !ok {
		return labels.Everything(), err
	}
	var spec struct {
		MatchLabels      map[string]string `json:"matchLabels"`
		MatchExpressions []struct {
			Key      string             `json:"key"`
			Operator selection.Operator `json:"operator"`
			Values   []string           `json:"values"`
		} `json:"matchExpressions"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec); err != nil {
		return nil, fmt.Errorf("read hostSelector: %w", err)
	}
	selector := labels.SelectorFromSet(spec.MatchLabels)
	for _, e := range spec.MatchExpressions {
		requirement, err := labels.NewRequirement(e.Key, e.Operator, e.Values)
		if err != nil {
			return nil, fmt.Errorf("read hostSelector: %w", err)
		}
		selector = selector.Add(*requirement)
	}
	return selector, nil
}

// booking names a machine's owner the way the label does; empty when there is none that outlives it.
func booking(m *clusterv1.Machine) string {
	if kcp := owner(m, "KubeadmControlPlane"); kcp != "" {
		return "cp-" + kcp
	}
	if deployment := m.Labels[clusterv1.MachineDeploymentNameLabel]; deployment != "" {
		return "md-" + deployment
	}
	return ""
}

func failureDomain(s *scope) string {
	if d := text(s.infra, "spec", "failureDomain"); d != "" {
		return d
	}
	return s.machine.Spec.FailureDomain
}
