// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxFailures is how often a host tries to write the same image.
const maxFailures = 5

// errorPause is how long a failed operation rests before it is tried again; it doubles with each failure up to maxPause.
const (
	errorPause = 2 * time.Second
	maxPause   = 30 * time.Second
)

// World is what a step knows beside the host.
type World struct {
	Now      time.Time
	Settings Settings
	Defaults Settings
	Images   []KnownImage
	// CredentialsFound says that the Secret with the management controller's credentials is there.
	CredentialsFound bool
}

// Step returns the host's next status and when to ask again; zero is never, unless something changes. done says that a deleted host is gone and its
// finalizer may be removed.
func Step(h Host, w World) (next Status, again time.Duration, done bool) {
	s := &stepper{Host: h, World: w, times: w.Settings.Times(w.Defaults)}
	if _, paused := h.Annotations[PausedAnnotation]; paused && h.DeletionTimestamp == nil {
		return h.Status, 0, false
	}
	if _, detached := h.Annotations[DetachedAnnotation]; detached && h.DeletionTimestamp == nil {
		s.Status.OperationalStatus = StatusDetached
		return s.Status, 0, false
	}
	if s.Status.OperationalStatus == StatusDetached {
		s.Status.OperationalStatus = StatusOK
	}
	s.advance()
	s.summarize()
	return s.Status, s.again, s.done
}

// stepper is one step in progress. Its copy of the host's status becomes the next one.
type stepper struct {
	Host
	World
	times Times
	again time.Duration
	done  bool
}

func (s *stepper) advance() {
	if s.BMC() && s.unreachable() {
		return
	}
	if s.DeletionTimestamp != nil && s.delete() {
		return
	}
	switch s.Status.Provisioning.State {
	case StateNone, StateUnmanaged:
		s.begin()
	case StateRegistering:
		s.register()
	case StateInspecting:
		s.inspect()
	case StatePreparing:
		s.enter(StateAvailable)
	case StateAvailable:
		s.available()
	case StateProvisioning:
		s.provision()
	case StateProvisioned, StateExternallyProvisioned:
		s.provisioned()
	case StateDeprovisioning:
		s.deprovision()
	case StatePoweringOff:
		s.Status.PoweredOn = false
		s.enter(StateDeleting)
	case StateDeleting:
		s.done = true
	}
}

// BMC says whether the host has a management controller that was found before.
func (s *stepper) BMC() bool {
	st := s.Status.Provisioning.State
	return st != StateNone && st != StateUnmanaged
}

// unreachable deals with a management controller that does not answer, or does again.
func (s *stepper) unreachable() bool {
	kind := ErrorRegistration
	switch s.Status.Provisioning.State {
	case StateProvisioned, StateExternallyProvisioned, StateDeprovisioning:
		kind = ErrorProvisionedRegistration
	default:
	}
	const message = "Failed to get power state for the host: unable to connect to its BMC: timed out"
	if s.Settings.Fails(FailBMC) {
		if s.Status.ErrorMessage != message {
			s.fail(kind, message)
		}
		s.again = errorPause
		return true
	}
	if s.Status.ErrorMessage == message {
		s.clearError()
	}
	return false
}

// delete steers a deleted host to its end; false means that what it does already goes on.
func (s *stepper) delete() bool {
	switch s.Status.Provisioning.State {
	case StateDeprovisioning, StatePoweringOff, StateDeleting:
		return false
	case StateProvisioned, StateProvisioning:
		s.startDeprovision()
	default:
		s.enter(StatePoweringOff)
	}
	return true
}

func (s *stepper) begin() {
	s.Status.OperationalStatus = StatusOK
	if s.Spec.BMC.Address == "" {
		s.Status.OperationalStatus = "discovered"
		s.enter(StateUnmanaged)
		s.again = 0
		return
	}
	s.enter(StateRegistering)
	s.Status.OperationHistory.Register = Span{Start: s.now()}
}

func (s *stepper) register() {
	if !s.CredentialsFound {
		message := fmt.Sprintf("The BMC secret %s/%s does not exist", s.Namespace, s.Spec.BMC.CredentialsName)
		if s.Status.ErrorMessage != message {
			s.fail(ErrorRegistration, message)
		}
		s.again = errorPause
		return
	}
	if !s.ran(&s.Status.OperationHistory.Register, s.times.Register) {
		return
	}
	s.clearError()
	s.Status.Provisioning.ID = string(s.UID)
	s.Status.Provisioning.BootMode = s.Spec.BootMode
	if s.Status.Provisioning.BootMode == "" {
		s.Status.Provisioning.BootMode = "UEFI"
	}
	s.Status.HardwareProfile = "unknown"
	if s.Spec.ExternallyProvisioned {
		s.enter(StateExternallyProvisioned)
		return
	}
	if s.Spec.InspectionMode == "disabled" {
		s.enter(StatePreparing)
		return
	}
	s.enter(StateInspecting)
	s.Status.OperationHistory.Inspect = Span{Start: s.now()}
}

func (s *stepper) inspect() {
	if s.resting() {
		return
	}
	if !s.ran(&s.Status.OperationHistory.Inspect, s.times.Inspect) {
		return
	}
	if s.Settings.Fails(FailInspect) {
		s.fail(ErrorInspection, "Inspection failed: timeout reached while inspecting the node")
		s.Status.OperationHistory.Inspect = Span{Start: s.now()}
		s.again = s.pause()
		return
	}
	s.clearError()
	s.Status.Hardware = hardwareOf(s.Host)
	s.enter(StatePreparing)
}

func (s *stepper) available() {
	s.Status.PoweredOn = false
	if !s.wantsImage() || !s.Spec.Online {
		return
	}
	if s.Status.ProvisioningFailCount >= maxFailures && !s.otherImage() {
		s.Status.ErrorType, s.Status.OperationalStatus = ErrorProvisioning, StatusError
		s.Status.ErrorMessage = fmt.Sprintf("provisioning failed %d times, retry limit (%d) reached; change image or reset provisioningFailCount to retry",
			s.Status.ProvisioningFailCount, maxFailures)
		return
	}
	if s.otherImage() {
		s.Status.ProvisioningFailCount = 0
	}
	s.clearError()
	s.Status.LastAttemptedImage = s.Spec.Image
	s.Status.OperationHistory.Provision = Span{Start: s.now()}
	s.enter(StateProvisioning)
	s.again = s.times.Provision
}

func (s *stepper) provision() {
	// Only the URL is compared: a corrected checksum alone does not stop an attempt that runs.
	if s.cancelled() {
		s.startDeprovision()
		return
	}
	if s.Status.ErrorMessage != "" {
		if !s.resting() {
			s.startDeprovision()
		}
		return
	}
	if !s.ran(&s.Status.OperationHistory.Provision, s.times.Provision) {
		return
	}
	if message := s.imageTrouble(); message != "" {
		s.Status.OperationHistory.Provision.End = nil
		s.Status.ProvisioningFailCount++
		s.fail(ErrorProvisioning, "Image provisioning failed: "+message)
		s.again = s.pause()
		return
	}
	s.clearError()
	s.Status.ErrorCount, s.Status.ProvisioningFailCount = 0, 0
	s.Status.Provisioning.Image = s.Spec.Image
	s.Status.Provisioning.CustomDeploy = s.Spec.CustomDeploy
	s.Status.Provisioning.RootDeviceHints = s.Spec.RootDeviceHints
	s.Status.PoweredOn = s.Spec.Online
	s.enter(StateProvisioned)
}

// imageTrouble says what is wrong with the image, as the deploy agent on a host does.
func (s *stepper) imageTrouble() string {
	if s.Spec.Image == nil {
		return ""
	}
	img := *s.Spec.Image
	known, ok := FindImage(s.Images, img.URL)
	if !ok {
		return fmt.Sprintf("Agent failed to download image %s: received HTTP status code 404", img.URL)
	}
	expected := img.Checksum
	if strings.HasPrefix(expected, "http://") || strings.HasPrefix(expected, "https://") {
		expected = known.SHA256 // whoever keeps a file of checksums keeps it right
	}
	if s.Settings.Fails(FailChecksum) || expected != known.SHA256 && img.Format != "live-iso" {
		return fmt.Sprintf("Image failed to verify against checksum. location: %s; image ID: /dev/sda; image checksum: %s; verification checksum: %s",
			img.URL, expected, known.SHA256)
	}
	return ""
}

func (s *stepper) provisioned() {
	if s.Status.Provisioning.State == StateProvisioned && s.needsDeprovisioning() {
		s.startDeprovision()
		return
	}
	if s.Settings.Fails(FailPower) && s.Spec.Online {
		s.Status.PoweredOn = false
		if s.Status.ErrorType != ErrorPower {
			s.fail(ErrorPower, "Failed to power on the host: power supply reports a fault")
		}
		s.again = errorPause
		return
	}
	if s.Status.ErrorType == ErrorPower {
		s.clearError()
	}
	s.Status.PoweredOn = s.Spec.Online
}

func (s *stepper) deprovision() {
	if s.resting() {
		return
	}
	if s.Settings.Fails(FailDeprovision) {
		s.again = errorPause
		return
	}
	limit := s.times.Deprovision
	cleans := s.Spec.AutomatedCleaningMode != "disabled"
	if cleans {
		limit += s.times.Clean
	}
	if !s.ran(&s.Status.OperationHistory.Deprovision, limit) {
		return
	}
	if cleans && s.Settings.Fails(FailClean) {
		s.Status.OperationHistory.Deprovision = Span{Start: s.now()}
		s.fail(ErrorProvisioning, "Cleaning failed: agent returned error for clean step erase_devices_metadata")
		s.again = s.pause()
		return
	}
	s.clearError()
	s.Status.Provisioning.Image, s.Status.Provisioning.CustomDeploy = nil, nil
	s.Status.PoweredOn = false
	if s.DeletionTimestamp != nil {
		s.enter(StatePoweringOff)
		return
	}
	s.enter(StateAvailable)
}

func (s *stepper) startDeprovision() {
	s.clearError()
	s.Status.PoweredOn = false
	s.Status.OperationHistory.Deprovision = Span{Start: s.now()}
	s.enter(StateDeprovisioning)
}

func (s *stepper) wantsImage() bool {
	return s.Spec.Image != nil && s.Spec.Image.URL != "" || s.Spec.CustomDeploy != nil
}

func (s *stepper) otherImage() bool {
	last := s.Status.LastAttemptedImage
	return last != nil && s.Spec.Image != nil && *last != *s.Spec.Image
}

func (s *stepper) cancelled() bool {
	last := s.Status.LastAttemptedImage
	return !s.wantsImage() || last != nil && s.Spec.Image != nil && last.URL != s.Spec.Image.URL
}

func (s *stepper) needsDeprovisioning() bool {
	on := s.Status.Provisioning
	switch {
	case !s.wantsImage():
		return true
	case s.Spec.Image != nil && on.Image != nil:
		return s.Spec.Image.URL != on.Image.URL
	}
	return false
}

// enter changes the state and has the next step follow at once.
func (s *stepper) enter(to State) {
	s.Status.Provisioning.State = to
	s.again = time.Millisecond
}

// ran says whether an operation has had its time, and notes its end; else it is asked again then.
func (s *stepper) ran(op *Span, limit time.Duration) bool {
	if op.Start == nil {
		op.Start = s.now()
	}
	if left := limit - s.Now.Sub(op.Start.Time); left > 0 {
		s.again = left
		return false
	}
	op.End = s.now()
	return true
}

// resting says whether the last failure is too fresh to try again.
func (s *stepper) resting() bool {
	if s.Status.ErrorMessage == "" || s.Status.LastUpdated == nil {
		return false
	}
	left := s.pause() - s.Now.Sub(s.Status.LastUpdated.Time)
	s.again = max(left, 0)
	return left > 0
}

func (s *stepper) pause() time.Duration {
	return min(errorPause<<max(s.Status.ErrorCount-1, 0), maxPause)
}

func (s *stepper) fail(kind, message string) {
	s.Status.OperationalStatus, s.Status.ErrorType, s.Status.ErrorMessage = StatusError, kind, message
	s.Status.ErrorCount++
	s.Status.LastUpdated = s.now()
}

func (s *stepper) clearError() {
	s.Status.OperationalStatus, s.Status.ErrorType, s.Status.ErrorMessage = StatusOK, "", ""
}

func (s *stepper) now() *metav1.Time {
	t := metav1.NewTime(s.Now)
	return &t
}
