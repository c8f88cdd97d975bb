// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Images is the catalog: one image where there is a plan, none otherwise.
func (f *fake) Images(context.Context) ([]v1alpha1.NodeImage, error) {
	if f.spec == nil {
		return nil, nil
	}
	return []v1alpha1.NodeImage{{
		ObjectMeta: metav1.ObjectMeta{Name: "u2404", CreationTimestamp: metav1.NewTime(now())}, Spec: v1alpha1.NodeImageSpec{URL: "http://img/u.raw"},
	}}, nil
}
