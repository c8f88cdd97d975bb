// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package apitest gives tests a real API server with an empty store behind it, and nothing else: no controllers, no
// nodes. Where there are no binaries the test is skipped by name.
package apitest

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Assets names the directory with the programs etcd and kube-apiserver.
const Assets = "KUBEBUILDER_ASSETS"

// Start starts etcd and kube-apiserver and returns how to reach them as a cluster administrator. They end with the test.
// Starting takes a few seconds, so a package has one test that starts it, with subtests.
func Start(t *testing.T) *rest.Config {
	t.Helper()
	if os.Getenv(Assets) == "" {
		t.Skipf("skipped: needs a real API server; set %s to a directory with etcd and kube-apiserver (make test does)", Assets)
	}
	env := &envtest.Environment{}
	cfg, err := env.Start()
	if err != nil {
		t.Fatalf("start API server: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stop API server: %v", err)
		}
	})
	cfg.QPS, cfg.Burst = -1, -1
	return cfg
}
