// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package apitest gives tests a real API server with an empty store behind it, and little else: no nodes, and
// controllers only on request. Where there are no binaries the test is skipped by name.
package apitest

import (
	"testing"

	"k8s.io/client-go/rest"
)

// Assets names the directory with the programs etcd, kube-apiserver and kube-controller-manager.
const Assets = "KUBEBUILDER_ASSETS"

// Start starts etcd and kube-apiserver and returns how to reach them as a cluster administrator. They end with the test.
// Starting takes a few seconds, so a package has one test that starts it, with subtests.
func Start(t *testing.T) *rest.Config {
	t.Helper()
	return Boot(t, Options{}).Config
}
