// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"time"

	"k8s.io/utils/clock"
)

// Stage says what a build is busy with.
type Stage string

const (
	// StageCached means the set was found in the cache; it is the last event of the set.
	StageCached Stage = "Cached"
	// StageWaiting means another process is building the same set.
	StageWaiting Stage = "Waiting"
	// StageResolving means the module's requirements are being worked out.
	StageResolving Stage = "Resolving"
	// StageDownloading means modules are being fetched; Done counts them.
	StageDownloading Stage = "Downloading"
	// StageCompiling means packages are being compiled; Done counts them and Total is how many the programs are made of.
	StageCompiling Stage = "Compiling"
	// StagePacking means that images or manifests are being made from what was built.
	StagePacking Stage = "Packing"
	// StageDone means the set is ready; it is the last event of the set.
	StageDone Stage = "Done"
)

// Event tells how far the build of one set is.
type Event struct {
	// Set and Version name what is being built.
	Set     string
	Version string
	// Stage is what is going on now.
	Stage Stage
	// Detail is the package, module or lock at hand; it may be empty.
	Detail string
	// Done and Total count within the stage. Total is 0 when it is not known. Done may jump to Total, because packages that
	// the Go build cache already has are not mentioned by the go command.
	Done  int
	Total int
	// Elapsed is the time since the set was asked for.
	Elapsed time.Duration
}

// tracker makes the events of one set.
type tracker struct {
	sink    func(Event)
	clock   clock.PassiveClock
	start   time.Time
	name    string
	version string
}

func (b *Builder) tracker(name, version string) *tracker {
	return &tracker{sink: b.Progress, clock: b.Clock, start: b.Clock.Now(), name: name, version: version}
}

func (t *tracker) report(stage Stage, detail string, done, total int) {
	if t.sink == nil {
		return
	}
	t.sink(Event{
		Set: t.name, Version: t.version, Stage: stage, Detail: detail,
		Done: done, Total: total, Elapsed: t.clock.Since(t.start),
	})
}
