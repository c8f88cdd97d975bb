// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	kjson "sigs.k8s.io/json"
)

// leanPage is one page of a list. Managed fields are half of an object and cost more than the rest of it to decode, so they
// are cut out before and kept as they came.
type leanPage struct {
	items []unstructured.Unstructured
	// managed are the managed fields of each item as JSON; nil for one that has none.
	managed [][]byte
	next    string
}

// leanList reads one page of a list.
func (c *clients) leanList(ctx context.Context, m *apimeta.RESTMapping, opts metav1.ListOptions) (leanPage, error) {
	raw, err := c.page(ctx, m, opts)
	if err != nil {
		return leanPage{}, err
	}
	return decodeLean(raw, m)
}

// decodeLean decodes the body of a list.
func decodeLean(raw []byte, m *apimeta.RESTMapping) (leanPage, error) {
	var list struct {
		listHead
		Items []map[string]any `json:"items"`
	}
	lean, managed := cutManagedFields(raw)
	if err := decodePage(lean, &list, &list.listHead); err != nil {
		return leanPage{}, fmt.Errorf("decode %s: %w", m.Resource.Resource, err)
	}
	out := leanPage{items: make([]unstructured.Unstructured, len(list.Items)), managed: make([][]byte, len(list.Items)), next: list.Metadata.Continue}
	copy(out.managed, managed)
	for i, item := range list.Items {
		// Items of built-in kinds don't say what they are.
		if item["kind"] == nil {
			item["apiVersion"], item["kind"] = list.APIVersion, strings.TrimSuffix(list.Kind, "List")
		}
		out.items[i].Object = item
	}
	return out, nil
}

// listHead is what every list has.
type listHead struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
}

// decodePage decodes a page of a list. A field that is not of the type that is asked for is as if it were not there:
// control planes are of any kind, and theirs may say "version" in another way.
func decodePage(raw []byte, into any, head *listHead) error {
	err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); err != nil && (!ok || !strings.HasPrefix(t.Field, "items.")) {
		return err
	}
	if !strings.HasSuffix(head.Kind, "List") {
		return fmt.Errorf("the answer is no list but %q", head.Kind)
	}
	return nil
}

// page asks for one page of a list, over all namespaces, and returns the answer's body.
func (c *clients) page(ctx context.Context, m *apimeta.RESTMapping, opts metav1.ListOptions) ([]byte, error) {
	root := "/apis/" + m.Resource.Group
	if m.Resource.Group == "" {
		root = "/api"
	}
	request := c.discovery.RESTClient().Get().AbsPath(root, m.Resource.Version, m.Resource.Resource).SetHeader("Accept", "application/json")
	param(request, "limit", strconv.FormatInt(opts.Limit, 10))
	param(request, "continue", opts.Continue)
	param(request, "labelSelector", opts.LabelSelector)
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

func param(r *rest.Request, name, value string) {
	if value != "" && value != "0" {
		r.Param(name, value)
	}
}

// cutManagedFields takes metadata.managedFields out of the items of a list and returns them besides, up to the last item
// that has some. It relies on valid JSON without spaces, as an API server writes it; from anything else it returns something
// that is no more valid than before.
func cutManagedFields(raw []byte) (lean []byte, managed [][]byte) {
	const items, list, item, metadata = 1, 2, 3, 4 // how deep these are
	var keys [metadata]string
	depth, kept, index := 0, 0, -1
	lean = make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			if depth++; depth == item && keys[items] == "items" {
				index++
			}
		case '}', ']':
			depth--
		case '"':
			end := stringEnd(raw, i)
			switch isKey := depth > 0 && depth <= metadata && end < len(raw) && raw[end] == ':'; {
			case !isKey || depth == list:
			case depth < metadata:
				keys[depth] = string(raw[i+1 : end-1]) //nolint:gosec // depth is from 1 to metadata-1 here
			case keys[items] == "items" && keys[item] == "metadata" && string(raw[i:end]) == `"managedFields"`:
				lean = append(lean, raw[kept:i]...)
				begin := end + 1
				end = valueEnd(raw, begin)
				managed = append(managed, make([][]byte, index+1-len(managed))...)
				managed[index] = raw[begin:end]
				if end < len(raw) && raw[end] == ',' {
					end++
				} else {
					lean = bytes.TrimSuffix(lean, []byte(","))
				}
				kept = end
			}
			i = end - 1
		}
	}
	return append(lean, raw[kept:]...), managed
}

// stringEnd returns the index behind the string that begins at i.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// valueEnd returns the index behind the object or list that begins at i.
func valueEnd(raw []byte, i int) int {
	for depth := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			i = stringEnd(raw, i) - 1
		}
	}
	return len(raw)
}
