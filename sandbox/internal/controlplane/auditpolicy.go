// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// auditRule is one rule of an audit policy; the first that matches a request decides.
type auditRule struct {
	Level           string           `json:"level"`
	Users           []string         `json:"users,omitempty"`
	UserGroups      []string         `json:"userGroups,omitempty"`
	Verbs           []string         `json:"verbs,omitempty"`
	Resources       []auditResources `json:"resources,omitempty"`
	NonResourceURLs []string         `json:"nonResourceURLs,omitempty"`
}

type auditResources struct {
	Group     string   `json:"group"`
	Resources []string `json:"resources,omitempty"`
}

// auditPolicy logs every write, dry-run ones too, without their content: Secrets are among them. Left out are
//   - questions that are asked by a POST (access and token reviews): they store nothing;
//   - the pulse of the control plane and the node: leases and node status written by system components.
//
// The body is kept where it alone says whether the request is a dry run: DeleteOptions and Eviction carry the answer there. They hold no
// secrets.
func auditPolicy() ([]byte, error) {
	system := []string{"system:kube-controller-manager", "system:kube-scheduler", "system:apiserver"}
	pulse := []auditResources{{Group: "coordination.k8s.io", Resources: []string{"leases"}}}
	policy := map[string]any{
		"apiVersion": "audit.k8s.io/v1",
		"kind":       "Policy",
		"omitStages": []string{"RequestReceived"},
		"rules": []auditRule{
			{Level: "None", Verbs: []string{"get", "list", "watch"}},
			{Level: "None", NonResourceURLs: []string{"*"}},
			{Level: "None", Resources: []auditResources{{Group: "authentication.k8s.io"}, {Group: "authorization.k8s.io"}}},
			{Level: "None", Users: system, Resources: pulse},
			{Level: "None", UserGroups: []string{"system:nodes"}, Resources: append(pulse, auditResources{Resources: []string{"nodes/status"}})},
			{Level: "Request", Verbs: []string{"delete", "deletecollection"}},
			{Level: "Request", Resources: []auditResources{{Resources: []string{"pods/eviction"}}}},
			{Level: "Metadata"},
		},
	}
	data, err := yaml.Marshal(policy)
	if err != nil {
		return nil, fmt.Errorf("encode audit policy: %w", err)
	}
	return data, nil
}
