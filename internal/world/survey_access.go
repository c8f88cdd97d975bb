// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

import "cmp"

const (
	// TopicAccess is what Capstan's own account may do.
	TopicAccess Topic = "the rights of the account that you use"
	// TopicAccounts is what the service accounts of controllers may do.
	TopicAccounts Topic = "the rights of the controllers' service accounts"
	// TopicEnding are namespaces that are being deleted.
	TopicEnding Topic = "whether a namespace of the release is being deleted"
)

// Right is one thing that an account may want to do.
type Right struct {
	Verb, Group, Resource, Subresource string
	// Namespace is empty for all namespaces, or for objects without one.
	Namespace string
	// Name narrows it to one object.
	Name string
	// Path is a URL that is no resource, instead of all the above but Verb.
	Path string
}

// What is the right without its verb and place, "deployments.apps/scale" for example.
func (r Right) What() string {
	if r.Path != "" {
		return "URL " + r.Path
	}
	out := r.Resource
	if r.Group != "" {
		out += "." + r.Group
	}
	if r.Subresource != "" {
		out += "/" + r.Subresource
	}
	if r.Name != "" {
		out += " " + r.Name
	}
	return out
}

// Compare orders rights by resource, place and verb.
func (r Right) Compare(o Right) int {
	return cmp.Or(cmp.Compare(r.What(), o.What()), cmp.Compare(r.Namespace, o.Namespace), cmp.Compare(r.Verb, o.Verb))
}

// AskRight is a right that a run will need. Where Object is set, its resource is found from the object's kind.
type AskRight struct {
	Right

	// Object is a kind of object, with a namespace if that has one.
	Object Ref
}

// AskAccount is a service account with the rights that it will need.
type AskAccount struct {
	// Account is the ServiceAccount.
	Account Ref
	// Component is the component whose controllers use it.
	Component string
	// InRelease tells that the release makes it.
	InRelease bool
	// Rights are what the component's roles give.
	Rights []Right
}

// Access is what accounts may not do.
type Access struct {
	// User is who Capstan is to the API server.
	User string
	// Groups are the groups that User is in.
	Groups []string
	// Lacks are the rights that User does not have.
	Lacks []Right
	// Accounts are service accounts that lack something.
	Accounts []AccountAccess
}

// AccountAccess is what one service account may not do.
type AccountAccess struct {
	Account   Ref
	Component string
	// Missing tells that the account does not exist and is not made by the release either.
	Missing bool
	// Lacks are the rights that it does not have.
	Lacks []Right
}

// Ending is a namespace that is being deleted.
type Ending struct {
	// Namespace is its name.
	Namespace string
	// Held says in one line what keeps it: the objects with finalizers that are left in it.
	Held string
	// Objects are those objects.
	Objects []Ref
}
