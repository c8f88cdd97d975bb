// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/step/nodes"
	"github.com/capstan-dev/capstan/internal/world"
)

// IDs of what is found about the state of pools and of the hosts that they have.
const (
	// IDAutoscaler is about pools that the cluster autoscaler scales.
	IDAutoscaler = "CAP-ROLL-AUTOSCALER"
	// IDUnavailable is about Machines that are not well before the roll begins.
	IDUnavailable = "CAP-ROLL-UNAVAILABLE"
	// IDHealthCheck is about health checks that would replace Machines of the roll.
	IDHealthCheck = "CAP-ROLL-HEALTHCHECK"
	// IDDrift is about templates that were edited in place.
	IDDrift = "CAP-ROLL-DRIFT"
	// IDVersion is about the kubelet in the image.
	IDVersion = "CAP-IMAGE-VERSION"
	// IDHeld is about hosts of the pools whose operator does nothing with them.
	IDHeld = "CAP-HOST-STATE"
	// IDFit is about hosts of the pools that the image does not fit.
	IDFit = "CAP-HOST-FIT"
	// IDCleaning is about disks that are wiped with the old image.
	IDCleaning = "CAP-HOST-CLEANING"
)

// slowMachine is how long a server takes from its old image to a node at the least: cleaned, written, booted.
const slowMachine = 30 * time.Minute

// state finds what is not as it should be about the pools of the plan before it begins.
func (p *planner) state() {
	for _, c := range p.planned {
		p.autoscaled(c)
		p.unavailable(c)
		p.healthChecked(c)
		p.drift(c)
		p.version(c)
		if c.stock != nil {
			p.heldHosts(c)
			p.cleaning(c)
		}
	}
}

func (p *planner) autoscaled(c *candidate) {
	if c.Autoscaler == "" {
		return
	}
	p.find(IDAutoscaler, v1alpha1.VerdictWarn,
		fmt.Sprintf("%s of cluster %s is scaled by the cluster autoscaler (%s): if it scales the pool down during the roll, Machines go that nobody chose", c.Ref, c.cluster.Key, c.Autoscaler),
		"turn scaling down off for the time of the roll: --scale-down-enabled=false on the autoscaler", c.Ref)
}

// unavailable refuses a pool that already has more Machines that are not well than a roll may take away: Cluster API's own
// arithmetic then stands still.
func (p *planner) unavailable(c *candidate) {
	var bad []string
	for i := range c.Machines {
		if why := unwell(&c.Machines[i]); why != "" && !nodes.Held(c.Machines[i]) {
			bad = append(bad, c.Machines[i].Ref.Name+": "+why)
		}
	}
	if c.LeftPaused && len(bad) > 0 {
		// While it is paused its controller writes no conditions, so what they say is old. The roll waits for them anyhow.
		p.find(IDUnavailable, v1alpha1.VerdictWarn, fmt.Sprintf("%s of cluster %s, which an aborted roll left paused, had %s not available then: %s", c.Ref, c.cluster.Key,
			phrase.Count(len(bad), "Machine"), strings.Join(bad, "; ")), "the roll takes no further Machine away before they are", c.Ref)
		return
	}
	if allowed := allowed(c.MaxUnavailable, c.Replicas); len(bad) <= allowed {
		if len(bad) > 0 {
			p.find(IDUnavailable, v1alpha1.VerdictWarn, fmt.Sprintf("%s of cluster %s has %s not available, as many as its maxUnavailable allows at most: %s", c.Ref, c.cluster.Key,
				phrase.Count(len(bad), "Machine"), strings.Join(bad, "; ")), "bring them back before the roll", c.Ref)
		}
		return
	}
	p.block(IDUnavailable,
		fmt.Sprintf("%s of cluster %s has %s not available before the roll begins, which would take away one more: %s", c.Ref, c.cluster.Key,
			phrase.Count(len(bad), "Machine"), strings.Join(bad, "; ")),
		fmt.Sprintf("bring them back, or delete them so that they are replaced: kubectl -n %s get machines", c.Ref.Namespace), c.Ref)
}

// allowed is how many Machines an owner's setting allows to be missing; a percentage is rounded down.
func allowed(s world.Setting, replicas int64) int {
	text := strings.Trim(s.Value, `"`)
	percent, isPercent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(percent)
	if err != nil {
		return 0
	}
	if isPercent {
		return int(replicas) * n / 100
	}
	return n
}

// unwell says why a Machine does not count as available; empty if it does.
func unwell(m *world.RolledMachine) string {
	switch {
	case !m.Deleting.IsZero():
		return "it is being deleted"
	case m.Node == "":
		return cmp.Or(m.Blocker, "it has no node yet")
	case !m.NodeReady:
		return cmp.Or(m.NodeTrouble, "its node is not ready")
	case len(m.Unhealthy) > 0:
		return strings.Join(m.Unhealthy, ", ")
	}
	return ""
}

// healthChecked tells of health checks that the roll pauses, and whether their limit suits the pool at all.
func (p *planner) healthChecked(c *candidate) {
	for i := range c.cluster.Checks {
		h := &c.cluster.Checks[i]
		if !watches(h, c.Ref) || h.Paused || h.StartupSeconds == 0 {
			continue
		}
		limit := time.Duration(h.StartupSeconds) * time.Second
		if c.stock == nil || limit >= slowMachine {
			continue
		}
		p.find(IDHealthCheck, v1alpha1.VerdictWarn,
			fmt.Sprintf("%s gives Machines of %s %s to become nodes, and a server may need %s: it would delete each new Machine before it is one. It is paused for the roll", h.Ref, c.Ref,
				limit, slowMachine),
			fmt.Sprintf("raise its nodeStartupTimeout for the time after the roll: kubectl -n %s edit machinehealthcheck %s", h.Ref.Namespace, h.Ref.Name), h.Ref, c.Ref)
	}
}

// drift tells of templates that were edited in place before this roll.
func (p *planner) drift(c *candidate) {
	if f := driftFinding(c.fields, c.PoolOwner, c.cluster.Hosts); f != nil {
		f.Verdict = v1alpha1.VerdictWarn
		f.Remedy = "this roll makes a new template for all of them; the old one is no way back, as its content is not what Machines had"
		p.out.Findings = append(p.out.Findings, *f)
	}
}

// Drift finds Machines that do not have what their template says, although they were made from it: somebody edited the
// template in place, and only Machines that were made later have the new content.
func Drift(clusters []world.PoolCluster, maps Maps) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for i := range clusters {
		c := &clusters[i]
		for j := range c.Owners {
			pool := &c.Owners[j]
			if pool.Template == nil {
				continue
			}
			fields, err := maps.For(pool.Template)
			if err != nil {
				continue // a kind whose images can't be compared has no drift that could be told
			}
			if f := driftFinding(fields, pool, c.Hosts); f != nil {
				out = append(out, *f)
			}
		}
	}
	return out
}

func driftFinding(fields *FieldMap, pool *world.PoolOwner, hosts []world.BareHost) *v1alpha1.Finding {
	differ := drifted(fields, pool, hosts)
	if len(differ) == 0 {
		return nil
	}
	ref := world.RefOf(pool.Template)
	return &v1alpha1.Finding{
		ID: IDDrift, Verdict: v1alpha1.VerdictBlock,
		Summary: fmt.Sprintf("Template %s was edited in place: %d of %d Machines of %s were made from it and differ in image.url from %s (%s); no roll will happen by such an edit", ref,
			len(differ), len(pool.Machines), pool.Ref, fields.Read(pool.Template)["url"], phrase.Some(differ)),
		Remedy:  "roll them with a new template: capstan nodes upgrade IMAGE; or set the template's image back to what Machines have",
		Objects: []v1alpha1.ObjectReference{v1alpha1.ObjectReference(ref), v1alpha1.ObjectReference(pool.Ref)},
	}
}

// drifted returns the Machines whose hosts have another image than the template that they were made from.
func drifted(fields *FieldMap, pool *world.PoolOwner, hosts []world.BareHost) []string {
	have := fields.Read(pool.Template)["url"]
	if have == "" || fields.Hosts != HostsBareMetal {
		return nil
	}
	images := map[string]string{}
	for i := range pool.Machines {
		images[pool.Machines[i].Host] = ""
	}
	for i := range hosts {
		if _, mine := images[hosts[i].Name]; mine && hosts[i].Namespace == pool.Ref.Namespace {
			images[hosts[i].Name] = hosts[i].Image
		}
	}
	var out []string
	for i := range pool.Machines {
		m := &pool.Machines[i]
		if image := images[m.Host]; m.Host != "" && image != "" && image != have && m.Template == pool.Template.GetName() {
			out = append(out, fmt.Sprintf("%s has %s", m.Ref.Name, image))
		}
	}
	return out
}

// version compares the kubelet in the image with the version that Machines ask for.
func (p *planner) version(c *candidate) {
	want, have := c.Version, p.image.Spec.Contents.KubeletVersion
	if p.moves(c.PoolOwner) {
		want = p.options.Version
	}
	switch {
	case want == "":
		return
	case have == "":
		p.find(IDVersion, v1alpha1.VerdictWarn, fmt.Sprintf("The catalog does not say which kubelet is in image %s, and Machines of %s ask for Kubernetes %s", p.image.Name, c.Ref, want),
			"capstan image inspect reads it from the image; `capstan image add` records it", c.Ref)
	case release3(have) != release3(want):
		p.block(IDVersion, fmt.Sprintf("Image %s holds kubelet %s, and Machines of %s of cluster %s ask for Kubernetes %s: their nodes would come back with another version than wanted",
			p.image.Name, have, c.Ref, c.cluster.Key, want),
			fmt.Sprintf("take an image with kubelet %s, or move the version with the image: --kubernetes %s", want, release3(have)), c.Ref)
	}
}

// release3 is a version without what a distribution appends.
func release3(v string) string {
	v, _, _ = strings.Cut(v, "+")
	return v
}

// heldHosts finds hosts of a pool that would not come back: their operator does nothing with them, or the image does not
// fit them.
func (p *planner) heldHosts(c *candidate) {
	for i, h := range c.hosts {
		if !c.held.has(i) {
			continue
		}
		ref := world.Ref{APIVersion: "metal3.io/v1alpha1", Kind: "BareMetalHost", Namespace: h.Namespace, Name: h.Name}
		if why := Trouble(h); why != "" {
			p.block(IDHeld, fmt.Sprintf("%s holds a Machine of %s, and can't be freed or written: %s", ref, c.Ref, why),
				fmt.Sprintf("bring it back first: kubectl -n %s describe baremetalhost %s", h.Namespace, h.Name), ref, c.Ref)
		}
		if why := c.demand.Misfit(h); why != "" {
			p.block(IDFit, fmt.Sprintf("Image %s does not fit %s, which holds a Machine of %s: %s", p.image.Name, ref, c.Ref, why),
				"take an image that fits every host of the pool, or take the host out of it", ref, c.Ref)
		}
	}
}

// cleaning finds hosts whose other disks are wiped together with the one that the image is on.
func (p *planner) cleaning(c *candidate) {
	template, _, err := unstructured.NestedString(c.Template.Object, "spec", "template", "spec", "automatedCleaningMode")
	if err != nil {
		template = ""
	}
	var wiped []string
	var refs []world.Ref
	for i, h := range c.hosts {
		mode := cmp.Or(template, h.Cleaning, "metadata")
		if !c.held.has(i) || mode == "disabled" || len(h.Disks) < 2 {
			continue
		}
		var disks []string
		for _, d := range h.Disks {
			disks = append(disks, d.Name)
		}
		wiped = append(wiped, fmt.Sprintf("%s (%s): %s", h.Name, mode, strings.Join(disks, ", ")))
		refs = append(refs, world.Ref{APIVersion: "metal3.io/v1alpha1", Kind: "BareMetalHost", Namespace: h.Namespace, Name: h.Name})
	}
	if len(wiped) == 0 {
		return
	}
	p.block(IDCleaning,
		fmt.Sprintf("Hosts of %s of cluster %s are cleaned between the images, on all disks and not on the root disk alone: %s", c.Ref, c.cluster.Key, strings.Join(wiped, "; ")),
		fmt.Sprintf("keep data by automatedCleaningMode: disabled on %s, with rootDeviceHints on each host; or say that the data may go: --accept %s=REASON", world.RefOf(c.Template), IDCleaning),
		append([]world.Ref{c.Ref}, refs...)...)
}
