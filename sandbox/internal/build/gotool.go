// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/semver"
)

// tailLines is how much of the go command's output an error shows.
const tailLines = 40

// ToolError is a go command that failed, with the end of what it printed.
type ToolError struct {
	// Args are the arguments, without the command.
	Args []string
	// Tail is the last lines of output.
	Tail []string
	// Err is what the operating system said.
	Err error
}

// Error names the command, the reason and the output.
func (e *ToolError) Error() string {
	return fmt.Sprintf("go %s: %v\n%s", strings.Join(e.Args, " "), e.Err, strings.Join(e.Tail, "\n"))
}

// Unwrap returns the operating system's error.
func (e *ToolError) Unwrap() error { return e.Err }

// goTool runs one go command in an environment that the user's own settings can't bend.
type goTool struct {
	path    string
	version string // as "v1.26.8"
	raw     string // as "go1.26.8", with experiments and vendor suffix
	env     []string
}

// findGo finds the toolchain and asks it for its version.
func (b *Builder) findGo(ctx context.Context) (*goTool, error) {
	path, err := b.goPath()
	if err != nil {
		return nil, fmt.Errorf("find the go command: %w: install Go from https://go.dev/dl and put it in PATH", err)
	}
	t := &goTool{path: path, env: goEnv(os.Environ())}
	out, err := t.output(ctx, "", "env", "GOVERSION")
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	t.raw = strings.TrimSpace(string(out))
	t.version = goSemver(t.raw)
	if !semver.IsValid(t.version) {
		return nil, fmt.Errorf("%s reports version %q, which is no release of Go", path, t.raw)
	}
	return t, nil
}

func (b *Builder) goPath() (string, error) {
	if b.Go != "" {
		return exec.LookPath(b.Go)
	}
	if root := os.Getenv("GOROOT"); root != "" {
		if path, err := exec.LookPath(filepath.Join(root, "bin", "go")); err == nil {
			return path, nil
		}
	}
	return exec.LookPath("go")
}

// goEnv is the environment for the go command. What would change the result or its key is fixed here; where modules come from
// and where caches are (GOPROXY, GOMODCACHE, GOCACHE …) stays the user's business.
func goEnv(environ []string) []string {
	fixed := map[string]string{
		"CGO_ENABLED":  "0",
		"GO111MODULE":  "on",
		"GOEXPERIMENT": "",
		"GOOS":         "linux",
		"GOTOOLCHAIN":  "local",
		"GOWORK":       "off",
		// Not empty: an empty value would let "go env -w GOFLAGS=…" through.
		"GOFLAGS": "-trimpath",
	}
	env := make([]string, 0, len(environ)+len(fixed))
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if _, ok := fixed[name]; !ok {
			env = append(env, kv)
		}
	}
	for _, name := range sortedKeys(fixed) {
		env = append(env, name+"="+fixed[name])
	}
	return env
}

// goSemver turns "go1.26.8" or "go1.27rc1" into a semantic version.
func goSemver(raw string) string {
	v, _, _ := strings.Cut(strings.TrimPrefix(raw, "go"), " ")
	v, _, _ = strings.Cut(v, "-")
	if i := strings.IndexAny(v, "rb"); i > 0 { // release candidates and betas
		v = v[:i] + ".0-" + v[i:]
	}
	return "v" + v
}

// need fails when the toolchain is older than a module asks for.
func (t *goTool) need(what, minimum string) error {
	if minimum == "" || semver.Compare(t.version, goSemver("go"+minimum)) >= 0 {
		return nil
	}
	return fmt.Errorf("%s needs Go %s or later, %s is %s: install a newer Go from https://go.dev/dl or ask for an older version",
		what, minimum, t.path, t.raw)
}

// output runs a command and returns its standard output.
func (t *goTool) output(ctx context.Context, dir string, args ...string) ([]byte, error) {
	var out strings.Builder
	err := t.run(ctx, dir, &out, nil, args...)
	return []byte(out.String()), err
}

// run runs a command. Each line of standard error goes to onLine; standard output goes to stdout.
func (t *goTool) run(ctx context.Context, dir string, stdout io.Writer, onLine func(string), args ...string) error {
	cmd := exec.CommandContext(ctx, t.path, args...)
	cmd.Dir, cmd.Env, cmd.Stdout = dir, t.env, stdout
	// The compilers the go command starts are in its process group: a cancelled build leaves nothing running. When this process
	// is killed the kernel ends the go command; it looks at the thread that started it, which therefore must live as long.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second

	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	tail := newTail(tailLines)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		tail.add(lines.Text())
		if onLine != nil {
			onLine(lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &ToolError{Args: args, Tail: tail.lines, Err: err}
	}
	return nil
}

// tail keeps the last lines it is given.
type tail struct {
	limit int
	lines []string
}

func newTail(limit int) *tail { return &tail{limit: limit} }

func (t *tail) add(line string) {
	t.lines = append(t.lines, line)
	if len(t.lines) > t.limit {
		t.lines = t.lines[1:]
	}
}

// moduleVersion names a module at a version.
type moduleVersion struct {
	path    string
	version string
}

func (m moduleVersion) String() string { return m.path + "@" + m.version }

// download fetches a module into the module cache and returns its directory.
func (t *goTool) download(ctx context.Context, m moduleVersion) (string, error) {
	dir, err := t.moduleField(ctx, "Dir", "mod", "download", "-json", m.String())
	if err != nil {
		return "", lookupError(m, err)
	}
	return dir, nil
}

// lookupError says what to do about a module that can't be had.
func lookupError(m moduleVersion, err error) error {
	return fmt.Errorf("get module %s: %w\nCheck the version and the module proxy (go env GOPROXY); \"go list -m -versions %s\" lists versions",
		m, err, m.path)
}

// goModOf returns the text of a module's own go.mod; the module itself is not fetched.
func (t *goTool) goModOf(ctx context.Context, m moduleVersion) ([]byte, error) {
	path, err := t.moduleField(ctx, "GoMod", "list", "-m", "-json", m.String())
	if err != nil {
		return nil, lookupError(m, err)
	}
	return os.ReadFile(path)
}

// moduleField runs a command that prints one module as JSON and returns a field of it.
func (t *goTool) moduleField(ctx context.Context, field string, args ...string) (string, error) {
	// Away from any go.mod of the user's.
	dir, err := os.MkdirTemp("", "sandbox-build-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }() // empty
	out, err := t.output(ctx, dir, args...)
	// Both commands say what went wrong in the JSON, the one as a text and the other as an object.
	info := map[string]any{}
	if jsonErr := json.Unmarshal(out, &info); jsonErr != nil {
		if err != nil {
			return "", err
		}
		return "", fmt.Errorf("read output of go %s: %w", strings.Join(args, " "), jsonErr)
	}
	switch reason := info["Error"].(type) {
	case string:
		return "", errors.New(reason)
	case map[string]any:
		return "", fmt.Errorf("%v", reason["Err"])
	}
	if err != nil {
		return "", err
	}
	value, ok := info[field].(string)
	if !ok {
		return "", fmt.Errorf("the module proxy lists this version but does not serve it: no %s from go %s", field, strings.Join(args, " "))
	}
	return value, nil
}
