// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/internal/diagnose"
)

// callConversion makes the API server convert: by reading one object in every served version, at most one of which it
// is stored in. Without an object nothing is converted, and without a second version nothing needs to be.
func (r *round) callConversion(ctx context.Context, h hook) callResult {
	c := h.conversion
	converted := 0
	for _, version := range c.versions {
		var page *metav1.PartialObjectMetadataList
		err := call(ctx, func(ctx context.Context) (err error) {
			page, err = r.clients.metadata.Resource(c.resource.WithVersion(version)).List(ctx, metav1.ListOptions{Limit: 1})
			return err
		})
		if words, is := silence(err, func(string) bool { return true }); is {
			return callResult{verdict: silent, words: fmt.Sprintf("%s can't be read as %s: %s", c.resource, version, words)}
		}
		if err == nil && len(page.Items) > 0 {
			converted++
		}
	}
	if converted > 1 {
		return callResult{verdict: answered}
	}
	return callResult{verdict: unclear}
}

// callService asks a hook's own server through the API server's service proxy, with a GET and nothing in it. Any answer
// of its own, mostly a complaint about the empty request, shows that it is there and knows the path. An empty review
// would be answered more politely, but takes a POST, and that is a write to the API server's audit log and to its
// access rules. A hook that is reached by URL can't be asked this way; then there is nothing to say against it.
func (r *round) callService(ctx context.Context, h hook) callResult {
	c := h.client
	if c.service == "" {
		return callResult{verdict: unclear}
	}
	key := fmt.Sprintf("service|%s/%s:%d%s", c.namespace, c.service, c.port, c.path)
	return r.calls.get(key, func() callResult {
		path := append([]string{"/api/v1/namespaces", c.namespace, "services", fmt.Sprintf("https:%s:%d", c.service, c.port), "proxy"}, strings.Split(strings.Trim(c.path, "/"), "/")...)
		var status int
		err := call(ctx, func(ctx context.Context) error {
			result := r.clients.discovery.RESTClient().Get().AbsPath(path...).MaxRetries(0).Do(ctx)
			result.StatusCode(&status)
			return result.Error()
		})
		return judgeService(c.path, status, err)
	})
}

// judgeService says what the answer through the service proxy tells.
func judgeService(path string, status int, err error) callResult {
	switch {
	case err == nil:
		return callResult{verdict: answered}
	case errors.Is(err, errNoAnswer):
		return callResult{verdict: silent, words: fmt.Sprintf("no answer within %s", probeTimeout)}
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "services"):
		return callResult{verdict: silent, words: "it can't be asked, as the user may not use the service proxy: " + diagnose.Words(err)}
	case status == http.StatusNotFound:
		return callResult{verdict: silent, words: "its server does not know the path " + path + ": " + diagnose.Words(err)}
	case status == 0 || status >= http.StatusInternalServerError:
		return callResult{verdict: silent, words: diagnose.Words(err)}
	}
	// Its own refusal of an empty request.
	return callResult{verdict: answered}
}

// endpoints identifies the Pods behind a hook's service, so that new Pods are probed anew. It is read once in a round.
func (r *round) endpoints(ctx context.Context, c hookClient) string {
	if c.service == "" {
		return "url"
	}
	return r.services.get("endpoints|"+c.namespace+"/"+c.service, func() string {
		from := r.clients.dynamic.Resource(discoveryv1.SchemeGroupVersion.WithResource("endpointslices")).Namespace(c.namespace)
		slicesFound, err := typedList[discoveryv1.EndpointSlice](ctx, from, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + c.service})
		if err != nil {
			// No known situation, so no remembered answer.
			return "unknown at " + r.at.String()
		}
		return endpointsKey(slicesFound)
	})
}

func endpointsKey(all []*discoveryv1.EndpointSlice) string {
	var out []string
	for _, s := range all {
		for _, e := range s.Endpoints {
			target := ""
			if e.TargetRef != nil {
				target = string(e.TargetRef.UID)
			}
			out = append(out, fmt.Sprintf("%s=%s:%t", strings.Join(e.Addresses, ","), target, ptr.Deref(e.Conditions.Ready, true)))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
