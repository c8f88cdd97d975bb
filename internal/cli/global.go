// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/render"
)

// global are the options that every command has.
type global struct {
	app *app

	kubeconfig string
	context    string
	output     string
	yes        bool
	accept     []string
	noColor    bool
	// qps and burst limit the requests; zero is not set.
	qps   float32
	burst int
	// offline is set by the commands that load a release.
	offline bool

	// read tells that all flags were read.
	read bool
	// accepted is accept, parsed.
	accepted []v1alpha1.AcceptedFinding
	// host is the address of the API server, known after connect.
	host string
}

func (g *global) flags(f *pflag.FlagSet) {
	f.StringVar(&g.kubeconfig, "kubeconfig", "", "kubeconfig `FILE`; otherwise $KUBECONFIG, ~/.kube/config, or the Pod's own service account")
	f.StringVar(&g.context, "context", "", "`NAME` of the kubeconfig's context to use")
	f.StringVarP(&g.output, "output", "o", string(render.FormatText), "output `FORMAT`: text, json or yaml")
	f.BoolVar(&g.yes, "yes", false, "do not ask before the first change")
	f.StringArrayVar(&g.accept, "accept", nil, "accept a finding by its ID with a reason, as `ID=REASON`; may be repeated, and is recorded")
	f.Float32Var(&g.qps, "qps", 0, "at most `N` requests a second to the API server; 0 leaves it to the API server's own fairness. CAPSTAN_QPS does the same")
	f.IntVar(&g.burst, "burst", 0, "with --qps: up to `N` requests at once. CAPSTAN_BURST does the same")
	f.BoolVar(&g.noColor, "no-color", false, "no colours; NO_COLOR in the environment does the same")
}

// offlineFlag is for the commands that load a release.
func (g *global) offlineFlag(f *pflag.FlagSet) {
	f.BoolVar(&g.offline, "offline", false, "use only what is on this machine and in the cluster: a release that names a URL or a registry is refused")
}

func (g *global) complete() error {
	g.read, g.accepted = true, nil
	for _, text := range g.accept {
		id, reason, _ := strings.Cut(text, "=")
		if strings.TrimSpace(id) == "" || strings.TrimSpace(reason) == "" {
			return problem.Usage("BadAccept", "--accept", "%q does not say which finding is accepted and why", text).
				WithRemedy("--accept ID='why it is safe here'")
		}
		g.accepted = append(g.accepted, v1alpha1.AcceptedFinding{ID: strings.TrimSpace(id), Reason: strings.TrimSpace(reason)})
	}
	return nil
}

func (g *global) validate() error {
	if err := g.limits(); err != nil {
		return err
	}
	if !slices.Contains(render.Formats(), render.Format(g.output)) {
		bad := g.output
		g.output = string(render.FormatText)
		return problem.Usage("BadFormat", "--output", "There is no output format %q", bad).WithRemedy("-o text, -o json or -o yaml")
	}
	return nil
}

// limits takes the limits of requests from the environment where no flag gives them.
func (g *global) limits() error {
	if text := g.env("CAPSTAN_QPS"); text != "" && g.qps == 0 {
		n, err := strconv.ParseFloat(text, 32)
		if err != nil {
			return problem.Usage("BadLimit", "CAPSTAN_QPS", "%q is no number of requests a second", text).WithRemedy("CAPSTAN_QPS=50")
		}
		g.qps = float32(n)
	}
	if text := g.env("CAPSTAN_BURST"); text != "" && g.burst == 0 {
		n, err := strconv.Atoi(text)
		if err != nil {
			return problem.Usage("BadLimit", "CAPSTAN_BURST", "%q is no number of requests", text).WithRemedy("CAPSTAN_BURST=100")
		}
		g.burst = n
	}
	if g.qps < 0 || g.burst < 0 || g.burst > 0 && g.qps == 0 {
		return problem.Usage("BadLimit", "--qps, --burst", "The limits of %g requests a second and %d at once make no sense", g.qps, g.burst).
			WithRemedy("--qps 50 --burst 100, or neither for no limit")
	}
	if g.qps > 0 && g.burst == 0 {
		g.burst = int(math.Ceil(2 * float64(g.qps)))
	}
	return nil
}

// structured tells that the output is for programs.
func (g *global) structured() bool {
	return g.output == string(render.FormatJSON) || g.output == string(render.FormatYAML)
}

// style returns how text on a stream looks: coloured only where a person sees it and did not ask otherwise.
func (g *global) style(w io.Writer) render.Style {
	return render.Style{Colour: render.IsTerminal(w) && !g.noColor && g.env("NO_COLOR") == "" && g.env("TERM") != "dumb"}
}

func (g *global) env(name string) string {
	if g.app.streams.Getenv == nil {
		return ""
	}
	return g.app.streams.Getenv(name)
}

// interactive tells whether somebody can be asked.
func (g *global) interactive() bool {
	return render.IsTerminal(g.app.streams.In) && render.IsTerminal(g.app.streams.Err)
}

// write writes what was asked for.
func (g *global) write(d render.Document) error {
	return render.Write(g.app.streams.Out, render.Format(g.output), g.style(g.app.streams.Out), d)
}

// tell writes a line that was not asked for.
func (g *global) tell(format string, args ...any) {
	if !g.structured() {
		fmt.Fprintf(g.app.streams.Err, format+"\n", args...)
	}
}

// prompt returns a command line with the flags that lead to the same cluster.
func (g *global) prompt(words ...string) string {
	line := append([]string{"capstan"}, words...)
	if g.kubeconfig != "" {
		line = append(line, "--kubeconfig", g.kubeconfig)
	}
	if g.context != "" {
		line = append(line, "--context", g.context)
	}
	for i := range line {
		line[i] = quote(line[i])
	}
	return strings.Join(line, " ")
}

// quote makes a word safe to paste into a shell.
func quote(word string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@,+%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !safe(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// with connects, calls f, and gives the lease back, also after ctx has ended.
func (g *global) with(ctx context.Context, f func(s session) error) error {
	s, err := g.app.connect(g)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
		if closeErr := s.Close(closing); closeErr != nil {
			g.tell("Note: %v; the next process may have to wait a little for it", closeErr)
		}
	}()
	return f(s)
}
