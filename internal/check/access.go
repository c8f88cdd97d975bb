// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/world"
)

// accessChecks are about what accounts may do, and about namespaces in which nothing can be made any more.
func accessChecks() []Check {
	return []Check{ownAccess(), controllerAccess(), terminating(), unknownKind()}
}

func ownAccess() Check {
	return Check{
		ID:    "CAP-ACCESS",
		Title: "Capstan may do all that the run needs",
		Doc: "A right that is missing shows itself in the middle of a run, when half of the components have moved. So the API server is asked before the first write, for " +
			"every verb and resource of the release and of Capstan's own records (SelfSubjectAccessReview, which changes nothing).\n\n" +
			"A release also has roles, and nobody may give what they don't have: the dry run of each role shows whether the account holds all the rights in it, or " +
			"may `escalate` and `bind`.",
		Fix: "Use an account with cluster-admin, as clusterctl does, or give this one the rights that are named.",
		Sources: []string{
			"https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping",
		},
		Needs: []world.Topic{world.TopicAccess},
		Run: func(w *world.World, t *Target) []v1alpha1.Finding {
			a := w.Survey.Access
			var out []v1alpha1.Finding
			for _, l := range gather(a.Lacks) {
				out = append(out, block(fmt.Sprintf("%s may not %s %s%s, which the run does", a.User, strings.Join(l.verbs, ", "), l.what, l.where()),
					grant(a, "capstan", l)))
			}
			return append(out, escalations(a, t)...)
		},
	}
}

// lack is one resource with the verbs and namespaces that are missing together.
type lack struct {
	what       string
	right      world.Right
	verbs      []string
	namespaces []string
}

// gather puts rights together: by resource, and for those that lack the same verbs in several namespaces, those.
func gather(rights []world.Right) []lack {
	var out []lack
	for _, r := range rights {
		i := slices.IndexFunc(out, func(l lack) bool { return l.what == r.What() && slices.Equal(l.namespaces, place(r)) })
		if i < 0 {
			out = append(out, lack{what: r.What(), right: r, namespaces: place(r)})
			i = len(out) - 1
		}
		out[i].verbs = append(out[i].verbs, r.Verb)
	}
	var joined []lack
	for _, l := range out {
		i := slices.IndexFunc(joined, func(j lack) bool {
			return j.what == l.what && slices.Equal(j.verbs, l.verbs) && len(j.namespaces) > 0 && len(l.namespaces) > 0
		})
		if i < 0 {
			joined = append(joined, l)
			continue
		}
		joined[i].namespaces = append(joined[i].namespaces, l.namespaces...)
	}
	return joined
}

func place(r world.Right) []string {
	if r.Namespace == "" {
		return nil
	}
	return []string{r.Namespace}
}

func (l lack) where() string {
	switch len(l.namespaces) {
	case 0:
		return ""
	case 1:
		return " in namespace " + l.namespaces[0]
	}
	return " in namespaces " + strings.Join(l.namespaces, ", ")
}

// grant is the command that gives an account what it lacks.
func grant(a *world.Access, name string, l lack) string {
	subject := "--user=" + a.User
	if parts := strings.Split(a.User, ":"); len(parts) == 4 && parts[1] == "serviceaccount" {
		subject = "--serviceaccount=" + parts[2] + ":" + parts[3]
	}
	return grantTo(subject, name, l)
}

func grantTo(subject, name string, l lack) string {
	target := "--resource=" + resourceFlag(l.right)
	if l.right.Path != "" {
		target = "--non-resource-url=" + l.right.Path
	}
	if l.right.Name != "" {
		target += " --resource-name=" + l.right.Name
	}
	role := name + "-" + strings.Trim(strings.NewReplacer("*", "all", "/", "-", ".", "-", " ", "-", ":", "-").Replace(strings.ToLower(l.what)), "-")
	return fmt.Sprintf("kubectl create clusterrole %s --verb=%s %s && kubectl create clusterrolebinding %s --clusterrole=%s %s",
		role, strings.Join(l.verbs, ","), target, role, role, subject)
}

func resourceFlag(r world.Right) string {
	out := r.Resource
	if r.Group != "" {
		out += "." + r.Group
	}
	if r.Subresource != "" {
		out += "/" + r.Subresource
	}
	return out
}

// escalations are the roles that the API server does not let the account give.
func escalations(a *world.Access, t *Target) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for _, name := range slices.Sorted(maps.Keys(t.Sets)) {
		for _, o := range t.Sets[name].Objects {
			if !strings.Contains(o.Refused, "attempting to grant RBAC permissions not currently held") {
				continue
			}
			l := lack{what: "roles", verbs: []string{"escalate", "bind"}, right: world.Right{
				Resource: "clusterroles.rbac.authorization.k8s.io,roles", Group: "rbac.authorization.k8s.io",
			}}
			out = append(out, block(
				fmt.Sprintf("%s may not give the rights in %s of %s: it does not have them all, and may neither escalate nor bind", a.User, o.Ref, name),
				grant(a, "capstan-escalate", l), o.Ref))
		}
	}
	return out
}

func controllerAccess() Check {
	return Check{
		ID: "CAP-ACCESS-CONTROLLER", Waivable: true,
		Title: "Controllers have the rights that their new version needs",
		Doc: "Where a platform team manages roles itself, the release's own bindings are not used, and a new version may need more than the old role gives: it then starts, " +
			"logs errors, and leaves things undone. For each controller whose service account the release does not bind to one of its roles, the API server is asked " +
			"for every rule in the roles that the release brings and binds to nobody (SubjectAccessReview, which changes nothing).",
		Fix: "Give the service account what is missing, in the role that you manage, or let the release bind its own role to it.",
		Sources: []string{
			"https://github.com/openshift/hypershift/pull/7304",
			"https://github.com/k0rdent/kcm/issues/2921",
		},
		Needs: []world.Topic{world.TopicAccounts},
		Run: func(w *world.World, _ *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, account := range w.Survey.Access.Accounts {
				if account.Missing {
					out = append(out, block(
						fmt.Sprintf("%s, which the controllers of %s run as, does not exist and is not part of the release", account.Account, account.Component),
						fmt.Sprintf("kubectl create serviceaccount %s -n %s", account.Account.Name, account.Account.Namespace), account.Account))
				}
				subject := "--serviceaccount=" + account.Account.Namespace + ":" + account.Account.Name
				for _, l := range gather(account.Lacks) {
					out = append(out, block(
						fmt.Sprintf("%s may not %s %s%s, which the new version of %s needs", account.Account, strings.Join(l.verbs, ", "), l.what, l.where(), account.Component),
						grantTo(subject, account.Account.Name, l), account.Account))
				}
			}
			return out
		},
	}
}

func terminating() Check {
	return Check{
		ID:    "CAP-TERMINATING",
		Title: "No namespace of the release is being deleted",
		Doc: "In a namespace that is being deleted nothing can be made, and what is there goes. It ends only once every object in it has lost its finalizers. Capstan never deletes a " +
			"namespace, and does not start while one of the release, or of an installed provider, is on its way out.",
		Fix:     "Find out who deletes the namespace. Let the controller that owns the finalizers finish, or take a finalizer away by hand if its controller is gone for good; then wait until the namespace is gone, and plan again.",
		Sources: []string{"https://github.com/rancher/turtles/issues/455"},
		Needs:   []world.Topic{world.TopicEnding},
		Run: func(w *world.World, _ *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			for _, e := range w.Survey.Ending {
				ref := world.Ref{APIVersion: "v1", Kind: "Namespace", Name: e.Namespace}
				summary := fmt.Sprintf("%s is being deleted", ref)
				remedy := fmt.Sprintf("kubectl get namespace %s -o yaml shows in its conditions what it waits for; wait until it is gone, then plan again", e.Namespace)
				if e.Held != "" {
					summary += ", and is held by " + e.Held
				}
				if len(e.Objects) > 0 {
					o := e.Objects[0]
					remedy = fmt.Sprintf("kubectl get %s %s -n %s -o jsonpath='{.metadata.finalizers}', and let the owner of the finalizer finish; when the namespace is gone, plan again",
						strings.ToLower(o.Kind), o.Name, e.Namespace)
				}
				out = append(out, block(summary, remedy, append([]world.Ref{ref}, e.Objects...)...))
			}
			return out
		},
	}
}
