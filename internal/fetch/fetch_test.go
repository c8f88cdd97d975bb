// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/fetch"
	"github.com/capstan-dev/capstan/internal/problem"
	"github.com/capstan-dev/capstan/internal/release"
)

const wrongDigest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// outcome is what Fetch answers.
type outcome struct {
	Data string
	Err  report
}

func TestFetchFromDisk(t *testing.T) {
	t.Parallel()
	dir := files(t, map[string]string{
		"one.yaml": "a: 1\n", "many/b.yaml": "b: 2", "many/a.yaml": "a: 1\n", "many/README.md": "hello", "many/deep/c.yaml": "c: 3\n",
		"none/README.md": "hello", "mixed/a.yaml": "a: 1\n", "mixed/b.yml": "b: 2\n", "big.yaml": strings.Repeat("#", 2<<20), "bigdir/a.yaml": strings.Repeat("#", 2<<20),
	})
	outside := files(t, map[string]string{"secret.yaml": "secret: x\n"})
	for link, target := range map[string]string{
		"inside.yaml": "one.yaml", "outside.yaml": filepath.Join(outside, "secret.yaml"), "outdir": outside, "linked/out.yaml": filepath.Join(outside, "secret.yaml"),
		"relative.yaml": "../" + filepath.Base(outside) + "/secret.yaml",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, link)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	const joined = "---\n# capstan.dev/file: many/a.yaml\na: 1\n---\n# capstan.dev/file: many/b.yaml\nb: 2\n"
	escapes := func(path string) outcome {
		return outcome{Err: report{fmt.Sprintf("%q leads out of the release directory (next: keep the files of a release in its directory)", path), "PathEscapes", 2}}
	}
	cases := map[string]struct {
		src  v1alpha1.Source
		want outcome
	}{
		"a file":                              {v1alpha1.Source{Path: "one.yaml"}, outcome{Data: "a: 1\n"}},
		"a file with its digest":              {v1alpha1.Source{Path: "./one.yaml", Digest: release.Digest([]byte("a: 1\n"))}, outcome{Data: "a: 1\n"}},
		"a directory is joined in order":      {v1alpha1.Source{Path: "many"}, outcome{Data: joined}},
		"a directory with its digest":         {v1alpha1.Source{Path: "many/", Digest: release.Digest([]byte(joined))}, outcome{Data: joined}},
		"a link that stays inside":            {v1alpha1.Source{Path: "inside.yaml"}, outcome{Data: "a: 1\n"}},
		"a link to the outside":               {v1alpha1.Source{Path: "outside.yaml"}, escapes("outside.yaml")},
		"a relative link to the outside":      {v1alpha1.Source{Path: "relative.yaml"}, escapes("relative.yaml")},
		"a file behind a link to the outside": {v1alpha1.Source{Path: "outdir/secret.yaml"}, escapes("outdir/secret.yaml")},
		"a directory with a link outside":     {v1alpha1.Source{Path: "linked"}, escapes("linked/out.yaml")},
		"a path to the outside":               {v1alpha1.Source{Path: "../x.yaml"}, escapes("../x.yaml")},
		"an absolute path":                    {v1alpha1.Source{Path: "/etc/hosts"}, escapes("/etc/hosts")},
		"a file that is not there":            {v1alpha1.Source{Path: "two.yaml"}, outcome{Err: report{"there is no two.yaml in DIR", "NoFile", 2}}},
		"a directory without YAML":            {v1alpha1.Source{Path: "none"}, outcome{Err: report{"directory none in DIR has no *.yaml file", "NoFile", 2}}},
		"a directory with another ending": {v1alpha1.Source{Path: "mixed"}, outcome{Err: report{
			"only *.yaml files of a directory are read, mixed/b.yml in DIR would be left out (next: rename it to *.yaml, or move it out of the directory)", "NoFile", 2,
		}}},
		"a file over the limit":      {v1alpha1.Source{Path: "big.yaml"}, outcome{Err: report{"big.yaml is larger than 1 MiB", "SourceTooLarge", 3}}},
		"a directory over the limit": {v1alpha1.Source{Path: "bigdir"}, outcome{Err: report{"bigdir is larger than 1 MiB", "SourceTooLarge", 3}}},
		"another digest": {v1alpha1.Source{Path: "one.yaml", Digest: wrongDigest}, outcome{Err: report{
			"one.yaml is not what the release names: its digest is " + release.Digest([]byte("a: 1\n")) + ", want " + wrongDigest +
				" (next: find out who changed it; if the change is meant, write the new digest into the release)", "DigestMismatch", 3,
		}}},
		"no source": {v1alpha1.Source{}, outcome{Err: report{"exactly one of path, url, oci, configMap and repository is wanted, none is given", "BadSource", 2}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fetch.Fetcher{MaxBytes: 1 << 20}
			data, err := f.Fetch(t.Context(), fetch.Dir(dir), tc.src)
			if diff := cmp.Diff(outcome{string(data), reportOf(err, dir, "DIR")}, tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestTheDocumentedCommandMakesTheDigestOfADirectory(t *testing.T) {
	t.Parallel()
	dir := files(t, map[string]string{"many/b.yaml": "b: 2\n", "many/a.yaml": "a: 1\n"})
	command := exec.CommandContext(t.Context(), "sh", "-c", `for f in many/*.yaml; do printf -- '---\n# capstan.dev/file: %s\n' "$f"; cat "$f"; done | sha256sum`)
	command.Dir = dir
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	sum, _, _ := strings.Cut(string(out), " ")
	if _, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Dir(dir), v1alpha1.Source{Path: "many", Digest: "sha256:" + sum}); err != nil {
		t.Error(err)
	}
}

func TestPathsNeedARelease(t *testing.T) {
	t.Parallel()
	_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Base{}, v1alpha1.Source{Path: "a.yaml"})
	want := report{"a.yaml is a path, but the release is not in a directory (next: use url or oci with a digest, or name the release by its directory)", "BadSource", 2}
	if diff := cmp.Diff(reportOf(err), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	_, err = (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Dir("/does/not/exist"), v1alpha1.Source{Path: "a.yaml"})
	want = report{"the release directory /does/not/exist can't be opened: no such file or directory", "NoFile", 2}
	if diff := cmp.Diff(reportOf(err), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

// web answers in all the ways that are tried.
func web(t *testing.T) (server, secure *httptest.Server) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/good.yaml", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a: 1\n") })
	mux.HandleFunc("/big.yaml", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("#", 2<<20)) })
	mux.HandleFunc("/slow.yaml", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/short.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "a: 1\n")
	})
	mux.HandleFunc("/loop.yaml", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop.yaml", http.StatusFound) })
	mux.HandleFunc("/moved.yaml", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good.yaml", http.StatusFound) })
	server = httptest.NewServer(mux)
	t.Cleanup(server.Close)
	secure = httptest.NewTLSServer(http.RedirectHandler(server.URL+"/good.yaml", http.StatusFound))
	t.Cleanup(secure.Close)
	return server, secure
}

func TestFetchFromAnAddress(t *testing.T) {
	t.Parallel()
	server, secure := web(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	sum := release.Digest([]byte("a: 1\n"))
	failed := func(text string) outcome {
		return outcome{Err: report{text + " (next: check the address and the network, then run the command again)", "SourceUnreachable", 3}}
	}
	cases := map[string]struct {
		url, digest string
		timeout     time.Duration
		want        outcome
	}{
		"the named content":          {server.URL + "/good.yaml", sum, 0, outcome{Data: "a: 1\n"}},
		"behind a redirect":          {server.URL + "/moved.yaml", sum, 0, outcome{Data: "a: 1\n"}},
		"not there":                  {server.URL + "/none.yaml", sum, 0, failed("WEB/none.yaml can't be fetched: it answers 404 Not Found")},
		"nobody listens":             {gone.URL + "/good.yaml", sum, 0, failed("GONE/good.yaml can't be fetched: dial tcp GONEHOST: connect: connection refused")},
		"no such host":               {"https://host.invalid/a.yaml", sum, 0, failed("https://host.invalid/a.yaml can't be fetched: NOHOST")},
		"no answer":                  {server.URL + "/slow.yaml", sum, 50 * time.Millisecond, failed("WEB/slow.yaml can't be fetched: no answer within 50ms")},
		"cut off":                    {server.URL + "/short.yaml", sum, 0, failed("WEB/short.yaml can't be fetched: unexpected EOF")},
		"redirects without end":      {server.URL + "/loop.yaml", sum, 0, failed("WEB/loop.yaml can't be fetched: it redirects more than 5 times")},
		"a redirect to plain http":   {secure.URL + "/good.yaml", sum, 0, failed("SECURE/good.yaml can't be fetched: it redirects from https to WEB/good.yaml")},
		"too large":                  {server.URL + "/big.yaml", sum, 0, outcome{Err: report{"WEB/big.yaml is larger than 1 MiB", "SourceTooLarge", 3}}},
		"a password is not repeated": {strings.Replace(gone.URL, "http://", "http://me:secret@", 1) + "/a.yaml", sum, 0, failed("http://me:xxxxx@GONEHOST/a.yaml can't be fetched: dial tcp GONEHOST: connect: connection refused")},
		"another digest": {server.URL + "/good.yaml", wrongDigest, 0, outcome{Err: report{
			"WEB/good.yaml is not what the release names: its digest is " + sum + ", want " + wrongDigest +
				" (next: find out who changed it; if the change is meant, write the new digest into the release)", "DigestMismatch", 3,
		}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fetch.Fetcher{HTTP: secure.Client(), MaxBytes: 1 << 20, Timeout: tc.timeout}
			data, err := f.Fetch(t.Context(), fetch.Base{}, v1alpha1.Source{URL: tc.url, Digest: tc.digest})
			got := outcome{string(data), reportOf(err, server.URL, "WEB", secure.URL, "SECURE", gone.URL, "GONE", strings.TrimPrefix(gone.URL, "http://"), "GONEHOST")}
			if before, rest, ok := strings.Cut(got.Err.Text, "dial tcp: lookup host.invalid"); ok { // Resolvers word it differently.
				_, after, _ := strings.Cut(rest, " (next")
				got.Err.Text = before + "NOHOST (next" + after
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestAnInterruptIsNoProblemOfTheSource(t *testing.T) {
	t.Parallel()
	server, _ := web(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := (&fetch.Fetcher{}).Fetch(ctx, fetch.Base{}, v1alpha1.Source{URL: server.URL + "/good.yaml"})
	if _, ok := errors.AsType[*problem.Error](err); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want an error that is context.Canceled and blames nobody", err)
	}
}

func TestFetchFromARegistry(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	tarDigest := r.push(t, "tar:v1", tarLayer(t, map[string]string{"./b.yaml": "b: 2\n", "a/c.yaml": "c: 3\n", "README.md": "hello", "link.yaml": "-> /etc/passwd"}))
	oneDigest := r.push(t, "one:v1", fileLayer("", "a: 1\n"))
	r.push(t, "oras:v1", fileLayer("b.yaml", "b: 2\n"), fileLayer("a.yaml", "a: 1\n"))
	r.push(t, "big:v1", fileLayer("", strings.Repeat("#", 2<<20)))
	r.push(t, "escape:v1", tarLayer(t, map[string]string{"../a.yaml": "a: 1\n"}))
	r.push(t, "empty:v1")
	r.push(t, "noyaml:v1", tarLayer(t, map[string]string{"a.txt": "a", "b.txt": "b"}))
	const joined = "---\n# capstan.dev/file: a/c.yaml\nc: 3\n---\n# capstan.dev/file: b.yaml\nb: 2\n"
	artifact := func(text string) outcome { return outcome{Err: report{text, "BadArtifact", 2}} }
	cases := map[string]struct {
		oci, digest string
		want        outcome
	}{
		"a tar of YAML files":         {"tar:v1", tarDigest, outcome{Data: joined}},
		"with the digest in the name": {"tar:v1@" + tarDigest, "", outcome{Data: joined}},
		"by digest alone":             {"tar@" + tarDigest, "", outcome{Data: joined}},
		"a single file":               {"one:v1", oneDigest, outcome{Data: "a: 1\n"}},
		"a layer for each file":       {"oras:v1", "", outcome{Data: "---\n# capstan.dev/file: a.yaml\na: 1\n---\n# capstan.dev/file: b.yaml\nb: 2\n"}},
		"too large":                   {"big:v1", "", outcome{Err: report{"oci://HOST/big:v1 is larger than 1 MiB", "SourceTooLarge", 3}}},
		"a name that escapes":         {"escape:v1", "", artifact(`oci://HOST/escape:v1 has a file with the name "../a.yaml", which can't be used`)},
		"no layers":                   {"empty:v1", "", artifact("oci://HOST/empty:v1 holds no file")},
		"no YAML files":               {"noyaml:v1", "", artifact("oci://HOST/noyaml:v1 has no *.yaml file")},
		"no such tag": {"tar:v2", tarDigest, outcome{Err: report{
			"oci://HOST/tar:v2 can't be fetched: the registry has no such tag or digest (next: check the address and the network, then run the command again)", "SourceUnreachable", 3,
		}}},
		"no such repository": {"nothing:v2", tarDigest, outcome{Err: report{
			"oci://HOST/nothing:v2 can't be fetched: the registry has no such repository (next: check the address and the network, then run the command again)", "SourceUnreachable", 3,
		}}},
		"no such digest": {"tar:v1@" + wrongDigest, "", outcome{Err: report{
			"oci://HOST/tar:v1@" + wrongDigest + " can't be fetched: the registry has no such tag or digest (next: check the address and the network, then run the command again)", "SourceUnreachable", 3,
		}}},
		"another digest": {"tar:v1", oneDigest, outcome{Err: report{
			"oci://HOST/tar:v1 is not what the release names: its digest is " + tarDigest + ", want " + oneDigest +
				" (next: find out who changed it; if the change is meant, write the new digest into the release)", "DigestMismatch", 3,
		}}},
		"no tag": {"tar", tarDigest, outcome{Err: report{
			`"oci://HOST/tar" is not a reference of the form oci://registry/repository:tag or oci://registry/repository@sha256:..., a tag or digest included`, "BadSource", 2,
		}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fetch.Fetcher{MaxBytes: 1 << 20}
			data, err := f.Fetch(t.Context(), fetch.Base{}, v1alpha1.Source{OCI: "oci://" + r.host + "/" + tc.oci, Digest: tc.digest})
			if diff := cmp.Diff(outcome{string(data), reportOf(err, r.host, "HOST")}, tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestARegistryThatRefusesAccess(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="closed"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(closed.Close)
	host := strings.TrimPrefix(closed.URL, "http://")
	_, err := (&fetch.Fetcher{Keychain: authn.NewMultiKeychain()}).Fetch(t.Context(), fetch.Base{}, v1alpha1.Source{OCI: "oci://" + host + "/a:v1", Digest: wrongDigest})
	want := report{`oci://HOST/a:v1 can't be fetched: the registry refuses access, log in to it first, for example with "docker login" (next: check the address and the network, then run the command again)`, "SourceUnreachable", 3}
	if diff := cmp.Diff(reportOf(err, host, "HOST"), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestARegistryThatIsNotThere(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	host := strings.TrimPrefix(gone.URL, "http://")
	_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Base{}, v1alpha1.Source{OCI: "oci://" + host + "/a:v1", Digest: wrongDigest})
	want := report{"oci://HOST/a:v1 can't be fetched: dial tcp HOST: connect: connection refused (next: check the address and the network, then run the command again)", "SourceUnreachable", 3}
	if diff := cmp.Diff(reportOf(err, host, "HOST"), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}
