// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// unschedulable explains a Pod that no node takes.
func (d podDiagnosis) unschedulable() *world.Cause {
	if d.pod.Spec.NodeName != "" {
		return nil
	}
	for _, c := range d.pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
			continue
		}
		why := parseUnschedulable(c.Message)
		definite := !why.passing() && d.older(c.LastTransitionTime.Time, settleUnschedulable)
		out := d.cause(v1alpha1.StopUnschedulable, definite, d.makeRoom(why), "fits on no node (of %s): %s", nodeCount(why.nodes), d.reasons(why, c.Message))
		return &out
	}
	return nil
}

// unschedulableWhy is a scheduler's message taken apart.
type unschedulableWhy struct {
	// nodes is the number of nodes looked at, as text; empty if the message names none.
	nodes string
	// parts are the reasons with their node counts, in the scheduler's order.
	parts []unschedulablePart
}

type unschedulablePart struct {
	count  string
	reason string
}

// parseUnschedulable reads "0/3 nodes are available: 1 Insufficient memory, 2 node(s) had untolerated taint {a: b}.
// preemption: …". What it can't read it leaves out.
func parseUnschedulable(message string) unschedulableWhy {
	head, tail, found := strings.Cut(message, " nodes are available: ")
	if !found {
		return unschedulableWhy{}
	}
	_, total, _ := strings.Cut(head[strings.LastIndex(head, " ")+1:], "/")
	tail, _, _ = strings.Cut(tail, " preemption:")
	why := unschedulableWhy{nodes: total}
	for piece := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(tail), "."), ", ") {
		count, reason, ok := strings.Cut(piece, " ")
		if ok && isNumber(count) {
			why.parts = append(why.parts, unschedulablePart{count: count, reason: strings.TrimSuffix(reason, ".")})
			continue
		}
		// A comma inside a reason.
		if n := len(why.parts); n > 0 {
			why.parts[n-1].reason += ", " + piece
		}
	}
	return why
}

// passing tells whether nothing but the passing state of nodes stands in the way: they come and go by themselves.
func (w unschedulableWhy) passing() bool {
	if len(w.parts) == 0 {
		return true
	}
	for _, p := range w.parts {
		if !containsAny(p.reason, "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.cloudprovider.kubernetes.io/uninitialized", "were not ready") {
			return false
		}
	}
	return true
}

func (w unschedulableWhy) lacks(resourceName string) bool {
	return slices.ContainsFunc(w.parts, func(p unschedulablePart) bool { return p.reason == "Insufficient "+resourceName })
}

func (w unschedulableWhy) mentions(parts ...string) bool {
	return slices.ContainsFunc(w.parts, func(p unschedulablePart) bool { return containsAny(p.reason, parts...) })
}

// reasons says in words why each node does not do.
func (d podDiagnosis) reasons(why unschedulableWhy, message string) string {
	if len(why.parts) == 0 {
		return short(message, 200)
	}
	var words []string
	for _, p := range why.parts {
		words = append(words, d.reason(p))
	}
	return strings.Join(words, "; ")
}

func (d podDiagnosis) reason(p unschedulablePart) string {
	on := "on " + nodeCount(p.count)
	switch {
	case p.reason == "Insufficient memory":
		return fmt.Sprintf("too little memory %s (it asks for %s%s)", on, d.requested(corev1.ResourceMemory), d.largest(memoryOf))
	case p.reason == "Insufficient cpu":
		return fmt.Sprintf("too little CPU %s (it asks for %s%s)", on, d.requested(corev1.ResourceCPU), d.largest(cpuOf))
	case strings.HasPrefix(p.reason, "Insufficient "):
		name := strings.TrimPrefix(p.reason, "Insufficient ")
		return fmt.Sprintf("too little %s %s (it asks for %s)", name, on, d.requested(corev1.ResourceName(name)))
	case p.reason == "Too many pods":
		return "no free Pod slot " + on
	case strings.HasPrefix(p.reason, "node(s) had untolerated taint"):
		return fmt.Sprintf("a taint it does not tolerate %s%s", on, strings.TrimPrefix(strings.TrimPrefix(p.reason, "node(s) had untolerated taint"), "(s)"))
	case containsAny(p.reason, "node affinity/selector", "node affinity"):
		return "its node selector or affinity does not match " + on
	case p.reason == "node(s) were unschedulable":
		return "cordoned " + on
	}
	return short(p.reason, 120) + " " + on
}

func (d podDiagnosis) makeRoom(why unschedulableWhy) string {
	var do []string
	if why.lacks("memory") {
		do = append(do, "free memory on a node, add a node with more, or lower the memory request")
	}
	if why.lacks("cpu") {
		do = append(do, "free CPU on a node, add a node, or lower the CPU request")
	}
	if why.mentions("taint") {
		do = append(do, "remove the taint or let the component tolerate it")
	}
	if why.mentions("affinity", "selector") {
		do = append(do, "label a node as the component's node selector asks")
	}
	if why.mentions("were unschedulable") {
		do = append(do, `run "kubectl uncordon" on a node`)
	}
	if len(do) == 0 {
		return d.describe()
	}
	return strings.Join(do, ", or ")
}

// requested is what the scheduler counts for the Pod: the sum over containers, or one init container if that is more.
func (d podDiagnosis) requested(name corev1.ResourceName) string {
	var sum resource.Quantity
	for _, c := range d.pod.Spec.Containers {
		sum.Add(c.Resources.Requests[name])
	}
	for _, c := range d.pod.Spec.InitContainers {
		if q := c.Resources.Requests[name]; q.Cmp(sum) > 0 {
			sum = q.DeepCopy()
		}
	}
	return sum.String()
}

func (d podDiagnosis) largest(of func(world.Node) *resource.Quantity) string {
	var most *resource.Quantity
	for _, n := range d.facts.Nodes {
		if q := of(n); most == nil || q.Cmp(*most) > 0 {
			most = q
		}
	}
	if most == nil {
		return ""
	}
	return fmt.Sprintf(", the largest node has %s for all its Pods", most)
}

func memoryOf(n world.Node) *resource.Quantity {
	// Whole mebibytes read better than the kubelet's exact figure.
	return resource.NewQuantity(n.AllocatableMemory>>20<<20, resource.BinarySI)
}

func cpuOf(n world.Node) *resource.Quantity {
	return resource.NewMilliQuantity(n.AllocatableCPU, resource.DecimalSI)
}

func nodeCount(n string) string {
	switch n {
	case "":
		return "nodes"
	case "1":
		return "1 node"
	}
	return n + " nodes"
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func containsAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}
