// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package controlplane prepares a Kubernetes control plane that runs as plain processes on one machine: keys and certificates, kubeconfig
// files, the audit policy, and the command line and health check of each component.
//
// It does not run anything: the supervisor starts what Components returns and watches it. It also does not know where the binaries come
// from, nor in which namespaces they run.
//
//	Prepare ──> DIR/pki, DIR/conf ──> Components ──> [etcd, kube-apiserver, kube-controller-manager, kube-scheduler]
package controlplane
