// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// image explains an image that can't be pulled. Only an answer that may change by itself, an unreachable or busy
// registry, is not definite.
func (d podDiagnosis) image(s corev1.ContainerStatus, w *corev1.ContainerStateWaiting) world.Cause {
	image := d.imageOf(s)
	if w.Reason == "InvalidImageName" {
		return d.cause(v1alpha1.StopImageNotFound, true, "correct the image name in the component's manifests",
			"can't pull image %s for its container %s: that is not an image name", image, s.Name)
	}
	if w.Reason == "ErrImageNeverPull" {
		return d.cause(v1alpha1.StopImageNotFound, true, fmt.Sprintf("load image %s on node %s", image, d.pod.Spec.NodeName),
			"may not pull image %s for its container %s, and node %s does not have it", image, s.Name, d.pod.Spec.NodeName)
	}
	answer := registryAnswer(w.Message)
	if w.Reason == "RegistryUnavailable" && answer.words == "" {
		answer = registryWords{words: "the registry can't be reached", passing: true, remedy: "make the registry reachable from the node"}
	}
	if answer.remedy == "" {
		answer.remedy = "make the image available or fix the registry's credentials"
	}
	said := answer.words
	if raw := pullText(w.Message, image); raw != "" {
		said = strings.TrimPrefix(said+" ("+raw+")", " ")
	}
	if said == "" {
		said = "no reason is given"
	}
	return d.cause(v1alpha1.StopImageNotFound, !answer.passing, fmt.Sprintf("%s: %s", answer.remedy, image),
		"can't pull image %s for its container %s on node %s (%s): %s", image, s.Name, d.pod.Spec.NodeName, steady(w.Reason), said)
}

// steady gives the two reasons between which a kubelet goes to and fro one name, so that the cause stays the same.
func steady(reason string) string {
	if reason == "ErrImagePull" {
		return "ImagePullBackOff"
	}
	return reason
}

// registryWords is what a registry's answer means.
type registryWords struct {
	words   string
	remedy  string
	passing bool
}

// registryAnswer finds the meaning in the text of a failed pull. The order matters: texts of unreachable registries
// hold the word "found" ("no such host", "not found") less surely than their own marks.
func registryAnswer(message string) registryWords {
	lower := strings.ToLower(message)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(lower, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("toomanyrequests", "too many requests", "429"):
		return registryWords{words: "the registry is busy", remedy: "wait, or use a registry with a higher limit", passing: true}
	case has("no such host", "connection refused", "i/o timeout", "deadline exceeded", "no route to host", "connection reset", "unreachable", "tls handshake timeout", "503", "502"):
		return registryWords{words: "the registry can't be reached", remedy: "make the registry reachable from the node", passing: true}
	case has("x509:", "certificate signed by unknown", "gave http response to https client"):
		return registryWords{words: "the node does not trust the registry's certificate", remedy: "make the node trust the registry"}
	case has("unauthorized", "authentication required", "access denied", "pull access denied", "403 forbidden", "no basic auth", "denied:"):
		return registryWords{words: "the registry refuses it: the image is missing or the credentials are wrong"}
	case has("not found", "manifest unknown", "manifest_unknown", "name unknown", "name_unknown", "404", "does not exist"):
		return registryWords{words: "the registry does not have it", remedy: "make the image available"}
	}
	return registryWords{}
}

// pullText strips what the kubelet and the runtime put around the registry's own words.
func pullText(message, image string) string {
	text := strings.TrimSpace(message)
	for _, prefix := range []string{
		fmt.Sprintf("Back-off pulling image %q", image), ":", "ErrImagePull:", "rpc error:",
	} {
		text = strings.TrimSpace(strings.TrimPrefix(text, prefix))
	}
	if _, desc, found := strings.Cut(text, "desc = "); found {
		text = desc
	}
	return short(text, 200)
}
