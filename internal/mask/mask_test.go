// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package mask_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/mask"
)

func TestObject(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ given, want string }{
		"a Secret's data, stringData and copy of itself": {
			given: `{apiVersion: v1, kind: Secret, metadata: {name: s, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"data":{"a":"aHVudGVyMg=="}}', x: y}}, data: {a: aHVudGVyMg==, e: ""}, stringData: {b: hunter2}}`,
			want: `{apiVersion: v1, kind: Secret, metadata: {name: s, annotations: {kubectl.kubernetes.io/last-applied-configuration: '*** (sha256 6015e713)', x: y}},
  data: {a: '*** (sha256 f52fbd32)', e: '*** (empty)'}, stringData: {b: '*** (sha256 f52fbd32)'}}`,
		},
		"a value that is no base64": {
			given: `{apiVersion: v1, kind: Secret, data: {a: '!!hunter2'}}`,
			want:  `{apiVersion: v1, kind: Secret, data: {a: '*** (sha256 9664ed24)'}}`,
		},
		"literal variables and arguments with the name of a secret": {
			given: `{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {containers: [{name: m, args: ["--token=hunter2", "--v=2", "--password", "hunter2", "--token-file=/x"],
  env: [{name: API_KEY, value: hunter2}, {name: MODE, value: fast}, {name: TOKEN, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}}}}`,
			want: `{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {containers: [{name: m, args: ["--token=*** (sha256 f52fbd32)", "--v=2", "--password", "*** (sha256 f52fbd32)", "--token-file=/x"],
  env: [{name: API_KEY, value: '*** (sha256 f52fbd32)'}, {name: MODE, value: fast}, {name: TOKEN, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}}}}`,
		},
		"keys of a ConfigMap by their name": {
			given: `{apiVersion: v1, kind: ConfigMap, data: {db-password: hunter2, level: low, secretName: s}}`,
			want:  `{apiVersion: v1, kind: ConfigMap, data: {db-password: '*** (sha256 f52fbd32)', level: low, secretName: s}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given, want := object(t, tc.given), object(t, tc.want)
			before := given.DeepCopy()
			if diff := cmp.Diff(mask.Object(given).Object, want.Object); diff != "" {
				t.Errorf("got -, want +:\n%s", diff)
			}
			if diff := cmp.Diff(given.Object, before.Object); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
		})
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}
