// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// Demand is what a pool asks of a host.
type Demand struct {
	// Namespace is the pool's: a host of another one is never taken.
	Namespace string
	// Selector chooses by labels.
	Selector labels.Selector
	// Reuse is the value of the label by which hosts are kept for this pool.
	Reuse string
	// Image has to fit.
	Image *v1alpha1.NodeImage
}

// smallestRoot is the size from which on the provisioner takes a disk for the root disk by itself.
const smallestRoot = 4 << 30

// Refuses says why a host can't be taken now, empty if it can.
func (d Demand) Refuses(h *world.BareHost) string {
	return cmp.Or(d.never(h), d.notNow(h))
}

// never says why a host is none for this pool as long as nobody changes it; empty if it is one.
func (d Demand) never(h *world.BareHost) string {
	switch {
	case h.Namespace != d.Namespace:
		return fmt.Sprintf("it is in namespace %s, the pool in %s", h.Namespace, d.Namespace)
	case d.Selector != nil && !d.Selector.Matches(labels.Set(h.Labels)):
		return fmt.Sprintf("its labels do not match %q", d.Selector)
	case h.Externally:
		return "something else provisioned it (spec.externallyProvisioned)"
	case h.ReservedFor != "" && h.ReservedFor != d.Reuse:
		return fmt.Sprintf("it is reserved for %s (label infrastructure.cluster.x-k8s.io/node-reuse=%s)", owner(h.ReservedFor), h.ReservedFor)
	}
	return cmp.Or(Trouble(h), d.Misfit(h))
}

// Trouble says why a host's operator does nothing with it, empty if it works.
func Trouble(h *world.BareHost) string {
	switch {
	case h.Deleting:
		return "it is being deleted"
	case h.Detached:
		return "it is detached (annotation baremetalhost.metal3.io/detached)"
	case h.Paused:
		return "it is paused (annotation baremetalhost.metal3.io/paused)"
	case h.Unhealthy:
		return "it is marked unhealthy (annotation capm3.metal3.io/unhealthy)"
	case h.Error != "":
		return "it is in error: " + h.Error
	case h.Operational != "" && h.Operational != "OK":
		return "its operational status is " + h.Operational
	}
	return ""
}

// now tells that nothing keeps a host that is one for this pool.
func (d Demand) now(h *world.BareHost) bool {
	return h.Consumer.Name == "" && (h.State == "available" || h.State == "ready")
}

// notNow says what keeps a host that is one for this pool.
func (d Demand) notNow(h *world.BareHost) string {
	switch {
	case d.now(h):
		return ""
	case h.Consumer.Name != "":
		return "it is in use by " + h.Consumer.String()
	}
	return "it is in state " + cmp.Or(h.State, "unknown")
}

// owner is the owner of Machines in the value of a reuse label.
func owner(reserved string) string {
	if len(reserved) > len("md-") && (reserved[:3] == "cp-" || reserved[:3] == "md-") {
		return reserved[3:]
	}
	return reserved
}

// Misfit says why the image does not fit a host, empty if it does or if the host's hardware is not known.
func (d Demand) Misfit(h *world.BareHost) string {
	if d.Image == nil {
		return ""
	}
	s := d.Image.Spec
	if want, have := architecture(s.Contents.Architecture), architecture(h.Architecture); want != "" && have != "" && want != have {
		return fmt.Sprintf("its architecture is %s, the image's %s", have, want)
	}
	if size, disk := rootDisk(h); disk != "" && s.VirtualSizeBytes > size {
		return fmt.Sprintf("its root disk %s has %s, the image needs %s", disk, bytes(size), bytes(s.VirtualSizeBytes))
	}
	if memory := h.MemoryMiB << 20; s.Format == "qcow2" && memory > 0 && s.SizeBytes > memory {
		return fmt.Sprintf("it has %s of memory, and a qcow2 image of %s is unpacked there", bytes(memory), bytes(s.SizeBytes))
	}
	return ""
}

// architecture is the name that Kubernetes has for an architecture.
func architecture(s string) string {
	switch s {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return s
}

// rootDisk is the disk that the image would be written to: the smallest that is large enough to be taken by itself. With
// hints it may be any, so the largest is told: what does not fit there fits nowhere.
func rootDisk(h *world.BareHost) (size int64, name string) {
	for _, disk := range h.Disks {
		if disk.SizeBytes <= 0 || !h.RootHints && disk.SizeBytes < smallestRoot && len(h.Disks) > 1 {
			continue
		}
		if name == "" || h.RootHints && disk.SizeBytes > size || !h.RootHints && disk.SizeBytes < size {
			size, name = disk.SizeBytes, disk.Name
		}
	}
	return size, name
}

// bytes says a size as people do.
func bytes(n int64) string {
	const unit = 1 << 10
	f, i := float64(n), 0
	names := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for f >= unit && i < len(names)-1 {
		f, i = f/unit, i+1
	}
	return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64) + " " + names[i]
}

// hostSet is a set of hosts by their index, or of pools.
type hostSet []uint64

func newHostSet(n int) hostSet { return make(hostSet, (n+63)/64) }

func (s hostSet) add(i int) { s[i/64] |= 1 << (i % 64) }

func (s hostSet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s hostSet) meets(o hostSet) bool {
	for i := range s {
		if s[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

func (s hostSet) join(o hostSet) {
	for i := range s {
		s[i] |= o[i]
	}
}

// stock is what is known of the free hosts while pools are rolled one after the other. Which of several free hosts a pool
// gets is chosen at random, and which of its old ones is free in the end depends on the order of its Machines. So free
// hosts are counted in groups: of the hosts of a group so many are free, and which ones nobody knows.
type stock struct {
	groups []group
	n      int
}

type group struct {
	hosts hostSet
	free  int
}

// newStock starts with each free host for itself.
func newStock(n int, free []int) *stock {
	s := &stock{n: n}
	for _, i := range free {
		s.have(i)
	}
	return s
}

// have adds a free host that is not in yet.
func (s *stock) have(i int) {
	if !slices.ContainsFunc(s.groups, func(g group) bool { return g.hosts.has(i) }) {
		g := group{hosts: newHostSet(s.n), free: 1}
		g.hosts.add(i)
		s.groups = append(s.groups, g)
	}
}

// sure tells whether a pool finds a free host whatever was chosen before: in some group more are free than it can't use.
func (s *stock) sure(usable hostSet) bool {
	return slices.ContainsFunc(s.groups, func(g group) bool {
		useless := 0
		for i := range s.n {
			if g.hosts.has(i) && !usable.has(i) {
				useless++
			}
		}
		return g.free > useless
	})
}

// roll records that a pool was rolled with a free host: those that it could take and its own are one group now.
func (s *stock) roll(usable, own hostSet) {
	merged := group{hosts: newHostSet(s.n)}
	var rest []group
	for _, g := range s.groups {
		if !g.hosts.meets(usable) {
			rest = append(rest, g)
			continue
		}
		merged.hosts.join(g.hosts)
		merged.free += g.free
	}
	merged.hosts.join(own)
	s.groups = append(rest, merged)
}
