// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// holderEnv tells the test program to be the process that holds the lease; its value is how to reach the API server.
const holderEnv = "CAPSTAN_TEST_HOLDER"

// access is the part of a rest.Config that reaches the other process.
type access struct {
	Host          string
	CA, Cert, Key []byte
}

// TestHolderProcess is not a test: testLeaseKill runs it as a process of its own.
func TestHolderProcess(t *testing.T) {
	text := os.Getenv(holderEnv)
	if text == "" {
		t.Skip("skipped: this is the other process of the lease test, not a test")
	}
	var a access
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	s, err := New(&rest.Config{
		Host: a.Host, TLSClientConfig: rest.TLSClientConfig{CAData: a.CA, CertData: a.Cert, KeyData: a.Key},
	}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Lease(LeaseOptions{}).Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or until the other side is gone
}

// testLeaseKill is the real thing: a process that holds the lease, seen living, then killed.
func testLeaseKill(t *testing.T, s *Store, cfg *rest.Config) {
	if Self().Boot == "" {
		t.Skip("skipped: this machine does not tell processes apart (no /proc of our PID namespace)")
	}
	forget(t, cfg)
	text, err := json.Marshal(access{Host: cfg.Host, CA: cfg.CAData, Cert: cfg.CertData, Key: cfg.KeyData})
	if err != nil {
		t.Fatal(err)
	}
	//nolint:gosec // our own test program
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHolderProcess$")
	cmd.Env = append(os.Environ(), holderEnv+"="+string(text))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}

	l := s.Lease(LeaseOptions{})
	held, ok := errors.AsType[*HeldError](l.Acquire(t.Context()))
	if !ok || held.Holder.Identity.PID != cmd.Process.Pid {
		t.Errorf("held by %v, want process %d", held, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Not waited for yet: at first it is a zombie.
	start := s.clock.Now()
	for !l.proc.Dead(l.self, held.Holder.Identity) {
		if s.clock.Since(start) > LeaseDuration/2 {
			t.Fatal("the killed process still counts as living")
		}
	}
	if err := l.Acquire(t.Context()); err != nil {
		t.Errorf("Acquire from the killed one: %v", err)
	}
	if waited := s.clock.Since(start); waited > LeaseDuration/2 {
		t.Errorf("it took %s", waited)
	}
	_ = cmd.Wait() // always "killed"
}
