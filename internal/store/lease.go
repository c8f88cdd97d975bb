// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

const (
	// LeaseName is the name of the Lease in capstan-system.
	LeaseName = "capstan"
	// LeaseDuration is how long a holder that can't be judged otherwise has to be silent until its lease is taken.
	LeaseDuration = 15 * time.Second
	// leasePoll is how often a silent holder is looked at.
	leasePoll = 500 * time.Millisecond
)

// ErrLost means that the lease is somebody else's now: stop at once, without another write.
var ErrLost = errors.New("another process took over")

// HeldError says who holds the lease.
type HeldError struct {
	Holder Holder
}

// Error names the holder.
func (e *HeldError) Error() string {
	return fmt.Sprintf("held by %s since %s", e.Holder.Who(), e.Holder.Since.UTC().Format(time.RFC3339))
}

// Holder is what the lease says about who has it.
type Holder struct {
	// Text is the holder's identity as it stands in the lease; empty if nobody holds it.
	Text string
	// Identity is Text, parsed.
	Identity Identity
	// Known tells whether Text could be parsed.
	Known bool
	// Dead tells that the holder is a process of this machine that has ended.
	Dead bool
	// Since is when it got the lease, Renewed when it last said that it lives; both by the holder's own clock.
	Since   time.Time
	Renewed time.Time
}

// Who returns the holder in words for people.
func (h Holder) Who() string {
	if h.Known {
		return h.Identity.Who()
	}
	return h.Text
}

// LeaseOptions are what a Lease may be given; zero values stand for what is usual.
type LeaseOptions struct {
	// Identity is who asks; Self() if empty.
	Identity Identity
	// Duration is how long silence has to last; LeaseDuration if zero.
	Duration time.Duration
	// Proc is how processes are judged; SystemProc() if empty.
	Proc Proc
}

// Lease is the right to drive runs in a management cluster, which one process has at a time.
//
//	free, released ──Acquire──► held by us ──Release──► free
//	held, holder dead ──Acquire, at once──► held by us
//	held, silent for its whole duration as seen by us ──Acquire──► held by us
//	held, renewed while we look ──Acquire──► HeldError
//	held by us, taken by another ──Renew──► ErrLost
//
// Every write carries the resource version that it was decided on, so of several processes that take it one succeeds.
// Times in the lease are never compared with our clock to take it away from somebody; only how long it has not changed
// counts, on our own monotonic clock.
type Lease struct {
	client   client.Client
	clock    clock.Clock
	self     Identity
	duration time.Duration
	proc     Proc

	mu      sync.Mutex
	held    *coordinationv1.Lease
	renewed time.Time
}

// Lease returns the lease of the cluster, not acquired.
func (s *Store) Lease(o LeaseOptions) *Lease {
	if o.Identity == (Identity{}) {
		o.Identity = Self()
	}
	if o.Duration == 0 {
		o.Duration = LeaseDuration
	}
	if o.Proc.FS == nil {
		o.Proc = SystemProc()
	}
	return &Lease{client: s.client, clock: s.clock, self: o.Identity, duration: o.Duration, proc: o.Proc}
}

// Identity returns who holds or would hold the lease.
func (l *Lease) Identity() Identity { return l.self }

// Interval is how often Renew has to be called.
func (l *Lease) Interval() time.Duration { return l.duration / 3 }

// Holder returns who has the lease now; a Holder with empty Text if nobody has.
func (l *Lease) Holder(ctx context.Context) (Holder, error) {
	lease, err := l.read(ctx)
	if err != nil || lease == nil {
		return Holder{}, err
	}
	return l.holder(lease), nil
}

// Acquire gets the lease, or returns a problem.Error with a HeldError as its cause. It takes at most as long as a holder
// has to be silent.
func (l *Lease) Acquire(ctx context.Context) error {
	var seen string // resource version that the lease has had since first
	var first time.Time
	for {
		lease, err := l.read(ctx)
		if err != nil {
			return err
		}
		now := l.clock.Now()
		free := lease == nil || l.isFree(lease)
		switch {
		case !free && l.isFresh(lease, now):
			return l.heldBy(lease)
		case !free && seen == "":
			seen, first = lease.ResourceVersion, now
		case !free && seen != lease.ResourceVersion:
			return l.heldBy(lease)
		}
		if free || now.Sub(first) >= l.silence(lease) {
			if err = l.take(ctx, lease); !errors.Is(err, ErrConflict) {
				return err
			}
			seen = "" // somebody was faster: look again from the start
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the lease of %s: %w", l.holder(lease).Who(), ctx.Err())
		case <-l.clock.After(leasePoll):
		}
	}
}

// isFree tells whether the lease can be taken at once: nobody has it, we have it, or its holder is known to be dead.
func (l *Lease) isFree(lease *coordinationv1.Lease) bool {
	h := l.holder(lease)
	return h.Text == "" || h.Text == l.self.String() || h.Dead
}

// isFresh tells that the holder is a process that we can see living and that has renewed within its time, so that there is
// no need to watch it for that long. It is the same machine's clock; should it have been set back, the worst is to say
// "held" once more.
func (l *Lease) isFresh(lease *coordinationv1.Lease, now time.Time) bool {
	h := l.holder(lease)
	return h.Known && h.Identity.comparable(l.self) && !h.Dead && now.Sub(h.Renewed) < l.silence(lease)
}

// silence is how long the lease has to stay unchanged: what its holder promised, or what we would, whichever is longer.
func (l *Lease) silence(lease *coordinationv1.Lease) time.Duration {
	if s := lease.Spec.LeaseDurationSeconds; s != nil {
		return max(l.duration, time.Duration(*s)*time.Second)
	}
	return l.duration
}

func (l *Lease) holder(lease *coordinationv1.Lease) Holder {
	var h Holder
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return h
	}
	h.Text = *lease.Spec.HolderIdentity
	h.Identity, h.Known = ParseIdentity(h.Text)
	h.Dead = h.Known && l.proc.Dead(l.self, h.Identity)
	if t := lease.Spec.AcquireTime; t != nil {
		h.Since = t.Time
	}
	if t := lease.Spec.RenewTime; t != nil {
		h.Renewed = t.Time
	}
	return h
}

func (l *Lease) heldBy(lease *coordinationv1.Lease) error {
	h := l.holder(lease)
	remedy := "watch it with: capstan status -w"
	if h.Known {
		remedy += fmt.Sprintf(`; or stop process %d on %s, then run the command again`, h.Identity.PID, h.Identity.Host)
	}
	return problem.Blocked("HeldByAnother", "Capstan is already at work on this management cluster: %s, since %s",
		h.Who(), h.Since.UTC().Format(time.RFC3339)).WithRemedy("%s", remedy).WithCause(&HeldError{Holder: h})
}

// read returns the lease, nil if there is none.
func (l *Lease) read(ctx context.Context) (*coordinationv1.Lease, error) {
	out := &coordinationv1.Lease{}
	err := l.client.Get(ctx, client.ObjectKey{Namespace: v1alpha1.Namespace, Name: LeaseName}, out)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, translate("read lease", err)
	}
	return out, nil
}

// take writes us into the lease as it was seen; nil makes a new one.
func (l *Lease) take(ctx context.Context, seen *coordinationv1.Lease) error {
	at := l.clock.Now()
	now := metav1.NewMicroTime(at)
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: LeaseName}}
	if seen != nil {
		next = seen.DeepCopy()
	}
	next.Spec.HolderIdentity = new(l.self.String())
	next.Spec.LeaseDurationSeconds = new(int32(max(1, l.duration/time.Second)))
	next.Spec.AcquireTime, next.Spec.RenewTime = &now, &now
	var err error
	if seen == nil {
		next.Spec.LeaseTransitions = new(int32(0))
		err = l.client.Create(ctx, next, client.FieldOwner(v1alpha1.FieldOwner))
	} else {
		next.Spec.LeaseTransitions = new(transitions(seen) + 1)
		err = l.client.Update(ctx, next, client.FieldOwner(v1alpha1.FieldOwner))
	}
	if apierrors.IsAlreadyExists(err) || (seen != nil && apierrors.IsNotFound(err)) {
		return fmt.Errorf("take lease: %w: %w", ErrConflict, err)
	}
	if err != nil {
		return translate("take lease", err)
	}
	l.keep(next, at)
	return nil
}

func transitions(lease *coordinationv1.Lease) int32 {
	if lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return *lease.Spec.LeaseTransitions
}

// keep remembers the lease as renewed when the change was sent: another process may count from the moment in which it was
// stored, and the answer may take long.
func (l *Lease) keep(lease *coordinationv1.Lease, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.renewed = lease, sent
}

func (l *Lease) current() *coordinationv1.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Valid tells whether the lease is ours and was renewed within its duration. A process that was asleep for longer finds
// false, and has to Renew before it writes.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held != nil && age(l.clock.Now(), l.renewed) < l.duration
}

// age is how long ago the lease was renewed, by the clock that went on for longer: the monotonic one stands still while the
// machine sleeps, the other one can be set back.
func age(now, renewed time.Time) time.Duration {
	return max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0)))
}

// Hold is what a tick needs: it acquires the lease if we have it not, renews it when it is time to, and does nothing
// otherwise. When it returns without error the lease is ours for a while.
func (l *Lease) Hold(ctx context.Context) error {
	l.mu.Lock()
	held, since := l.held != nil, age(l.clock.Now(), l.renewed)
	l.mu.Unlock()
	switch {
	case !held:
		return l.Acquire(ctx)
	case since < l.Interval():
		return nil
	}
	return l.Renew(ctx)
}

// Renew says that we live. ErrLost means that another process has the lease; any other error leaves it as it was, and may
// be tried again.
func (l *Lease) Renew(ctx context.Context) error {
	held := l.current()
	if held == nil {
		return fmt.Errorf("renew lease: %w", ErrLost)
	}
	err := l.write(ctx, held)
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return translate("renew lease", err)
	}
	lease, err := l.read(ctx)
	if err != nil {
		return err
	}
	if lease == nil || l.holder(lease).Text != l.self.String() {
		return l.lost(lease)
	}
	// Still ours: somebody touched a label or an annotation.
	if err := l.write(ctx, lease); err != nil {
		return translate("renew lease", err)
	}
	return nil
}

func (l *Lease) write(ctx context.Context, seen *coordinationv1.Lease) error {
	at := l.clock.Now()
	next := seen.DeepCopy()
	next.Spec.RenewTime = new(metav1.NewMicroTime(at))
	if err := l.client.Update(ctx, next, client.FieldOwner(v1alpha1.FieldOwner)); err != nil {
		return err
	}
	l.keep(next, at)
	return nil
}

func (l *Lease) lost(lease *coordinationv1.Lease) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = nil
	if lease == nil {
		return fmt.Errorf("renew lease: %w: the lease was deleted", ErrLost)
	}
	return fmt.Errorf("renew lease: %w: %w", ErrLost, &HeldError{Holder: l.holder(lease)})
}

// Release gives the lease back, so that the next process need not wait. It is no error if it is somebody else's by now.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	if held == nil {
		return nil
	}
	next := held.DeepCopy()
	next.Spec.HolderIdentity = nil
	next.Spec.RenewTime = new(metav1.NewMicroTime(l.clock.Now()))
	err := l.client.Update(ctx, next, client.FieldOwner(v1alpha1.FieldOwner))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return translate("release lease", err)
}
