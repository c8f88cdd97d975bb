// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// ownKey identifies what Capstan's applies own of an object, and which installers own something beside; empty if Capstan
// applied nothing. The API server takes a field away from its owner as soon as somebody else gives it another value or
// removes it. So an object that was at its target stays there for as long as this key stays, whatever others add to it:
// a CRD need not be compared again because its CA was injected.
func ownKey(u *unstructured.Unstructured) string {
	managed := u.GetManagedFields()
	sum, applied := sha256.New(), false
	for _, e := range managed {
		if e.Manager != v1alpha1.FieldOwner || e.Operation != metav1.ManagedFieldsOperationApply || e.Subresource != "" || e.FieldsV1 == nil {
			continue
		}
		applied = true
		fields := e.FieldsV1.GetRawBytes()
		fmt.Fprintf(sum, "%s %d ", e.APIVersion, len(fields))
		sum.Write(fields)
	}
	if !applied {
		return ""
	}
	fmt.Fprintf(sum, "%s %v %q", u.GetUID(), u.GetDeletionTimestamp(), leftOver(managed))
	return hex.EncodeToString(sum.Sum(nil))
}

// stillHolds tells whether what is known of a wanted object is true of a live one with these keys, too.
func (e *stateEntry) stillHolds(content, own string) bool {
	return e.content == content || (e.own != "" && e.own == own && e.compared.inSync())
}

// seenSince returns when this process first saw the object's generation. Kinds without generations change with each write.
func (e *stateEntry) seenSince(live *unstructured.Unstructured, now time.Time) time.Time {
	if e == nil || e.live == nil || e.live.GetUID() != live.GetUID() || e.live.GetGeneration() != live.GetGeneration() || live.GetGeneration() == 0 {
		return now
	}
	return e.seen
}
