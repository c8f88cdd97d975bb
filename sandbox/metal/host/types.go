// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations and finalizers of BareMetalHosts.
const (
	PausedAnnotation   = "baremetalhost.metal3.io/paused"
	DetachedAnnotation = "baremetalhost.metal3.io/detached"
	Finalizer          = "baremetalhost.metal3.io"
)

// State is status.provisioning.state. A host goes
//
//	"" ─► registering ─► inspecting ─► preparing ─► available ◄───────────┐
//	                                                   │                  │
//	                                                   ▼                  │
//	                                   ┌────────── provisioning ─► deprovisioning ◄─┐
//	                                   ▼            (failed)                        │
//	                              provisioned ──────────────────────────────────────┘
//
// and from each state, when it is deleted, over deprovisioning (if it was provisioned) and powering off to deleting.
type State string

// The states.
const (
	StateNone                  State = ""
	StateUnmanaged             State = "unmanaged"
	StateRegistering           State = "registering"
	StateInspecting            State = "inspecting"
	StatePreparing             State = "preparing"
	StateAvailable             State = "available"
	StateProvisioning          State = "provisioning"
	StateProvisioned           State = "provisioned"
	StateExternallyProvisioned State = "externally provisioned"
	StateDeprovisioning        State = "deprovisioning"
	StatePoweringOff           State = "powering off before delete"
	StateDeleting              State = "deleting"
)

// Values of status.operationalStatus.
const (
	StatusOK       = "OK"
	StatusError    = "error"
	StatusDetached = "detached"
)

// Values of status.errorType.
const (
	ErrorRegistration            = "registration error"
	ErrorProvisionedRegistration = "provisioned registration error"
	ErrorInspection              = "inspection error"
	ErrorProvisioning            = "provisioning error"
	ErrorPower                   = "power management error"
)

// Host is the part of a BareMetalHost that the state machine reads and, below Status, writes. The status is complete: nobody else writes it.
type Host struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status"`
}

// Spec is the part of a BareMetalHost's spec that matters.
type Spec struct {
	BMC                   BMC           `json:"bmc"`
	Image                 *Image        `json:"image,omitempty"`
	CustomDeploy          *CustomDeploy `json:"customDeploy,omitempty"`
	ConsumerRef           *Reference    `json:"consumerRef,omitempty"`
	UserData              *Reference    `json:"userData,omitempty"`
	Online                bool          `json:"online"`
	ExternallyProvisioned bool          `json:"externallyProvisioned,omitempty"`
	AutomatedCleaningMode string        `json:"automatedCleaningMode,omitempty"`
	InspectionMode        string        `json:"inspectionMode,omitempty"`
	BootMode              string        `json:"bootMode,omitempty"`
	Architecture          string        `json:"architecture,omitempty"`
	BootMACAddress        string        `json:"bootMACAddress,omitempty"`
	RootDeviceHints       *DeviceHints  `json:"rootDeviceHints,omitempty"`
}

// BMC says how to reach a host's management controller.
type BMC struct {
	Address         string `json:"address"`
	CredentialsName string `json:"credentialsName"`
}

// Image is what is written to a host's disk.
type Image struct {
	URL          string `json:"url"`
	Checksum     string `json:"checksum,omitempty"`
	ChecksumType string `json:"checksumType,omitempty"`
	Format       string `json:"format,omitempty"`
}

// CustomDeploy takes the place of an image.
type CustomDeploy struct {
	Method string `json:"method"`
}

// DeviceHints say which disk the image goes to.
type DeviceHints struct {
	DeviceName string `json:"deviceName,omitempty"`
}

// Reference names another object.
type Reference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
}

// Status is a BareMetalHost's status.
type Status struct {
	Conditions            []metav1.Condition `json:"conditions,omitempty"`
	OperationalStatus     string             `json:"operationalStatus"`
	ErrorType             string             `json:"errorType,omitempty"`
	ErrorMessage          string             `json:"errorMessage"`
	ErrorCount            int                `json:"errorCount"`
	ProvisioningFailCount int                `json:"provisioningFailCount"`
	LastAttemptedImage    *Image             `json:"lastAttemptedImage,omitempty"`
	LastUpdated           *metav1.Time       `json:"lastUpdated,omitempty"`
	HardwareProfile       string             `json:"hardwareProfile,omitempty"`
	Hardware              *Hardware          `json:"hardware,omitempty"`
	Provisioning          Provisioning       `json:"provisioning"`
	PoweredOn             bool               `json:"poweredOn"`
	OperationHistory      History            `json:"operationHistory"`
}

// Provisioning is what is on a host.
type Provisioning struct {
	State           State         `json:"state"`
	ID              string        `json:"ID"`
	Image           *Image        `json:"image,omitempty"`
	CustomDeploy    *CustomDeploy `json:"customDeploy,omitempty"`
	BootMode        string        `json:"bootMode,omitempty"`
	RootDeviceHints *DeviceHints  `json:"rootDeviceHints,omitempty"`
}

// Span is when an operation began and ended.
type Span struct {
	Start *metav1.Time `json:"start"`
	End   *metav1.Time `json:"end"`
}

// History is the last run of each operation.
type History struct {
	Register    Span `json:"register"`
	Inspect     Span `json:"inspect"`
	Provision   Span `json:"provision"`
	Deprovision Span `json:"deprovision"`
}

// Hardware is what inspection finds.
type Hardware struct {
	CPU          CPU          `json:"cpu"`
	Firmware     Firmware     `json:"firmware"`
	Hostname     string       `json:"hostname"`
	NICs         []NIC        `json:"nics"`
	RAMMebibytes int          `json:"ramMebibytes"`
	Storage      []Disk       `json:"storage"`
	SystemVendor SystemVendor `json:"systemVendor"`
}

// CPU is a host's processors.
type CPU struct {
	Arch           string   `json:"arch"`
	ClockMegahertz float64  `json:"clockMegahertz"`
	Count          int      `json:"count"`
	Flags          []string `json:"flags"`
	Model          string   `json:"model"`
}

// Firmware is a host's firmware.
type Firmware struct {
	BIOS BIOS `json:"bios"`
}

// BIOS is the firmware's version.
type BIOS struct {
	Date    string `json:"date"`
	Vendor  string `json:"vendor"`
	Version string `json:"version"`
}

// NIC is a network interface.
type NIC struct {
	IP        string `json:"ip"`
	MAC       string `json:"mac"`
	Model     string `json:"model"`
	Name      string `json:"name"`
	PXE       bool   `json:"pxe"`
	SpeedGbps int    `json:"speedGbps"`
}

// Disk is a disk.
type Disk struct {
	Name       string `json:"name"`
	Rotational bool   `json:"rotational"`
	SizeBytes  int64  `json:"sizeBytes"`
	Type       string `json:"type"`
	Vendor     string `json:"vendor"`
	Model      string `json:"model"`
}

// SystemVendor is who made a host.
type SystemVendor struct {
	Manufacturer string `json:"manufacturer"`
	ProductName  string `json:"productName"`
	SerialNumber string `json:"serialNumber"`
}
