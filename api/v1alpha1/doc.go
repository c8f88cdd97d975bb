// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds Capstan's API: Release, Plan and Upgrade, their conditions and reasons.
// It decides nothing and talks to no cluster.
//
// +kubebuilder:object:generate=true
// +groupName=capstan.dev
package v1alpha1
