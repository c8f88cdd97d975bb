// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// exitFailed is the exit code when nothing was executed; the reason is in the
// reply.
const exitFailed = 125

// Main is the hidden command of Runtime.SelfArgs. Told to start a container it
// becomes it and does not return; told to enter one it returns the exit code.
func Main() int {
	// Namespaces, ids and capabilities belong to a thread: stay on this one.
	runtime.LockOSThread()
	var req request
	if err := json.NewDecoder(os.NewFile(fdRequest, "request")).Decode(&req); err != nil {
		fmt.Fprintln(os.Stderr, "this command is internal")
		return exitFailed
	}
	syscall.CloseOnExec(fdReply)
	code, err := serve(req)
	if err == nil {
		return code
	}
	var failed *StartError
	if !errors.As(err, &failed) {
		failed = &StartError{Stage: StageSetup, Message: err.Error()}
	}
	if err := json.NewEncoder(os.NewFile(fdReply, "reply")).Encode(failed); err != nil {
		fmt.Fprintf(os.Stderr, "%v (and the reply was not delivered: %v)\n", failed, err)
	}
	return exitFailed
}

func serve(req request) (int, error) {
	syscall.CloseOnExec(fdRequest)
	switch {
	case req.Start != nil:
		return exitFailed, become(req.Start, req.NetNS)
	case req.Enter != nil:
		return enter(req.Enter)
	}
	return exitFailed, errors.New("empty request")
}

// become turns this process into the container. It returns only on failure.
func become(spec *Spec, netNS bool) error {
	if netNS {
		if err := unix.Setns(fdNetNS, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		if err := unix.Close(fdNetNS); err != nil {
			return fmt.Errorf("close network namespace: %w", err)
		}
	}
	if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := makeRoot(spec); err != nil {
		return err
	}
	path, err := lookUp(spec.Process)
	if err != nil {
		return err
	}
	if err := giveStreams(spec.Process); err != nil {
		return err
	}
	if err := dropPrivileges(spec.Process); err != nil {
		return err
	}
	if err := os.Chdir(cwd(spec.Process)); err != nil {
		return fmt.Errorf("change to working directory: %w", err)
	}
	// Dropping privileges has cleared what the agent asked for: if the agent
	// dies, so does the container.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set parent death signal: %w", err)
	}
	unix.Umask(0o022)
	err = syscall.Exec(path, spec.Args, spec.Env) //nolint:gosec // that is what a container is
	return &StartError{Stage: StageExec, Message: fmt.Sprintf("exec %q: %v", path, err)}
}

// giveStreams makes the user own its standard streams, or programs that open
// /dev/stdout by its name can't. What is no pipe is not the container's alone.
func giveStreams(p Process) error {
	for fd := range 3 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return fmt.Errorf("look at standard stream: %w", err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFIFO {
			continue
		}
		if err := unix.Fchown(fd, p.UID, p.GID); err != nil {
			return fmt.Errorf("give standard stream to user: %w", err)
		}
	}
	return nil
}

// dropPrivileges becomes the wanted user, on this thread.
func dropPrivileges(p Process) error {
	if err := boundCapabilities(p.Capabilities); err != nil {
		return err
	}
	if err := setIDs(p); err != nil {
		return err
	}
	if p.UID == 0 { // any other user has lost all of them by now
		if err := setCapabilities(p.Capabilities); err != nil {
			return err
		}
	}
	if p.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("set no new privileges: %w", err)
		}
	}
	return nil
}

// setIDs uses the system calls themselves: those of package syscall act on all
// threads, and only this one goes on.
func setIDs(p Process) error {
	groups := make([]uint32, len(p.Groups), len(p.Groups)+1)
	for i, g := range p.Groups {
		groups[i] = uint32(g) //nolint:gosec // ids are never negative
	}
	first := uintptr(unsafe.Pointer(unsafe.SliceData(groups))) //nolint:gosec // as the system call wants it
	_, _, errno := unix.Syscall(unix.SYS_SETGROUPS, uintptr(len(groups)), first, 0)
	// A plain user's namespace forbids setgroups; it has no groups to set then.
	if errno != 0 && (errno != unix.EPERM || len(groups) > 0) {
		return fmt.Errorf("set groups: %w", errno)
	}
	gid, uid := uintptr(p.GID), uintptr(p.UID)
	if _, _, errno := unix.Syscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return fmt.Errorf("set group %d: %w", p.GID, errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return fmt.Errorf("set user %d: %w", p.UID, errno)
	}
	return nil
}

func cwd(p Process) string {
	if p.Cwd == "" {
		return "/"
	}
	return p.Cwd
}

// lookUp finds the program as a container engine does: by the container's own
// PATH, relative to its working directory.
func lookUp(p Process) (string, error) {
	if len(p.Args) == 0 || p.Args[0] == "" {
		return "", &StartError{Stage: StageExec, Message: "no command specified"}
	}
	name := p.Args[0]
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd(p), path)
		}
		if err := executable(path); err != nil {
			return "", &StartError{Stage: StageExec, Message: fmt.Sprintf("exec: %q: %v", name, unwrapPath(err))}
		}
		return path, nil
	}
	for dir := range strings.SplitSeq(pathOf(p.Env), ":") {
		path := filepath.Join(cwd(p), dir, name)
		if filepath.IsAbs(dir) {
			path = filepath.Join(dir, name)
		}
		if executable(path) == nil {
			return path, nil
		}
	}
	return "", &StartError{Stage: StageExec, Message: fmt.Sprintf("exec: %q: executable file not found in $PATH", name)}
}

func pathOf(env []string) string {
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			path = value
		}
	}
	return path
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fs.ErrPermission
	}
	return nil
}

// unwrapPath leaves out the path the message names already.
func unwrapPath(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", pathErr.Op, pathErr.Err)
	}
	return err
}
