// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

const (
	// probeResources is how many resources of a webhook's rules are tried.
	probeResources = 3
	// probeObjects is among how many objects one in a fitting namespace is looked for.
	probeObjects = 50
)

// callAdmission makes the API server call an admission webhook, without effect: by an empty patch of an object that is
// there, or else by the creation of a minimal one. Both are dry runs.
func (r *round) callAdmission(ctx context.Context, h hook) callResult {
	a := h.admission
	if a.hidden {
		return callResult{verdict: unclear}
	}
	tried := 0
	for _, rule := range a.rules {
		for _, m := range r.resourcesOf(rule) {
			if tried++; tried > probeResources {
				return callResult{verdict: unclear}
			}
			if result := r.callThrough(ctx, h, rule, m); result.verdict != unclear {
				return result
			}
		}
	}
	return callResult{verdict: unclear}
}

// callThrough tries the operations of a rule on one resource, an update first: it reaches validating webhooks too,
// which a minimal new object seldom does, as it fails the schema before.
func (r *round) callThrough(ctx context.Context, h hook, rule admissionv1.RuleWithOperations, m *apimeta.RESTMapping) callResult {
	if has(rule.Operations, admissionv1.Update) {
		if err, made := r.patchNothing(ctx, h.admission, m); made {
			if result := judge(h, err, false); result.verdict != unclear {
				return result
			}
		}
	}
	if has(rule.Operations, admissionv1.Create) {
		if err, made := r.createNothing(ctx, h.admission, m); made {
			return judge(h, err, true)
		}
	}
	return callResult{verdict: unclear}
}

func has(ops []admissionv1.OperationType, op admissionv1.OperationType) bool {
	return slices.Contains(ops, op) || slices.Contains(ops, admissionv1.OperationAll)
}

// judge says what the API server's answer tells about a webhook that the request had to pass.
//
// Mutating webhooks are called first, then the object is checked against its schema, then validating webhooks are
// called. So a fault in the object shows that the mutating ones were called, and says nothing about the others.
func judge(h hook, err error, created bool) callResult {
	if err == nil {
		return callResult{verdict: answered}
	}
	if words, is := silence(err, func(m string) bool { return strings.Contains(m, fmt.Sprintf("%q", h.name)) }); is {
		return callResult{verdict: silent, words: words}
	}
	if strings.Contains(err.Error(), fmt.Sprintf("admission webhook %q denied", h.name)) {
		return callResult{verdict: answered}
	}
	if h.admission.mutating && apierrors.IsInvalid(err) && created {
		return callResult{verdict: answered}
	}
	return callResult{verdict: unclear}
}

// answer is the outcome of a request that several hooks may share.
type answer struct {
	err  error
	made bool
}

// patchNothing sends an empty patch to an object that the webhook would be asked about; made is false if there is none.
func (r *round) patchNothing(ctx context.Context, a *admissionHook, m *apimeta.RESTMapping) (err error, made bool) { //nolint:revive // the error is the answer, not a failure
	key := strings.Join([]string{"patch", m.Resource.String(), metav1.FormatLabelSelector(a.namespaceSelector), metav1.FormatLabelSelector(a.objectSelector)}, "|")
	out := r.answers.get(key, func() answer {
		o := r.anyObject(ctx, a, m)
		if o == nil {
			return answer{}
		}
		return answer{made: true, err: call(ctx, func(ctx context.Context) error {
			_, err := r.clients.resource(m, o.Namespace).Patch(ctx, o.Name, types.MergePatchType, []byte("{}"),
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: v1alpha1.FieldOwner})
			return err
		})}
	})
	return out.err, out.made
}

// createNothing asks for the creation of a minimal object; made is false if none would be in the webhook's scope.
func (r *round) createNothing(ctx context.Context, a *admissionHook, m *apimeta.RESTMapping) (err error, made bool) { //nolint:revive // the error is the answer, not a failure
	key := strings.Join([]string{"create", m.Resource.String(), metav1.FormatLabelSelector(a.namespaceSelector), metav1.FormatLabelSelector(a.objectSelector)}, "|")
	out := r.answers.get(key, func() answer {
		o, fits := minimal(a, m.GroupVersionKind)
		if !fits {
			return answer{}
		}
		if m.Scope.Name() == apimeta.RESTScopeNameNamespace {
			namespaces := r.namespaces(ctx, a.namespaceSelector)
			if len(namespaces) == 0 {
				return answer{}
			}
			o.SetNamespace(namespaces[0])
		}
		return answer{made: true, err: call(ctx, func(ctx context.Context) error {
			_, err := r.clients.resource(m, o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: v1alpha1.FieldOwner})
			return err
		})}
	})
	return out.err, out.made
}

// minimal returns an object with nothing in it but the labels that the webhook's object selector asks for.
func minimal(a *admissionHook, gvk schema.GroupVersionKind) (*unstructured.Unstructured, bool) {
	selector, err := selectorOf(a.objectSelector)
	if err != nil {
		return nil, false
	}
	set := labels.Set{}
	if a.objectSelector != nil {
		maps.Copy(set, a.objectSelector.MatchLabels)
		for _, e := range a.objectSelector.MatchExpressions {
			switch e.Operator {
			case metav1.LabelSelectorOpIn:
				set[e.Key] = e.Values[0]
			case metav1.LabelSelectorOpExists:
				set[e.Key] = "true"
			case metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpDoesNotExist:
			}
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	u.SetGroupVersionKind(gvk)
	u.SetGenerateName("capstan-probe-")
	if len(set) > 0 {
		u.SetLabels(set)
	}
	return u, selector.Matches(set)
}

// anyObject returns an object that the webhook's selectors match; nil if none is found.
func (r *round) anyObject(ctx context.Context, a *admissionHook, m *apimeta.RESTMapping) *metav1.PartialObjectMetadata {
	selector, err := selectorOf(a.objectSelector)
	if err != nil {
		return nil
	}
	opts := metav1.ListOptions{LabelSelector: selector.String(), Limit: 1}
	everywhere := m.Scope.Name() != apimeta.RESTScopeNameNamespace || isEmpty(a.namespaceSelector)
	if !everywhere {
		opts.Limit = probeObjects
	}
	var page *metav1.PartialObjectMetadataList
	err = call(ctx, func(ctx context.Context) (err error) {
		page, err = r.clients.metadataOf(m, "").List(ctx, opts)
		return err
	})
	if err != nil {
		return nil
	}
	var namespaces []string
	if !everywhere {
		namespaces = r.namespaces(ctx, a.namespaceSelector)
	}
	for i := range page.Items {
		o := &page.Items[i]
		if o.DeletionTimestamp == nil && (everywhere || slices.Contains(namespaces, o.Namespace)) {
			return o
		}
	}
	return nil
}

// namespaces returns the namespaces that a selector matches, "default" first; they are read once in a round.
func (r *round) namespaces(ctx context.Context, s *metav1.LabelSelector) []string {
	joined := r.services.get("namespaces|"+metav1.FormatLabelSelector(s), func() string {
		selector, err := selectorOf(s)
		if err != nil {
			return ""
		}
		items, err := listMetadata(ctx, r.clients.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), metav1.ListOptions{LabelSelector: selector.String()})
		if err != nil {
			return ""
		}
		var names []string
		for _, n := range items {
			if n.DeletionTimestamp == nil {
				names = append(names, n.Name)
			}
		}
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(boolRank(a != metav1.NamespaceDefault), boolRank(b != metav1.NamespaceDefault)), cmp.Compare(a, b))
		})
		return strings.Join(names, ",")
	})
	if joined == "" {
		return nil
	}
	return strings.Split(joined, ",")
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// selectorOf reads a webhook's selector; one that is not set matches everything.
func selectorOf(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

func isEmpty(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0
}
