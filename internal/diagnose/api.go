// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// Class is what kind of answer an API error is. It decides whether asking again makes sense.
type Class string

const (
	// ClassNone is no error.
	ClassNone Class = ""
	// ClassUnreachable means that the API server gave no answer, or one that says to ask again later.
	ClassUnreachable Class = "Unreachable"
	// ClassWebhookSilent means that the API server needed a webhook or conversion, and that did not answer.
	ClassWebhookSilent Class = "WebhookSilent"
	// ClassDenied means that an admission webhook answered no.
	ClassDenied Class = "Denied"
	// ClassImmutable means that the change is of fields that can't change in place, and of nothing worse.
	ClassImmutable Class = "Immutable"
	// ClassNotFound means that the object, its namespace or its kind does not exist.
	ClassNotFound Class = "NotFound"
	// ClassConflict means that somebody else changed the object at the same time.
	ClassConflict Class = "Conflict"
	// ClassForbidden means that the user may not do it, or that a quota or policy forbids it.
	ClassForbidden Class = "Forbidden"
	// ClassInvalid means that the object is not well formed, or any other refusal.
	ClassInvalid Class = "Invalid"
)

// Classify tells what kind of answer err is.
func Classify(err error) Class {
	if err == nil {
		return ClassNone
	}
	if apimeta.IsNoMatchError(err) {
		return ClassNotFound
	}
	status, ok := statusOf(err)
	if !ok {
		return ClassUnreachable
	}
	if webhookSilent(status.Message) {
		return ClassWebhookSilent
	}
	switch {
	case deniedByWebhook(status.Message):
		return ClassDenied
	case strings.Contains(status.Message, "failed to create typed patch object"):
		// A field that the schema does not know: the API server calls it an internal error, and says so each time.
		return ClassInvalid
	case status.Reason == metav1.StatusReasonNotFound || status.Code == http.StatusNotFound:
		return ClassNotFound
	case status.Code == http.StatusTooManyRequests || status.Code >= http.StatusInternalServerError:
		return ClassUnreachable
	case status.Reason == metav1.StatusReasonTimeout || status.Reason == metav1.StatusReasonServerTimeout:
		return ClassUnreachable
	case status.Code == http.StatusConflict:
		return ClassConflict
	case immutable(status):
		return ClassImmutable
	case status.Code == http.StatusForbidden || status.Code == http.StatusUnauthorized:
		return ClassForbidden
	}
	return ClassInvalid
}

// Words returns the API server's answer in short, without what every answer repeats: the object's own name.
func Words(err error) string {
	if err == nil {
		return ""
	}
	status, ok := statusOf(err)
	if !ok {
		return short(err.Error(), 240)
	}
	if d := status.Details; d != nil && len(d.Causes) > 0 && status.Reason == metav1.StatusReasonInvalid {
		var causes []string
		for _, c := range d.Causes {
			causes = append(causes, strings.TrimPrefix(c.Field+": "+c.Message, ": "))
		}
		return short(strings.Join(causes, "; "), 400)
	}
	return short(status.Message, 400)
}

// FromAPIError returns the cause that an answer of the API server about an object is. It is the one place where such
// answers get their words.
func FromAPIError(err error, ref world.Ref) world.Cause {
	c := world.Cause{Reason: v1alpha1.StopRejected, Object: ref, Definite: true}
	words := Words(err)
	switch Classify(err) {
	case ClassUnreachable:
		c.Reason, c.Definite = v1alpha1.StopNotReady, false
		c.Message = fmt.Sprintf("The API server of the management cluster does not answer about %s: %s", ref, words)
		c.Remedy = resume("check that the API server is up and reachable")
	case ClassWebhookSilent:
		c.Reason, c.Definite = v1alpha1.StopWebhookSilent, false
		c.Message = fmt.Sprintf("A webhook does not answer, so the API server can't take %s: %s", ref, words)
		c.Remedy = resume("check the Pods behind the webhook's Service")
	case ClassDenied:
		c.Message = fmt.Sprintf("A webhook refuses %s: %s", ref, words)
		c.Remedy = resume("do what the webhook asks for, or correct the component's manifests")
	case ClassImmutable:
		c.Message = fmt.Sprintf("%s can't be changed in place: %s", ref, words)
		c.Remedy = "make a new plan: it replaces the object"
	case ClassNotFound:
		c.Message = fmt.Sprintf("%s, its namespace or its kind does not exist: %s", ref, words)
		c.Remedy = resume("check that the components it needs are installed")
	case ClassConflict:
		c.Definite = false
		c.Message = fmt.Sprintf("%s was changed by somebody else at the same time: %s", ref, words)
		c.Remedy = resume("find out who changes it")
	case ClassForbidden:
		c.Message = fmt.Sprintf("The API server forbids it for %s: %s", ref, words)
		c.Remedy = resume("give the user the missing right, or lift the quota or policy that is named")
	default:
		c.Message = fmt.Sprintf("The API server refuses %s: %s", ref, words)
		c.Remedy = resume("correct the component's manifests")
	}
	return c
}

func statusOf(err error) (metav1.Status, bool) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return metav1.Status{}, false
	}
	return s.Status(), true
}

// webhookSilent tells whether a message says that a call to a webhook or conversion got no usable answer.
func webhookSilent(message string) bool {
	return strings.Contains(message, "failed calling webhook") || strings.Contains(message, "conversion webhook for")
}

func deniedByWebhook(message string) bool {
	return strings.Contains(message, "admission webhook") && strings.Contains(message, "denied the request")
}

// immutable tells whether an answer is about unchangeable fields only. With other faults beside them a replacement
// would be refused too, so then it is not.
func immutable(s metav1.Status) bool {
	if s.Reason != metav1.StatusReasonInvalid || s.Details == nil || len(s.Details.Causes) == 0 {
		return false
	}
	for _, c := range s.Details.Causes {
		if !containsAny(strings.ToLower(c.Message),
			"field is immutable", "is immutable after creation", "may not change once set", "cannot change roleref",
			"updates to statefulset spec for fields other than", "updates to parameters are forbidden", "field cannot be changed") {
			return false
		}
	}
	return true
}
