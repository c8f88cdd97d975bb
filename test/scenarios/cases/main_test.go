// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"os"
	"testing"

	"github.com/capstan-dev/capstan/internal/apitest"
	"github.com/capstan-dev/capstan/test/scenarios/built"
)

// TestMain gets the programs of a control plane where nobody says where they are, so that the cases run wherever the
// stories do; and it skips the cases where the stories are skipped.
func TestMain(m *testing.M) {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func prepare() error {
	if stories, set := os.LookupEnv(built.Variable); set && stories == "" {
		return os.Unsetenv(apitest.Assets)
	}
	if _, given := os.LookupEnv(apitest.Assets); given {
		return nil
	}
	dir, err := built.Assets()
	if err != nil {
		return err
	}
	return os.Setenv(apitest.Assets, dir)
}
