// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

//go:embed cluster.yaml.tmpl metal.yaml.tmpl
var manifests embed.FS

// fieldOwner owns what this package applies.
const fieldOwner = "sandbox"

// Cluster describes one workload cluster.
type Cluster struct {
	Name          string
	Namespace     string
	Kubernetes    string
	ControlPlanes int
	Workers       int
	// Startup is how long each simulated part of a machine takes to start.
	Startup time.Duration
	// Metal is set for a cluster on simulated bare metal; its machines take the times that its hosts do.
	Metal *Metal
}

// Objects returns the cluster's objects in the order they are applied: what is referred to may come later, Cluster API waits for it.
func (c Cluster) Objects() ([]*unstructured.Unstructured, error) {
	name := "cluster.yaml.tmpl"
	if c.Metal != nil {
		name = "metal.yaml.tmpl"
	}
	t, err := template.New(name).Option("missingkey=error").ParseFS(manifests, name)
	if err != nil {
		return nil, fmt.Errorf("parse cluster template: %w", err)
	}
	var text bytes.Buffer
	if err := t.Execute(&text, c); err != nil {
		return nil, fmt.Errorf("render cluster %s: %w", c.Name, err)
	}
	var objects []*unstructured.Unstructured
	dec := yaml.NewYAMLOrJSONDecoder(&text, 4096)
	for {
		u := &unstructured.Unstructured{}
		err := dec.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode cluster %s: %w", c.Name, err)
		}
		objects = append(objects, u)
	}
}

// Apply writes the cluster's objects. Hosts come first: a machine that finds none that is available looks again only after half a minute.
func (c Cluster) Apply(ctx context.Context, client dynamic.Interface) error {
	objects, err := c.Objects()
	if err != nil {
		return err
	}
	for _, u := range objects {
		if u.GetKind() == "Cluster" && c.Metal != nil {
			if err := awaitHosts(ctx, client, c.Namespace); err != nil {
				return err
			}
		}
		var r dynamic.ResourceInterface = client.Resource(resourceOf(u.GroupVersionKind()))
		if u.GetNamespace() != "" {
			r = client.Resource(resourceOf(u.GroupVersionKind())).Namespace(u.GetNamespace())
		}
		if err := applyPatiently(ctx, r, u); err != nil {
			return fmt.Errorf("apply %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
		}
	}
	return nil
}

// applyPatiently waits for webhooks that do not answer yet: a provider is available some moments before cert-manager has
// given its webhooks the CA, and before the API server knows.
func applyPatiently(ctx context.Context, r dynamic.ResourceInterface, u *unstructured.Unstructured) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, last = r.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: fieldOwner, Force: true})
		if last == nil || !webhookSilent(last) {
			return true, last
		}
		return false, nil
	})
	if wait.Interrupted(err) && last != nil {
		return last
	}
	return err
}

// webhookSilent tells whether the API server could not call a webhook, which is its internal error.
func webhookSilent(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}

// resourceOf guesses the resource of a kind; it is right for every kind in the template.
func resourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	plural, _ := apimeta.UnsafeGuessKindToResource(gvk)
	return plural
}
