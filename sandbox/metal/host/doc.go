// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package host is the state machine of a simulated BareMetalHost: from what an object says, what time it is and how this host is to behave, it
// tells what the object's status is next and when to ask again.
//
// It follows baremetal-operator: registering, inspecting, preparing, available, provisioning, provisioned, deprovisioning with cleaning at its end,
// powering off before delete, deleting. It does no I/O and writes nothing.
package host
