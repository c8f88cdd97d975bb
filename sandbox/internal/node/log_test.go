// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestLogOptions(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC))
	l, err := createLog(filepath.Join(t.TempDir(), "0.log"), clk)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", logLineSize+10)
	for _, text := range []string{"one\n", "two\n" + long + "\n"} {
		if err := l.copyFrom(strings.NewReader(text), "stdout"); err != nil {
			t.Fatal(err)
		}
		clk.Step(time.Minute)
	}
	for name, tt := range map[string]struct {
		opts api.ContainerLogOpts
		want string
	}{
		"all":             {want: "one\ntwo\n" + long + "\n"},
		"limited":         {opts: api.ContainerLogOpts{LimitBytes: 6}, want: "one\ntw"},
		"since":           {opts: api.ContainerLogOpts{SinceSeconds: 90, LimitBytes: 4}, want: "two\n"},
		"with timestamps": {opts: api.ContainerLogOpts{Timestamps: true, LimitBytes: 35}, want: "2026-01-02T03:04:05.000000006Z one\n"},
		"tail":            {opts: api.ContainerLogOpts{Tail: 3, LimitBytes: 4}, want: "two\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := l.reader(t.Context(), tt.opts)
			defer r.Close()
			got, err := io.ReadAll(r)
			if diff := cmp.Diff([]any{string(got), err}, []any{tt.want, nil}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFollowEndsWithTheLog(t *testing.T) {
	t.Parallel()
	l, err := createLog(filepath.Join(t.TempDir(), "0.log"), clocktesting.NewFakeClock(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	r := l.reader(t.Context(), api.ContainerLogOpts{Follow: true})
	defer r.Close()
	for range 3 {
		if err := l.write("stderr", "F", []byte("more")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 5)
		if _, err := io.ReadFull(r, buf); err != nil || string(buf) != "more\n" {
			t.Fatalf("got %q, %v", buf, err)
		}
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}
