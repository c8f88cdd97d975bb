// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

func paused() Check {
	return Check{
		ID: "CAP-PAUSED", Scope: Both, Waivable: true,
		Title: "Nothing is paused",
		Doc: "An operation that failed half way, a move for example, may leave clusters or single objects paused. Cluster API takes every change of a paused " +
			"object and does nothing, so a roll would be accepted and never happen. An upgrade of the platform changes no such object, so there it is a warning.",
		Fix:     "Find out why it was paused, then take the pause away where it is set. What a run of Capstan paused, it gives back: `capstan resume`, `capstan abort`.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/7407"},
		Needs:   []world.Topic{world.TopicPauses},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			if t.Nodes == nil {
				return pausedClusters(w.Survey.Pauses)
			}
			var out []v1alpha1.Finding
			for _, p := range w.Survey.Pauses {
				if left := t.nodes().Roll != nil && p.Value == v1alpha1.RollPausedValue; t.includes(p.Cluster) && !left {
					out = append(out, block(PauseWords(p)+": it would not follow a change", Unpause(p), p.Object))
				}
			}
			return out
		},
	}
}

// pausesOneByOne is up to how many paused clusters are told one by one: of hundreds, that they are is what counts.
const pausesOneByOne = 10

// pausedClusters warns once for each cluster: an upgrade of the platform needs none of them to move. Those that somebody
// paused are told together where they are many; those that Capstan paused never are.
func pausedClusters(pauses []world.Pause) []v1alpha1.Finding {
	var out, byOthers []v1alpha1.Finding
	var names []string
	for i := 0; i < len(pauses); {
		first := pauses[i]
		n, ours := i, false
		for ; n < len(pauses) && pauses[n].Cluster == first.Cluster; n++ {
			ours = ours || pauses[n].Run != ""
		}
		text := PauseWords(first)
		if n-i > 1 {
			text += fmt.Sprintf(", and %d more of cluster %s", n-i-1, first.Cluster)
		}
		f := warn(text+": it is not reconciled after the upgrade either", Unpause(first), first.Object)
		if ours {
			out = append(out, f)
		} else {
			byOthers, names = append(byOthers, f), append(names, first.Cluster)
		}
		i = n
	}
	if len(byOthers) <= pausesOneByOne {
		return append(out, byOthers...)
	}
	return append(out, warn(fmt.Sprintf("In %d clusters something is paused, not by Capstan: it is not reconciled after the upgrade either (%s)", len(names), few(names)),
		"see which, and by whom: capstan status", objectsOf(byOthers)...))
}

// objectsOf returns the objects of the first findings.
func objectsOf(findings []v1alpha1.Finding) []world.Ref {
	var out []world.Ref
	for _, f := range findings[:min(len(findings), pausesOneByOne)] {
		for _, o := range f.Objects {
			out = append(out, world.Ref(o))
		}
	}
	return out
}

// PauseWords says what is paused, where, and by whom.
func PauseWords(p world.Pause) string {
	out := fmt.Sprintf("%s is paused by %s", p.Object, p.Where)
	switch {
	case p.Run != "":
		out += fmt.Sprintf(", set by Capstan's run %s", p.Run)
	case p.By != "" && !p.At.IsZero():
		out += fmt.Sprintf(", set by %s on %s, not by Capstan", p.By, p.At.UTC().Format("2006-01-02 15:04:05Z"))
	default:
		out += ", not set by Capstan"
	}
	return out
}

// Unpause is the command that takes a pause away.
func Unpause(p world.Pause) string {
	if p.Run != "" {
		return fmt.Sprintf("capstan resume or capstan abort puts it back; if run %s has ended: %s", p.Run, unpauseByHand(p))
	}
	if p.Value == v1alpha1.RollPausedValue {
		return "capstan nodes upgrade IMAGE goes on from there; to let Cluster API replace the rest with nobody watching: " + unpauseByHand(p)
	}
	return unpauseByHand(p)
}

func unpauseByHand(p world.Pause) string {
	at := ""
	if p.Object.Namespace != "" {
		at = "-n " + p.Object.Namespace + " "
	}
	if name, is := strings.CutPrefix(p.Where, "annotation "); is {
		return fmt.Sprintf("kubectl %sannotate %s %s %s-", at, resource(p.Object), p.Object.Name, name)
	}
	change := `{"spec":{"paused":null}}`
	if p.Run != "" {
		change = fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:null,%q:null}},"spec":{"paused":null}}`,
			v1alpha1.PausedByAnnotation, v1alpha1.HeldForAnnotation, v1alpha1.PausedBeforeAnnotation)
	}
	return fmt.Sprintf(`kubectl %spatch %s %s --type merge -p '%s'`, at, resource(p.Object), p.Object.Name, change)
}

// upgradeHooks are the lifecycle hooks that a change of a topology's version calls, in their order.
func upgradeHooks() []string {
	return []string{
		"BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade", "BeforeWorkersUpgrade", "AfterWorkersUpgrade", "AfterClusterUpgrade",
		"GenerateUpgradePlan", "GeneratePatches", "ValidateTopology", "CanUpdateMachine", "CanUpdateMachineSet", "UpdateMachine",
	}
}

func lifecycleHook() Check {
	return Check{
		ID: "CAP-LIFECYCLE-HOOK", Scope: Nodes, Waivable: true,
		Title: "Lifecycle hooks let the upgrade pass",
		Doc: "Extensions may register hooks that Cluster API calls before and after each stage of a ClusterClass cluster's upgrade. A hook that answers " +
			"\"try again later\" holds the upgrade without an end and without a word but in the cluster's condition TopologyReconciled. The plan lists who will be " +
			"asked; a cluster that is held right now blocks.",
		Fix:     "See the extension's own logs and restart it if it missed an event; delete its ExtensionConfig if it is gone for good.",
		Sources: []string{"https://github.com/SovereignCloudStack/cluster-stack-operator/issues/272"},
		Needs:   []world.Topic{world.TopicNodes},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, c := range meant(w, t) {
				if c.Topology == nil {
					continue
				}
				for _, h := range c.Topology.Hooks {
					out = append(out, block(HookWords(c, h), "see the extension's logs: "+extensionCommand(h.Extensions), c.Ref))
				}
			}
			return append(out, called(w, t)...)
		},
	}
}

// HookWords says that a hook holds a cluster, of which extension, with its last message.
func HookWords(c *world.NodeCluster, h world.HookWait) string {
	of := "of no ExtensionConfig that is there"
	if len(h.Extensions) > 0 {
		of = "of ExtensionConfig " + strings.Join(h.Extensions, ", ")
	}
	out := fmt.Sprintf("Cluster %s waits on its way to %s for hook %s %s", c.Key(), c.Topology.Version, h.Hook, of)
	if !c.Topology.Since.IsZero() {
		out += " since " + c.Topology.Since.UTC().Format("2006-01-02 15:04:05Z")
	}
	if h.Message != "" {
		out += fmt.Sprintf(": %q", h.Message)
	}
	return out
}

func extensionCommand(names []string) string {
	if len(names) == 0 {
		return "kubectl get extensionconfigs"
	}
	return "kubectl get extensionconfig " + strings.Join(names, " ") + " -o yaml names its service"
}

// called lists the hooks that will be asked, once each.
func called(w *world.World, t *Target) []v1alpha1.Finding {
	if w.Survey.Nodes == nil {
		return nil
	}
	var out []v1alpha1.Finding
	for _, h := range w.Survey.Nodes.Hooks {
		var clusters []string
		for _, c := range meant(w, t) {
			if c.Topology != nil && h.CalledFor(c.Ref.Namespace) {
				clusters = append(clusters, c.Key())
			}
		}
		switch {
		case len(clusters) == 0:
		case h.Trouble != "":
			out = append(out, block(fmt.Sprintf("%s does not work, and may be asked when %s moves: %s", h.Extension, few(clusters), h.Trouble),
				"see: "+extensionCommand([]string{h.Extension.Name}), h.Extension))
		case slices.Contains(upgradeHooks(), h.Hook):
			out = append(out, warn(fmt.Sprintf("Hook %s of %s (handler %s, %d s, on failure %s) will be called when %s moves, and may hold it",
				h.Hook, h.Extension, h.Handler, h.TimeoutSeconds, h.FailurePolicy, few(clusters)),
				"make sure that the extension answers: "+extensionCommand([]string{h.Extension.Name}), h.Extension))
		}
	}
	return out
}

// few names some clusters.
func few(names []string) string {
	return plural(len(names), "cluster ", "clusters ") + phrase.Some(names)
}
