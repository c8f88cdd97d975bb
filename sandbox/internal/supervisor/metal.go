// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/capstan-dev/capstan/sandbox/internal/controlplane"
)

// MetalPort is the port of the first workload cluster on bare metal; the next ones follow.
const MetalPort = 20000

// metalHealth is where the daemon of simulated bare metal says that it lives.
const metalHealth = "127.0.0.1:9450"

// metalComponent is the daemon that owns simulated hosts and the workload clusters on them. It is a process of the sandbox, so no change in the
// management cluster touches it.
func (s *Supervisor) metalComponent(files controlplane.Files) *component {
	client := &http.Client{Timeout: 2 * time.Second}
	return processComponent(controlplane.Component{
		Name: "metal", Path: s.cfg.Spec.Inputs.Metal,
		Args: []string{
			"daemon", "--kubeconfig", files.AdminKubeconfig(), "--address", s.cfg.Address.String(),
			"--min-port", fmt.Sprint(MetalPort), "--health", metalHealth,
		},
		Health: func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metalHealth, nil)
			if err != nil {
				return fmt.Errorf("make health request: %w", err)
			}
			resp, err := client.Do(req)
			if err != nil {
				return fmt.Errorf("ask the bare metal daemon: %w", err)
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				return fmt.Errorf("read the bare metal daemon's answer: %w", err)
			}
			return nil
		},
	}, s.cfg.Layout, s.cfg.Clock)
}
