// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// readAs is where an object read from the API server keeps the version that it was read in, while its apiVersion is that
// of references. No API has such a field.
const readAs = "\x00read"

// notOfMachines are fields of a control plane's spec that say how many Machines there are, or when and how they are
// replaced, but not what they look like; with those that reach Machines in place, in both API versions' words.
func notOfMachines() []string {
	const template = "machineTemplate."
	return []string{
		"replicas", "version", "rollout", "rolloutBefore", "rolloutAfter", "rolloutStrategy", "remediation", "remediationStrategy",
		"machineNaming", "machineNamingStrategy", "updateStrategy",
		template + "metadata", template + "readinessGates", template + "nodeDrainTimeout", template + "nodeVolumeDetachTimeout", template + "nodeDeletionTimeout",
		template + "spec.readinessGates", template + "spec.deletion", template + "spec.taints", template + "spec.minReadySeconds",
		template + "infrastructureRef", template + "spec.infrastructureRef",
	}
}

// controlPlaneConfig hashes the fields of a control plane that decide what its Machines look like, beside those that have
// a name of their own in the fence. Values are hashed, as commands and files hold secrets.
func controlPlaneConfig(u *unstructured.Unstructured) map[string]string {
	spec, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec")
	leaves := map[string]string{}
	flatten(spec, "", leaves)
	return hashed("spec.", leaves, notOfMachines())
}

// workerConfig is controlPlaneConfig for a template for Machines.
func workerConfig(u *unstructured.Unstructured) map[string]string {
	spec, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec")
	fields, _ := spec.(map[string]any)
	return hashed("spec.template.spec.", rolloutFields(fields), []string{"version", "infrastructureRef.name", "bootstrap.configRef.name", "bootstrap.dataSecretName", "failureDomain"})
}

func hashed(prefix string, leaves map[string]string, skip []string) map[string]string {
	out := map[string]string{}
	for path, value := range leaves {
		if !below(path, skip) {
			h := fnv.New32a()
			_, _ = h.Write([]byte(value)) // never fails
			out[prefix+path] = fmt.Sprintf("%08x", h.Sum32())
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// below tells that a path is one of others or leads below one of them.
func below(path string, others []string) bool {
	for _, o := range others {
		if path == o || strings.HasPrefix(path, o+".") || strings.HasPrefix(path, o+"[") {
			return true
		}
	}
	return false
}

// specPaused is what a Cluster's spec.paused says, empty for nothing.
func specPaused(u *unstructured.Unstructured) string {
	paused, found, err := unstructured.NestedBool(u.Object, "spec", "paused")
	if err != nil || !found {
		return ""
	}
	return fmt.Sprint(paused)
}
