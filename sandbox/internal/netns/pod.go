// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// newNamespace makes a network namespace that lives as long as the file.
func newNamespace() (*os.File, error) {
	var file *os.File
	err := onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace: %w", err)
		}
		var err error
		if file, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return fmt.Errorf("open network namespace: %w", err)
		}
		// Without it only root could listen on port 80 or 443 in a Pod, and
		// images run as anyone. Older kernels do not know it: no loss.
		_ = os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
		return nil
	})
	return file, err
}

// configure brings loopback and eth0 up and sets address and route.
func (p *Pod) configure(bridge netip.Prefix) error {
	handle, err := netlink.NewHandleAt(vnetns.NsHandle(p.file.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer handle.Close()
	for _, name := range []string{"lo", "eth0"} {
		link, err := handle.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		if err := handle.LinkSetUp(link); err != nil {
			return fmt.Errorf("bring %s up: %w", name, err)
		}
		if name == "lo" {
			continue
		}
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.IP.AsSlice(), Mask: net.CIDRMask(bridge.Bits(), 32)}}
		if err := handle.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("set address %s: %w", p.IP, err)
		}
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: bridge.Addr().AsSlice()}
		if err := handle.RouteAdd(route); err != nil {
			return fmt.Errorf("add default route: %w", err)
		}
	}
	return nil
}

// Dial connects from inside the Pod, so that 127.0.0.1 is the Pod's own. The
// address must be an IP and a port: a name would be looked up elsewhere.
func (p *Pod) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("dial inside Pod: %w", err)
	}
	var conn net.Conn
	err := onOwnThread(func() error {
		if err := unix.Setns(int(p.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network of Pod: %w", err)
		}
		var err error
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// onOwnThread runs f on a thread whose network namespace f may change, and
// brings the thread back. If that fails the thread is given up.
func onOwnThread(f func() error) error {
	home, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return fmt.Errorf("open own network namespace: %w", err)
	}
	defer home.Close()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := f()
		if backErr := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); backErr != nil {
			// Still locked: the runtime ends the thread with the goroutine.
			done <- errors.Join(err, fmt.Errorf("return to own network namespace: %w", backErr))
			return
		}
		runtime.UnlockOSThread()
		done <- err
	}()
	return <-done
}
