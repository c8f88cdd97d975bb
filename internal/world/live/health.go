// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// health says whether a live object works; nil for kinds where that has no meaning. Webhook configurations and
// conversions are judged by a probe, after this.
func (r *round) health(ctx context.Context, live *unstructured.Unstructured) (*world.Health, error) {
	switch live.GroupVersionKind().Group {
	case "apps", "batch":
		return r.workload(ctx, live)
	}
	return ownHealth(live), nil
}

// ownHealth is what an object without Pods says of itself.
func ownHealth(live *unstructured.Unstructured) *world.Health {
	gk := live.GroupVersionKind().GroupKind()
	switch gk.Group {
	case "apiextensions.k8s.io":
		if gk.Kind == "CustomResourceDefinition" {
			return conditionsHealth(live, "NamesAccepted", "Established")
		}
	case "apiregistration.k8s.io":
		if gk.Kind == "APIService" {
			return conditionsHealth(live, "Available")
		}
	case "cert-manager.io":
		if gk.Kind == "Certificate" || gk.Kind == "Issuer" || gk.Kind == "ClusterIssuer" {
			return conditionsHealth(live, "Ready")
		}
	}
	return nil
}

// conditionsHealth judges an object by conditions that all have to be True, and of the present generation where they
// tell theirs.
func conditionsHealth(u *unstructured.Unstructured, types ...string) *world.Health {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	h := &world.Health{OK: true}
	var seen []string
	for _, want := range types {
		c := findCondition(conditions, want)
		seen = append(seen, fmt.Sprint(want, c["status"], c["reason"], c["observedGeneration"]))
		if why := conditionLacks(c, u.GetGeneration()); why != "" && h.OK {
			h.OK = false
			h.Message = fmt.Sprintf("%s is not %s: %s", world.RefOf(u), want, why)
			if said, _ := c["message"].(string); said != "" && c["status"] == "False" {
				h.Causes = []world.Cause{{
					Reason: v1alpha1.StopNotReady, Message: h.Message, Object: world.RefOf(u),
					Remedy: fmt.Sprintf(`read "kubectl describe %s%s %s" and fix the cause, then run "capstan resume"`, strings.ToLower(u.GetKind()), namespaceFlag(u.GetNamespace()), u.GetName()),
				}}
			}
		}
	}
	h.Progress = progress(seen)
	return h
}

func conditionLacks(c map[string]any, generation int64) string {
	if c == nil {
		return "nothing is reported yet"
	}
	if observed, ok := c["observedGeneration"].(int64); ok && observed < generation {
		return "its controller has yet to see the change"
	}
	if c["status"] == "True" {
		return ""
	}
	if message, _ := c["message"].(string); message != "" {
		return message
	}
	return fmt.Sprintf("%v is %v", c["type"], c["status"])
}

func findCondition(conditions []any, conditionType string) map[string]any {
	i := slices.IndexFunc(conditions, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == conditionType
	})
	if i < 0 {
		return nil
	}
	m, _ := conditions[i].(map[string]any)
	return m
}

func namespaceFlag(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " -n " + namespace
}

// progress makes one number of everything that may move. It is never negative.
func progress(parts ...any) int64 {
	h := fnv.New64a()
	fmt.Fprint(h, parts...)
	return int64(h.Sum64() >> 1)
}
