// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// streamSize is how many objects one answer has at most. An API server puts the beginning of a list together from its
	// cache, and what follows a continue token often from etcd, at five times the cost; so the beginning is all for most.
	streamSize = 10000
	// batchSize is how many objects of an answer are held at a time, while the rest of it is still on its way.
	batchSize = 500
)

// eachBatch reads a whole list and hands its items over as they come, as JSON lists in an object as in {"items":[...]}.
// All are of one snapshot; when the API server has dropped that, the list starts over, and begin is called again.
//
// An answer that can't be read to its end in the time for one request is asked for again in small pages.
func (c *clients) eachBatch(ctx context.Context, m *apimeta.RESTMapping, opts metav1.ListOptions, begin func(), batch func(raw []byte) error) error {
	begin()
	opts.Limit = c.streamSize.Load()
	for relists := 0; ; {
		next, err := c.stream(ctx, m, opts, batch)
		switch {
		case err == nil && next == "":
			return nil
		case err == nil:
			opts.Continue = next
			continue
		case apierrors.IsResourceExpired(err) && opts.Continue != "" && relists < relistLimit:
		case brokenOff(ctx, err) && opts.Limit > pageSize:
			c.streamSize.Store(pageSize)
		default:
			return err
		}
		relists++
		opts.Continue, opts.Limit = "", c.streamSize.Load()
		begin()
	}
}

// batchError is an error that asking again does not help: of who takes the batches, or of an answer that is something else.
type batchError struct{ error }

func (e batchError) Unwrap() error { return e.error }

// brokenOff tells whether an answer came to no end for a reason that a smaller one may not have.
func brokenOff(ctx context.Context, err error) bool {
	_, answered := errors.AsType[*apierrors.StatusError](err)
	_, ours := errors.AsType[batchError](err)
	return ctx.Err() == nil && !ours && (!answered || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err))
}

// stream reads one answer of a list, over all namespaces, and returns where the list goes on.
func (c *clients) stream(ctx context.Context, m *apimeta.RESTMapping, opts metav1.ListOptions, batch func(raw []byte) error) (next string, err error) {
	root := "/apis/" + m.Resource.Group
	if m.Resource.Group == "" {
		root = "/api"
	}
	request := c.discovery.RESTClient().Get().AbsPath(root, m.Resource.Version, m.Resource.Resource).SetHeader("Accept", "application/json")
	param(request, "limit", strconv.FormatInt(opts.Limit, 10))
	param(request, "continue", opts.Continue)
	param(request, "labelSelector", opts.LabelSelector)
	body, err := request.Stream(ctx)
	if err != nil {
		return "", err
	}
	defer body.Close()
	head, err := splitList(body, batchSize, batch)
	if err != nil {
		return "", fmt.Errorf("read the list of %s: %w", m.Resource.Resource, err)
	}
	var list listHead
	if err := json.Unmarshal(head, &list); err != nil {
		return "", batchError{fmt.Errorf("decode the list of %s: %w", m.Resource.Resource, err)}
	}
	if !strings.HasSuffix(list.Kind, "List") {
		return "", batchError{fmt.Errorf("the answer is no list of %s but %q", m.Resource.Resource, list.Kind)}
	}
	return list.Metadata.Continue, nil
}

func param(r *rest.Request, name, value string) {
	if value != "" {
		r.Param(name, value)
	}
}

// listHead is a list without its items.
type listHead struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	// Items are there to refuse what is no list.
	Items []json.RawMessage `json:"items"`
}
