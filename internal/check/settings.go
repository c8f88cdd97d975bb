// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/settings"
	"github.com/capstan-dev/capstan/internal/world"
)

// settingChecks are about what people set on live objects and an upgrade would reset.
func settingChecks() []Check {
	return []Check{lostGates(), resetSettings(), credentials(), emptyCredentials()}
}

// resets returns the settings that a component's upgrade resets, of the components that move.
func resets(t *Target) map[string][]settings.Change {
	out := map[string][]settings.Change{}
	for _, c := range t.Components {
		if c.Action != v1alpha1.ActionNone {
			out[c.Name] = t.Settings[c.Name]
		}
	}
	return out
}

func lostGates() Check {
	return Check{
		ID: "CAP-FEATURE-GATE-LOST", Waivable: true,
		Title: "No feature gate that was set here is lost",
		Doc: "Feature gates are arguments of controllers, rendered from variables when a provider is installed and often changed by hand afterwards. " +
			"An upgrade renders them anew: what was set then is gone, and objects that need the feature are refused or left alone by the new controller. " +
			"Each gate of each live Deployment, StatefulSet and DaemonSet is compared with the earlier manifest and with the new one. " +
			"The earlier manifest is that of the last run, or of the release that --installed names. Where it is not known, a gate that somebody is known to have written counts as theirs, " +
			"and of any other that differs it is not known: that blocks as well.",
		Fix: "Set the gate in the component's variables in the release, or carry it over with --keep-settings. " +
			"If it is not known whether the gate is yours, name the release that is installed with --installed. Accept the finding where the new value is what you want.",
		Sources: []string{"https://cluster-api.sigs.k8s.io/tasks/experimental-features/experimental-features"},
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, c := range t.Components {
				for _, s := range resets(t)[c.Name] {
					if s.Kind == settings.Gate && s.Basis != settings.Manifest {
						out = append(out, lostGate(c, s))
					}
				}
			}
			return out
		},
	}
}

func lostGate(c v1alpha1.PlannedComponent, s settings.Change) v1alpha1.Finding {
	text := fmt.Sprintf("%s: %s is %s", s.Object, s.Setting, s.Route())
	if s.Basis == settings.Guessed {
		return unknown(text+"; whether it was set on purpose is not known, as no manifest of "+c.Name+" "+c.From+" is",
			"name the release that is installed: --installed RELEASE; or carry the gate over: --keep-settings", s.Object)
	}
	if s.Old.Set && !s.New.Set {
		return block(text+": "+c.To+" no longer lists it",
			"see in the release notes of "+c.Name+" what became of it, then accept", s.Object)
	}
	return block(text, "carry it over: --keep-settings; or set its variable in the release", s.Object)
}

func resetSettings() Check {
	return Check{
		ID:    "CAP-SETTINGS-RESET",
		Title: "Nobody loses settings of a controller unawares",
		Doc: "An upgrade applies the new manifests as they are. Arguments, environment variables, replicas, requests and limits, node selectors, tolerations, images from a mirror and " +
			"data of ConfigMaps that were changed on the live objects are reset by that, where the manifest says something about them. " +
			"Each is shown as it is in the earlier manifest, live, and after the upgrade. Fields that the manifest says nothing about stay.",
		Fix: "Carry the changes over with --keep-settings, or better put them into the release, so that they stay without being asked for each time.",
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, c := range t.Components {
				var guesses []settings.Change
				for _, s := range resets(t)[c.Name] {
					switch {
					case s.Basis == settings.Manifest:
						out = append(out, warn(fmt.Sprintf("%s: %s is %s; the manifests of %s changed it", s.Object, s.Setting, s.Route(), c.Name),
							"set its variable in the release if the feature is used here", s.Object))
					case s.Kind == settings.Gate:
					case s.Basis == settings.Guessed && c.Action == v1alpha1.ActionRepair: // CAP-HAND-CHANGES tells of the object
					case s.Basis == settings.Guessed:
						guesses = append(guesses, s)
					default:
						out = append(out, warn(fmt.Sprintf("%s: %s is %s", s.Object, s.Setting, s.Route()), "carry it over: --keep-settings; or put it into the release", s.Object))
					}
				}
				out = append(out, guessed(c, guesses)...)
			}
			return out
		},
	}
}

// guessed tells of each object what differs, without a claim about whose it is.
func guessed(c v1alpha1.PlannedComponent, changes []settings.Change) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for len(changes) > 0 {
		object, n := changes[0].Object, 0
		var parts []string
		for n < len(changes) && changes[n].Object == object {
			s := changes[n]
			parts = append(parts, fmt.Sprintf("%s (%s, then %s)", s.Setting, s.Show(s.Live), s.Show(s.New)))
			n++
		}
		out = append(out, warn(
			fmt.Sprintf("%s: what differs between live and new may be yours or the earlier manifest's, as no manifest of %s %s is known: %s",
				object, c.Name, c.From, fold(parts, 3, "; ")),
			"see which are yours: --installed RELEASE, the release that is installed now", object))
		changes = changes[n:]
	}
	return out
}

// fold joins the first few and counts the rest.
func fold(parts []string, most int, separator string) string {
	if len(parts) <= most {
		return strings.Join(parts, separator)
	}
	return strings.Join(parts[:most], separator) + fmt.Sprintf("%sand %d more", separator, len(parts)-most)
}
