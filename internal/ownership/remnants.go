// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-dev/capstan/internal/world"
)

// Remnants is what has to be taken away from a live object before server-side apply can make it what is wanted: parts that
// wanted does without and that would stay, no longer valid, because somebody else owns a field in them.
type Remnants struct {
	// Conflicts are the fields of others, by path and manager. There may be none: the part then has to go all the same, but
	// nobody else is concerned.
	Conflicts []world.FieldConflict
	// Patch is the JSON patch that takes them away, guarded by the resource version.
	Patch []byte
	// Result is the live object as it will be about: without them and with what is wanted. As an apply on top of the patch
	// can't be tried as a dry run, an update with this can.
	Result *unstructured.Unstructured
}

// RemnantsOf returns the remnants in live when wanted is applied, nil if there are none. It knows those of CRDs, whose
// conversion by webhook ends, and of webhook configurations, which lose a webhook: an injector owns the CA in both.
func RemnantsOf(live, wanted *unstructured.Unstructured) (*Remnants, error) {
	switch live.GetKind() {
	case crdKind:
		return conversionRemnants(live, wanted)
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		return webhookRemnants(live, wanted)
	}
	return nil, nil
}

// conversionRemnants finds a conversion by webhook that wanted does without. The API server takes a strategy None only
// without the webhook's configuration, and a strategy is needed.
func conversionRemnants(live, wanted *unstructured.Unstructured) (*Remnants, error) {
	if strategy(wanted) == "Webhook" || strategy(live) != "Webhook" {
		return nil, nil
	}
	all, err := owners(live)
	if err != nil {
		return nil, err
	}
	out := &Remnants{}
	for _, o := range all {
		for path := range o.fields.Leaves().All() {
			if !o.ours() && startsWith(path, "spec", "conversion", "webhook") {
				out.Conflicts = append(out.Conflicts, world.FieldConflict{Field: strings.TrimPrefix(path.String(), "."), Manager: o.entry.Manager})
			}
		}
	}
	none := map[string]any{"strategy": "None"}
	if out.Patch, err = guarded(live, map[string]any{"op": "replace", "path": "/spec/conversion", "value": none}); err != nil {
		return nil, err
	}
	out.Result = withMetadata(live, wanted)
	spec, _ := wanted.Object["spec"].(map[string]any)
	spec = maps.Clone(spec)
	spec["conversion"] = none
	out.Result.Object["spec"] = spec
	return out, nil
}

func strategy(crd *unstructured.Unstructured) string {
	s, _, err := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	if err != nil {
		return ""
	}
	return s
}

// webhookRemnants finds webhooks that an earlier manifest had and wanted has not, and in which somebody else owns fields.
func webhookRemnants(live, wanted *unstructured.Unstructured) (*Remnants, error) {
	all, err := owners(live)
	if err != nil {
		return nil, err
	}
	out := &Remnants{}
	var ops []map[string]any
	hooks, _ := live.Object["webhooks"].([]any)
	for i, h := range slices.Backward(hooks) {
		name := hookName(h)
		if name == "" || hook(wanted, name) != nil {
			continue
		}
		ours, conflicts := shared(all, name)
		if !ours || len(conflicts) == 0 {
			continue
		}
		out.Conflicts = append(out.Conflicts, conflicts...)
		ops = append(ops, map[string]any{"op": "remove", "path": fmt.Sprintf("/webhooks/%d", i)})
	}
	if len(ops) == 0 {
		return nil, nil
	}
	if out.Patch, err = guarded(live, ops...); err != nil {
		return nil, err
	}
	out.Result = withMetadata(live, wanted)
	out.Result.Object["webhooks"] = withBundles(live, wanted)
	return out, nil
}

// shared tells whether we or an installer own something of a webhook's entry, and what others own in it.
func shared(all []owner, name string) (ours bool, conflicts []world.FieldConflict) {
	for _, o := range all {
		for path := range o.fields.All() {
			if len(path) < 2 || !startsWith(path, "webhooks") || path[1].Key == nil || !namedBy(path[1], name) {
				continue
			}
			if o.ours() {
				ours = true
				continue
			}
			if len(path) > 2 && !hasBelow(o.fields, path) {
				conflicts = append(conflicts, world.FieldConflict{Field: strings.TrimPrefix(path.String(), "."), Manager: o.entry.Manager})
			}
		}
	}
	return ours, conflicts
}

// ours tells whether the owner's fields go with an apply of ours: they are our own, or taken over.
func (o owner) ours() bool {
	return o.kind == world.ManagerCapstan || o.kind == world.ManagerInstaller
}

func namedBy(e fieldpath.PathElement, name string) bool {
	for _, f := range *e.Key {
		if f.Name == "name" && f.Value.IsString() && f.Value.AsString() == name {
			return true
		}
	}
	return false
}

func startsWith(path fieldpath.Path, names ...string) bool {
	if len(path) < len(names) {
		return false
	}
	for i, n := range names {
		if path[i].FieldName == nil || *path[i].FieldName != n {
			return false
		}
	}
	return true
}

func hookName(h any) string {
	m, _ := h.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

// hook returns the webhook of that name, nil if there is none.
func hook(config *unstructured.Unstructured, name string) map[string]any {
	hooks, _ := config.Object["webhooks"].([]any)
	for _, h := range hooks {
		if hookName(h) == name {
			m, _ := h.(map[string]any)
			return m
		}
	}
	return nil
}

// withBundles returns the wanted webhooks with the CAs that were injected into the live ones.
func withBundles(live, wanted *unstructured.Unstructured) []any {
	copied := wanted.DeepCopy()
	hooks, _ := copied.Object["webhooks"].([]any)
	for _, h := range hooks {
		m, _ := h.(map[string]any)
		client, _ := m["clientConfig"].(map[string]any)
		if client == nil || client["caBundle"] != nil {
			continue
		}
		before, _ := hook(live, hookName(h))["clientConfig"].(map[string]any)
		if ca, found := before["caBundle"]; found {
			client["caBundle"] = ca
		}
	}
	return hooks
}

// withMetadata returns live with wanted's labels and annotations over its own, and without those of the tool that put its
// whole manifest into one.
func withMetadata(live, wanted *unstructured.Unstructured) *unstructured.Unstructured {
	out := live.DeepCopy()
	labels, annotations := live.GetLabels(), live.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(labels, wanted.GetLabels())
	maps.Copy(annotations, wanted.GetAnnotations())
	out.SetLabels(labels)
	out.SetAnnotations(annotations)
	return out
}

func guarded(live *unstructured.Unstructured, ops ...map[string]any) ([]byte, error) {
	data, err := json.Marshal(append([]map[string]any{{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()}}, ops...))
	if err != nil {
		return nil, fmt.Errorf("encode what is taken away from %s: %w", world.RefOf(live), err)
	}
	return data, nil
}
