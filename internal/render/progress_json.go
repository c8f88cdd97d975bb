// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/event"
)

// eventObject is an event for programs; see the package comment.
type eventObject struct {
	Event     string             `json:"event"`
	At        time.Time          `json:"at"`
	Step      string             `json:"step,omitempty"`
	Component string             `json:"component,omitempty"`
	Summary   string             `json:"summary,omitempty"`
	Attempt   int32              `json:"attempt,omitempty"`
	Took      string             `json:"took,omitempty"`
	Index     int                `json:"index,omitempty"`
	Total     int                `json:"total,omitempty"`
	Detail    string             `json:"detail,omitempty"`
	Since     *time.Time         `json:"since,omitempty"`
	Causes    []v1alpha1.Waiting `json:"causes,omitempty"`
	Error     string             `json:"error,omitempty"`
	Object    string             `json:"object,omitempty"`
	Fields    []string           `json:"fields,omitempty"`
	Manager   string             `json:"manager,omitempty"`
	From      string             `json:"from,omitempty"`
	Stops     []v1alpha1.Stop    `json:"stops,omitempty"`
	Reason    string             `json:"reason,omitempty"`
}

func eventObjectOf(e event.Event) eventObject {
	switch e := e.(type) {
	case event.StepStarted:
		return eventObject{Event: "StepStarted", At: e.At, Step: e.Step, Component: e.Component, Summary: e.Summary, Attempt: e.Attempt}
	case event.StepDone:
		return eventObject{
			Event: "StepDone", At: e.At, Step: e.Step, Component: e.Component, Summary: e.Summary, Took: e.Took.String(), Index: e.Index, Total: e.Total,
		}
	case event.Waiting:
		return eventObject{Event: "Waiting", At: e.At, Step: e.Step, Component: e.Component, Detail: e.Detail, Since: &e.Since, Causes: e.Causes}
	case event.Retrying:
		return eventObject{Event: "Retrying", At: e.At, Step: e.Step, Error: errorText(e.Err), Since: &e.Since}
	case event.Kept:
		return eventObject{Event: "Kept", At: e.At, Object: e.Object, Fields: e.Fields, Manager: e.Manager}
	case event.TookOver:
		return eventObject{Event: "TookOver", At: e.At, From: e.From}
	case event.Stopped:
		return eventObject{Event: "Stopped", At: e.At, Stops: e.Stops}
	case event.Ended:
		return eventObject{Event: "Ended", At: e.At, Reason: e.Reason}
	}
	return eventObject{Event: "Unknown"}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

type jsonLines struct {
	mu  sync.Mutex
	enc *json.Encoder
	err error
}

// NewJSONLines returns a Progress that writes one JSON object a line.
func NewJSONLines(w io.Writer) Progress {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &jsonLines{enc: enc}
}

// Event writes the event. After a write that did not work it is silent: the run matters more than who watches it.
func (p *jsonLines) Event(e event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = p.enc.Encode(eventObjectOf(e))
	}
}

// Close does nothing: all lines are written.
func (p *jsonLines) Close() {}
