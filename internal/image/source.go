// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// maxTries is how often a download is taken up again where it was cut.
const maxTries = 5

// File is an image that is open.
type File struct {
	io.ReaderAt
	// Size is its length in bytes.
	Size  int64
	close func() error
}

// Close closes the file and removes what was downloaded.
func (f *File) Close() error { return f.close() }

// Opener opens images by what people type: a path, an http or https address, or a reference to a registry.
type Opener struct {
	// HTTP downloads; nil is the default client.
	HTTP *http.Client
	// TempDir is where downloads are kept while they are read; empty is the system's folder.
	TempDir string
	// Progress is told how many bytes came, and how many will, 0 if that is not known.
	Progress func(done, total int64)
}

// Open opens an image.
func (o *Opener) Open(ctx context.Context, source string) (*File, error) {
	if strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://") {
		return o.download(ctx, source)
	}
	if strings.HasPrefix(source, ociScheme) {
		return o.pull(ctx, source)
	}
	if scheme, _, ok := strings.Cut(source, "://"); ok {
		return nil, named(source, fail(ReasonUnsupported, "download it and name the file", "can't be opened: %s addresses are not read; a file, http, https and oci are", scheme))
	}
	f, err := os.Open(source) //nolint:gosec // to open what the user names is what it is for
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is no regular file")
		} else if err == nil {
			return &File{ReaderAt: f, Size: info.Size(), close: f.Close}, nil
		}
		_ = f.Close() // Nothing was read.
	}
	why := err.Error()
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		why = p.Err.Error()
	}
	return nil, named(source, fail(ReasonNotFound, "check the path and its permissions", "can't be opened: %s", why))
}

func (o *Opener) download(ctx context.Context, source string) (*File, error) {
	f, err := os.CreateTemp(o.TempDir, "capstan-download-*")
	if err != nil {
		return nil, fmt.Errorf("make temporary file: %w", err)
	}
	drop := func() error { return errors.Join(f.Close(), os.Remove(f.Name())) }
	size, err := o.fetch(ctx, source, f)
	if err != nil {
		err = errors.Join(o.why(ctx, source, err), drop())
		return nil, err
	}
	return &File{ReaderAt: f, Size: size, close: drop}, nil
}

// why puts an error of a download in the user's words; an interrupt stays one.
func (o *Opener) why(ctx context.Context, source string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("download %s: %w", source, ctx.Err())
	}
	if errors.Is(err, syscall.ENOSPC) {
		return named(source, fail(ReasonNoSpace, "make room there, or name another folder: TMPDIR=/folder/with/room capstan image …", "does not fit into the folder for temporary files"))
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return named(source, fail(ReasonUnreachable, "check the address and the network, then run the command again", "can't be downloaded: %v", err))
}

// fetch downloads, and goes on where it was cut if the server can do that and the file is the same.
func (o *Opener) fetch(ctx context.Context, source string, f *os.File) (int64, error) {
	d := &download{opener: o, file: f}
	var err error
	for range maxTries {
		var again bool
		if again, err = d.attempt(ctx, source); err == nil || !again || ctx.Err() != nil {
			return d.done, err
		}
	}
	return 0, fmt.Errorf("it was cut %d times, last with: %w", maxTries, err)
}

// download is one file on its way.
type download struct {
	opener      *Opener
	file        *os.File
	done, total int64
	tag         string
}

// attempt asks once; again tells whether asking for the rest makes sense.
func (d *download) attempt(ctx context.Context, source string) (again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, source, http.NoBody)
	if err != nil {
		return false, err
	}
	request.Header.Set("User-Agent", "capstan")
	request.Header.Set("Accept-Encoding", "identity")
	if d.done > 0 && d.tag != "" {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.done))
		request.Header.Set("If-Range", d.tag)
	}
	response, err := d.opener.client().Do(request)
	if err != nil {
		return d.done > 0, err
	}
	defer func() { _ = response.Body.Close() }() // Only reads were made.
	switch response.StatusCode {
	case http.StatusOK:
		d.done, d.total, d.tag = 0, max(0, response.ContentLength), strongTag(response)
	case http.StatusPartialContent:
		if from, _, _ := strings.Cut(strings.TrimPrefix(response.Header.Get("Content-Range"), "bytes "), "-"); from != fmt.Sprint(d.done) {
			return false, fmt.Errorf("it answers with another part than was asked for (%s)", response.Header.Get("Content-Range"))
		}
	default:
		return false, fmt.Errorf("it answers %s", response.Status)
	}
	if err := d.file.Truncate(d.done); err != nil {
		return false, err
	}
	_, err = io.CopyBuffer(d, response.Body, make([]byte, 256<<10))
	if err == nil && d.total > 0 && d.done != d.total {
		err = fmt.Errorf("%d of %d bytes came", d.done, d.total)
	}
	return !errors.Is(err, syscall.ENOSPC), err
}

// strongTag is what tells two versions of the file apart.
func strongTag(r *http.Response) string {
	if tag := r.Header.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return r.Header.Get("Last-Modified")
}

// Write puts what came at the end of the file.
func (d *download) Write(p []byte) (int, error) {
	n, err := d.file.WriteAt(p, d.done)
	d.done += int64(n)
	if d.opener.Progress != nil {
		d.opener.Progress(d.done, d.total)
	}
	return n, err
}

// client is the given client, which follows no redirect from https to http.
func (o *Opener) client() *http.Client {
	c := &http.Client{}
	if o.HTTP != nil {
		*c = *o.HTTP
	}
	c.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if len(via) > 5 {
			return errors.New("it redirects more than 5 times")
		}
		if via[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
			return fmt.Errorf("it redirects from https to %s", next.URL.Redacted())
		}
		return nil
	}
	return c
}
