// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/version"
	"github.com/capstan-dev/capstan/internal/world"
)

// maxKubeletSkew is how many minor versions a kubelet may be older than its API server
// (kubernetes.io/releases/version-skew-policy).
const maxKubeletSkew = 3

func versionSkew() Check {
	return Check{
		ID: "CAP-VERSION-SKEW", Scope: Nodes, Waivable: true,
		Title: "Control planes go first, and no pool goes past its own",
		Doc: "A kubelet must not be newer than its API server, nor more than three minor versions older. kubeadm joins a Machine only to a control plane of " +
			"exactly its own minor version, so a new Machine of an older pool can't join either. A control plane moves by one minor version at a time. " +
			"Cluster API holds such Machines back in a preflight check without an end, or builds Machines that never become nodes.",
		Fix: "Move the control plane first, one minor version at a time, then the workers: --with-control-plane plans both in that order.",
		Sources: []string{
			"https://github.com/kubernetes-sigs/cluster-api/issues/6040", "https://github.com/kubernetes-sigs/cluster-api/issues/8657",
			"https://github.com/kubernetes-sigs/cluster-api/pull/8595", "https://kubernetes.io/releases/version-skew-policy/",
		},
		Needs: []world.Topic{world.TopicNodes},
		Run: eachCluster(func(c *world.NodeCluster, t *Target) []v1alpha1.Finding {
			s := skew{c: c, want: t.nodes()}
			if c.ControlPlane == nil {
				return s.headless()
			}
			return append(s.controlPlane(), s.pools()...)
		}),
	}
}

// skew judges the versions of one cluster.
type skew struct {
	c    *world.NodeCluster
	want NodeTarget
}

// headless is said of a cluster whose control plane is not there to compare with.
func (s skew) headless() []v1alpha1.Finding {
	if s.want.Version == "" || len(s.c.Pools) == 0 {
		return nil
	}
	return []v1alpha1.Finding{unknown(
		fmt.Sprintf("Cluster %s names no control plane that is there, so its version can't be compared with %s", s.c.Key(), s.want.Version),
		fmt.Sprintf("see spec.controlPlaneRef: kubectl -n %s get cluster %s -o yaml", s.c.Ref.Namespace, s.c.Ref.Name), s.c.Ref)}
}

// now is the version that the control plane has, by its status where that says.
func (s skew) now() string { return cmp.Or(s.c.ControlPlane.Reached, s.c.ControlPlane.Version) }

// after is the version that the control plane will have when workers move.
func (s skew) after() string {
	if s.want.Version != "" && s.want.ControlPlanes {
		return s.want.Version
	}
	return s.now()
}

func (s skew) controlPlane() []v1alpha1.Finding {
	cp := s.c.ControlPlane
	var out []v1alpha1.Finding
	if cp.Reached != "" && cp.Moving() {
		out = append(out, block(
			fmt.Sprintf("%s of cluster %s is still on its way from %s to %s: workers have to wait until it is there", cp.Ref, s.c.Key(), cp.Reached, cp.Version),
			fmt.Sprintf("wait, or see what holds it: kubectl -n %s describe %s %s", cp.Ref.Namespace, resource(cp.Ref), cp.Ref.Name), cp.Ref))
	}
	if s.c.Topology != nil && s.want.Version != "" && !s.want.ControlPlanes && s.want.Version != s.c.Topology.Version {
		out = append(out, block(
			fmt.Sprintf("Cluster %s takes its version from its ClusterClass's topology (%s): workers can't go to %s without the control plane", s.c.Key(), s.c.Topology.Version, s.want.Version),
			s.both(), s.c.Ref))
	}
	if s.want.Version == "" || !s.want.ControlPlanes {
		return out
	}
	from, okFrom := numbers(s.now())
	to, okTo := numbers(s.want.Version)
	if !okFrom || !okTo {
		return append(out, s.unreadable(cp.Ref, s.now()))
	}
	distance, sameMajor := version.MinorDistance(from, to)
	switch {
	case !sameMajor || distance > 1:
		out = append(out, block(
			fmt.Sprintf("%s of cluster %s would jump from %s to %s: a control plane moves by one minor version at a time", cp.Ref, s.c.Key(), from, to),
			fmt.Sprintf("go to v%d.%d first: %s", from.Major(), from.Minor()+1, command(s.c, fmt.Sprintf("v%d.%d.x", from.Major(), from.Minor()+1), true)), cp.Ref))
	case distance < 0 || from.Compare(to) > 0 && !same(s.now(), s.want.Version):
		out = append(out, block(
			fmt.Sprintf("%s of cluster %s would go back from %s to %s: neither Kubernetes nor kubeadm supports that", cp.Ref, s.c.Key(), from, to),
			fmt.Sprintf("choose %s or later", from), cp.Ref))
	}
	return out
}

func (s skew) unreadable(ref world.Ref, have string) v1alpha1.Finding {
	return unknown(fmt.Sprintf("The version %q of %s can't be read, so it can't be compared with %s", have, ref, cmp.Or(s.want.Version, s.after())),
		fmt.Sprintf("see spec.version: kubectl -n %s get %s %s -o yaml", ref.Namespace, resource(ref), ref.Name), ref)
}

// both is the command that moves control plane and workers in order.
func (s skew) both() string {
	return fmt.Sprintf("first the control plane, then the workers: %s", command(s.c, s.want.Version, true))
}

// command is the plan for one cluster.
func command(c *world.NodeCluster, to string, controlPlane bool) string {
	out := fmt.Sprintf("capstan nodes plan -n %s --cluster %s", c.Ref.Namespace, c.Ref.Name)
	if to != "" {
		out += " --version " + to
	}
	if controlPlane {
		out += " --with-control-plane"
	}
	return out
}

func (s skew) pools() []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for i := range s.c.Pools {
		p := &s.c.Pools[i]
		to := cmp.Or(s.want.Version, p.Version)
		if to == "" {
			continue // its Machines have no version: the image has
		}
		out = append(out, s.pool(p, to)...)
	}
	return out
}

// pool judges a pool that goes to a version beside the control plane at its own then.
func (s skew) pool(p *world.Pool, to string) []v1alpha1.Finding {
	cp := s.c.ControlPlane
	have, okHave := numbers(s.after())
	want, okWant := numbers(to)
	switch {
	case s.after() == "":
		return nil // a control plane that does not say its version, as those of managed clusters
	case !okHave:
		return []v1alpha1.Finding{s.unreadable(cp.Ref, s.after())}
	case !okWant:
		return []v1alpha1.Finding{s.unreadable(p.Ref, to)}
	}
	distance, sameMajor := version.MinorDistance(have, want)
	switch {
	case !sameMajor || distance > 0:
		return []v1alpha1.Finding{block(
			fmt.Sprintf("%s of cluster %s would be at %s, newer than its control plane %s at %s: the order is control plane first, then workers", p.Ref, s.c.Key(), to, cp.Ref, s.after()),
			s.ahead(p, to), p.Ref, cp.Ref)}
	case -distance > maxKubeletSkew:
		return []v1alpha1.Finding{block(
			fmt.Sprintf("%s of cluster %s at %s is more than %d minor versions older than its control plane %s at %s", p.Ref, s.c.Key(), to, maxKubeletSkew, cp.Ref, s.after()),
			fmt.Sprintf("move the workers up first: %s", command(s.c, s.now(), false)), p.Ref, cp.Ref)}
	case distance < 0 && p.Kubeadm():
		return []v1alpha1.Finding{block(
			fmt.Sprintf("%s of cluster %s makes new Machines at %s, but kubeadm joins only to its own minor version and control plane %s is at %s", p.Ref, s.c.Key(), to, cp.Ref, s.after()),
			fmt.Sprintf("roll the workers to the control plane's version: %s", command(s.c, s.after(), false)), p.Ref, cp.Ref)}
	}
	return s.between(p)
}

// ahead is what to do about a pool that is, or would be, ahead of its control plane.
func (s skew) ahead(p *world.Pool, to string) string {
	first := fmt.Sprintf("first %s, then %s: %s", s.c.ControlPlane.Ref, p.Ref, command(s.c, to, true))
	if s.want.Version != "" && !same(p.Version, s.want.Version) {
		return first
	}
	return first + ", or put the pool's spec.template.spec.version back"
}

// between is about the time in which the control plane has moved and the pool has not.
func (s skew) between(p *world.Pool) []v1alpha1.Finding {
	cp := s.c.ControlPlane
	before, okBefore := numbers(p.Version)
	after, okAfter := numbers(s.after())
	if !s.want.ControlPlanes || !okBefore || !okAfter {
		return nil
	}
	distance, _ := version.MinorDistance(before, after)
	switch {
	case distance > maxKubeletSkew:
		return []v1alpha1.Finding{block(
			fmt.Sprintf("%s of cluster %s at %s would be more than %d minor versions older than control plane %s once that is at %s", p.Ref, s.c.Key(), p.Version, maxKubeletSkew, cp.Ref, s.after()),
			fmt.Sprintf("move the workers up first: %s", command(s.c, s.now(), false)), p.Ref, cp.Ref)}
	case distance > 0 && p.Kubeadm() && p.Autoscaler != "":
		return []v1alpha1.Finding{warn(
			fmt.Sprintf("%s of cluster %s is autoscaled (%s): between the two stages it can't grow, as kubeadm at %s does not join to %s", p.Ref, s.c.Key(), p.Autoscaler, p.Version, s.after()),
			"give it room before, or plan the stages close to each other", p.Ref)}
	}
	return nil
}
