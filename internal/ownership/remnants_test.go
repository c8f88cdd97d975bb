// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/capstan-dev/capstan/internal/world"
)

func decoded(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

const (
	heldCRD = `
kind: CustomResourceDefinition
metadata:
  resourceVersion: "5"
  managedFields:
  - {manager: clusterctl, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:conversion": {"f:strategy": {}, "f:webhook": {"f:conversionReviewVersions": {}}}}}}
  - {manager: cainjector, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:conversion": {"f:webhook": {"f:clientConfig": {"f:caBundle": {}}}}}}}
spec: {group: x, conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {caBundle: Zm9v}}}}
`
	heldHooks = `
kind: ValidatingWebhookConfiguration
metadata:
  resourceVersion: "5"
  managedFields:
  - {manager: clusterctl, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:webhooks": {'k:{"name":"a"}': {".": {}, "f:name": {}}, 'k:{"name":"b"}': {".": {}, "f:name": {}}}}}
  - {manager: cainjector, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:webhooks": {'k:{"name":"b"}': {"f:clientConfig": {"f:caBundle": {}}}, 'k:{"name":"c"}': {"f:clientConfig": {"f:caBundle": {}}}}}}
webhooks: [{name: a}, {name: b, clientConfig: {caBundle: Zm9v}}, {name: c, clientConfig: {caBundle: Zm9v}}]
`
)

func TestRemnantsOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		live, wanted string
		conflicts    []world.FieldConflict
		patch        string
	}{
		"a conversion that ends": {
			live: heldCRD, wanted: "{kind: CustomResourceDefinition, spec: {group: x}}",
			conflicts: []world.FieldConflict{{Field: "spec.conversion.webhook.clientConfig.caBundle", Manager: "cainjector"}},
			patch:     `[{"op":"replace","path":"/metadata/resourceVersion","value":"5"},{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}]`,
		},
		"a conversion that stays": {
			live: heldCRD, wanted: "{kind: CustomResourceDefinition, spec: {conversion: {strategy: Webhook}}}",
		},
		"a webhook that goes; one that others brought stays": {
			live: heldHooks, wanted: "{kind: ValidatingWebhookConfiguration, webhooks: [{name: a}]}",
			conflicts: []world.FieldConflict{{Field: `webhooks[name="b"].clientConfig.caBundle`, Manager: "cainjector"}},
			patch:     `[{"op":"replace","path":"/metadata/resourceVersion","value":"5"},{"op":"remove","path":"/webhooks/1"}]`,
		},
		"webhooks that stay": {
			live: heldHooks, wanted: "{kind: ValidatingWebhookConfiguration, webhooks: [{name: a}, {name: b}]}",
		},
		"another kind": {live: "{kind: ConfigMap}", wanted: "{kind: ConfigMap}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := RemnantsOf(decoded(t, c.live), decoded(t, c.wanted))
			if err != nil {
				t.Fatal(err)
			}
			if got == nil {
				got = &Remnants{}
			}
			if diff := cmp.Diff(c.conflicts, got.Conflicts); diff != "" {
				t.Errorf("conflicts, -want +got:\n%s", diff)
			}
			if string(got.Patch) != c.patch {
				t.Errorf("patch is %s\nwant %s", got.Patch, c.patch)
			}
		})
	}
}
