// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
)

// memoryImages is a registry of names.
type memoryImages map[string]string

func (m memoryImages) List(context.Context) ([]Image, error) {
	var out []Image
	for name, digest := range m {
		out = append(out, Image{Name: name, Digest: digest})
	}
	return out, nil
}

func (m memoryImages) Add(_ context.Context, name, from string) (Image, error) {
	digest, ok := m[from]
	if !ok {
		return Image{}, errors.New("no image " + from)
	}
	m[name] = digest
	return Image{Name: name, Digest: digest, Local: true}, nil
}

func (m memoryImages) Remove(_ context.Context, name string) error {
	delete(m, name)
	return nil
}

// serveTest serves the control sockets of a supervisor that has nothing to supervise, in a directory with a very long name.
func serveTest(t *testing.T) (*Client, context.Context) {
	t.Helper()
	l := Layout{Dir: filepath.Join(t.TempDir(), strings.Repeat("long", 40))}
	if err := os.Mkdir(l.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &Supervisor{
		cfg: Config{
			Layout: l, Spec: Spec{Name: "t"}, Address: netip.MustParseAddr("10.244.0.1"), Images: memoryImages{"a:v1": "sha256:1"},
			Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
		},
		phase: PhaseStarting, stop: cancel,
	}
	if err := s.serveControl(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); s.wg.Wait() })
	return NewClient(l), ctx
}

func TestControlAPI(t *testing.T) {
	t.Parallel()
	c, served := serveTest(t)
	ctx := t.Context()

	st, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if st.Phase != PhaseStarting || st.Spec.Name != "t" || st.Addresses.APIServer != "https://10.244.0.1:6443" {
		t.Errorf("got status %+v", st)
	}
	if err := c.SetNode(ctx, NodeResources{CPU: "1"}); err == nil || err.Error() != ErrNotReady.Error() {
		t.Errorf("a node that is not there yet: got error %v, want %v", err, ErrNotReady)
	}
	if _, err := c.AddImage(ctx, "b:v1", "nosuch"); err == nil || err.Error() != "no image nosuch" {
		t.Errorf("an unknown image: got error %v", err)
	}
	if _, err := c.AddImage(ctx, "b:v1", "a:v1"); err != nil {
		t.Error(err)
	}
	if err := c.RemoveImage(ctx, "a:v1"); err != nil {
		t.Error(err)
	}
	got, err := c.Images(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, []Image{{Name: "b:v1", Digest: "sha256:1"}}); diff != "" {
		t.Errorf("images (-got +want):\n%s", diff)
	}
	pid, err := c.HostPID(ctx)
	if err != nil || pid != os.Getpid() {
		t.Errorf("got PID %d, %v, want %d", pid, err, os.Getpid())
	}
	if err := c.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	<-served.Done()
}

func TestClientSaysThatNothingRuns(t *testing.T) {
	t.Parallel()
	_, err := NewClient(Layout{Dir: t.TempDir()}).Status(t.Context())
	if !errors.Is(err, ErrNotRunning) {
		t.Errorf("got %v, want ErrNotRunning", err)
	}
}

func TestExecUsesTheCallersStreamsAndReturnsTheExitCode(t *testing.T) {
	t.Parallel()
	c, _ := serveTest(t)
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	if _, err := io.WriteString(inW, "from stdin\n"); err != nil {
		t.Fatal(err)
	}
	_ = inW.Close() // nothing is buffered
	dir := t.TempDir()
	code, err := c.Exec(t.Context(), []string{"/bin/sh", "-c", "cat; echo $WORD; pwd; exit 3"}, []string{"WORD=hello", "PATH=/usr/bin:/bin"}, dir,
		[3]*os.File{inR, outW, outW})
	if err != nil {
		t.Fatal(err)
	}
	_ = outW.Close() // nothing is buffered
	got, err := io.ReadAll(outR)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), "from stdin\nhello\n"+dir+"\n"); diff != "" {
		t.Errorf("output (-got +want):\n%s", diff)
	}
	if code != 3 {
		t.Errorf("got exit code %d, want 3", code)
	}
}

func TestExecSaysWhyACommandDoesNotStart(t *testing.T) {
	t.Parallel()
	c, _ := serveTest(t)
	_, w := pipe(t)
	_, err := c.Exec(t.Context(), []string{"/no/such/program"}, nil, "/", [3]*os.File{w, w, w})
	if err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("want an error that names the program, got %v", err)
	}
}

func TestExecEndsTheCommandWhenTheCallerGoes(t *testing.T) {
	t.Parallel()
	c, _ := serveTest(t)
	r, w := pipe(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, []string{"/bin/sh", "-c", "echo up; exec sleep 1000"}, nil, "/", [3]*os.File{w, w, w})
		done <- err
	}()
	if _, err := r.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("want an error for the command that was given up")
	}
	// The pipe ends when the last process that has it is gone.
	_ = w.Close() // nothing is buffered
	if _, err := io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}
