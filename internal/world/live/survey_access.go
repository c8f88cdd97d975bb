// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/world"
)

// accessTopic asks the API server whether Capstan's own account may do what a run will do. Reviews are questions: they
// change nothing.
func accessTopic() topic {
	return topic{name: world.TopicAccess, begin: func(ctx context.Context, s *surveyor) (func(context.Context) error, error) {
		access := s.access()
		var err error
		if access.User, access.Groups, err = s.whoami(ctx); err != nil {
			return nil, err
		}
		var wanted []world.Right
		for _, a := range s.ask.Rights {
			right, found, err := s.right(a)
			if err != nil {
				return nil, err
			}
			if found && !slices.Contains(wanted, right) {
				wanted = append(wanted, right)
			}
		}
		access.Lacks, err = s.lacking(wanted, func(r world.Right) (bool, error) { return s.mayI(ctx, r) })
		return nil, err
	}}
}

// accountsTopic asks the same for the service accounts of controllers whose roles are not part of the release.
func accountsTopic() topic {
	return topic{name: world.TopicAccounts, begin: func(ctx context.Context, s *surveyor) (func(context.Context) error, error) {
		access := s.access()
		for _, a := range s.ask.Accounts {
			result := world.AccountAccess{Account: a.Account, Component: a.Component}
			exists, err := s.exists(ctx, a)
			if err != nil {
				return nil, err
			}
			result.Missing = !exists
			user := "system:serviceaccount:" + a.Account.Namespace + ":" + a.Account.Name
			groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + a.Account.Namespace, "system:authenticated"}
			result.Lacks, err = s.lacking(a.Rights, func(r world.Right) (bool, error) { return s.mayThey(ctx, user, groups, r) })
			if err != nil {
				return nil, err
			}
			if result.Missing || len(result.Lacks) > 0 {
				access.Accounts = append(access.Accounts, result)
			}
		}
		return nil, nil //nolint:nilnil // all is done, and nothing is left to do after the visits
	}}
}

func (s *surveyor) access() *world.Access {
	if s.out.Access == nil {
		s.out.Access = &world.Access{}
	}
	return s.out.Access
}

// exists tells whether there is a service account, or will be.
func (s *surveyor) exists(ctx context.Context, a world.AskAccount) (bool, error) {
	if a.InRelease || a.Account.Name == "default" {
		return true, nil
	}
	_, err := s.clients.metadata.Resource(corev1.SchemeGroupVersion.WithResource("serviceaccounts")).Namespace(a.Account.Namespace).Get(ctx, a.Account.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", a.Account, err)
	}
	return true, nil
}

// right finds the resource of a right that is asked for by an object's kind. A kind that is not served has none yet; the
// CRD that brings it may say its name.
func (s *surveyor) right(a world.AskRight) (world.Right, bool, error) {
	r := a.Right
	if a.Object.Kind == "" {
		return r, true, nil
	}
	gvk := schema.FromAPIVersionAndKind(a.Object.APIVersion, a.Object.Kind)
	r.Group = gvk.Group
	for _, crd := range s.ask.CRDs {
		if stringAt(crd, "spec", "group") == gvk.Group && stringAt(crd, "spec", "names", "kind") == gvk.Kind {
			r.Resource = stringAt(crd, "spec", "names", "plural")
			if stringAt(crd, "spec", "scope") == "Namespaced" {
				r.Namespace = a.Object.Namespace
			}
			return r, true, nil
		}
	}
	ms, err := s.mappings(gvk.GroupKind())
	if err != nil {
		return r, false, fmt.Errorf("find kind %s: %w", gvk.GroupKind(), err)
	}
	if len(ms) == 0 {
		return r, false, nil
	}
	r.Resource = ms[0].Resource.Resource
	if ms[0].Scope.Name() == apimeta.RESTScopeNameNamespace {
		r.Namespace = a.Object.Namespace
	}
	return r, true, nil
}

// lacking returns those of the rights that may does not confirm, sorted. Who may do everything is asked only once.
func (s *surveyor) lacking(wanted []world.Right, may func(world.Right) (bool, error)) ([]world.Right, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	paths := slices.ContainsFunc(wanted, func(r world.Right) bool { return r.Path != "" })
	all, err := may(world.Right{Verb: "*", Group: "*", Resource: "*"})
	if err != nil || all && !paths {
		return nil, err
	}
	allowed := make([]bool, len(wanted))
	err = forEach(len(wanted), s.parallel, func(i int) (err error) {
		if all && wanted[i].Path == "" {
			allowed[i] = true
			return nil
		}
		allowed[i], err = may(wanted[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []world.Right
	for i, r := range wanted {
		if !allowed[i] {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, world.Right.Compare)
	return out, nil
}

// whoami asks the API server who the kubeconfig's user is to it.
func (s *surveyor) whoami(ctx context.Context) (user string, groups []string, err error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := s.review(ctx, authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews"), "SelfSubjectReview", review); err != nil {
		return "", nil, fmt.Errorf("ask who you are: %w", err)
	}
	return review.Status.UserInfo.Username, review.Status.UserInfo.Groups, nil
}

func (s *surveyor) mayI(ctx context.Context, r world.Right) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{}
	review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes = attributes(r)
	err := s.review(ctx, authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews"), "SelfSubjectAccessReview", review)
	if err != nil {
		return false, fmt.Errorf("ask whether you may %s %s: %w", r.Verb, r.What(), err)
	}
	return review.Status.Allowed, nil
}

func (s *surveyor) mayThey(ctx context.Context, user string, groups []string, r world.Right) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups}}
	review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes = attributes(r)
	err := s.review(ctx, authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews"), "SubjectAccessReview", review)
	if err != nil {
		return false, fmt.Errorf("ask whether %s may %s %s: %w", user, r.Verb, r.What(), err)
	}
	return review.Status.Allowed, nil
}

func attributes(r world.Right) (*authorizationv1.ResourceAttributes, *authorizationv1.NonResourceAttributes) {
	if r.Path != "" {
		return nil, &authorizationv1.NonResourceAttributes{Path: strings.ReplaceAll(r.Path, "*", "x"), Verb: r.Verb}
	}
	return &authorizationv1.ResourceAttributes{
		Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
	}, nil
}

// review sends a question and reads the answer into it.
func (s *surveyor) review(ctx context.Context, gvr schema.GroupVersionResource, kind string, question any) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(question)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvr.GroupVersion().WithKind(kind))
	answer, err := s.clients.dynamic.Resource(gvr).Create(ctx, u, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, question)
}
