// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// ChecksumLength is how many hexadecimal digits a digest of a type has; 0 for a type that is not known.
func ChecksumLength(kind string) int {
	switch kind {
	case "md5", "":
		return 32
	case "sha256":
		return 64
	case "sha512":
		return 128
	}
	return 0
}

// ChecksumProblem says what is wrong with a digest of a type, empty for nothing. An unset type is md5.
func ChecksumProblem(digest, kind string) string {
	name := cmp.Or(kind, "md5, which an unset type means")
	switch {
	case !regexp.MustCompile(`^[0-9a-fA-F]+$`).MatchString(digest):
		return fmt.Sprintf("%q is not hexadecimal", shorten(digest))
	case ChecksumLength(kind) == 0:
		return fmt.Sprintf("type %q is none of md5, sha256 and sha512", kind)
	case len(digest) != ChecksumLength(kind):
		return fmt.Sprintf("%d hexadecimal digits are %s, and %s has %d", len(digest), typeOf(len(digest)), name, ChecksumLength(kind))
	}
	return ""
}

// typeOf guesses what a digest of a length is.
func typeOf(n int) string {
	for _, k := range []string{"md5", "sha256", "sha512"} {
		if ChecksumLength(k) == n {
			return k
		}
	}
	return "no digest that is known"
}

func shorten(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// BaseName is the file name by which a provisioner looks an image up in a checksum file: the last part of the URL's path.
func BaseName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return path.Base(address)
	}
	return path.Base(u.Path)
}

// ChecksumEntry is one line of a checksum file.
type ChecksumEntry struct {
	// Name is the file's name as written; empty for a digest alone.
	Name, Digest string
}

// ParseChecksums reads the lines of a checksum file in the forms of GNU (`DIGEST  NAME`, `DIGEST *NAME`) and BSD
// (`SHA256 (NAME) = DIGEST`), or a digest alone. Lines of a signature and comments are left out.
func ParseChecksums(content string) []ChecksumEntry {
	gnu := regexp.MustCompile(`^([0-9a-fA-F]{8,})(?:\s+\*?(\S.*))?$`)
	bsd := regexp.MustCompile(`^[A-Za-z0-9-]+ ?\((.+)\) ?= ?([0-9a-fA-F]+)$`)
	var out []ChecksumEntry
	for line := range strings.Lines(strings.TrimPrefix(content, "\ufeff")) {
		line = strings.TrimSpace(line)
		if m := bsd.FindStringSubmatch(line); m != nil {
			out = append(out, ChecksumEntry{Name: m[1], Digest: m[2]})
			continue
		}
		if m := gnu.FindStringSubmatch(line); m != nil {
			out = append(out, ChecksumEntry{Name: m[2], Digest: m[1]})
		}
	}
	return out
}

// FindChecksum looks an image's digest up as a provisioner does: by the very name, or the digest alone if nothing else is
// in the file. Otherwise it says why there is none.
func FindChecksum(content, base, kind string) (digest, why string) {
	entries := ParseChecksums(content)
	if len(entries) == 0 {
		return "", "it has no line with a digest"
	}
	var found []string
	for _, e := range entries {
		if e.Name == base || e.Name == "" && len(entries) == 1 {
			found = append(found, strings.ToLower(e.Digest))
		}
	}
	slices.Sort(found)
	switch found = slices.Compact(found); {
	case len(found) == 0:
		return "", fmt.Sprintf("it lists %s and not %q, the last part of the image's URL", names(entries), base)
	case len(found) > 1:
		return "", fmt.Sprintf("it lists %q with %d digests", base, len(found))
	}
	if p := ChecksumProblem(found[0], kind); p != "" {
		return "", fmt.Sprintf("the digest of %q there does not fit: %s", base, p)
	}
	return found[0], ""
}

// names lists the names in a checksum file, not more than a reader takes in.
func names(entries []ChecksumEntry) string {
	const most = 5
	var out []string
	for _, e := range entries[:min(len(entries), most)] {
		out = append(out, fmt.Sprintf("%q", cmp.Or(e.Name, "a digest without a name")))
	}
	if more := len(entries) - most; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}
