// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-dev/capstan/internal/world"
)

// topologyOf reads what a ClusterClass makes of a Cluster; nil for one without.
func topologyOf(u *unstructured.Unstructured) *world.Topology {
	version := stringAt(u, "spec", "topology", "version")
	if version == "" {
		return nil
	}
	t := &world.Topology{
		Version: version, Class: cmp.Or(stringAt(u, "spec", "topology", "classRef", "name"), stringAt(u, "spec", "topology", "class")),
	}
	for _, c := range conditionsOf(u) {
		if c.kind == "TopologyReconciled" && c.status != string(metav1.ConditionTrue) && t.Waits == "" {
			t.Waits, t.Reason, t.Since = cmp.Or(c.message, c.reason), c.reason, c.since
		}
	}
	t.Hooks = blockingHooks(t.Waits)
	return t
}

// blockingHooks finds the lifecycle hooks in the words of the topology controller:
// "Following hooks are blocking upgrade: BeforeClusterUpgrade: not yet; AfterControlPlaneUpgrade".
func blockingHooks(message string) []world.HookWait {
	var out []world.HookWait
	name := regexp.MustCompile(`^(?:.*?[ :*])?((?:Before|After)[A-Z][A-Za-z]+)\b(?:: *(.*))?$`)
	for line := range strings.Lines(message) {
		if i := strings.Index(line, " blocking "); i >= 0 {
			if _, list, found := strings.Cut(line[i:], ": "); found {
				line = list
			}
		}
		for part := range strings.SplitSeq(strings.TrimSpace(line), "; ") {
			m := name.FindStringSubmatch(part)
			switch {
			case m != nil:
				out = append(out, world.HookWait{Hook: m[1], Message: strings.TrimSpace(m[2])})
			case len(out) > 0 && strings.Contains(line, "; "): // a message may have semicolons
				out[len(out)-1].Message += "; " + part
			}
		}
	}
	if len(out) > 0 || !strings.Contains(message, "block") {
		return out
	}
	// Other versions of Cluster API put it in other words.
	for _, hook := range regexp.MustCompile(`\b(?:Before|After)[A-Z][A-Za-z]+`).FindAllString(message, -1) {
		if !slices.ContainsFunc(out, func(h world.HookWait) bool { return h.Hook == hook }) {
			out = append(out, world.HookWait{Hook: hook, Message: message})
		}
	}
	return out
}

// blame names the ExtensionConfigs behind the hooks that keep a topology waiting.
func blame(t *world.Topology, namespace string, hooks []world.Hook) {
	for i := range t.Hooks {
		for _, h := range hooks {
			name := h.Extension.Name
			if h.Hook == t.Hooks[i].Hook && h.CalledFor(namespace) && !slices.Contains(t.Hooks[i].Extensions, name) {
				t.Hooks[i].Extensions = append(t.Hooks[i].Extensions, name)
			}
		}
	}
}

// extension is one ExtensionConfig with the selector that was not resolved yet.
type extension struct {
	hooks    []world.Hook
	selector map[string]any
}

func (c *nodeCollector) extension(u *unstructured.Unstructured) {
	e := extension{}
	e.selector, _, _ = unstructured.NestedMap(u.Object, "spec", "namespaceSelector")
	trouble := ""
	for _, c := range conditionsOf(u) {
		if c.kind == "Discovered" && c.status != string(metav1.ConditionTrue) && trouble == "" {
			trouble = cmp.Or(c.message, c.reason)
		}
	}
	handlers, _, _ := unstructured.NestedSlice(u.Object, "status", "handlers")
	for _, h := range handlers {
		m, ok := h.(map[string]any)
		if !ok {
			continue
		}
		hook := world.Hook{Extension: world.RefOf(u), Trouble: trouble}
		hook.Handler, _, _ = unstructured.NestedString(m, "name")
		hook.Hook, _, _ = unstructured.NestedString(m, "requestHook", "hook")
		hook.FailurePolicy, _, _ = unstructured.NestedString(m, "failurePolicy")
		hook.TimeoutSeconds, _, _ = unstructured.NestedInt64(m, "timeoutSeconds")
		e.hooks = append(e.hooks, hook)
	}
	c.extensions = append(c.extensions, e)
}

// hooksOf resolves which namespaces the hooks are called for.
func (s *surveyor) hooksOf(ctx context.Context, extensions []extension) ([]world.Hook, error) {
	var out []world.Hook
	var namespaces []metav1.PartialObjectMetadata
	for _, e := range extensions {
		if len(e.selector) > 0 && namespaces == nil {
			var err error
			namespaces, err = listMetadata(ctx, s.clients.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list namespaces: %w", err)
			}
		}
		selected, err := selectedBy(e.selector, namespaces)
		if err != nil {
			return nil, err
		}
		for _, h := range e.hooks {
			h.Namespaces = selected
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b world.Hook) int {
		return cmp.Or(cmp.Compare(a.Hook, b.Hook), cmp.Compare(a.Extension.Name, b.Extension.Name), cmp.Compare(a.Handler, b.Handler))
	})
	return out, nil
}

// selectedBy returns the namespaces that a selector selects; nil means all.
func selectedBy(selector map[string]any, namespaces []metav1.PartialObjectMetadata) ([]string, error) {
	if len(selector) == 0 {
		return nil, nil
	}
	var ls metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(selector, &ls); err != nil {
		return nil, fmt.Errorf("read a namespaceSelector: %w", err)
	}
	sel, err := metav1.LabelSelectorAsSelector(&ls)
	if err != nil {
		return nil, fmt.Errorf("read a namespaceSelector: %w", err)
	}
	out := []string{}
	for i := range namespaces {
		if sel.Matches(labels.Set(namespaces[i].Labels)) {
			out = append(out, namespaces[i].Name)
		}
	}
	return out, nil
}
