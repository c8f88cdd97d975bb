// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/internal/diagnose"
	"github.com/capstan-dev/capstan/internal/problem"
)

// translate turns any error into the user's words. Most are a problem already; what is left are answers, or none, of the
// API server.
func (g *global) translate(ctx context.Context, err error) *problem.Error {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p
	}
	p := &problem.Error{Reason: "Error", Message: capital(err.Error()), Exit: problem.ExitError, Err: err}
	switch {
	case ctx.Err() != nil:
		p.Reason, p.Message, p.Exit = "Interrupted", "Interrupted", problem.ExitInterrupted
		return p
	case apierrors.IsUnauthorized(err), anonymous(err):
		p.Reason, p.Message = "Unauthorized", fmt.Sprintf("The management cluster at %s does not accept the kubeconfig's credentials", g.host)
		return p.WithRemedy("log in again or renew the kubeconfig, then check with: kubectl auth whoami")
	case apierrors.IsForbidden(err):
		p.Reason, p.Message = "Forbidden", "Not allowed: "+diagnose.Words(err)
		return p.WithRemedy("give this user the right that is named; Capstan needs cluster-admin, as clusterctl does")
	}
	if why := unreachable(err); why != "" {
		p.Reason, p.Message = "Unreachable", fmt.Sprintf("The management cluster at %s can't be reached: %s", or(g.host, "the kubeconfig's address"), why)
		return p.WithRemedy("check the address in the kubeconfig (--kubeconfig, --context) and that its API server runs: kubectl version")
	}
	return p
}

// anonymous tells that the API server saw no credentials at all.
func anonymous(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(diagnose.Words(err), `User "system:anonymous"`)
}

// unreachable says why no answer came, or returns "" if one did.
func unreachable(err error) string {
	var certificate x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var op net.Error
	var call *url.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &certificate), errors.As(err, &hostname), errors.As(err, &invalid):
		return "its certificate is not the one that the kubeconfig expects"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &op) && op.Timeout():
		return "no answer in time"
	case errors.As(err, &call):
		return call.Err.Error()
	case apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err), apierrors.IsServerTimeout(err):
		return diagnose.Words(err)
	}
	return ""
}

func or(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}
