// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TopicWebhooks are the admission webhooks of the management cluster and what stands behind them.
const TopicWebhooks Topic = "the admission webhooks of the management cluster"

// Webhooks is what was found of them.
type Webhooks struct {
	// Admission are all webhooks, by configuration and place in it.
	Admission []Webhook
	// Namespaces are the labels of every namespace by its name.
	Namespaces map[string]map[string]string
}

// Webhook is one admission webhook.
type Webhook struct {
	// Owner is its configuration, Index its place in it.
	Owner Ref
	Index int
	// Name is its name within the configuration.
	Name string
	// FailClosed tells that a request is refused when the webhook does not answer.
	FailClosed bool
	// Rules say which requests it is asked about.
	Rules []WebhookRule
	// NamespaceSelector and ObjectSelector narrow them; nil is everything.
	NamespaceSelector, ObjectSelector *metav1.LabelSelector
	// Conditions are the expressions of its matchConditions.
	Conditions []string
	// Backend is what answers.
	Backend WebhookBackend
}

// WebhookRule is one rule of a webhook.
type WebhookRule struct {
	Groups, Versions, Resources, Operations []string
	// Scope is Cluster, Namespaced or *.
	Scope string
}

// WebhookBackend is where a webhook is answered.
type WebhookBackend struct {
	// Namespace and Service are empty for one that is reached by URL.
	Namespace, Service string
	// URL is set instead.
	URL string
	// Found tells that the Service exists, Ready that it has an endpoint that is ready.
	Found, Ready bool
}
