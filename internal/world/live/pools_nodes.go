// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/world"
)

// nodesLimit bounds what is read of a list of nodes: a thousand with all their images fit.
const nodesLimit = 64 << 20

// nodeReport is what a node says of itself.
type nodeReport struct {
	// trouble says why it is not Ready or gets no Pods; empty if it is and does.
	trouble  string
	contents v1alpha1.NodeImageContents
}

// nodesAnswer is what a cluster says of its nodes.
type nodesAnswer struct {
	// byName is nil if the cluster did not answer, and silent says why.
	byName map[string]nodeReport
	silent string
}

// leanNode is the part of a node that is decoded.
type leanNode struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		NodeInfo   map[string]any `json:"nodeInfo"`
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// nodesOf asks a workload cluster for its nodes, once in an observation. That it does not answer is what was found.
func (p *poolReader) nodesOf(ctx context.Context, cluster string) nodesAnswer {
	return p.nodes.get(cluster, func() nodesAnswer {
		namespace, name, _ := strings.Cut(cluster, "/")
		w := &workload{name: clusterName{namespace: namespace, name: name}, management: p.clients, proxy: p.proxy, timeout: hostTimeout}
		if err := w.ready(ctx, p.at); err != nil {
			return nodesAnswer{silent: diagnose.Words(err)}
		}
		defer w.close()
		nodes, err := w.listNodes(ctx)
		if err != nil {
			return nodesAnswer{silent: diagnose.Words(err)}
		}
		return nodesAnswer{byName: nodes}
	})
}

// listNodes asks for all nodes with one request.
func (w *workload) listNodes(ctx context.Context) (map[string]nodeReport, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server.JoinPath("/api/v1/nodes").String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call the API server: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or of no use any more
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("list the nodes: the API server answers %s", statusLine(resp.StatusCode))
	}
	var list struct {
		Items []leanNode `json:"items"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, nodesLimit)).Decode(&list); err != nil {
		return nil, fmt.Errorf("read the nodes: %w", err)
	}
	out := make(map[string]nodeReport, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		out[n.Metadata.Name] = nodeReport{trouble: n.trouble(), contents: contentsOf(n.Status.NodeInfo)}
	}
	return out, nil
}

func (n *leanNode) trouble() string {
	why := "its kubelet has not reported yet"
	for _, c := range n.Status.Conditions {
		if c.Type != "Ready" {
			continue
		}
		if why = ""; c.Status != "True" {
			why = fmt.Sprintf("node %s is not Ready: %s", n.Metadata.Name, cmp.Or(c.Message, c.Reason, "Ready is "+c.Status))
		}
	}
	if why == "" && n.Spec.Unschedulable {
		why = fmt.Sprintf("node %s is cordoned", n.Metadata.Name)
	}
	return why
}

// contentsOf reads a node's info.
func contentsOf(info map[string]any) v1alpha1.NodeImageContents {
	text := func(field string) string { s, _ := info[field].(string); return s }
	return v1alpha1.NodeImageContents{
		OSImage: text("osImage"), KernelVersion: text("kernelVersion"), ContainerRuntimeVersion: text("containerRuntimeVersion"),
		KubeletVersion: text("kubeletVersion"), Architecture: text("architecture"),
	}
}

// judgeNode fills in how a Machine's node is: as the cluster itself says if it was asked, else as the Machine says.
func judgeNode(m *world.RolledMachine, machine *unstructured.Unstructured, reports map[string]nodeReport) {
	switch report, found := reports[m.Node]; {
	case m.Node == "":
		m.NodeTrouble = "it has no node yet"
	case found:
		m.NodeTrouble, m.Contents = report.trouble, report.contents
	case reports != nil:
		m.NodeTrouble = fmt.Sprintf("node %s is not in the cluster", m.Node)
	default:
		c, known := firstOf(conditionsOf(machine), "NodeReady", "NodeHealthy")
		switch {
		case !known:
			m.NodeTrouble = "Cluster API does not say how its node is"
		case c.status != "True":
			m.NodeTrouble = cmp.Or(c.message, c.reason, c.kind+" is "+cmp.Or(c.status, "not set"))
		}
	}
	m.NodeReady = m.NodeTrouble == ""
}
