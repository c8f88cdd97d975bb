// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/render"
)

// savePlan writes the plan to its file, which only its owner may read: manifests may hold Secrets.
func (o *planOptions) savePlan(d *drafted) error {
	data, err := d.Save(operation.SaveOptions{
		By: requester(), Capstan: build().Version, Source: o.release, At: metav1.NewTime(o.app.clock.Now()), Accepted: o.accepted,
	})
	if err != nil {
		return err
	}
	if err := writePrivate(o.save, data); err != nil {
		return problem.Usage("CannotSave", o.save, "The plan can't be saved: %s", reasonOf(err)).WithCause(err).
			WithRemedy("name a file in a folder that you may write to")
	}
	o.tell("Saved the plan to %s. It may hold Secrets: keep it as you keep them", o.save)
	return nil
}

// writePrivate puts a file there as a whole or not at all.
func writePrivate(name string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".capstan-plan-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err = f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// reasonOf is the cause of an error of the file system, without the names of temporary files.
func reasonOf(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return l.Err.Error()
	}
	return err.Error()
}

// readPlan reads a saved plan, with the acceptances that it was saved with.
func (o *upgradeOptions) readPlan() (*operation.PlanFile, error) {
	data, err := os.ReadFile(o.plan)
	if err != nil {
		return nil, problem.Usage("NoPlanFile", o.plan, "The plan can't be read: %s", reasonOf(err)).WithCause(err).
			WithRemedy("save one: capstan plan RELEASE --save %s", o.plan)
	}
	f, err := operation.ReadPlanFile(o.plan, data)
	if err != nil {
		return nil, err
	}
	for _, a := range f.Accepted {
		if !accepts(o.accepted, a.ID) {
			o.accepted = append(o.accepted, a)
		}
	}
	return f, nil
}

func accepts(all []v1alpha1.AcceptedFinding, id string) bool {
	for _, a := range all {
		if a.ID == id {
			return true
		}
	}
	return false
}

// reopen returns a saved plan if the world is still the one that it was made for.
func (o *upgradeOptions) reopen(ctx context.Context, s planner) (*drafted, error) {
	f, err := o.readPlan()
	if err != nil {
		return nil, err
	}
	o.release = f.Source
	d, err := s.Reopen(ctx, f)
	if err != nil {
		return nil, o.moved(err)
	}
	continues, err := s.Continues(ctx, d)
	if err != nil {
		return nil, err
	}
	if d.Own && !continues {
		return nil, problem.Blocked("PlanSpent", "Run %s of this plan can't go on: what stopped it needs a new plan", d.Open.Name).
			WithRemedy("%s", o.prompt(o.words(o.global, "upgrade")...))
	}
	return &drafted{Draft: d, making: &o.making, continues: continues}, nil
}

// moved says what moved in the world, one fact a line.
func (o *upgradeOptions) moved(err error) error {
	p, ok := errors.AsType[*problem.Error](err)
	m, is := errors.AsType[*operation.MovedError](err)
	if !ok || !is {
		return err
	}
	p.Where = o.plan
	p.Remedy = o.prompt("plan", o.release, "--save", o.plan)
	style := o.style(o.app.streams.Err)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", render.MovedTitle(style, o.plan))
	for _, fact := range m.Moved {
		fmt.Fprintf(&b, "  - %s\n", fact)
	}
	b.WriteString("Nothing was changed.\n" + render.NextLine(style, p.Remedy))
	return &screened{fault: p, screen: b.String()}
}

// decides tells whether flags were given that say how a plan is made.
func (o *upgradeOptions) decides() bool {
	return o.keep || o.installed != "" || o.noMigrate || len(o.compat.words()) > 0
}
