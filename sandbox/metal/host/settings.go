// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where a sandbox keeps how hosts behave and which images there are: ConfigMaps beside the hosts and not annotations on them, so that the hosts
// look as they do in the field.
const (
	ConfigNamespace = "sandbox-metal"
	// SettingsConfig has a key NAMESPACE.NAME for each host that is not to behave like all others, and DefaultKey.
	SettingsConfig = "hosts"
	// ImagesConfig has one key, ImagesKey, with a list of images as JSON.
	ImagesConfig = "images"
	ImagesKey    = "images.json"
	DefaultKey   = "default"
)

// Failure is a way in which a host misbehaves.
type Failure string

// The failures.
const (
	// FailChecksum makes each image fail its checksum.
	FailChecksum Failure = "checksum"
	// FailBMC makes the management controller not answer: nothing moves.
	FailBMC Failure = "bmc"
	// FailDeprovision makes deprovisioning never end. Like the real one it says nothing about it.
	FailDeprovision Failure = "deprovision"
	// FailClean makes cleaning fail.
	FailClean Failure = "clean"
	// FailPower makes the host be without power, whatever it is told.
	FailPower Failure = "power"
	// FailInspect makes inspection fail.
	FailInspect Failure = "inspect"
	// FailBoot makes the host be provisioned and its operating system never come up: no node.
	FailBoot Failure = "boot"
	// FailImage makes the host come up with the kernel of another image than was asked for.
	FailImage Failure = "image"
)

// Failures lists them all.
func Failures() []Failure {
	return []Failure{FailChecksum, FailBMC, FailDeprovision, FailClean, FailPower, FailInspect, FailBoot, FailImage}
}

// slowFactor is how much longer everything takes on a slow host.
const slowFactor = 10

// Settings say how a host behaves. A time that is not set is the default's.
type Settings struct {
	Register    *metav1.Duration `json:"register,omitempty"`
	Inspect     *metav1.Duration `json:"inspect,omitempty"`
	Provision   *metav1.Duration `json:"provision,omitempty"`
	Deprovision *metav1.Duration `json:"deprovision,omitempty"`
	Clean       *metav1.Duration `json:"clean,omitempty"`
	Boot        *metav1.Duration `json:"boot,omitempty"`
	Slow        bool             `json:"slow,omitempty"`
	Fail        []Failure        `json:"fail,omitempty"`
}

// Fails says whether the host has a failure.
func (s Settings) Fails(f Failure) bool { return slices.Contains(s.Fail, f) }

// Times are the settled times of a host.
type Times struct {
	Register, Inspect, Provision, Deprovision, Clean, Boot time.Duration
}

// Times fills in what is not set: from the defaults given, and else short times that can be watched.
func (s Settings) Times(defaults Settings) Times {
	pick := func(own, shared *metav1.Duration, builtin time.Duration) time.Duration {
		d := builtin
		switch {
		case own != nil:
			d = own.Duration
		case shared != nil:
			d = shared.Duration
		}
		if s.Slow || defaults.Slow {
			d *= slowFactor
		}
		return d
	}
	return Times{
		Register:    pick(s.Register, defaults.Register, 300*time.Millisecond),
		Inspect:     pick(s.Inspect, defaults.Inspect, 700*time.Millisecond),
		Provision:   pick(s.Provision, defaults.Provision, 2*time.Second),
		Deprovision: pick(s.Deprovision, defaults.Deprovision, time.Second),
		Clean:       pick(s.Clean, defaults.Clean, time.Second),
		Boot:        pick(s.Boot, defaults.Boot, time.Second),
	}
}

// ParseSettings reads the value of a key of SettingsConfig; nothing is the zero value.
func ParseSettings(text string) (Settings, error) {
	var s Settings
	if strings.TrimSpace(text) == "" {
		return s, nil
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("read host settings %q: %w", text, err)
	}
	for _, f := range s.Fail {
		if !slices.Contains(Failures(), f) {
			return s, fmt.Errorf("read host settings: there is no failure %q, only %v", f, Failures())
		}
	}
	return s, nil
}

// SettingsKey is a host's key in SettingsConfig.
func SettingsKey(namespace, name string) string { return namespace + "." + name }

// KnownImage is an image that can be written, and what a machine says of itself once it runs it.
type KnownImage struct {
	Name      string `json:"name"`
	URL       string `json:"url"`
	SHA256    string `json:"sha256"`
	OSImage   string `json:"osImage"`
	Kernel    string `json:"kernelVersion"`
	Runtime   string `json:"containerRuntimeVersion"`
	Kubelet   string `json:"kubeletVersion"`
	MinDiskGB int    `json:"minDiskGigabytes,omitempty"`
}

// ParseImages reads the value of ImagesKey.
func ParseImages(text string) ([]KnownImage, error) {
	var list []KnownImage
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("read images: %w", err)
	}
	return list, nil
}

// FindImage returns the image at a URL.
func FindImage(images []KnownImage, url string) (KnownImage, bool) {
	i := slices.IndexFunc(images, func(k KnownImage) bool { return k.URL == url })
	if i < 0 {
		return KnownImage{}, false
	}
	return images[i], true
}
