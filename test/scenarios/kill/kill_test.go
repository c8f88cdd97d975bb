// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package kill ends Capstan by force at any moment and resumes.
package kill

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
	"github.com/capstan-dev/capstan/test/scenarios/bed"
)

// kills is how often Capstan is killed in all.
const kills = 20

// TestKillAndResume kills Capstan with SIGKILL at random moments of upgrades, twenty times, and resumes each time. Every
// upgrade ends at its target with the fleet untouched. CAPSTAN_SEED repeats the moments of an earlier run.
func TestKillAndResume(t *testing.T) {
	b := bed.Start(t, 1)
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("CAPSTAN_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("CAPSTAN_SEED=%d repeats this run's moments", seed)
	moments := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // moments need no secrecy
	for done, round := 0, 0; done < kills; round++ {
		version := fmt.Sprintf("v1.14.%d", 2+round)
		dir := bed.Variant(t, b.Releases[bed.NewVersion], version, bed.Revision(version))
		args := []string{"upgrade", dir, "--yes"}
		for attempt := 0; done < kills && attempt < 5; attempt++ {
			after := time.Duration(moments.IntN(6000)) * time.Millisecond
			// Three of four kills count from the first change; the others may hit while it still plans.
			moving := moments.IntN(4) > 0
			if !kill(t, b, after, moving, args...) {
				break
			}
			done++
			t.Logf("kill %d of %d: %s into %s, counted from its first change: %t", done, kills, after, args[0], moving)
			if started(t, b, version) {
				args = []string{"resume"}
			}
		}
		if args[0] == "resume" && ended(t, b, version) {
			continue
		}
		r := b.Capstan(t.Context(), args...)
		bed.Want(t, r, 0, "6 of 6")
		bed.Want(t, b.Capstan(t.Context(), "history"), 0, version, "6 of 6")
		bed.Want(t, b.Capstan(t.Context(), "upgrade", dir, "--yes"), 0, "nothing to do")
	}
}

// kill runs capstan and kills it after a while, counted from its start or from the first sign that it moves the run; false
// means that it had ended before.
func kill(t *testing.T, b *bed.Bed, after time.Duration, moving bool, args ...string) bool {
	t.Helper()
	cmd := b.Command(t.Context(), "capstan", args...)
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
			return early(t, err, args)
		case <-moves:
		}
	}
	select {
	case err := <-ended:
		return early(t, err, args)
	case <-time.After(after):
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Logf("kill: %v", err)
	}
	<-ended
	return true
}

// early notes that capstan ended before it could be killed.
func early(t *testing.T, err error, args []string) bool {
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
func started(t *testing.T, b *bed.Bed, version string) bool {
	t.Helper()
	return result(t, b, version) == "open"
}

// ended tells whether a run to the version has ended well.
func ended(t *testing.T, b *bed.Bed, version string) bool {
	t.Helper()
	return result(t, b, version) == v1alpha1.ReasonCompleted
}

// result returns the state of the newest run to a version: "", "open" or how it ended.
func result(t *testing.T, b *bed.Bed, version string) string {
	t.Helper()
	r := b.Capstan(t.Context(), "history", "-o", "json")
	if r.Code != 0 {
		return ""
	}
	history := bed.Decode[struct {
		Runs []struct{ To, Result, FinishedAt string }
	}](t, r.Stdout)
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
