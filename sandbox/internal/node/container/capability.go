// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// capabilityNames are the kernel's, by number.
func capabilityNames() []string {
	return []string{
		"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
		"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
		"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
		"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
		"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
		"CHECKPOINT_RESTORE",
	}
}

// defaultCapabilities are what container engines grant.
func defaultCapabilities() []string {
	return []string{
		"CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
		"NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
	}
}

// CapabilityMask starts with what engines grant, then drops, then adds. ALL
// stands for every capability. All of them hold inside the sandbox only.
func CapabilityMask(add, drop []string, privileged bool) (uint64, error) {
	if privileged {
		return capabilityBits([]string{"ALL"})
	}
	mask, err := capabilityBits(defaultCapabilities())
	if err != nil {
		return 0, err
	}
	dropped, err := capabilityBits(drop)
	if err != nil {
		return 0, err
	}
	added, err := capabilityBits(add)
	if err != nil {
		return 0, err
	}
	return mask&^dropped | added, nil
}

func capabilityBits(names []string) (uint64, error) {
	all := capabilityNames()
	var mask uint64
	for _, name := range names {
		short := strings.TrimPrefix(strings.ToUpper(name), "CAP_")
		if short == "ALL" {
			mask |= 1<<len(all) - 1
			continue
		}
		found := false
		for bit, known := range all {
			if known == short {
				mask, found = mask|1<<bit, true
			}
		}
		if !found {
			return 0, fmt.Errorf("unknown capability %q", name)
		}
	}
	return mask, nil
}

// boundCapabilities takes all others from the bounding set of this thread.
func boundCapabilities(mask uint64) error {
	for bit := range len(capabilityNames()) {
		if mask&(1<<bit) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(bit), 0, 0, 0)
		if err != nil && err != unix.EINVAL { // EINVAL: the kernel does not know it
			return fmt.Errorf("drop capability %s: %w", capabilityNames()[bit], err)
		}
	}
	return nil
}

// setCapabilities makes mask all this thread holds, and may pass on.
func setCapabilities(mask uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		half := uint32(mask >> (32 * i)) //nolint:gosec // one half at a time
		data[i] = unix.CapUserData{Effective: half, Permitted: half}
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	return nil
}
