// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/coredns/corefile-migration/migration"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// skipDNS is the annotation by which Cluster API leaves CoreDNS alone.
const skipDNS = "controlplane.cluster.x-k8s.io/skip-coredns"

func coreDNS() Check {
	return Check{
		ID: "CAP-COREDNS", Scope: Nodes, Waivable: true,
		Title: "CoreDNS's configuration can be taken to the version that the control plane asks for",
		Doc: "When a kubeadm control plane names another image for CoreDNS, Cluster API rewrites the Corefile for it with a migrator that knows released " +
			"versions of CoreDNS and the plugins that come with them. A tag it does not know, a step back, or a Corefile that it can't read stops the " +
			"control plane's upgrade at that step; a plugin that it does not know is carried over unread, and CoreDNS may not start with it. " +
			"Where the image does not change, nothing is migrated.",
		Fix: "Take a tag that the migrator knows, move the unknown plugin out of the Corefile, or leave CoreDNS alone by the annotation " + skipDNS + " on the control plane and upgrade it by hand.",
		Sources: []string{
			"https://github.com/coredns/corefile-migration/issues/23", "https://github.com/kubernetes/kubernetes/issues/82889",
			"https://github.com/kubernetes/kubeadm/issues/2371",
		},
		Needs: []world.Topic{world.TopicNodes, world.TopicDNS},
		Run: eachCluster(func(c *world.NodeCluster, t *Target) []v1alpha1.Finding {
			if c.DNS == nil || c.DNS.Absent {
				return nil // nothing of it would be touched
			}
			d := dnsChange{c: c, tag: cmp.Or(t.nodes().DNSTag, c.ControlPlane.DNSTag)}
			return d.judge()
		}),
	}
}

// dnsChange is the change of one cluster's CoreDNS.
type dnsChange struct {
	c *world.NodeCluster
	// tag is the one that the control plane asks for, empty if it asks for none.
	tag string
}

func (d dnsChange) judge() []v1alpha1.Finding {
	cp := d.c.ControlPlane
	if d.c.DNS.Failed != "" {
		return []v1alpha1.Finding{unknown(
			fmt.Sprintf("CoreDNS of cluster %s could not be looked at, so whether it can be taken to %s is not known: %s", d.c.Key(), cmp.Or(d.tag, "another image"), d.c.DNS.Failed),
			fmt.Sprintf("make the cluster reachable by the kubeconfig in Secret %s/%s-kubeconfig, or leave CoreDNS alone: %s", d.c.Ref.Namespace, d.c.Ref.Name, d.override()), cp.Ref)}
	}
	repository, current := splitImage(d.c.DNS.Image)
	if current == "" {
		return []v1alpha1.Finding{d.cannot("?", fmt.Sprintf("its image %q has no tag", d.c.DNS.Image))}
	}
	target := cmp.Or(d.tag, current)
	moved := d.repository(repository) != repository
	if target == current && !moved {
		return nil
	}
	from, to := threeNumbers(current), threeNumbers(target)
	switch {
	case from == "":
		return []v1alpha1.Finding{d.cannot(current, fmt.Sprintf("the current tag %s is no version", current))}
	case to == "":
		return []v1alpha1.Finding{d.cannot(current, fmt.Sprintf("the target tag %s is no version", target))}
	}
	if _, known := migration.Versions[from]; !known {
		return []v1alpha1.Finding{d.cannot(current, fmt.Sprintf("the migrator does not know CoreDNS %s", from))}
	}
	if from == to {
		return nil
	}
	return d.migrate(current, from, to)
}

// migrate tries the migration as Cluster API would make it.
func (d dnsChange) migrate(current, from, to string) []v1alpha1.Finding {
	if err := migration.ValidUpMigration(from, to); err != nil {
		return []v1alpha1.Finding{d.cannot(current, err.Error())}
	}
	if _, err := migration.Migrate(from, to, d.c.DNS.Corefile, false); err != nil {
		return []v1alpha1.Finding{d.cannot(current, "its Corefile can't be migrated: "+err.Error())}
	}
	notices, err := migration.Unsupported(from, to, d.c.DNS.Corefile)
	if err != nil {
		return []v1alpha1.Finding{d.cannot(current, "its Corefile can't be migrated: "+err.Error())}
	}
	var plugins, options []string
	for _, n := range notices {
		switch {
		case n.Option == "" && !slices.Contains(plugins, n.Plugin):
			plugins = append(plugins, n.Plugin)
		case n.Option != "" && !slices.Contains(options, n.Plugin+" "+n.Option):
			options = append(options, n.Plugin+" "+n.Option)
		}
	}
	var out []v1alpha1.Finding
	if len(plugins) > 0 {
		out = append(out, d.cannot(current, fmt.Sprintf("its Corefile has %s %s that the migrator does not know", plural(len(plugins), "the plugin", "the plugins"), strings.Join(plugins, ", "))))
	}
	if len(options) > 0 {
		out = append(out, warn(fmt.Sprintf("The Corefile of cluster %s has options that the migrator does not know, and carries over as they are: %s", d.c.Key(), strings.Join(options, ", ")),
			fmt.Sprintf("see that CoreDNS %s takes them", d.tag), d.c.ControlPlane.Ref))
	}
	return out
}

func (d dnsChange) cannot(current, why string) v1alpha1.Finding {
	return block(
		fmt.Sprintf("CoreDNS of cluster %s can't be migrated from %s to %s, which %s asks for: %s", d.c.Key(), current, cmp.Or(d.tag, current), d.c.ControlPlane.Ref, why),
		fmt.Sprintf("take that out of the Corefile or choose a tag that the migrator knows; or leave CoreDNS alone deliberately: %s", d.override()),
		d.c.ControlPlane.Ref)
}

// override is the command that makes Cluster API leave CoreDNS alone.
func (d dnsChange) override() string {
	ref := d.c.ControlPlane.Ref
	return fmt.Sprintf("kubectl -n %s annotate %s %s %s=", ref.Namespace, resource(ref), ref.Name, skipDNS)
}

// repository is where the control plane wants the image from.
func (d dnsChange) repository(have string) string {
	cp := d.c.ControlPlane
	base := have
	if i := strings.LastIndex(have, "/"); i >= 0 {
		base = have[:i]
	}
	wanted := strings.TrimSuffix(cmp.Or(cp.DNSRepository, cp.ImageRepository, base), "/")
	if wanted == base {
		return have
	}
	return wanted + have[len(base):]
}

// splitImage separates an image's name from its tag; a digest is left out.
func splitImage(image string) (name, tag string) {
	image, _, _ = strings.Cut(image, "@")
	i := strings.LastIndex(image, ":")
	if i < 0 || strings.Contains(image[i:], "/") {
		return image, ""
	}
	return image[:i], image[i+1:]
}

// threeNumbers reads the version in a tag as leniently as Cluster API does: "v1.11.1-100" is 1.11.1.
func threeNumbers(tag string) string {
	m := regexp.MustCompile(`^v?([0-9]+\.[0-9]+\.[0-9]+)([-_+.].*)?$`).FindStringSubmatch(tag)
	if m == nil {
		return ""
	}
	return m[1]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
