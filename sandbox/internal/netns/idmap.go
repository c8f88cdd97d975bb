// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// mapIDs asks for a user namespace: root keeps every id it has, a plain user
// becomes root and has no other id.
func mapIDs(attr *syscall.SysProcAttr) error {
	attr.Cloneflags |= syscall.CLONE_NEWUSER
	if os.Geteuid() != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		return nil
	}
	var err error
	if attr.UidMappings, err = identityMap("/proc/self/uid_map"); err != nil {
		return err
	}
	if attr.GidMappings, err = identityMap("/proc/self/gid_map"); err != nil {
		return err
	}
	attr.GidMappingsEnableSetgroups = true
	return nil
}

// identityMap maps all ids that exist here to themselves.
func identityMap(path string) ([]syscall.SysProcIDMap, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read id map: %w", err)
	}
	return parseIdentityMap(string(data))
}

func parseIdentityMap(text string) ([]syscall.SysProcIDMap, error) {
	var ids []syscall.SysProcIDMap
	for line := range strings.Lines(text) {
		var inside, outside, size int
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err != nil {
			return nil, fmt.Errorf("parse id map line %q: %w", strings.TrimSpace(line), err)
		}
		ids = append(ids, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return ids, nil
}
