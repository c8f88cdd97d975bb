// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package render turns plans, runs, events and errors into what is shown: text for people, JSON and YAML for programs.
// It reads plain data, decides nothing and talks to no cluster.
//
// # Documents
//
// Each command's answer is a Document. As JSON it has apiVersion "capstan.dev/v1alpha1" and a kind: Plan (the API's own
// kind), UpgradeResult, Status, History, Notice, Explanation, Version. docs/cli.md lists the fields. They are stable:
// fields are added, never renamed or removed. Times are RFC 3339, durations are written as Go does ("31s").
//
// # Events
//
// While a run goes on and the answer is asked for as JSON or YAML, standard error carries one JSON object a line, with
// "event" and "at" in each:
//
//	{"event":"StepStarted","at":…,"step":…,"component":…,"summary":…,"attempt":1}
//	{"event":"StepDone","at":…,"step":…,"component":…,"summary":…,"took":"3s","index":3,"total":13}
//	{"event":"Waiting","at":…,"step":…,"component":…,"detail":…,"since":…,"causes":[…]}
//	{"event":"Retrying","at":…,"error":…,"since":…}
//	{"event":"Kept","at":…,"object":…,"fields":[…],"manager":…}
//	{"event":"TookOver","at":…,"from":…}
//	{"event":"Stopped","at":…,"stops":[…]}
//	{"event":"Ended","at":…,"reason":…}
//
// An error is the last line: {"error":{"reason":…,"message":…,"remedy":…,"where":…,"exit":…}}.
package render
