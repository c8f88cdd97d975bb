// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/world"
)

const (
	skipDNSAnnotation       = "controlplane.cluster.x-k8s.io/skip-coredns"
	skipPreflightAnnotation = "machineset.cluster.x-k8s.io/skip-preflight-checks"
	autoscalerMinAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	autoscalerMaxAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	topologyOwnedLabel      = "topology.cluster.x-k8s.io/owned"
)

// surveyedControlPlane reads a control plane of any kind; what only kubeadm's have stays empty for others.
func surveyedControlPlane(u *unstructured.Unstructured) *world.ControlPlane {
	config := []string{"spec", "kubeadmConfigSpec", "clusterConfiguration"}
	at := func(path ...string) string { return stringAt(u, append(slices.Clip(config), path...)...) }
	_, configures, _ := unstructured.NestedMap(u.Object, config...)
	_, skips := u.GetAnnotations()[skipDNSAnnotation]
	return &world.ControlPlane{
		Ref: world.RefOf(u), Version: stringAt(u, "spec", "version"), Reached: stringAt(u, "status", "version"),
		Counts: countsOf(u), Etcd: etcdOf(u), MaxSurge: maxSurge(u),
		DNSRepository: at("dns", "imageRepository"), DNSTag: at("dns", "imageTag"), ImageRepository: at("imageRepository"),
		SkipDNS: skips, Configures: configures,
	}
}

// etcdOf tells where a control plane keeps its data, for the kinds that run it on their own Machines unless told otherwise.
func etcdOf(u *unstructured.Unstructured) world.Etcd {
	if u.GroupVersionKind().Group != controlPlaneGroup {
		return world.EtcdUnknown
	}
	external := func(path ...string) bool {
		m, found, _ := unstructured.NestedMap(u.Object, path...)
		return found && len(m) > 0
	}
	switch u.GetKind() {
	case "KubeadmControlPlane":
		if external("spec", "kubeadmConfigSpec", "clusterConfiguration", "etcd", "external") {
			return world.EtcdExternal
		}
		return world.EtcdStacked
	case "RKE2ControlPlane", "TalosControlPlane":
		return world.EtcdStacked
	case "K0sControlPlane":
		storage := []string{"spec", "k0sConfigSpec", "k0s", "spec", "storage"}
		if kind := stringAt(u, append(storage, "type")...); external(append(storage, "etcd", "externalCluster")...) || kind != "" && kind != "etcd" {
			return world.EtcdExternal
		}
		return world.EtcdStacked
	}
	return world.EtcdUnknown
}

func maxSurge(u *unstructured.Unstructured) string {
	for _, path := range [][]string{
		{"spec", "rollout", "strategy", "rollingUpdate", "maxSurge"}, {"spec", "rolloutStrategy", "rollingUpdate", "maxSurge"},
	} {
		if v, found, _ := unstructured.NestedFieldNoCopy(u.Object, path...); found {
			return fmt.Sprint(v)
		}
	}
	return "1"
}

func surveyedPool(u *unstructured.Unstructured) *world.Pool {
	p := &world.Pool{
		Ref: world.RefOf(u), Counts: countsOf(u), Version: stringAt(u, "spec", "template", "spec", "version"),
		Bootstrap: bootstrapOf(u), Nodes: statusVersions(u),
	}
	_, p.Topology = u.GetLabels()[topologyOwnedLabel]
	annotations := u.GetAnnotations()
	if low, high := annotations[autoscalerMinAnnotation], annotations[autoscalerMaxAnnotation]; low != "" || high != "" {
		p.Autoscaler = cmp.Or(low, "0") + " to " + cmp.Or(high, "any")
	}
	skips := cmp.Or(annotations[skipPreflightAnnotation], stringAt(u, "spec", "template", "metadata", "annotations", skipPreflightAnnotation))
	for s := range strings.SplitSeq(skips, ",") {
		if s = strings.TrimSpace(s); s != "" {
			p.Skips = append(p.Skips, s)
		}
	}
	return p
}

// bootstrapOf returns what configures a pool's new Machines, in the words of either version.
func bootstrapOf(u *unstructured.Unstructured) world.Ref {
	at := func(field string) string {
		return stringAt(u, "spec", "template", "spec", "bootstrap", "configRef", field)
	}
	if at("name") == "" {
		return world.Ref{}
	}
	apiVersion := at("apiVersion")
	if group := at("apiGroup"); group != "" {
		apiVersion = schema.GroupVersion{Group: group, Version: "v1beta2"}.String() // only the group counts
	}
	return world.Ref{APIVersion: apiVersion, Kind: at("kind"), Namespace: u.GetNamespace(), Name: at("name")}
}

// countsOf reads replicas in the words of either version. UpToDate is -1 where the status does not say.
func countsOf(u *unstructured.Unstructured) world.Counts {
	number := func(paths ...[]string) (int64, bool) {
		for _, path := range paths {
			if n, found, err := unstructured.NestedInt64(u.Object, path...); found && err == nil {
				return n, true
			}
		}
		return 0, false
	}
	c := world.Counts{}
	c.Desired, _ = number([]string{"spec", "replicas"})
	var has bool
	c.Current, has = number([]string{"status", "replicas"})
	c.Ready, _ = number([]string{"status", "v1beta2", "readyReplicas"}, []string{"status", "readyReplicas"})
	c.Available, _ = number([]string{"status", "v1beta2", "availableReplicas"}, []string{"status", "availableReplicas"})
	upToDate, says := number([]string{"status", "v1beta2", "upToDateReplicas"}, []string{"status", "upToDateReplicas"}, []string{"status", "updatedReplicas"})
	if c.UpToDate = upToDate; !says {
		c.UpToDate = -1
	}
	observed, told := number([]string{"status", "observedGeneration"})
	c.Known = has && (!told || observed >= u.GetGeneration())
	return c
}

// statusVersions is how many Machines have which version, as newer Cluster API sums it up.
func statusVersions(u *unstructured.Unstructured) map[string]int {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "versions")
	out := map[string]int{}
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			n, _, _ := unstructured.NestedInt64(m, "replicas")
			version, _, _ := unstructured.NestedString(m, "version")
			out[version] += int(n)
		}
	}
	return out
}

// condition is a condition of either form.
type condition struct {
	kind, status, reason, message string
	since                         time.Time
}

// conditionsOf lists an object's conditions, those of the newer form first.
func conditionsOf(u *unstructured.Unstructured) []condition {
	var out []condition
	for _, path := range [][]string{
		{"status", "v1beta2", "conditions"}, {"status", "conditions"}, {"status", "deprecated", "v1beta1", "conditions"},
	} {
		list, _, _ := unstructured.NestedSlice(u.Object, path...)
		for _, item := range list {
			m, ok := item.(map[string]any)
			if !ok {
				continue
			}
			text := func(field string) string { s, _ := m[field].(string); return s }
			c := condition{kind: text("type"), status: text("status"), reason: text("reason"), message: text("message")}
			if at, err := time.Parse(time.RFC3339, text("lastTransitionTime")); err == nil {
				c.since = at
			}
			out = append(out, c)
		}
	}
	return out
}

// preflightFailed is the reason of Cluster API's condition for it.
const preflightFailed = "PreflightCheckFailed"

// preflightsOf returns the checks that hold back a MachineSet.
func preflightsOf(u *unstructured.Unstructured) []world.Preflight {
	var out []world.Preflight
	seen := map[string]bool{}
	for _, c := range conditionsOf(u) {
		if c.reason != preflightFailed && !strings.Contains(c.message, "preflight check") {
			continue
		}
		// How Cluster API names the check at the end of its message.
		named := regexp.MustCompile(`\(?"?([A-Za-z]+)"? preflight check failed\)?`)
		for _, line := range strings.FieldsFunc(strings.ReplaceAll(c.message, "; ", "\n"), func(r rune) bool { return r == '\n' }) {
			line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "*"))
			p := world.Preflight{Set: world.RefOf(u), Message: line, Since: c.since}
			if m := named.FindStringSubmatch(line); m != nil {
				p.Check, p.Message = m[1], strings.TrimSpace(strings.Replace(line, m[0], "", 1))
			} else if c.reason != preflightFailed {
				continue
			}
			if key := p.Check + p.Message; !seen[key] {
				seen[key] = true
				out = append(out, p)
			}
		}
	}
	return out
}

// versionWord finds a Kubernetes version in a text: "v1.31.2", "v1.31", or "1.31.2" as in names of packages.
func versionWord() *regexp.Regexp {
	return regexp.MustCompile(`\bv1\.[2-9][0-9](\.[0-9]+)?([-+][0-9A-Za-z.+-]*[0-9A-Za-z])?\b|\b1\.[2-9][0-9]\.[0-9]+`)
}

// versionsIn finds Kubernetes versions that are written into a bootstrap template, by field. Texts that are not about
// Kubernetes may hold look-alikes; who judges has to know that only a field called version is sure.
func versionsIn(u *unstructured.Unstructured, word *regexp.Regexp) map[string]string {
	out := map[string]string{}
	spec, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec")
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				walk(path+"."+k, e)
			}
		case []any:
			for i, e := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), e)
			}
		case string:
			if found := word.FindString(v); found != "" {
				out[path] = found
			}
		}
	}
	walk("spec", spec)
	return out
}
