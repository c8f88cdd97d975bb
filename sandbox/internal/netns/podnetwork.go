// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"github.com/vishvananda/netlink"
)

// ErrNoAddress means that every address of the Pod network is in use.
var ErrNoAddress = errors.New("no free Pod address")

// PodNetwork hands out network namespaces on the bridge. It is safe for use by
// several goroutines, and by the agents of several Nodes in one process.
type PodNetwork struct {
	bridge int

	mu    sync.Mutex
	hosts *hosts
	pods  map[string]*Pod
}

// NewPodNetwork finds the bridge that Main made; so it works inside only.
func NewPodNetwork() (*PodNetwork, error) {
	link, err := netlink.LinkByName(BridgeName)
	if err != nil {
		return nil, fmt.Errorf("find bridge %s: %w", BridgeName, err)
	}
	addrs, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("read address of bridge: %w", err)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("bridge %s has no IPv4 address", BridgeName)
	}
	ones, _ := addrs[0].Mask.Size()
	ip, _ := netip.AddrFromSlice(addrs[0].IP.To4())
	return &PodNetwork{
		bridge: link.Attrs().Index,
		hosts:  newHosts(netip.PrefixFrom(ip, ones)),
		pods:   map[string]*Pod{},
	}, nil
}

// Gateway is the address of the bridge: what Pods reach the sandbox at.
func (n *PodNetwork) Gateway() netip.Addr { return n.hosts.net.Addr() }

// Prefix is the Pod network.
func (n *PodNetwork) Prefix() netip.Prefix { return n.hosts.net.Masked() }

// Add gives the Pod a network namespace with an address. Asked again for the
// same uid it returns what it gave before.
func (n *PodNetwork) Add(uid string) (*Pod, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p, ok := n.pods[uid]; ok {
		return p, nil
	}
	ip, err := n.hosts.take()
	if err != nil {
		return nil, err
	}
	p, err := n.connect(ip)
	if err != nil {
		n.hosts.release(ip)
		return nil, err
	}
	n.pods[uid] = p
	return p, nil
}

// Del takes the namespace away again: it ends with its last process. A uid that
// is not known is not an error.
func (n *PodNetwork) Del(uid string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.pods[uid]
	if !ok {
		return nil
	}
	delete(n.pods, uid)
	n.hosts.release(p.IP)
	link, err := netlink.LinkByIndex(p.link)
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		err = nil
	}
	if err = errors.Join(err, p.file.Close()); err != nil {
		return fmt.Errorf("remove network of Pod %s: %w", uid, err)
	}
	return nil
}

// connect makes a namespace and a veth pair from the bridge into it.
func (n *PodNetwork) connect(ip netip.Addr) (_ *Pod, err error) {
	file, err := newNamespace()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	veth := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: vethName(ip), MasterIndex: n.bridge},
		PeerName:      "eth0",
		PeerNamespace: netlink.NsFd(int(file.Fd())),
	}
	if err := netlink.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("add veth pair: %w", err)
	}
	p := &Pod{IP: ip, file: file, link: veth.Index}
	if err := errors.Join(netlink.LinkSetUp(veth), p.configure(n.hosts.net)); err != nil {
		return nil, errors.Join(fmt.Errorf("configure network of %s: %w", ip, err), netlink.LinkDel(veth))
	}
	return p, nil
}

// vethName is unique as long as the address is: interface names have 15 bytes.
func vethName(ip netip.Addr) string {
	b := ip.As4()
	return fmt.Sprintf("veth%02x%02x%02x%02x", b[0], b[1], b[2], b[3])
}

// hosts hands out addresses in turn, so that one given back is not used again
// before all others were: a stale client must not reach another Pod.
type hosts struct {
	net  netip.Prefix // the bridge's own address and the length
	last netip.Addr
	used map[netip.Addr]bool
}

func newHosts(bridge netip.Prefix) *hosts {
	return &hosts{net: bridge, last: bridge.Masked().Addr(), used: map[netip.Addr]bool{bridge.Addr(): true}}
}

func (h *hosts) take() (netip.Addr, error) {
	first := h.net.Masked().Addr()
	for ip := h.last.Next(); ; ip = ip.Next() {
		// The last address of the network is its broadcast address.
		if !h.net.Contains(ip.Next()) {
			ip = first.Next()
		}
		if !h.used[ip] {
			h.used[ip], h.last = true, ip
			return ip, nil
		}
		if ip == h.last {
			return netip.Addr{}, fmt.Errorf("%w in %s", ErrNoAddress, h.net.Masked())
		}
	}
}

func (h *hosts) release(ip netip.Addr) { delete(h.used, ip) }

// Pod is the network of one Pod.
type Pod struct {
	// IP is its address on the bridge.
	IP netip.Addr

	file *os.File
	link int
}

// File is the namespace, to be given to a child that enters it. It belongs to
// the PodNetwork and is valid until Del.
func (p *Pod) File() *os.File { return p.file }
