// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

const (
	// probeTimeout bounds one call of a probe. A webhook that takes longer stops every user of its kind.
	probeTimeout = 5 * time.Second
	// probeSettle is how long a webhook configuration has to be known to us: API servers learn of a change a moment after
	// it is made, and until then a request goes through without the webhook, which looks like an answer.
	probeSettle = 800 * time.Millisecond
	// probeCauses bounds how many silent webhooks of one object are named.
	probeCauses = 5
)

// hook is one thing that the API server calls: an admission webhook or a conversion.
type hook struct {
	// owner is the webhook configuration or CRD.
	owner world.Ref
	// name is the webhook's name within its owner; for a conversion "conversion".
	name string
	// resourceVersion is the owner's.
	resourceVersion string
	annotations     map[string]string
	client          hookClient
	admission       *admissionHook
	conversion      *conversionHook
}

// hookClient is how the API server reaches a hook.
type hookClient struct {
	// service and namespace are empty for a hook that is reached by URL.
	namespace, service string
	port               int64
	path               string
	caBundle           []byte
}

// verdict is what a call says about a hook.
type verdict string

const (
	// answered means that the call went through the hook.
	answered verdict = "Answered"
	// silent means that the hook was called and gave no usable answer.
	silent verdict = "Silent"
	// unclear means that nothing says whether the hook was called.
	unclear verdict = "Unclear"
)

// callResult is a verdict with the words behind it.
type callResult struct {
	verdict verdict
	words   string
}

// probe calls through every webhook and conversion among the members of a set, once the set's workloads are rolled
// out, and puts the outcome into the health of their objects.
//
// What answers to the API server is what counts, so the way is, from the surest on:
//
//  1. the certificate: the CA that the API server was given verifies the one that the service serves;
//  2. a request to the API server that makes it call the hook, without effect;
//  3. where no such request can be made, for want of an object for example: the hook's own server, asked through the
//     API server's service proxy.
func (r *round) probe(ctx context.Context, members []*task, objects []world.Object) error {
	waiting := notRolledOut(objects)
	var hooks []hook
	var at []int
	for i, t := range members {
		found, err := hooksOf(t)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			continue
		}
		switch {
		case waiting != "":
			objects[i].Health = unprobed(objects[i], "it is called once "+waiting)
			continue
		case !objects[i].InSync:
			objects[i].Health = unprobed(objects[i], "it is called once it is at its target")
			continue
		case r.fresh(t.seen):
			objects[i].Health = unprobed(objects[i], "it was changed just now, and is called once the API server knows")
			continue
		}
		for _, h := range found {
			hooks, at = append(hooks, h), append(at, i)
		}
	}
	results := make([]callResult, len(hooks))
	err := forEach(len(hooks), r.parallel, func(i int) error {
		var err error
		results[i], err = r.callHook(ctx, hooks[i])
		return err
	})
	if err != nil {
		return err
	}
	for i := range objects {
		objects[i].Health = probedHealth(i, objects[i], hooks, at, results)
	}
	return nil
}

// fresh tells whether this process has seen the object's generation only for a moment.
func (r *round) fresh(seen time.Time) bool {
	age := r.at.Sub(seen)
	return age >= 0 && age < probeSettle
}

// notRolledOut names the first workload of a set that is not at its target; empty if all are.
func notRolledOut(objects []world.Object) string {
	for _, o := range objects {
		switch o.Ref.Kind {
		case "Deployment", "StatefulSet", "DaemonSet":
			if o.Presence == world.Present && (!o.Found || !o.InSync || o.Health == nil || !o.Health.OK) {
				return o.Ref.String() + " is rolled out"
			}
		}
	}
	return ""
}

func unprobed(o world.Object, why string) *world.Health {
	h := world.Health{Message: o.Ref.String() + ": " + why}
	if o.Health != nil {
		if !o.Health.OK {
			return o.Health
		}
		h.Progress = o.Health.Progress
	}
	return &h
}

// probedHealth joins what an object says of itself with what its hooks said.
func probedHealth(i int, o world.Object, hooks []hook, at []int, results []callResult) *world.Health {
	var total, ok int
	var causes []world.Cause
	for n, h := range hooks {
		if at[n] != i {
			continue
		}
		total++
		if results[n].verdict != silent {
			ok++
			continue
		}
		if len(causes) < probeCauses {
			causes = append(causes, h.cause(results[n].words))
		}
	}
	if total == 0 {
		return o.Health
	}
	h := world.Health{OK: ok == total, Causes: causes}
	var own int64
	if o.Health != nil {
		own = o.Health.Progress
		if !o.Health.OK {
			h.OK, h.Message, h.Causes = false, o.Health.Message, append(o.Health.Causes, causes...)
		}
	}
	h.Progress = progress(own, ok, total)
	if !h.OK && h.Message == "" {
		h.Message = fmt.Sprintf("%s: %d of %s; %s", o.Ref, total-ok, phrase.Count(total, "webhook")+" silent", causes[0].Message)
	}
	return &h
}

func (h hook) cause(words string) world.Cause {
	what := fmt.Sprintf("Webhook %s of %s", h.name, h.owner)
	if h.conversion != nil {
		what = fmt.Sprintf("The conversion webhook of %s", h.owner)
	}
	remedy := "check the server behind it"
	if h.client.service != "" {
		remedy = fmt.Sprintf(`check the Pods behind Service %s/%s`, h.client.namespace, h.client.service)
	}
	return world.Cause{
		Reason: v1alpha1.StopWebhookSilent, Message: what + " does not answer: " + words,
		Remedy: remedy + `, then run "capstan resume"`, Object: h.owner,
	}
}

// callHook probes one hook, unless it answered already in the same situation: same configuration, same Pods.
func (r *round) callHook(ctx context.Context, h hook) (callResult, error) {
	key := "probe|" + h.owner.APIVersion + "|" + h.owner.String() + "|" + h.name
	situation := h.resourceVersion + "|" + r.endpoints(ctx, h.client)
	if r.memo.answered(key, situation, r.at) {
		return callResult{verdict: answered}, nil
	}
	if why := r.certificateFault(ctx, h); why != "" {
		return callResult{verdict: silent, words: why}, contextError(ctx)
	}
	var result callResult
	if h.conversion != nil {
		result = r.callConversion(ctx, h)
	} else {
		result = r.callAdmission(ctx, h)
	}
	if result.verdict == unclear {
		result = r.callService(ctx, h)
	}
	r.log.V(1).Info("Called webhook", "owner", h.owner.String(), "webhook", h.name, "verdict", string(result.verdict), "words", result.words)
	if result.verdict == answered {
		r.memo.setAnswered(key, situation, r.at)
	}
	return result, contextError(ctx)
}

func contextError(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("call webhooks: %w", context.Cause(ctx))
}

// call makes one bounded request of a probe.
func call(ctx context.Context, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeoutCause(ctx, probeTimeout, errNoAnswer)
	defer cancel()
	err := do(bounded)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(bounded), errNoAnswer) {
		return errNoAnswer
	}
	return err
}

// errNoAnswer is the error of a call that took longer than probeTimeout.
const errNoAnswer = constError("no answer in time")

type constError string

func (e constError) Error() string { return string(e) }

// silence returns the words of an error that shows a hook silent: it names the hook, or nothing came in time.
func silence(err error, named func(message string) bool) (string, bool) {
	if errors.Is(err, errNoAnswer) {
		return fmt.Sprintf("no answer within %s", probeTimeout), true
	}
	words := diagnose.Words(err)
	return words, diagnose.Classify(err) == diagnose.ClassWebhookSilent && named(words)
}
