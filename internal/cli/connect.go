// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/internal/operation"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/transport"
)

// connectCluster finds the management cluster by the usual kubeconfig rules. It makes no request.
func (a *app) connectCluster(g *global) (session, error) {
	config, err := restConfig(g)
	if err != nil {
		return nil, err
	}
	g.host = config.Host
	config.Wrap(transport.Wrap(a.clock))
	s, err := operation.Connect(operation.Options{Config: config, Clock: a.clock, Offline: g.offline})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func restConfig(g *global) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = g.kubeconfig
	rules.WarnIfAllMissing = false
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: g.context})
	config, err := loader.ClientConfig()
	if err != nil {
		name := g.context
		if raw, rawErr := loader.RawConfig(); rawErr == nil && name == "" {
			name = raw.CurrentContext
		}
		return nil, kubeconfigProblem(g, name, err)
	}
	config.UserAgent = userAgent()
	// The engine paces itself, and one who waits for a limiter holds up the run: there is none unless it is asked for.
	config.QPS, config.Burst = -1, -1
	if g.qps > 0 {
		config.QPS, config.Burst = g.qps, g.burst
	}
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

func userAgent() string {
	return fmt.Sprintf("capstan/%s (%s/%s)", build().Version, runtime.GOOS, runtime.GOARCH)
}

func kubeconfigProblem(g *global, name string, err error) error {
	p := problem.Usage("BadKubeconfig", g.kubeconfig, "The kubeconfig can't be used: %v", err).WithCause(err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.Reason, p.Message = "NoKubeconfig", "There is no such kubeconfig"
		return p.WithRemedy("give an existing file by --kubeconfig or KUBECONFIG")
	case clientcmd.IsEmptyConfig(err):
		p.Reason, p.Message = "NoKubeconfig", "No management cluster is given: there is no kubeconfig, and this is no Pod"
		return p.WithRemedy("capstan … --kubeconfig FILE, or export KUBECONFIG=FILE")
	// The error of an override has no type of its own.
	case clientcmd.IsContextNotFound(err), name != "" && strings.Contains(err.Error(), "does not exist"):
		p.Reason, p.Message = "NoSuchContext", fmt.Sprintf("The kubeconfig has no context %q", name)
		return p.WithRemedy("see them with: kubectl config get-contexts")
	}
	return p.WithRemedy("check it with: kubectl config view")
}

// buildInfo is what the binary knows of itself.
type buildInfo struct {
	Version, Revision string
}

// build reads what the Go toolchain stamped into the binary.
func build() buildInfo {
	out := buildInfo{Version: "devel"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		out.Version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			out.Revision = s.Value
		}
	}
	return out
}
