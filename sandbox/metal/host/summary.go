// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"hash/fnv"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// summarize derives the conditions from the rest of the status.
func (s *stepper) summarize() {
	st := s.Status.Provisioning.State
	s.condition("Manageable", st != StateNone && st != StateUnmanaged && st != StateRegistering &&
		s.Status.ErrorType != ErrorRegistration && s.Status.ErrorType != ErrorProvisionedRegistration, "Registered", "NotManageable")
	s.condition("Provisioned", st == StateProvisioned || st == StateExternallyProvisioned, "Provisioned", "NotProvisioned")
	s.condition("AvailableForProvisioning", st == StateAvailable && s.Status.ErrorMessage == "", "Available", "NotAvailable")
	s.condition("Ready", s.Status.ErrorMessage == "" && (st == StateAvailable || st == StateProvisioned || st == StateExternallyProvisioned),
		"Ready", "NotReady")
	s.condition("Progressing", st != StateAvailable && st != StateProvisioned && st != StateExternallyProvisioned && st != StateUnmanaged,
		"Progressing", "Idle")
}

func (s *stepper) condition(kind string, is bool, yes, no string) {
	c := metav1.Condition{
		Type: kind, Status: metav1.ConditionFalse, Reason: no, Message: s.Status.ErrorMessage,
		LastTransitionTime: metav1.NewTime(s.Now), ObservedGeneration: s.Generation,
	}
	if is {
		c.Status, c.Reason = metav1.ConditionTrue, yes
	}
	apimeta.SetStatusCondition(&s.Status.Conditions, c)
}

// hardwareOf makes up a host's hardware; the same host has the same.
func hardwareOf(h Host) *Hardware {
	const disk = 480 << 30
	arch := h.Spec.Architecture
	if arch == "" {
		arch = "x86_64"
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(h.Namespace + "/" + h.Name)) // never fails
	sum := hash.Sum32()
	mac := h.Spec.BootMACAddress
	if mac == "" {
		mac = fmt.Sprintf("52:54:00:%02x:%02x:%02x", byte(sum>>16), byte(sum>>8), byte(sum))
	}
	return &Hardware{
		CPU:          CPU{Arch: arch, ClockMegahertz: 2600, Count: 32, Flags: []string{"vmx"}, Model: "Simulated CPU"},
		Firmware:     Firmware{BIOS: BIOS{Date: "01/01/2026", Vendor: "Sandbox", Version: "1.0"}},
		Hostname:     h.Name,
		NICs:         []NIC{{IP: Address(h), MAC: mac, Model: "0x8086 0x1572", Name: "eth0", PXE: true, SpeedGbps: 10}},
		RAMMebibytes: 64 << 10,
		Storage:      []Disk{{Name: "/dev/sda", SizeBytes: disk, Type: "SSD", Vendor: "Sandbox", Model: "Simulated disk"}},
		SystemVendor: SystemVendor{Manufacturer: "Capstan", ProductName: "Simulated host", SerialNumber: fmt.Sprintf("S%08x", sum)},
	}
}

// Address is the address a host's operating system gets: nothing listens there.
func Address(h Host) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(h.Namespace + "/" + h.Name)) // never fails
	sum := hash.Sum32()
	return fmt.Sprintf("172.22.%d.%d", byte(sum>>8), 1+byte(sum)%250)
}
