// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/internal/problem"
)

// instance is a component with a Secret whose data comes from a variable.
func instance(name, version, secret, variables string) part {
	return part{
		name: name, version: version, more: variables,
		manifests: fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %[1]s}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: %[1]s}\ndata: {version: %[2]s}\n"+
			"---\napiVersion: v1\nkind: Secret\nmetadata: {name: creds, namespace: %[1]s}\n%[3]s\n", name, version, secret),
	}
}

func (b *bed) secret(t *testing.T, namespace, name, key string) string {
	t.Helper()
	data, _ := b.get(t, "v1", "Secret", namespace, name).Object["data"].(map[string]any)
	text, _ := data[key].(string)
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestC82_CredentialsOfAnotherInstance(t *testing.T) {
	t.Parallel()
	const (
		whole = "stringData: {account: '${ACCOUNT}'}"
		inner = "stringData: {account: \"user=x\\naccount=${ACCOUNT}\\n\"}"
		one   = "variables: {ACCOUNT: account-one}"
		two   = "variables: {ACCOUNT: account-two}"
		extra = "\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: extra, namespace: capx-system-2}\ndata: {token: dG9rZW4=, other: eA==}"
	)
	b := newBed(t, apitest.Options{})
	first := writeRelease(t, "v1.0.0", "", instance("capx-system-1", "v1.0.0", whole, one), instance("capx-system-2", "v1.0.0", whole+extra, two))
	want(t, b.capstan(t, "upgrade", first, "--yes"), problem.ExitDone)
	made := len(b.writes(t))
	unchanged := func(t *testing.T) {
		t.Helper()
		if w := b.writes(t); len(w) != made {
			t.Errorf("Capstan wrote %d times although it refused", len(w)-made)
		}
		if a, c := b.secret(t, "capx-system-1", "creds", "account"), b.secret(t, "capx-system-2", "creds", "account"); a != "account-one" || c != "account-two" {
			t.Errorf("the accounts are %q and %q", a, c)
		}
	}

	for name, tc := range map[string]struct {
		second part
		want   []string
		// firm tells that it can't be accepted.
		firm bool
	}{
		"both are rendered with the first one's variable": {
			second: instance("capx-system-2", "v1.1.0", whole+extra, one),
			want:   []string{"CAP-CREDENTIALS", "Secret capx-system-2/creds", "account (sha256 d2da2e56, then sha256 "},
		},
		"an empty variable": {
			second: instance("capx-system-2", "v1.1.0", whole+extra, `variables: {ACCOUNT: ""}`),
			want:   []string{"CAP-CREDENTIALS-EMPTY", "Secret capx-system-2/creds", "${ACCOUNT}"}, firm: true,
		},
		"an empty default": {
			second: instance("capx-system-2", "v1.1.0", "stringData:\n  account: ${ACCOUNT:=\"\"}"+extra, "variables: {OTHER: x}"),
			want:   []string{"CAP-CREDENTIALS-EMPTY", "Secret capx-system-2/creds"}, firm: true,
		},
		"an empty variable in the middle of a value": {
			second: instance("capx-system-2", "v1.1.0", inner, `variables: {ACCOUNT: " "}`),
			want:   []string{"CAP-CREDENTIALS-EMPTY", "account holds ${ACCOUNT}"}, firm: true,
		},
		"a manifest with an empty value": {
			second: instance("capx-system-2", "v1.1.0", `data: {account: ""}`, ""),
			want:   []string{"CAP-CREDENTIALS-EMPTY", "would become empty"}, firm: true,
		},
		"a manifest without the key": {
			second: instance("capx-system-2", "v1.1.0", whole+strings.Replace(extra, "token: dG9rZW4=, ", "", 1), two),
			want:   []string{"CAP-CREDENTIALS", "Secret capx-system-2/extra", "token (sha256 3c469e9d, then gone)"},
		},
		"a manifest without the Secret": {
			second: plain("capx-system-2", "v1.1.0", "c"),
			want:   []string{"CAP-CREDENTIALS", "would be deleted with its data"},
		},
		"a new instance with an empty variable": {
			second: instance("capx-system-3", "v1.1.0", whole, `variables: {ACCOUNT: ""}`),
			want:   []string{"CAP-CREDENTIALS-EMPTY", "Secret capx-system-3/creds"}, firm: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			release := writeRelease(t, "v1.1.0", "", instance("capx-system-1", "v1.1.0", whole, one), tc.second)
			for _, command := range [][]string{{"plan", release}, {"upgrade", release, "--yes"}, {"plan", release, "--diff", "-o", "json"}} {
				r := b.capstan(t, command...)
				want(t, r, problem.ExitBlocked, tc.want...)
				lacks(t, r, "account-one", "account-two", "Secret capx-system-1/creds of")
				unchanged(t)
			}
			if !tc.firm {
				return
			}
			want(t, b.capstan(t, "upgrade", release, "--yes", "--accept", "CAP-CREDENTIALS-EMPTY=I insist"), problem.ExitBlocked, "can't be accepted")
			unchanged(t)
		})
	}

	t.Run("the right variables keep both", func(t *testing.T) {
		release := writeRelease(t, "v1.1.0", "", instance("capx-system-1", "v1.1.0", whole, one), instance("capx-system-2", "v1.1.0", whole+extra, two))
		want(t, b.capstan(t, "upgrade", release, "--yes"), problem.ExitDone)
		made = len(b.writes(t))
		unchanged(t)
	})
	t.Run("on purpose, by name", func(t *testing.T) {
		release := writeRelease(t, "v1.2.0", "", instance("capx-system-1", "v1.2.0", whole, one), instance("capx-system-2", "v1.2.0", whole+extra, "variables: {ACCOUNT: account-three}"))
		want(t, b.capstan(t, "upgrade", release, "--yes"), problem.ExitBlocked, "CAP-CREDENTIALS")
		want(t, b.capstan(t, "upgrade", release, "--yes", "--accept", "CAP-CREDENTIALS=rotated today"), problem.ExitDone)
		if got := b.secret(t, "capx-system-2", "creds", "account"); got != "account-three" {
			t.Errorf("the account is %q", got)
		}
	})
}

// TestC82_TwoInstancesOfAProvider upgrades one instance of a provider; the other one is not part of the release.
func TestC82_TwoInstancesOfAProvider(t *testing.T) {
	t.Parallel()
	b := newBed(t, apitest.Options{})
	capx := instance("capx", "v1.0.0", "stringData: {account: '${ACCOUNT}'}", "variables: {ACCOUNT: account-one}")
	capx.provider = "InfrastructureProvider"
	want(t, b.capstan(t, "upgrade", writeRelease(t, "v1.0.0", "", capx), "--yes"), problem.ExitDone)
	b.apply(t, `
apiVersion: v1
kind: Secret
metadata: {name: creds, namespace: capx-system-2, labels: {cluster.x-k8s.io/provider: infrastructure-capx, clusterctl.cluster.x-k8s.io: ""}}
stringData: {account: account-two}
---
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Provider
metadata: {name: infrastructure-capx, namespace: capx-system-2, labels: {clusterctl.cluster.x-k8s.io: "", cluster.x-k8s.io/provider: infrastructure-capx}}
providerName: capx
type: InfrastructureProvider
version: v1.0.0
`)
	capx = instance("capx", "v1.1.0", "stringData: {account: '${ACCOUNT}'}", "variables: {ACCOUNT: account-one}")
	capx.provider = "InfrastructureProvider"
	release := writeRelease(t, "v1.1.0", "", capx)
	made := len(b.writes(t))
	for _, args := range [][]string{{"plan", release}, {"upgrade", release, "--yes"}} {
		r := b.capstan(t, args...)
		want(t, r, problem.ExitBlocked, "CAP-PROVIDER-INSTANCES")
		lacks(t, r, "removed: Secret capx-system-2/creds")
	}
	if w := b.writes(t); len(w) != made {
		t.Errorf("Capstan wrote although it refused: %v", w[made:])
	}
	if got := b.secret(t, "capx-system-2", "creds", "account"); got != "account-two" {
		t.Errorf("the second instance's account is %q", got)
	}
}
