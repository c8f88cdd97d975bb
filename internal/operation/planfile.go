// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/plan"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
	"github.com/capstan-dev/capstan/internal/settings"
	"github.com/capstan-dev/capstan/internal/store"
)

const (
	// planFileKind is the kind of a saved plan.
	planFileKind = "SavedPlan"
	// planFileLimit bounds what the packed parts of a saved plan may unpack to.
	planFileLimit = 512 << 20
)

// PlanFile is a plan as it is saved: all that a run needs, and what it takes to tell whether the world has moved. It does
// not change after it was made; Digest covers the rest. The manifests in it may hold Secrets.
type PlanFile struct {
	metav1.TypeMeta `json:",inline"`

	// SavedAt, SavedBy and Capstan say when, by whom and by which version of Capstan it was saved.
	SavedAt metav1.Time `json:"savedAt"`
	SavedBy string      `json:"savedBy"`
	Capstan string      `json:"capstan"`
	// Source is where the release was found then. It is not read again.
	Source string `json:"source"`
	// Accepted are findings that were accepted when the plan was made.
	Accepted []v1alpha1.AcceptedFinding `json:"accepted,omitempty"`
	// Options are how the plan was asked for.
	Options DraftOptions `json:"options"`
	// Plan is the plan.
	Plan v1alpha1.PlanSpec `json:"plan"`
	// Seen is how the world was.
	Seen plan.Snapshot `json:"seen"`
	// Release is the release, Skipped what was passed over in it.
	Release *v1alpha1.Release `json:"release"`
	Skipped []release.Skipped `json:"skipped,omitempty"`
	// Components are its rendered components, packed, in their order.
	Components []packed `json:"components"`
	// Earlier are the manifests that settings were compared with, by component.
	Earlier map[string]packedEarlier `json:"earlier,omitempty"`
	// Digest is the sha256 over the file without this field.
	Digest string `json:"digest"`
}

// packed is compressed text; in JSON it is base64.
type packed []byte

type packedEarlier struct {
	Source  string                 `json:"source"`
	Objects packed                 `json:"objects"`
	Kept    []v1alpha1.KeptSetting `json:"kept,omitempty"`
}

// SaveOptions say what a saved plan tells of its origin.
type SaveOptions struct {
	// By is who saves it, Capstan the version of the program, Source where the release was found.
	By, Capstan, Source string
	// At is when.
	At metav1.Time
	// Accepted are findings that are accepted.
	Accepted []v1alpha1.AcceptedFinding
}

// Save returns the content of a file from which the plan can be run later.
func (d *Draft) Save(o SaveOptions) ([]byte, error) {
	f := &PlanFile{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: planFileKind},
		SavedAt:  o.At, SavedBy: o.By, Capstan: o.Capstan, Source: o.Source, Accepted: o.Accepted,
		Plan: *d.Spec, Seen: d.snapshot, Release: d.Bundle.Release, Skipped: d.Bundle.Skipped,
		Options: d.options, Earlier: map[string]packedEarlier{},
	}
	for _, r := range d.Bundle.Components {
		data, err := r.Encode()
		if err != nil {
			return nil, fmt.Errorf("save the plan: %w", err)
		}
		p, err := pack(data)
		if err != nil {
			return nil, fmt.Errorf("save the plan: %w", err)
		}
		f.Components = append(f.Components, p)
	}
	for name, e := range d.earlier {
		data, err := release.Encode(e.Objects)
		if err != nil {
			return nil, fmt.Errorf("save the plan: %w", err)
		}
		p, err := pack(data)
		if err != nil {
			return nil, fmt.Errorf("save the plan: %w", err)
		}
		f.Earlier[name] = packedEarlier{Source: e.Source, Objects: p, Kept: e.Kept}
	}
	var err error
	if f.Digest, err = f.digest(); err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("save the plan: %w", err)
	}
	return append(out, '\n'), nil
}

func (f *PlanFile) digest() (string, error) {
	c := *f
	c.Digest = ""
	data, err := json.Marshal(&c)
	if err != nil {
		return "", fmt.Errorf("digest the saved plan: %w", err)
	}
	return release.Digest(data), nil
}

func pack(data []byte) (packed, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return b.Bytes(), nil
}

func (p packed) unpack() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(p))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(z, planFileLimit))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return data, nil
}

// ReadPlanFile reads what Save wrote. A file that is damaged or was changed is refused with its name and what is wrong.
func ReadPlanFile(name string, data []byte) (*PlanFile, error) {
	f := &PlanFile{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(f)
	if err == nil && decoder.More() {
		err = errors.New("something follows after its end")
	}
	switch {
	case err != nil:
		return nil, damagedFile(name, "it can't be read: %s", strings.TrimPrefix(err.Error(), "json: ")).WithCause(err)
	case f.Kind != planFileKind || f.APIVersion != v1alpha1.GroupVersion.String():
		return nil, damagedFile(name, "it is %q %q, not a %s of %s", f.APIVersion, f.Kind, planFileKind, v1alpha1.GroupVersion)
	}
	digest, err := f.digest()
	if err != nil {
		return nil, err
	}
	if digest != f.Digest {
		return nil, damagedFile(name, "it was changed after it was saved: its digest says %s, its content has %s", short(f.Digest), short(digest))
	}
	if sealed, err := plan.Digest(&f.Plan); err != nil || sealed != f.Plan.Digest {
		return nil, damagedFile(name, "the plan in it was changed after it was made").WithCause(err)
	}
	return f, nil
}

func damagedFile(name, format string, args ...any) *problem.Error {
	return problem.Usage("PlanFileDamaged", name, "This is not a plan that was saved: "+format, args...).
		WithRemedy("save the plan anew: capstan plan RELEASE --save %s", name)
}

// short is enough of a digest to compare by eye.
func short(digest string) string {
	const length = len("sha256:") + 12
	return digest[:min(len(digest), length)]
}

// bundle returns the release of the file, rendered as it was.
func (f *PlanFile) bundle() (*release.Bundle, error) {
	var components []*release.Rendered
	for _, p := range f.Components {
		data, err := p.unpack()
		if err != nil {
			return nil, err
		}
		r, err := release.DecodeRendered(data)
		if err != nil {
			return nil, err
		}
		components = append(components, r)
	}
	b, err := release.NewBundle(f.Release, components)
	if err != nil {
		return nil, err
	}
	// Where settings were kept, the components are no longer quite those that the release's digest is over.
	b.Digest, b.Skipped = f.Plan.Release.Digest, f.Skipped
	return b, nil
}

func (f *PlanFile) earlier() (map[string]*settings.Earlier, error) {
	out := map[string]*settings.Earlier{}
	for name, e := range f.Earlier {
		data, err := e.Objects.unpack()
		if err != nil {
			return nil, err
		}
		objects, err := release.DecodeObjects(data)
		if err != nil {
			return nil, err
		}
		out[name] = &settings.Earlier{Source: e.Source, Objects: objects, Kept: e.Kept}
	}
	return out, nil
}

// MovedError says what moved since a plan was saved.
type MovedError struct {
	// Moved has one fact an entry.
	Moved []string
}

// Error joins the facts.
func (e *MovedError) Error() string { return strings.Join(e.Moved, "; ") }

// Reopen returns a saved plan as it is, ready to be started, if the world is still the one that it was made for. Nothing is
// decided anew: the same plan is made of the present world, and what differs is told. It writes nothing.
func (s *Session) Reopen(ctx context.Context, f *PlanFile) (*Draft, error) {
	b, err := f.bundle()
	if err != nil {
		return nil, fmt.Errorf("read the saved plan: %w", err)
	}
	in, err := s.gather(ctx, b, f.Options)
	if err != nil {
		return nil, err
	}
	if in.Earlier, err = f.earlier(); err != nil {
		return nil, fmt.Errorf("read the saved plan: %w", err)
	}
	in.Kept = map[string][]v1alpha1.KeptSetting{}
	for _, c := range f.Plan.Components {
		in.Kept[c.Name] = c.Kept
	}
	now, err := drafted(in)
	if err != nil {
		return nil, err
	}
	return f.resume(now)
}

// resume puts the saved plan in the place of the one that was made to compare it with.
func (f *PlanFile) resume(now *Draft) (*Draft, error) {
	out := *now
	out.Spec = &f.Plan
	if now.Open != nil && now.Open.Spec.Plan == store.PlanName(f.Plan.Digest) {
		out.Own = true
		return &out, nil // its own run has moved the world; whether that can go on is for Continues to say
	}
	var moved []string
	moved, out.Noted = plan.Moved(&f.Plan, now.Spec, f.Seen, now.snapshot)
	if len(moved) == 0 {
		return &out, nil
	}
	return nil, problem.Blocked("WorldMoved", "The management cluster is no longer what this plan was made for: %s", strings.Join(moved, "; ")).
		WithRemedy("look at it anew, and save that plan").WithCause(&MovedError{Moved: moved})
}
