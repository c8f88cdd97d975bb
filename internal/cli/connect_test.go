// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/problem"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: %s
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: t}}]
`

func TestKubeconfigIsFoundByTheUsualRules(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if err := os.WriteFile(good, []byte(strings.Replace(kubeconfig, "%s", "here", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", good)
	config, err := restConfig(&global{})
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://127.0.0.1:6443" || !strings.HasPrefix(config.UserAgent, "capstan/") || config.QPS != -1 {
		t.Errorf("host %q, user agent %q, QPS %v; want the file's server, capstan/…, -1", config.Host, config.UserAgent, config.QPS)
	}
}

func TestKubeconfigFaultsAreUsageErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// No kubeconfig of the machine that runs the test, and no Pod.
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	t.Setenv("HOME", dir)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for name, tc := range map[string]struct {
		g      global
		reason string
		// want is in the message or where it is.
		want string
	}{
		"no kubeconfig at all":        {global{}, "NoKubeconfig", "No management cluster is given"},
		"a file that is not there":    {global{kubeconfig: filepath.Join(dir, "absent")}, "NoKubeconfig", "absent"},
		"a file that is no YAML":      {global{kubeconfig: file("junk", "a: [")}, "BadKubeconfig", "junk"},
		"a context that is not there": {global{kubeconfig: file("a", strings.Replace(kubeconfig, "%s", "here", 1)), context: "there"}, "NoSuchContext", `"there"`},
		"a current context that is not there": {
			global{kubeconfig: file("b", strings.Replace(kubeconfig, "%s", "gone", 1))}, "NoSuchContext", `"gone"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := restConfig(&tc.g)
			p, ok := errors.AsType[*problem.Error](err)
			if !ok {
				t.Fatalf("got %v, want a problem", err)
			}
			if p.Reason != tc.reason || p.Exit != problem.ExitUsage || p.Remedy == "" || !strings.Contains(p.Where+p.Message, tc.want) {
				t.Errorf("got %+v, want reason %s, exit 2, a remedy, and %q", p, tc.reason, tc.want)
			}
		})
	}
}
