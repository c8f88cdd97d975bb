// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

const (
	// settleLimit is how long providers may take to come up after the command that upgraded them said that it is done.
	settleLimit = 2 * time.Minute
	// cleanupLimit bounds the end of a sandbox after an interrupt.
	cleanupLimit = time.Minute
	// tailLines is how much of a program's output an error shows.
	tailLines = 15
)

// tool is one of the two that are compared.
type tool string

const (
	toolClusterctl tool = "clusterctl"
	toolCapstan    tool = "capstan"
)

// result is one measured run.
type result struct {
	Tool tool `json:"tool"`
	Run  int  `json:"run"`
	// Seconds is the time from the command's start to its end.
	Seconds float64 `json:"seconds"`
	// Working is the time from the command's start until it had ended and every provider had a controller that leads: a tool
	// may end before what it installed works.
	Working float64 `json:"workingAfterSeconds"`
	// Stopped is the time without a running controller, by provider.
	Stopped map[string]float64 `json:"withoutRunningController"`
	// Leaderless is the time without a controller that leads, by provider.
	Leaderless map[string]float64 `json:"withoutLeadingController"`
	// AllDown is the time during which no provider had a running controller.
	AllDown float64 `json:"allDown"`
	// Blind is the time during which nothing could be seen.
	Blind float64 `json:"blind"`
	// Machines is how many there were before, Unchanged how many of them are there after.
	Machines  int `json:"machines"`
	Unchanged int `json:"unchanged"`
}

// worst is the longest time of a provider.
func worst(byProvider map[string]float64) float64 {
	return slices.Max(append(slices.Collect(maps.Values(byProvider)), 0))
}

// sum is the time of all providers together.
func sum(byProvider map[string]float64) float64 {
	total := 0.0
	for _, name := range slices.Sorted(maps.Keys(byProvider)) {
		total += byProvider[name]
	}
	return total
}

// bench measures.
type bench struct {
	options
	dir      string
	clock    clock.WithTicker
	progress io.Writer
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

// measureAll makes every run, the tools in turns.
func (b *bench) measureAll(ctx context.Context) ([]result, error) {
	if err := b.command(ctx, "release.log", b.sandbox, "release", "--capi", b.to, "--out", b.release()); err != nil {
		return nil, err
	}
	var results []result
	for i := range b.runs {
		pair := []tool{toolClusterctl, toolCapstan}
		if i%2 == 1 {
			slices.Reverse(pair)
		}
		for _, t := range pair {
			r, err := b.measure(ctx, t, i+1)
			if err != nil {
				return nil, fmt.Errorf("run %d of %s: %w", i+1, t, err)
			}
			b.say("%s, run %d: %.1f s, all controllers lead after %.1f s; worst provider %.1f s without a running controller, %.1f s without a leading one",
				t, i+1, r.Seconds, r.Working, worst(r.Stopped), worst(r.Leaderless))
			results = append(results, r)
		}
	}
	return results, nil
}

func (b *bench) release() string { return filepath.Join(b.dir, "release") }

// measure makes one run in a sandbox of its own, which is gone afterwards whatever happened.
func (b *bench) measure(ctx context.Context, t tool, n int) (r result, err error) {
	name := fmt.Sprintf("%s-%d", t, n)
	home := filepath.Join(b.dir, name)
	b.say("%s, run %d: starting a sandbox with Cluster API %s and %d machines", t, n, b.from, b.controlPlanes+b.workers)
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer cancel()
		err = errors.Join(err, b.command(cleanup, name+"-down.log", b.sandbox, "down", "--dir", home))
	}()
	err = b.command(ctx, name+"-up.log", b.sandbox, "up", "--dir", home, "--capi", b.from, "--offer", b.to, "--clusters", "1",
		"--control-planes", strconv.Itoa(b.controlPlanes), "--workers", strconv.Itoa(b.workers))
	if err != nil {
		return r, err
	}
	path, err := b.kubeconfigOf(ctx, home)
	if err != nil {
		return r, err
	}
	c, err := connect(path)
	if err != nil {
		return r, err
	}
	return b.upgrade(ctx, c, path, home, t, n)
}

// kubeconfigOf returns the path of a sandbox's kubeconfig.
func (b *bench) kubeconfigOf(ctx context.Context, home string) (string, error) {
	out, err := exec.CommandContext(ctx, b.sandbox, "kubeconfig", "--dir", home).Output() //nolint:gosec // the program is an argument of ours
	if err != nil {
		return "", fmt.Errorf("ask the sandbox for its kubeconfig: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// upgrade runs the tool under the eyes of the sampler and checks that it reached the target.
func (b *bench) upgrade(ctx context.Context, c cluster, kubeconfig, home string, t tool, n int) (result, error) {
	r := result{Tool: t, Run: n, Stopped: map[string]float64{}, Leaderless: map[string]float64{}}
	before, err := c.machines(ctx)
	if err != nil {
		return r, err
	}
	providers, err := c.providers(ctx)
	if err != nil {
		return r, err
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	done, seen := make(chan struct{}), make(chan *gaps, 1)
	go func() {
		seen <- sampler{cluster: c, clock: b.clock}.watch(watching, slices.Sorted(maps.Keys(providers)), done)
	}()
	begin := b.clock.Now()
	err = b.command(ctx, fmt.Sprintf("%s-%d.log", t, n), b.program(t), b.args(t, kubeconfig, home)...)
	r.Seconds = seconds(b.clock.Since(begin))
	close(done)
	if err != nil {
		cancel()
		<-seen
		return r, err
	}
	g, err := b.settled(seen, cancel)
	if err != nil {
		return r, err
	}
	for p := range g.stopped {
		r.Stopped[p], r.Leaderless[p] = seconds(g.stopped[p]), seconds(g.leaderless[p])
	}
	r.AllDown, r.Blind, r.Working = seconds(g.all), seconds(g.blind), seconds(g.last.Sub(begin))
	return r, b.arrived(ctx, c, before, &r)
}

// settled waits for the sampler, which ends when every provider is at work.
func (b *bench) settled(seen <-chan *gaps, cancel context.CancelFunc) (*gaps, error) {
	select {
	case g := <-seen:
		return g, nil
	case <-b.clock.After(settleLimit):
		cancel()
		<-seen
		return nil, fmt.Errorf("not every provider had a leading controller %s after the upgrade", settleLimit)
	}
}

func (b *bench) program(t tool) string {
	if t == toolCapstan {
		return b.capstan
	}
	return b.sandbox
}

func (b *bench) args(t tool, kubeconfig, home string) []string {
	if t == toolCapstan {
		return []string{"upgrade", b.release(), "--yes", "--kubeconfig", kubeconfig}
	}
	return []string{"clusterctl", "--dir", home, "--capi", b.to, "--", "upgrade", "apply", "--contract", b.contract, "--wait-providers"}
}

// arrived makes sure that the run did what it was measured for.
func (b *bench) arrived(ctx context.Context, c cluster, before map[string]bool, r *result) error {
	providers, err := c.providers(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		if providers[name] != b.to {
			return fmt.Errorf("provider %s is recorded at %s, not %s", name, providers[name], b.to)
		}
	}
	after, err := c.machines(ctx)
	if err != nil {
		return err
	}
	r.Machines = len(before)
	for uid := range before {
		if after[uid] {
			r.Unchanged++
		}
	}
	return nil
}

// command runs a program to its end. What it prints goes to a log file.
func (b *bench) command(ctx context.Context, log, program string, args ...string) error {
	file, err := os.Create(filepath.Join(b.dir, log)) //nolint:gosec // in our own directory
	if err != nil {
		return fmt.Errorf("make log: %w", err)
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // the two programs that are compared
	cmd.Stdout, cmd.Stderr = file, file
	// An interrupted program cleans up behind itself.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = cleanupLimit
	// A signal from the terminal reaches us alone; we hand it on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, tail(file.Name()))
	}
	return nil
}

// tail returns the last lines of a log.
func tail(path string) string {
	data, err := os.ReadFile(path) //nolint:gosec // a log of our own
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}
