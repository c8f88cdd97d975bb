// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// exitBlocked is the exit code of a plan that would be refused; it was made all the same.
const exitBlocked = 3

// planResult is one plan beside one plain list of the same cluster, each a process of its own.
type planResult struct {
	Run int `json:"run"`
	// PlainSeconds is the time that the plain client took, PlanSeconds that of `capstan plan`.
	PlainSeconds float64 `json:"plainSeconds"`
	PlanSeconds  float64 `json:"planSeconds"`
	// PlainMemory and PlanMemory are the most memory that each had in use, in bytes.
	PlainMemory int64 `json:"plainPeakBytes"`
	PlanMemory  int64 `json:"planPeakBytes"`
	// Objects and Kinds are what the plain client found.
	Objects int `json:"objects"`
	Kinds   int `json:"kinds"`
	// Blocked tells that the plan would be refused.
	Blocked bool `json:"blocked,omitempty"`
}

func (r planResult) ratio() float64 {
	if r.PlainSeconds == 0 {
		return 0
	}
	return r.PlanSeconds / r.PlainSeconds
}

// measurePlans makes a sandbox that looks big, and lists and plans there in turns. The first of each is not counted: the
// API server makes its caches of a kind when that is asked for first.
func (b *bench) measurePlans(ctx context.Context) (results []planResult, err error) {
	home, kubeconfig, down, err := b.loaded(ctx)
	defer func() { err = errors.Join(err, down()) }()
	if err != nil {
		return nil, err
	}
	if err := b.command(ctx, "plan-release.log", b.sandbox, "release", "--capi", b.to, "--out", b.release()); err != nil {
		return nil, err
	}
	for i := range b.runs + 1 {
		r, err := b.plan(ctx, i, kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("plan in %s: %w", home, err)
		}
		if i == 0 {
			b.say("warmed up: plain list %.1f s, plan %.1f s", r.PlainSeconds, r.PlanSeconds)
			continue
		}
		b.say("run %d: plain list %.1f s, plan %.1f s (%.2f times), plan's memory %s", i, r.PlainSeconds, r.PlanSeconds, r.ratio(), mebibytes(r.PlanMemory))
		results = append(results, r)
	}
	return results, nil
}

// loaded returns a cluster to plan on, and how to end it: a sandbox made for this, or the one that is asked for.
func (b *bench) loaded(ctx context.Context) (home, kubeconfig string, down func() error, err error) {
	if b.kubeconfig != "" {
		return b.kubeconfig, b.kubeconfig, func() error { return nil }, nil
	}
	home = filepath.Join(b.dir, "plan")
	down = func() error {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer cancel()
		return b.command(cleanup, "plan-down.log", b.sandbox, "down", "--dir", home)
	}
	b.say("plan: starting a sandbox with Cluster API %s", b.from)
	if err := b.command(ctx, "plan-up.log", b.sandbox, "up", "--dir", home, "--capi", b.from, "--offer", b.to, "--clusters", "0"); err != nil {
		return home, "", down, err
	}
	b.say("plan: loading %d CRDs, %d Clusters and %d Machines, which takes some minutes", b.crds, b.clusters, b.machines)
	err = b.command(ctx, "plan-load.log", b.sandbox, "load", "--dir", home, "--crds", strconv.Itoa(b.crds), "--clusters", strconv.Itoa(b.clusters),
		"--machines", strconv.Itoa(b.machines))
	if err != nil {
		return home, "", down, err
	}
	path, err := b.kubeconfigOf(ctx, home)
	return home, path, down, err
}

// plan makes one list and one plan, in this order in odd runs and in the other in even ones.
func (b *bench) plan(ctx context.Context, run int, kubeconfig string) (planResult, error) {
	r := planResult{Run: run}
	steps := []func(context.Context, *planResult, string) error{b.plainList, b.onePlan}
	if run%2 == 0 {
		steps[0], steps[1] = steps[1], steps[0]
	}
	for _, step := range steps {
		if err := step(ctx, &r, kubeconfig); err != nil {
			return r, err
		}
	}
	return r, nil
}

// plainList has this program, started anew, list everything as the simplest client does.
func (b *bench) plainList(ctx context.Context, r *planResult, kubeconfig string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, listCommand, kubeconfig) //nolint:gosec // this very program
	cmd.Stderr = b.progress
	begin := b.clock.Now()
	out, err := cmd.Output()
	r.PlainSeconds = rounded(b.clock.Since(begin))
	if err != nil {
		return fmt.Errorf("list with a plain client: %w", err)
	}
	r.PlainMemory = peak(cmd.ProcessState)
	if _, err := fmt.Sscan(string(out), &r.Objects, &r.Kinds); err != nil {
		return fmt.Errorf("read the plain client's answer %q: %w", out, err)
	}
	return nil
}

func (b *bench) onePlan(ctx context.Context, r *planResult, kubeconfig string) error {
	log := filepath.Join(b.dir, fmt.Sprintf("plan-%d.log", r.Run))
	file, err := os.Create(log) //nolint:gosec // in our own directory
	if err != nil {
		return fmt.Errorf("make log: %w", err)
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, b.capstan, "plan", b.release(), "--kubeconfig", kubeconfig) //nolint:gosec // the program that is measured
	cmd.Stdout, cmd.Stderr = file, file
	begin := b.clock.Now()
	err = cmd.Run()
	r.PlanSeconds = rounded(b.clock.Since(begin))
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == exitBlocked {
		r.Blocked, err = true, nil
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(b.capstan), strings.Join(cmd.Args[1:], " "), err, tail(log))
	}
	r.PlanMemory = peak(cmd.ProcessState)
	return nil
}

// peak returns the most memory that a process that has ended had in use.
func peak(p *os.ProcessState) int64 {
	usage, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return usage.Maxrss * 1024 // Linux counts in kB
}

func rounded(d time.Duration) float64 { return d.Round(10 * time.Millisecond).Seconds() }

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
