// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/schema"
)

// BenchmarkJudge judges a Machine by Cluster API's own CRD.
func BenchmarkJudge(b *testing.B) {
	out, err := exec.CommandContext(b.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		b.Skipf("find the Cluster API module: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "core/config/crd/bases/cluster.x-k8s.io_machines.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	v, err := schema.New(object(b, string(data)), "v1beta2")
	if err != nil {
		b.Fatal(err)
	}
	machine := object(b, `
metadata: {name: m, namespace: default}
spec:
  clusterName: c
  version: v1.36.0
  bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: m}, dataSecretName: m}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DockerMachine, name: m}
status: {phase: Running, conditions: [{type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
`)
	if faults := v.Judge(b.Context(), machine); len(faults) > 0 {
		b.Fatal(faults)
	}
	b.ReportAllocs()
	for b.Loop() {
		v.Judge(b.Context(), machine)
	}
}
