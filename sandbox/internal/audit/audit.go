// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit reads the writes out of a Kubernetes API server's audit log.
//
// A write is a request that changes what is stored: create, update, patch, delete and deletecollection. Dry-run requests change nothing and
// are told apart, wherever the request says so: in the URL, or in the body of a delete or an eviction. The package does not decide what
// the API server logs; that is the audit policy's job.
package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Write is one write, as it was answered. Its JSON form is stable.
type Write struct {
	Time      time.Time `json:"time"`
	UserAgent string    `json:"userAgent"`
	User      string    `json:"user"`
	Verb      string    `json:"verb"`
	DryRun    bool      `json:"dryRun"`
	Group     string    `json:"group,omitempty"`
	Version   string    `json:"version,omitempty"`
	Resource  string    `json:"resource"`
	// Subresource is "status", "scale", "eviction" and the like.
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	Code        int    `json:"code"`
}

// Object names what was written, as kubectl would: resource.group/subresource namespace/name.
func (w Write) Object() string {
	var b strings.Builder
	b.WriteString(w.Resource)
	if w.Group != "" {
		b.WriteString("." + w.Group)
	}
	if w.Subresource != "" {
		b.WriteString("/" + w.Subresource)
	}
	b.WriteByte(' ')
	if w.Namespace != "" {
		b.WriteString(w.Namespace + "/")
	}
	if w.Name == "" {
		b.WriteByte('*')
	}
	b.WriteString(w.Name)
	return b.String()
}

// Filter selects writes. The zero value selects all but the dry runs.
type Filter struct {
	// Agent is the beginning of the user agent, in any case of letters. Empty means all.
	Agent string
	// Since leaves out what was answered before. The zero time means all.
	Since time.Time
	// DryRun includes dry-run requests.
	DryRun bool
}

func (f Filter) keeps(w Write) bool {
	if w.DryRun && !f.DryRun {
		return false
	}
	if len(w.UserAgent) < len(f.Agent) || !strings.EqualFold(w.UserAgent[:len(f.Agent)], f.Agent) {
		return false
	}
	return !w.Time.Before(f.Since)
}

// event is the part of an audit.k8s.io/v1 Event that is of interest.
type event struct {
	Stage          string    `json:"stage"`
	RequestURI     string    `json:"requestURI"`
	Verb           string    `json:"verb"`
	UserAgent      string    `json:"userAgent"`
	StageTimestamp time.Time `json:"stageTimestamp"`
	User           struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
		APIVersion  string `json:"apiVersion"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestObject struct {
		DryRun        []string `json:"dryRun"`
		DeleteOptions struct {
			DryRun []string `json:"dryRun"`
		} `json:"deleteOptions"`
	} `json:"requestObject"`
}

// Read calls yield for each write the filter keeps, in the log's order. The last line may be half written, since the API server may be at it:
// it is left out. A bad line anywhere else is an error.
func Read(r io.Reader, f Filter, yield func(Write) error) error {
	lines := bufio.NewReaderSize(r, 1<<20)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("decode audit log line %d: %w", n, err)
		}
		w, ok, err := e.write()
		if err != nil {
			return fmt.Errorf("decode audit log line %d: %w", n, err)
		}
		if !ok || !f.keeps(w) {
			continue
		}
		if err := yield(w); err != nil {
			return err
		}
	}
}

// write turns an event into a Write; ok is false for anything but an answered write.
func (e event) write() (w Write, ok bool, err error) {
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
	default:
		return Write{}, false, nil
	}
	if e.Stage != "ResponseComplete" && e.Stage != "Panic" {
		return Write{}, false, nil
	}
	if strings.HasSuffix(e.ObjectRef.APIGroup, ".k8s.io") && strings.HasSuffix(e.ObjectRef.Resource, "reviews") {
		return Write{}, false, nil // SubjectAccessReview, TokenReview and their kin are questions: nothing is stored
	}
	u, err := url.ParseRequestURI(e.RequestURI)
	if err != nil {
		return Write{}, false, fmt.Errorf("parse request URI: %w", err)
	}
	dry := slices.Concat(u.Query()["dryRun"], e.RequestObject.DryRun, e.RequestObject.DeleteOptions.DryRun)
	return Write{
		Time: e.StageTimestamp, UserAgent: e.UserAgent, User: e.User.Username, Verb: e.Verb, DryRun: slices.Contains(dry, "All"),
		Group: e.ObjectRef.APIGroup, Version: e.ObjectRef.APIVersion, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, Code: e.ResponseStatus.Code,
	}, true, nil
}
