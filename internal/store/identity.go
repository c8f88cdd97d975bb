// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// Identity is one process somewhere, exactly enough to tell later, on the same machine, whether it still exists.
type Identity struct {
	// User and Host are for people.
	User string
	Host string
	// PID is the process's number, which means something only within its PID namespace.
	PID int
	// Namespace is the PID namespace, as its inode number; empty if unknown.
	Namespace string
	// Boot is the kernel's boot ID: equal on two machines only if they are one machine that was not restarted; empty if
	// unknown.
	Boot string
	// Start is when the process started, in clock ticks since boot: it tells a process from a later one with its PID.
	// Zero if unknown.
	Start uint64
}

// String returns "user@host pid=… pidns=… boot=… start=…", which ParseIdentity reads. Facts that are unknown are left out.
func (i Identity) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s@%s pid=%d", clean(i.User), clean(i.Host), i.PID)
	if i.Namespace != "" {
		b.WriteString(" pidns=" + clean(i.Namespace))
	}
	if i.Boot != "" {
		b.WriteString(" boot=" + clean(i.Boot))
	}
	if i.Start != 0 {
		b.WriteString(" start=" + strconv.FormatUint(i.Start, 10))
	}
	return b.String()
}

// Who returns "user@host, process N": the part that people need.
func (i Identity) Who() string { return fmt.Sprintf("%s@%s, process %d", i.User, i.Host, i.PID) }

// clean keeps the text parsable whatever a user name holds.
func clean(s string) string { return strings.Join(strings.Fields(s), "_") }

// ParseIdentity reads what String wrote. ok is false for anything else, another program's lease for example.
func ParseIdentity(s string) (id Identity, ok bool) {
	fields := strings.Fields(s)
	if len(fields) < 2 {
		return Identity{}, false
	}
	at := strings.LastIndex(fields[0], "@")
	if at < 0 {
		return Identity{}, false
	}
	id.User, id.Host = fields[0][:at], fields[0][at+1:]
	for _, f := range fields[1:] {
		key, val, _ := strings.Cut(f, "=")
		var err error
		switch key {
		case "pid":
			id.PID, err = strconv.Atoi(val)
		case "pidns":
			id.Namespace = val
		case "boot":
			id.Boot = val
		case "start":
			id.Start, err = strconv.ParseUint(val, 10, 64)
		}
		if err != nil {
			return Identity{}, false
		}
	}
	return id, id.PID > 0
}

// Proc is what has to be known of the machine to judge processes.
type Proc struct {
	// FS is the proc file system of our own PID namespace, os.DirFS("/proc").
	FS fs.FS
	// Exists tells whether a process with this PID exists in our PID namespace, whoever owns it.
	Exists func(pid int) bool
}

// SystemProc returns the Proc of the machine that this process runs on.
func SystemProc() Proc {
	return Proc{FS: os.DirFS("/proc"), Exists: func(pid int) bool {
		// Signal 0 reaches nobody. It sees processes that a hidepid mount hides from /proc, and says "not permitted"
		// about a process of another user, which exists.
		p, err := os.FindProcess(pid)
		if err != nil {
			return false
		}
		defer func() { _ = p.Release() }() // only forgets the handle; it can't fail on a process that is not ours
		return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
	}}
}

// Self returns the identity of this process. Facts that the machine does not tell stay empty; then nobody takes this
// process for dead.
func Self() Identity {
	id := Identity{User: "unknown", Host: "unknown", PID: os.Getpid()}
	if u, err := user.Current(); err == nil {
		id.User = u.Username
	} else if name := os.Getenv("USER"); name != "" {
		id.User = name
	}
	if h, err := os.Hostname(); err == nil && h != "" {
		id.Host = h
	}
	SystemProc().describe(&id)
	return id
}

// describe fills in the facts that tell whether the process of id lives. They only count together, and only if this proc
// file system is the one of our own PID namespace.
func (p Proc) describe(id *Identity) {
	stat, ok := p.stat("self")
	if !ok || stat.pid != id.PID {
		return
	}
	boot, err := fs.ReadFile(p.FS, "sys/kernel/random/boot_id")
	if err != nil {
		return
	}
	ns, err := fs.ReadLink(p.FS, "self/ns/pid")
	if err != nil {
		return
	}
	id.Boot, id.Start = strings.TrimSpace(string(boot)), stat.start
	id.Namespace = strings.TrimSuffix(strings.TrimPrefix(ns, "pid:["), "]")
}

// Dead tells whether the process of other is known to have ended, as seen by self. False means "lives, or can't tell".
//
// It is sure because a process is named by four facts together. The same boot ID means the same running kernel, so other
// is on this machine, and the same PID namespace means that its PID is a PID for us too. If no process has that PID, or
// one that started at another moment, other has ended, and what has ended never writes again. A process that was killed
// and not yet waited for (a zombie) has ended as well. Across a restart of the machine, another container or another
// machine nothing is concluded: there the lease has to expire.
//
// Machines cloned from a snapshot of a running one share the boot ID. Two of them that drive the same management cluster
// could take the lease from each other; the resource version on every renewal lets the loser notice within a third of the
// lease's duration.
func (p Proc) Dead(self, other Identity) bool {
	if !self.comparable(other) {
		return false
	}
	if !p.Exists(other.PID) {
		return true
	}
	stat, ok := p.stat(strconv.Itoa(other.PID))
	if !ok {
		return false // there, but hidden from us
	}
	return stat.start != other.Start || stat.state == 'Z' || stat.state == 'X'
}

// comparable tells whether the two processes see each other: same running kernel, same PID namespace.
func (i Identity) comparable(other Identity) bool {
	return i.Boot != "" && i.Boot == other.Boot && i.Namespace == other.Namespace && i.Start != 0 && other.Start != 0
}

type procStat struct {
	pid   int
	state byte
	start uint64
}

// stat reads the three fields that matter. The second one, the command, may hold spaces and parentheses; the last
// parenthesis ends it.
func (p Proc) stat(dir string) (procStat, bool) {
	data, err := fs.ReadFile(p.FS, dir+"/stat")
	if err != nil {
		return procStat{}, false
	}
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return procStat{}, false
	}
	pid, errPID := strconv.Atoi(strings.TrimSpace(string(data[:open])))
	rest := strings.Fields(string(data[end+1:]))
	const startField = 19 // field 22 of proc_pid_stat(5), counted from the third
	if errPID != nil || len(rest) <= startField {
		return procStat{}, false
	}
	start, err := strconv.ParseUint(rest[startField], 10, 64)
	return procStat{pid: pid, state: rest[0][0], start: start}, err == nil
}
