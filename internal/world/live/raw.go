// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
)

// leanBatch are some objects of a list. Managed fields are half of an object and cost more than the rest of it to decode, so
// they are cut out before and kept as they came.
type leanBatch struct {
	items []unstructured.Unstructured
	// managed are the managed fields of each item as JSON; nil for one that has none.
	managed [][]byte
}

// decodeLean decodes a batch of objects of a kind.
func decodeLean(raw []byte, m *apimeta.RESTMapping) (leanBatch, error) {
	var list struct {
		Items []map[string]any `json:"items"`
	}
	lean, managed := cutManagedFields(raw)
	if err := decodeBatch(lean, &list); err != nil {
		return leanBatch{}, fmt.Errorf("decode %s: %w", m.Resource.Resource, err)
	}
	out := leanBatch{items: make([]unstructured.Unstructured, len(list.Items)), managed: make([][]byte, len(list.Items))}
	copy(out.managed, managed)
	for i, item := range list.Items {
		// Items of built-in kinds don't say what they are.
		if item["kind"] == nil {
			item["apiVersion"], item["kind"] = m.GroupVersionKind.GroupVersion().String(), m.GroupVersionKind.Kind
		}
		out.items[i].Object = item
	}
	return out, nil
}

// decodeBatch decodes a batch of objects. A field that is not of the type that is asked for is as if it were not there:
// control planes are of any kind, and theirs may say "version" in another way.
func decodeBatch(raw []byte, into any) error {
	err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && strings.HasPrefix(t.Field, "items.") {
		return nil
	}
	return err
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
