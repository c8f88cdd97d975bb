// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const (
	controller = "registry.k8s.io/cluster-api/cluster-api-controller:v1.13.4"
	webhook    = "quay.io/jetstack/cert-manager-webhook:v1.20.3"
)

// newImage makes an image of 1 KB that differs from all others.
func newImage(t *testing.T) v1.Image {
	t.Helper()
	img, err := random.Image(1024, 2)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func digestOf(t *testing.T, img v1.Image) v1.Hash {
	t.Helper()
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// newLayered makes a registry with one image in each of two shared stores, and returns the digests.
func newLayered(t *testing.T) (l *Layered, controllerDigest, webhookDigest v1.Hash) {
	t.Helper()
	lower := []Store{{Dir: t.TempDir()}, {Dir: t.TempDir()}}
	images := []v1.Image{newImage(t), newImage(t)}
	for i, ref := range []string{controller, webhook} {
		if err := lower[i].Add(ref, images[i]); err != nil {
			t.Fatal(err)
		}
	}
	return &Layered{Upper: Store{Dir: filepath.Join(t.TempDir(), "upper")}, Lower: lower}, digestOf(t, images[0]), digestOf(t, images[1])
}

func TestChangesStayInTheUpperStore(t *testing.T) {
	t.Parallel()
	const other = "registry.k8s.io/cluster-api/cluster-api-controller:broken"
	cases := map[string]struct {
		change func(l *Layered) error
		// want has c for the controller's digest and w for the webhook's.
		want map[string]string
	}{
		"at first only the shared images are there": {
			change: func(*Layered) error { return nil },
			want:   map[string]string{controller: "c", webhook: "w"},
		},
		"a new tag points at an image that is there": {
			change: func(l *Layered) error { return l.Tag(webhook, other) },
			want:   map[string]string{controller: "c", webhook: "w", other: "w local"},
		},
		"a tag can be moved over a shared one": {
			change: func(l *Layered) error { return l.Tag(webhook, controller) },
			want:   map[string]string{controller: "w local", webhook: "w"},
		},
		"a removed tag is gone": {
			change: func(l *Layered) error { return l.Remove(controller) },
			want:   map[string]string{webhook: "w"},
		},
		"a restored tag is as it was": {
			change: func(l *Layered) error {
				if err := l.Remove(controller); err != nil {
					return err
				}
				return l.Restore(controller)
			},
			want: map[string]string{controller: "c", webhook: "w"},
		},
		"restoring what was not changed does nothing": {
			change: func(l *Layered) error { return l.Restore(controller) },
			want:   map[string]string{controller: "c", webhook: "w"},
		},
	}
	for title, tc := range cases {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			l, c, w := newLayered(t)
			before := files(t, l.Lower)
			if err := tc.change(l); err != nil {
				t.Fatal(err)
			}
			images, err := l.Images()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, image := range images {
				got[image.Name] = map[v1.Hash]string{c: "c", w: "w"}[image.Digest]
				if image.Local {
					got[image.Name] += " local"
				}
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("images (-got +want):\n%s", diff)
			}
			if diff := cmp.Diff(files(t, l.Lower), before); diff != "" {
				t.Errorf("shared stores changed (-got +want):\n%s", diff)
			}
		})
	}
}

// files lists everything in some stores.
func files(t *testing.T, stores []Store) []string {
	t.Helper()
	var all []string
	for _, s := range stores {
		err := filepath.WalkDir(s.Dir, func(path string, _ fs.DirEntry, err error) error {
			all = append(all, path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestWhatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	l, _, _ := newLayered(t)
	const missing = "registry.k8s.io/cluster-api/cluster-api-controller:v9"
	for verb, err := range map[string]error{"tag": l.Tag(missing, "x/y:z"), "remove": l.Remove(missing)} {
		if err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: got %v, want an error that names the image", verb, err)
		}
	}
	if err := l.Tag(webhook, "quay.io/x@sha256:"+strings.Repeat("0", 64)); err == nil {
		t.Error("a digest was taken as a new name")
	}
}

// serve starts the registry and returns its address.
func serve(t *testing.T, l *Layered) string {
	t.Helper()
	server := httptest.NewServer(l.Handler(nil))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func mirrored(t *testing.T, address, image string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(address+"/"+image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestClientsPullSharedImagesAndSeeChangesAtOnce(t *testing.T) {
	t.Parallel()
	l, c, _ := newLayered(t)
	address := serve(t, l)
	ref := mirrored(t, address, controller)
	img, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	if got := digestOf(t, img); got != c {
		t.Errorf("pulled %s, want %s", got, c)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, content); err != nil { // the client checks digests
			t.Error(err)
		}
	}
	byDigest := mirrored(t, address, strings.Split(controller, ":")[0]+"@"+c.String())
	if _, err := remote.Head(byDigest); err != nil {
		t.Errorf("pull by digest: %v", err)
	}
	if err := l.Remove(controller); err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Image(ref); err == nil || !strings.Contains(err.Error(), "MANIFEST_UNKNOWN") {
		t.Errorf("pull of a removed tag: got %v, want MANIFEST_UNKNOWN", err)
	}
}

func TestClientsPushListAndDelete(t *testing.T) {
	t.Parallel()
	l, _, _ := newLayered(t)
	address := serve(t, l)
	before := files(t, l.Lower)
	img := newImage(t)
	ref := mirrored(t, address, "registry.k8s.io/cluster-api/cluster-api-controller:mine")
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	got, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	if digestOf(t, got) != digestOf(t, img) {
		t.Errorf("pulled %s, pushed %s", digestOf(t, got), digestOf(t, img))
	}
	tags, err := remote.List(ref.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tags, []string{"mine", "v1.13.4"}); diff != "" {
		t.Errorf("tags (-got +want):\n%s", diff)
	}
	repos, err := remote.Catalog(t.Context(), ref.Context().Registry)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(repos, []string{"quay.io/jetstack/cert-manager-webhook", "registry.k8s.io/cluster-api/cluster-api-controller"}); diff != "" {
		t.Errorf("repositories (-got +want):\n%s", diff)
	}
	for _, tag := range []string{"mine", "v1.13.4"} {
		if err := remote.Delete(ref.Context().Tag(tag)); err != nil {
			t.Errorf("delete %s: %v", tag, err)
		}
	}
	if _, err := remote.List(ref.Context()); err == nil || !strings.Contains(err.Error(), "NAME_UNKNOWN") {
		t.Errorf("list of an empty repository: got %v, want NAME_UNKNOWN", err)
	}
	if diff := cmp.Diff(files(t, l.Lower), before); diff != "" {
		t.Errorf("shared stores changed (-got +want):\n%s", diff)
	}
}

func TestRequestsCannotLeaveTheDirectories(t *testing.T) {
	t.Parallel()
	l, _, _ := newLayered(t)
	h := l.Handler(nil)
	for _, path := range []string{
		"/v2/a/../../b/manifests/x", "/v2/../x/manifests/y", "/v2/a/manifests/..", "/v2/a/blobs/sha256:../../etc/passwd",
		"/v2/a/_tags/manifests/x",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", strings.NewReader("{}"))
		r.URL.Path = path
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, w.Code)
		}
	}
}

func TestContentThatIsNotWhatItSaysIsRefused(t *testing.T) {
	t.Parallel()
	l, _, _ := newLayered(t)
	address := serve(t, l)
	digest := "sha256:" + strings.Repeat("0", 64)
	url := "http://" + address + "/v2/a/blobs/uploads/?digest=" + digest
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("other"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d, want 400", response.StatusCode)
	}
	if _, err := l.Resolve("x/a@" + digest); err == nil {
		t.Error("the content was kept")
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, _, _ := newLayered(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Serve(ctx, listener, nil) }()
	if _, err := remote.Head(mirrored(t, listener.Addr().String(), webhook)); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("asked to stop, it ended with %v", err)
	}
}

func TestNamesAreLocatedAsNodesAskForThem(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"busybox":                      "docker.io/library/busybox latest",
		"org/app:v1":                   "docker.io/org/app v1",
		controller:                     "registry.k8s.io/cluster-api/cluster-api-controller v1.13.4",
		"localhost:5000/app:v1":        "localhost_5000/app v1",
		"sandbox.capstan.dev/testpod":  "sandbox.capstan.dev/testpod latest",
		"quay.io/jetstack/x:v1.0_beta": "quay.io/jetstack/x v1.0_beta",
	} {
		repo, ref, err := locate(image)
		if err != nil || repo+" "+ref != want {
			t.Errorf("locate(%s) = %s %s, %v; want %s", image, repo, ref, err, want)
		}
	}
}
