// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/event"
	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/world"
)

// planner makes plans. It writes nothing.
type planner interface {
	// Load fetches, checks and renders a release.
	Load(ctx context.Context, ref string) (*release.Bundle, error)
	// Draft makes a plan.
	Draft(ctx context.Context, b *release.Bundle, o operation.DraftOptions) (*operation.Draft, error)
	// Reopen returns a saved plan if the world is still the one that it was made for.
	Reopen(ctx context.Context, f *operation.PlanFile) (*operation.Draft, error)
	// Continues tells whether an upgrade to the draft's release means going on with its open run.
	Continues(ctx context.Context, d *operation.Draft) (bool, error)
	// DraftNodes checks whether nodes could be rolled.
	DraftNodes(ctx context.Context, ask world.AskNodes) (*operation.NodeDraft, error)
	// DraftRoll plans a roll to an image: the name of a NodeImage, or a file.
	DraftRoll(ctx context.Context, image string, ask world.AskNodes, o operation.RollOptions) (*operation.NodeDraft, error)
}

// runner starts and drives runs.
type runner interface {
	// Start stores a plan and its run.
	Start(ctx context.Context, d *operation.Draft, o operation.StartOptions) (*v1alpha1.Upgrade, error)
	// Resume tells a run to go on.
	Resume(ctx context.Context, name string) (*v1alpha1.Upgrade, error)
	// Steer changes what is wanted of a run.
	Steer(ctx context.Context, name string, intent v1alpha1.Intent) (*v1alpha1.Upgrade, error)
	// Follow drives a run until it ends or stops.
	Follow(ctx context.Context, name string, sink event.Sink) (*v1alpha1.Upgrade, error)
}

// reader looks at runs and at the image catalog.
type reader interface {
	// Runs returns all runs, newest first.
	Runs(ctx context.Context) ([]v1alpha1.Upgrade, error)
	// Plan returns the plan of a run.
	Plan(ctx context.Context, run *v1alpha1.Upgrade) (*v1alpha1.Plan, error)
	// Status looks at everything.
	Status(ctx context.Context) (*operation.Status, error)
	// Images returns the catalog by name.
	Images(ctx context.Context) ([]v1alpha1.NodeImage, error)
}

// session is one process at work on one management cluster; operation.Session is the real one.
type session interface {
	planner
	settler
	verifier
	runner
	reader
	// Close gives the lease back.
	Close(ctx context.Context) error
}
