// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// kills is how often Capstan is killed in all.
const kills = 20

// TestKillAndResume kills Capstan with SIGKILL at random moments of upgrades, twenty times, and resumes each time. Every
// upgrade ends at its target with the fleet untouched. CAPSTAN_SEED repeats the moments of an earlier run.
func TestKillAndResume(t *testing.T) {
	b := start(t, 1)
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("CAPSTAN_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("CAPSTAN_SEED=%d repeats this run's moments", seed)
	moments := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // moments need no secrecy
	for done, round := 0, 0; done < kills; round++ {
		version := fmt.Sprintf("v1.14.%d", 2+round)
		dir := variant(t, b.releases[newVersion], version, revision(version))
		args := []string{"upgrade", dir, "--yes"}
		for attempt := 0; done < kills && attempt < 5; attempt++ {
			after := time.Duration(moments.IntN(6000)) * time.Millisecond
			// Three of four kills count from the first change; the others may hit while it still plans.
			moving := moments.IntN(4) > 0
			if !b.kill(t, after, moving, args...) {
				break
			}
			done++
			t.Logf("kill %d of %d: %s into %s, counted from its first change: %t", done, kills, after, args[0], moving)
			if b.started(t, version) {
				args = []string{"resume"}
			}
		}
		if args[0] == "resume" && b.ended(t, version) {
			continue
		}
		r := b.capstan(t.Context(), args...)
		want(t, r, 0, "6 of 6")
		want(t, b.capstan(t.Context(), "history"), 0, version, "6 of 6")
		want(t, b.capstan(t.Context(), "upgrade", dir, "--yes"), 0, "nothing to do")
	}
}

// kill runs capstan and kills it after a while, counted from its start or from the first sign that it moves the run; false
// means that it had ended before.
func (b *bed) kill(t *testing.T, after time.Duration, moving bool, args ...string) bool {
	t.Helper()
	cmd := b.command(t.Context(), "capstan", args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	moves, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		watch(stderr, moves)
		ended <- cmd.Wait()
	}()
	if moving {
		select {
		case err := <-ended:
			return b.early(t, err, args)
		case <-moves:
		}
	}
	select {
	case err := <-ended:
		return b.early(t, err, args)
	case <-time.After(after):
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Logf("kill: %v", err)
	}
	<-ended
	return true
}

// early notes that capstan ended before it could be killed.
func (b *bed) early(t *testing.T, err error, args []string) bool {
	t.Helper()
	if err != nil {
		t.Errorf("capstan %v ended by itself: %v", args, err)
	}
	return false
}

// watch reads the progress of capstan to its end and closes moves at the first step that it starts or takes over.
func watch(progress io.Reader, moves chan<- struct{}) {
	seen := false
	for lines := bufio.NewScanner(progress); lines.Scan(); {
		if !seen && (strings.Contains(lines.Text(), "  start  ") || strings.Contains(lines.Text(), "  take  ")) {
			seen = true
			close(moves)
		}
	}
}

// started tells whether a run to the version is on record and not ended.
func (b *bed) started(t *testing.T, version string) bool {
	t.Helper()
	return b.result(t, version) == "open"
}

// ended tells whether a run to the version has ended well.
func (b *bed) ended(t *testing.T, version string) bool {
	t.Helper()
	return b.result(t, version) == v1alpha1.ReasonCompleted
}

// result returns the state of the newest run to a version: "", "open" or how it ended.
func (b *bed) result(t *testing.T, version string) string {
	t.Helper()
	r := b.capstan(t.Context(), "history", "-o", "json")
	if r.code != 0 {
		return ""
	}
	history := decode[struct {
		Runs []struct{ To, Result, FinishedAt string }
	}](t, r.stdout)
	for _, run := range history.Runs {
		switch {
		case run.To != version:
		case run.FinishedAt == "":
			return "open"
		default:
			return run.Result
		}
	}
	return ""
}
