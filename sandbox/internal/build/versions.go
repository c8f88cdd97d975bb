// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// The versions a sandbox runs when it is not told otherwise. Any other version that the module proxy serves may be asked for.
const (
	// DefaultKubernetes is the version of the management cluster's control plane.
	DefaultKubernetes = "v1.36.3"
	// DefaultEtcd is the version of etcd under it.
	DefaultEtcd = "v3.6.16"
	// DefaultClusterAPI is the version a sandbox starts at.
	DefaultClusterAPI = "v1.13.4"
	// NextClusterAPI is the version it is upgraded to.
	NextClusterAPI = "v1.14.2"
	// DefaultCertManager is clusterctl's own choice at DefaultClusterAPI.
	DefaultCertManager = "v1.20.3"
	// NextCertManager is clusterctl's own choice at NextClusterAPI.
	NextCertManager = "v1.21.1"
)

// Paths of modules whose sources are of use to others, for Builder.Source.
const (
	// ClusterAPIModule has the core, bootstrap and control plane providers, metadata and clusterctl.
	ClusterAPIModule = clusterAPIModule
	// ClusterAPITestModule has the docker provider.
	ClusterAPITestModule = clusterAPITestModule
	// CertManagerModule has the chart.
	CertManagerModule = certManagerModule
)

// Paths of the modules that sets are made of.
const (
	kubernetesModule     = "k8s.io/kubernetes"
	etcdModule           = "go.etcd.io/etcd/server/v3"
	clusterAPIModule     = "sigs.k8s.io/cluster-api"
	clusterAPITypes      = "sigs.k8s.io/cluster-api/api"
	clusterAPITestModule = "sigs.k8s.io/cluster-api/test"
	certManagerModule    = "github.com/cert-manager/cert-manager"

	apiserverModule         = "k8s.io/apiserver"
	controllerRuntimeModule = "sigs.k8s.io/controller-runtime"
)

// alignment returns the set whose dependency versions another set is built with, or nothing for upstream's own.
//
// Two sets share compiled packages only if these and everything below them are at the very same versions. Kubernetes and
// Cluster API v1.14.2 agree on k8s.io/client-go, but not on the logger below it, and so would compile client-go twice.
// The pairs named here agree on all that matters, were tried, and differ in low-level libraries by small steps; every other
// pair is built as upstream has it.
func alignment(of moduleVersion) moduleVersion {
	switch of {
	case moduleVersion{clusterAPIModule, "v1.14.2"}, moduleVersion{certManagerModule, "v1.21.1"}:
		return moduleVersion{kubernetesModule, "v1.36.3"}
	case moduleVersion{certManagerModule, "v1.20.3"}:
		return moduleVersion{clusterAPIModule, "v1.13.4"}
	}
	return moduleVersion{}
}

// checkVersion says whether a version is one a module can have.
func checkVersion(what, version string) error {
	if semver.Canonical(version) != version || version == "" {
		return fmt.Errorf("%s version %q is not of the form v1.2.3", what, version)
	}
	return nil
}

// stagingVersion is the version of the k8s.io modules that are published from the Kubernetes repository: v1.36.3 gives v0.36.3.
func stagingVersion(kubernetes string) (string, error) {
	rest, ok := strings.CutPrefix(kubernetes, "v1.")
	if !ok {
		return "", fmt.Errorf("Kubernetes %s has no published k8s.io modules: ask for a v1 release", kubernetes)
	}
	return "v0." + rest, nil
}

// majorMinor splits "v1.36.3" into "1" and "36".
func majorMinor(version string) (major, minor string) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return parts[0], parts[1]
}
