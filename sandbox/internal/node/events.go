// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
)

// Reasons of events, as the kubelet writes them.
const (
	eventPulling      = "Pulling"
	eventPulled       = "Pulled"
	eventCreated      = "Created"
	eventStarted      = "Started"
	eventKilling      = "Killing"
	eventBackOff      = "BackOff"
	eventFailed       = "Failed"
	eventUnhealthy    = "Unhealthy"
	eventFailedMount  = "FailedMount"
	eventFailedSetup  = "FailedCreatePodSandBox"
	eventImageMissing = "ErrImageNeverPull"
	eventPostStart    = "FailedPostStartHook"
	eventPreStop      = "FailedPreStopHook"
	eventDeadline     = "DeadlineExceeded"
)

// podEvent records an event about a Pod, or about one of its containers.
func podEvent(recorder record.EventRecorder, pod *corev1.Pod, c *corev1.Container, kind, reason, format string, args ...any) {
	field := ""
	if c != nil {
		field = "spec.containers{" + c.Name + "}"
		if slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name }) {
			field = "spec.initContainers{" + c.Name + "}"
		}
	}
	ref, err := reference.GetPartialReference(scheme.Scheme, pod, field)
	if err != nil { // a Pod is in the scheme
		return
	}
	recorder.Event(ref, kind, reason, truncate(fmt.Sprintf(format, args...), 1024))
}

func truncate(text string, size int) string {
	if len(text) <= size {
		return text
	}
	return strings.ToValidUTF8(text[:size-3], "") + "..."
}

// quietRecorder drops the events virtual-kubelet adds to those of a kubelet: they
// tell nobody anything.
type quietRecorder struct{ record.EventRecorder }

func (q quietRecorder) Event(object runtime.Object, kind, reason, message string) {
	if strings.HasPrefix(reason, "Provider") && strings.HasSuffix(reason, "Success") {
		return
	}
	q.EventRecorder.Event(object, kind, reason, message)
}

func (q quietRecorder) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	q.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

func (q quietRecorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	q.EventRecorder.AnnotatedEventf(object, annotations, kind, reason, format, args...)
}

// nowOf is the clock's time as the API keeps it, in whole seconds: so that a
// status read back equals the one written.
func (a *Agent) nowOf() metav1.Time {
	now := metav1.NewTime(a.cfg.Clock.Now())
	return now.Rfc3339Copy()
}
