// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/render"
)

// drive follows a run and says what came of it.
type drive struct {
	*global
	session session
	// release is what to type after `capstan upgrade`, or the image after `capstan nodes upgrade`.
	release string
	// wanted is the result that was asked for, when that is not Completed.
	wanted render.Result
}

// follow drives the run until it ends or stops.
func (d *drive) follow(ctx context.Context, run *v1alpha1.Upgrade, spec *v1alpha1.PlanSpec) error {
	progress := d.progress(run, spec)
	end, err := d.session.Follow(ctx, run.Name, progress.Event)
	progress.Close()
	if err != nil && ctx.Err() != nil {
		return interrupted(d.global, run, spec.Kind)
	}
	if err != nil {
		return err
	}
	return d.conclude(end, spec)
}

// conclude writes the result and returns the error, if it is one.
func (d *drive) conclude(run *v1alpha1.Upgrade, spec *v1alpha1.PlanSpec) error {
	result := render.ResultOf(run)
	why := &render.Stopped{Run: run, Plan: spec, Next: d.prompt}
	stopped := result == render.ResultStopped || result == render.ResultFenceViolated
	if d.structured() || !stopped {
		if err := d.write(&render.Summary{Run: run, Plan: spec, Now: d.app.clock.Now(), Next: d.next(result, spec.Kind)}); err != nil {
			return err
		}
	}
	switch {
	case result == render.ResultCompleted || result == d.wanted:
		return nil
	case stopped:
		return &screened{fault: why.Problem(), screen: why.Text(d.style(d.app.streams.Err))}
	}
	p := &problem.Error{
		Reason: string(result), Exit: problem.ExitStopped,
		Message: fmt.Sprintf("Run %s did not come to its end: it was %s", run.Name, result.Word()),
	}
	return p.WithRemedy("%s", d.next(result, spec.Kind))
}

func (d *drive) next(result render.Result, kind v1alpha1.PlanKind) string {
	switch result {
	case render.ResultCompleted, render.ResultSuperseded, render.ResultNothingToDo:
		return d.prompt("status")
	case render.ResultAborted, render.ResultFenceViolated:
		if kind == v1alpha1.PlanNodes {
			return d.prompt("nodes", "upgrade", or(d.release, "IMAGE"))
		}
		return d.prompt("upgrade", or(d.release, "RELEASE"))
	case render.ResultInProgress, render.ResultStopped, render.ResultPaused:
	}
	return d.prompt("resume")
}

// progress returns what shows the run's events: a redrawn block on a terminal, JSON lines for programs, else plain lines.
func (d *drive) progress(run *v1alpha1.Upgrade, spec *v1alpha1.PlanSpec) render.Progress {
	errs := d.app.streams.Err
	switch {
	case render.IsTerminal(errs) && d.env("TERM") != "dumb":
		o := render.LiveOptions{
			Out: errs, Clock: d.app.clock, Style: d.style(errs), Title: "Upgrade to " + run.Spec.To,
			Started: d.app.clock.Now(), Total: len(spec.Steps),
		}
		for _, st := range run.Status.Steps {
			if st.State == v1alpha1.StepDone {
				o.Done++
			}
		}
		return render.NewLive(o)
	case d.structured():
		return render.NewJSONLines(errs)
	}
	return render.NewLines(errs)
}

func interrupted(g *global, run *v1alpha1.Upgrade, kind v1alpha1.PlanKind) error {
	rest := "controllers that are being swapped go on by themselves"
	if kind == v1alpha1.PlanNodes {
		rest = "no further Machine is taken away before it goes on"
	}
	p := &problem.Error{
		Reason: "Interrupted", Exit: problem.ExitInterrupted,
		Message: fmt.Sprintf("Interrupted: run %s stands still. What is done stays done, and %s", run.Name, rest),
	}
	return p.WithRemedy("%s   (here or on another machine)", g.prompt("resume"))
}

// silent says how long a driver has not been heard of, when that is too long.
func silent(now, renewed time.Time) string {
	const tooLong = 20 * time.Second
	if renewed.IsZero() || now.Sub(renewed) < tooLong {
		return ""
	}
	return fmt.Sprintf(" (not heard of for %s)", now.Sub(renewed).Round(time.Second))
}
