// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/capstan-dev/capstan/internal/release"
)

// values is a clusterctl configuration of variables alone.
type values map[string]string

func (v values) Init(context.Context, string) error { return nil }
func (v values) Set(key, value string)              { v[key] = value }
func (v values) UnmarshalKey(string, any) error     { return nil }
func (v values) Get(key string) (string, error) {
	value, ok := v[key]
	if !ok {
		return "", fmt.Errorf("%s is not set", key)
	}
	return value, nil
}

// The golden file shows what we make; this shows that clusterctl, called in its own way with the raw manifest, makes the
// same but for the order, the status and empty creation times.
func TestClusterctlMakesTheSameObjects(t *testing.T) {
	t.Parallel()
	c := demo()
	raw := testdata(t, "provider.yaml")
	client, err := config.New(t.Context(), "", config.InjectReader(values(c.Variables)))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := repository.NewComponents(repository.ComponentsInput{
		Provider:     config.NewProvider(c.Provider.Name, "https://example.com", clusterctlv1.ProviderType(c.Provider.Type)),
		ConfigClient: client,
		Processor:    yamlprocessor.NewSimpleProcessor(),
		RawYaml:      raw,
		Options:      repository.ComponentsOptions{Version: c.Version},
	})
	if err != nil {
		t.Fatal(err)
	}
	ours, err := release.Render(c, raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{}
	for _, o := range theirs.Objs() {
		want[o.GetKind()+" "+o.GetName()] = plain(t, &o)
	}
	got := map[string]any{}
	for _, o := range ours.Objects {
		got[o.GetKind()+" "+o.GetName()] = plain(t, o)
	}
	ignored := cmpopts.IgnoreMapEntries(func(key string, value any) bool {
		return key == "status" || (key == "creationTimestamp" && value == nil)
	})
	if diff := cmp.Diff(got, want, ignored); diff != "" {
		t.Errorf("objects (-got +want):\n%s", diff)
	}
	inventory := theirs.InventoryObject()
	if diff := cmp.Diff(ours.Inventory, &inventory); diff != "" {
		t.Errorf("inventory (-got +want):\n%s", diff)
	}
}

// plain returns the content with the number types of the API machinery.
func plain(t *testing.T, o *unstructured.Unstructured) map[string]any {
	t.Helper()
	encoded, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	var content map[string]any
	if err := utiljson.Unmarshal(encoded, &content); err != nil {
		t.Fatal(err)
	}
	return content
}
