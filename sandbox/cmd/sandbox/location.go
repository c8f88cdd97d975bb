// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/sandbox/internal/supervisor"
)

// location says which sandbox a command is about.
type location struct {
	dir  string
	name string
}

func (o *location) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.dir, "dir", "", "directory of the sandbox (default: one under the user's state directory)")
	c.Flags().StringVar(&o.name, "name", "default", "name of the sandbox; it selects the default directory")
}

// layout resolves the directory; it does not have to exist.
func (o *location) layout() (supervisor.Layout, error) {
	if !regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`).MatchString(o.name) {
		return supervisor.Layout{}, usagef("--name %q: use up to 40 small letters, digits and dashes", o.name)
	}
	dir := o.dir
	if dir == "" {
		state, err := stateDir()
		if err != nil {
			return supervisor.Layout{}, err
		}
		dir = filepath.Join(state, o.name)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return supervisor.Layout{}, fmt.Errorf("resolve --dir: %w", err)
	}
	return supervisor.Layout{Dir: abs}, nil
}

// flags returns the flags that lead another command to the same sandbox, for messages.
func (o *location) flags() string {
	switch {
	case o.dir != "":
		return " --dir " + o.dir
	case o.name != "default":
		return " --name " + o.name
	}
	return ""
}

// stateDir is where sandboxes live by default.
func stateDir() (string, error) {
	if x := os.Getenv("XDG_STATE_HOME"); x != "" {
		return filepath.Join(x, "capstan-sandbox"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", hint(fmt.Errorf("find the state directory: %w", err), "set HOME, or pass --dir")
	}
	return filepath.Join(home, ".local", "state", "capstan-sandbox"), nil
}

// cacheDir is where builds are kept, shared by all sandboxes of a user.
func cacheDir() (string, error) {
	if x := os.Getenv("CAPSTAN_SANDBOX_CACHE"); x != "" {
		return x, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", hint(fmt.Errorf("find the cache directory: %w", err), "set HOME or CAPSTAN_SANDBOX_CACHE")
	}
	return filepath.Join(cache, "capstan-sandbox"), nil
}

// explain turns "nobody answers" into the next step.
func (o *location) explain(err error) error {
	if errors.Is(err, supervisor.ErrNotRunning) {
		l, lerr := o.layout()
		if lerr != nil {
			return lerr
		}
		return hint(fmt.Errorf("%w: %s", supervisor.ErrNotRunning, l.Dir), "run `sandbox up%s`, or point --dir at another sandbox", o.flags())
	}
	if errors.Is(err, supervisor.ErrStuck) {
		return hint(err, "run `sandbox logs supervisor%[1]s`, and `sandbox down%[1]s` to end it", o.flags())
	}
	return err
}
