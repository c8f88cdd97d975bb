// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a new terminal.
func openTerminal() (master, terminal *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open terminal: %w", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("unlock terminal: %w", err)
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, master.Fd(), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY)
	if errno != 0 {
		master.Close()
		return nil, nil, fmt.Errorf("open other end of terminal: %w", errno)
	}
	return master, os.NewFile(fd, "terminal"), nil
}

func resizeTerminal(master *os.File, size api.TermSize) {
	// A size that is not taken is not worth ending the session for.
	_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Height, Col: size.Width})
}
