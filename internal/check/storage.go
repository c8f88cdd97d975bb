// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/phrase"
	"github.com/capstan-dev/capstan/internal/world"
)

// storageChecks are about stored objects of the release's CRDs.
func storageChecks() []Check {
	return []Check{storedVersions(), fitting(), managedFields(), ownerReferences(), conversionLeft()}
}

func storedVersions() Check {
	return Check{
		ID:    "CAP-CRD-STORED-VERSION",
		Title: "No stored object becomes unreadable",
		Doc: "A CRD lists in status.storedVersions every version that objects may be stored in. The API server refuses a CRD that no longer has one of them, also if " +
			"no such object is left, and an object that is stored in it would be unreadable. So the run first writes every object as it is, which stores it in the version " +
			"that stays, and then trims the list; if the storage version itself goes, another takes its place before that. No write changes what an object says. The objects " +
			"are counted before and after.\n\n" +
			"This blocks where it can't be done: no version is in both CRDs, none is served, or the API server does not take an object as it is (of each kind up to 100 are " +
			"tried as a dry run). It also blocks with --no-migrate, with the commands to do the same by hand.",
		Fix: "Without --no-migrate the run does it. By hand: write each object as it is, then set status.storedVersions to the storage version.",
		Sources: []string{
			"https://github.com/kubernetes-sigs/cluster-api/issues/6691", "https://github.com/kubernetes-sigs/cluster-api-provider-openstack/issues/2863",
			"https://github.com/rancher/k3k/issues/576", "https://github.com/kubernetes-sigs/gateway-api/issues/3509",
		},
		Needs: []world.Topic{world.TopicStored},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, k := range moving(w, t) {
				if len(k.Drop()) > 0 {
					out = append(out, k.dropped(t)...)
				}
			}
			return out
		},
	}
}

// movingKind is what is stored of a CRD whose component moves.
type movingKind struct {
	*world.StoredKind
	component v1alpha1.PlannedComponent
	ref       world.Ref
}

// moving returns what is stored for the CRDs of all components that move, in the order of the release.
func moving(w *world.World, t *Target) []movingKind {
	var out []movingKind
	for _, c := range t.Components {
		if c.Action == v1alpha1.ActionNone {
			continue
		}
		for _, r := range t.Bundle.Components {
			if r.Component.Name != c.Name {
				continue
			}
			for _, o := range r.Objects {
				if o.GetKind() != "CustomResourceDefinition" {
					continue
				}
				if k := w.Survey.Stored.Kind(o.GetName()); k != nil {
					out = append(out, movingKind{StoredKind: k, component: c, ref: world.RefOf(o)})
				}
			}
		}
	}
	return out
}

// title names the CRD with its component and version.
func (k movingKind) title() string {
	return fmt.Sprintf("CRD %s of %s %s", k.Next.Name, k.component.Name, k.component.To)
}

// dropped judges versions that go although objects may be stored in them.
func (k movingKind) dropped(t *Target) []v1alpha1.Finding {
	drop := strings.Join(k.Drop(), ", ")
	target := k.Live.Target(k.Next)
	what := fmt.Sprintf("%s drops %s, in which some of its %s may be stored", k.title(), drop, phrase.Count(k.Objects, "object"))
	switch {
	case target == "":
		return []v1alpha1.Finding{block(fmt.Sprintf("%s; they can't be migrated, as the CRD has no version of before (%s)", what, strings.Join(k.Live.Names(), ", ")),
			fmt.Sprintf("first upgrade to a version of %s whose CRD has both %s and one of %s", k.component.Name, k.Live.Storage(), strings.Join(k.Next.Names(), ", ")), k.ref)}
	case k.ReadAt == "":
		return []v1alpha1.Finding{block(fmt.Sprintf("%s; they can't be migrated, as no version of it is served", what),
			fmt.Sprintf(`kubectl patch crd %s --type=json -p '[{"op":"replace","path":"/spec/versions/0/served","value":true}]'`, k.Next.Name), k.ref)}
	case t.NoMigrate:
		return []v1alpha1.Finding{block(what, k.byHand(target), k.ref)}
	}
	if k.Refused.Count > 0 {
		return k.refused()
	}
	return []v1alpha1.Finding{warn(fmt.Sprintf("%s: the run first rewrites them in %s", what, target),
		fmt.Sprintf("keep a copy if you like: kubectl get %s%s -o yaml > %s.yaml", k.Next.Name, k.everywhere(), k.Next.Name), k.ref)}
}

// byHand returns the commands that do what the run would do.
func (k movingKind) byHand(target string) string {
	var steps []string
	if k.Live.Storage() != target {
		var ops []string
		for i, v := range k.Live.Versions {
			ops = append(ops, fmt.Sprintf(`{"op":"replace","path":"/spec/versions/%d/storage","value":%t}`, i, v.Name == target))
		}
		steps = append(steps, fmt.Sprintf(`kubectl patch crd %s --type=json -p '[%s]'`, k.Next.Name, strings.Join(ops, ",")))
	}
	if k.Objects > 0 {
		steps = append(steps, fmt.Sprintf("kubectl get %s%s -o json | kubectl replace -f -", k.Next.Name, k.everywhere()))
	}
	steps = append(steps, fmt.Sprintf(`kubectl patch crd %s --subresource=status --type=merge -p '{"status":{"storedVersions":["%s"]}}'`, k.Next.Name, target))
	return strings.Join(steps, " && ")
}

// everywhere is the option that lists the objects of all namespaces.
func (k movingKind) everywhere() string { return " -A" }

// refused names objects that can't be written as they are.
func (k movingKind) refused() []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for i, o := range k.Refused.First {
		summary := fmt.Sprintf("%s can't be migrated off %s: the API server does not take it as it is: %s", o.Object, strings.Join(k.Drop(), ", "), o.Why)
		if more := k.Refused.Count - int64(len(k.Refused.First)); i == len(k.Refused.First)-1 && more > 0 {
			summary += fmt.Sprintf(" (and %d more of %s)", more, k.Next.Name)
		}
		out = append(out, block(summary, "correct the object, or what refuses it: "+edit(k.Next.Name, o.Object), o.Object, k.ref))
	}
	return out
}

func edit(resource string, o world.Ref) string {
	if o.Namespace == "" {
		return fmt.Sprintf("kubectl edit %s %s", resource, o.Name)
	}
	return fmt.Sprintf("kubectl edit %s -n %s %s", resource, o.Namespace, o.Name)
}

func fitting() Check {
	return Check{
		ID: "CAP-CRD-SCHEMA", Waivable: true,
		Title: "Every stored object satisfies the schema to come",
		Doc: "When a CRD gets stricter, objects that are stored already stay readable, but the next write to them may be refused: a status update by their controller, or the " +
			"removal of a finalizer, so that they can be neither updated nor deleted. Every stored object is judged by the schema of the CRD to come, with its defaults and its CEL " +
			"rules, in the version that it will be stored in; if that is not served yet and a webhook has to convert, in the version that it is stored in now.\n\n" +
			"API servers from 1.30 on let an object keep a fault that an update does not touch. That helps until somebody touches it, so it is reported all the same; " +
			"accept the finding if nobody will. Where a schema stays as it is, objects are not judged. Objects that don't satisfy the live CRD either are named, and don't block: the upgrade does not make them worse.",
		Fix: "Correct the objects before the upgrade, by hand or with the program that writes them.",
		Sources: []string{
			"https://github.com/redhat-cop/group-sync-operator/issues/65", "https://github.com/stackabletech/documentation/pull/402",
			"https://github.com/quay/quay-operator/pull/541", "https://github.com/kubernetes/kubernetes/issues/94060",
		},
		Needs: []world.Topic{world.TopicStored},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, k := range moving(w, t) {
				out = append(out, k.unfit()...)
			}
			return out
		},
	}
}

func (k movingKind) unfit() []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for i, o := range k.Invalid.First {
		summary := fmt.Sprintf("%s does not satisfy %s: %s: %s", o.Object, k.title(), o.Path, o.Rule)
		if o.More > 0 {
			summary += fmt.Sprintf(" (and %d more faults)", o.More)
		}
		if more := k.Invalid.Count - int64(len(k.Invalid.First)); i == len(k.Invalid.First)-1 && more > 0 {
			summary += fmt.Sprintf("; %d more of its objects don't either", more)
		}
		out = append(out, block(summary, edit(k.Next.Name, o.Object), o.Object))
	}
	if n := k.Already.Count; n > 0 {
		o := k.Already.First[0]
		out = append(out, warn(fmt.Sprintf("%s of %s satisfy neither the live CRD nor that of %s %s, %s for example: %s: %s",
			phrase.Count(n, "object"), k.Next.Name, k.component.Name, k.component.To, o.Object, o.Path, o.Rule), edit(k.Next.Name, o.Object), o.Object))
	}
	if k.Objects > 0 && k.JudgedAt == "" {
		out = append(out, unknown(fmt.Sprintf("The %s of %s can't be judged by the schema of %s %s: they have to be converted by a webhook that does not run yet",
			phrase.Count(k.Objects, "object"), k.Next.Name, k.component.Name, k.component.To),
			fmt.Sprintf("upgrade to a version of %s first whose CRD has one of %s", k.component.Name, strings.Join(k.Live.Served(), ", ")), k.ref))
	}
	return out
}

func managedFields() Check {
	return Check{
		ID: "CAP-MANAGED-FIELDS", Waivable: true,
		Title: "Server-side apply goes on working with every object",
		Doc: "metadata.managedFields says in which version each manager wrote its fields. Once the CRD no longer has one of these versions, every server-side apply to the object " +
			"fails, although it can be read. The run moves such entries to the version that the object is stored in; where a conversion webhook stands between the versions, only the " +
			"ownership of metadata is moved, as other fields may have another meaning there: their manager owns them again after its next apply.",
		Fix: "Without --no-migrate the run does it. By hand: remove the entries from metadata.managedFields.",
		Sources: []string{
			"https://github.com/kubernetes-sigs/cluster-api/issues/10051", "https://github.com/knative/operator/issues/1184", "https://github.com/kubernetes/kubernetes/issues/111937",
		},
		Needs: []world.Topic{world.TopicStored},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, k := range moving(w, t) {
				if k.Fields.Count > 0 {
					out = append(out, k.staleFields(t))
				}
			}
			return out
		},
	}
}

func (k movingKind) staleFields(t *Target) v1alpha1.Finding {
	var names, versions, managers []string
	var refs []world.Ref
	for _, f := range k.Fields.First {
		names, refs = append(names, name(f.Object)), append(refs, f.Object)
		versions, managers = appendNew(versions, f.Version), appendNew(managers, f.Manager)
	}
	summary := fmt.Sprintf("%d of %d objects of %s have managedFields at %s (of %s), which %s does not have: %s",
		k.Fields.Count, k.Objects, k.Next.Name, strings.Join(versions, ", "), strings.Join(managers, ", "), k.title(), firstOf(names, k.Fields.Count))
	if t.NoMigrate || !plans(t, k.Next.Name) {
		o := k.Fields.First[0].Object
		return block(summary+"; server-side apply to them fails then", fmt.Sprintf(
			`kubectl get %s%s --show-managed-fields -o json | jq '.items[].metadata.managedFields |= (map(select(.apiVersion | IN(%s))) | if . == [] then [{}] else . end)' | kubectl replace -f -`,
			k.Next.Name, k.everywhere(), quoted(group(o.APIVersion), k.Next.Names())), refs...)
	}
	return warn(summary+"; the run repairs them", "see who applies these objects: kubectl get "+k.Next.Name+k.everywhere()+" --show-managed-fields -o yaml", refs...)
}

// plans tells whether the run goes through the objects of a resource.
func plans(t *Target, resource string) bool {
	return slices.ContainsFunc(t.Components, func(c v1alpha1.PlannedComponent) bool {
		return slices.ContainsFunc(c.Migrate, func(m v1alpha1.Migration) bool { return m.Resource == resource })
	})
}

func ownerReferences() Check {
	return Check{
		ID: "CAP-OWNER-REFERENCES", Waivable: true,
		Title: "Garbage collection goes on working",
		Doc: "An ownerReference names its owner in a version. If that is not served any more, the garbage collector can't find the owner: deleting a parent leaves its children, or " +
			"hangs. The run rewrites such references to a version that is served before and after, and keeps everything else in them.\n\n" +
			"Looked at are all objects of the release's CRDs, of other kinds in the same API groups, Secrets and ConfigMaps. Objects of other kinds are not looked at.",
		Fix:     "Without --no-migrate the run does it. By hand: write the reference again with a version that is served, with the same uid.",
		Sources: []string{"https://github.com/kubernetes-sigs/cluster-api/issues/7224", "https://github.com/kubernetes/kubernetes/issues/102641"},
		Needs:   []world.Topic{world.TopicStored},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, o := range w.Survey.Stored.Owners {
				if concerns(t, o) {
					out = append(out, staleOwners(t, o))
				}
			}
			return out
		},
	}
}

// concerns tells whether the owners' or the objects' CRD is of a component that moves.
func concerns(t *Target, o world.StaleOwners) bool {
	for _, c := range t.Components {
		if c.Action == v1alpha1.ActionNone {
			continue
		}
		for _, r := range t.Bundle.Components {
			if r.Component.Name == c.Name && slices.ContainsFunc(r.Objects, func(u *unstructured.Unstructured) bool { return defines(u, o) }) {
				return true
			}
		}
	}
	return false
}

func defines(u *unstructured.Unstructured, o world.StaleOwners) bool {
	if u.GetKind() != "CustomResourceDefinition" {
		return false
	}
	if u.GetName() == o.Resource {
		return true
	}
	g, _, errGroup := unstructured.NestedString(u.Object, "spec", "group")
	kind, _, errKind := unstructured.NestedString(u.Object, "spec", "names", "kind")
	return errGroup == nil && errKind == nil && g == o.OwnerGroup && kind == o.OwnerKind
}

func staleOwners(t *Target, o world.StaleOwners) v1alpha1.Finding {
	var names []string
	for _, r := range o.Objects.First {
		names = append(names, name(r))
	}
	summary := fmt.Sprintf("%d %s (%s) refer to their owner %s at %s/%s, which is not served afterwards: %s",
		o.Objects.Count, o.Kind, o.Resource, o.OwnerKind, o.OwnerGroup, o.OwnerVersion, firstOf(names, o.Objects.Count))
	if o.To == "" {
		return block(summary+"; no version is served both now and afterwards", fmt.Sprintf("first upgrade to a version that serves %s in one of %s as well",
			o.OwnerKind, strings.Join(o.Served, ", ")), o.Objects.First...)
	}
	if t.NoMigrate || !plans(t, o.Resource) {
		return block(summary+"; deleting the owner leaves them behind", fmt.Sprintf(
			`kubectl get %s -A -o json | jq '(.items[].metadata.ownerReferences[]? | select(.apiVersion == "%s/%s" and .kind == "%s").apiVersion) = "%s/%s"' | kubectl replace -f -`,
			o.Resource, o.OwnerGroup, o.OwnerVersion, o.OwnerKind, o.OwnerGroup, o.To), o.Objects.First...)
	}
	return warn(fmt.Sprintf("%s; the run rewrites them to %s", summary, o.To), fmt.Sprintf("see them: kubectl get %s -A -o yaml", o.Resource), o.Objects.First...)
}

func conversionLeft() Check {
	return Check{
		ID:    "CAP-FIELD-CONFLICT",
		Title: "No other manager's fields stand in the way",
		Doc: "Server-side apply removes only fields that nobody else owns. Where a CRD no longer needs its conversion webhook, or a webhook configuration loses a webhook, a CA that an " +
			"injector (cert-manager's cainjector for example) wrote stays behind, and what is left is not valid: the API server refuses the change. The run takes such a remnant away " +
			"right before it applies the object: a CRD is told strategy None, a webhook's entry is removed.",
		Fix:     "The run does it. If the injector writes the field again, remove the annotation by which it finds the object.",
		Sources: []string{"https://github.com/cert-manager/cert-manager/issues/4838", "https://github.com/cert-manager/cert-manager/issues/4831", "https://github.com/cert-manager/cert-manager/issues/8771"},
		Run: func(_ *world.World, t *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, component := range slices.Sorted(maps.Keys(t.Sets)) {
				for _, o := range t.Sets[component].Objects {
					for _, c := range o.Conflicts {
						out = append(out, warn(fmt.Sprintf("%s of %s no longer has %s, which field manager %s owns; the run removes it", o.Ref, component, c.Field, c.Manager),
							fmt.Sprintf("see who writes it: kubectl get %s %s --show-managed-fields -o yaml", strings.ToLower(o.Ref.Kind), o.Ref.Name), o.Ref))
					}
				}
			}
			return out
		},
	}
}

// VersionNames lists the versions of a CRD in the order in which it has them.
func VersionNames(crd *unstructured.Unstructured) []string {
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return nil
	}
	var out []string
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok {
			out = append(out, fmt.Sprint(m["name"]))
		}
	}
	return out
}

func name(r world.Ref) string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// firstOf lists the first names and says how many there are besides.
func firstOf(names []string, all int64) string {
	text := strings.Join(names, ", ")
	if more := all - int64(len(names)); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func group(apiVersion string) string {
	g, _, _ := strings.Cut(apiVersion, "/")
	return g
}

func quoted(group string, versions []string) string {
	var out []string
	for _, v := range versions {
		out = append(out, fmt.Sprintf("%q", group+"/"+v))
	}
	return strings.Join(out, ", ")
}
