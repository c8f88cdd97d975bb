// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"strings"
	"testing"
)

func TestChecksumFilesAreReadAsAProvisionerDoes(t *testing.T) {
	t.Parallel()
	sha, md := strings.Repeat("ab", 32), strings.Repeat("cd", 16)
	for name, tt := range map[string]struct{ content, kind, want, why string }{
		"GNU":                      {sha + "  u2404.raw\n", "sha256", sha, ""},
		"GNU of a binary":          {strings.ToUpper(sha) + " *u2404.raw\r\n", "sha256", sha, ""},
		"BSD":                      {"SHA256 (u2404.raw) = " + sha, "sha256", sha, ""},
		"a digest alone":           {sha + "\n", "sha256", sha, ""},
		"one among others":         {md + "  other.raw\n" + sha + "  u2404.raw\n", "sha256", sha, ""},
		"signed":                   {"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n" + sha + "  u2404.raw\n-----BEGIN PGP SIGNATURE-----\niQIz\n", "sha256", sha, ""},
		"a path in front":          {sha + "  /build/out/u2404.raw\n", "sha256", "", `it lists "/build/out/u2404.raw" and not "u2404.raw"`},
		"none matches":             {sha + "  a\n" + sha + "  b\n", "sha256", "", `it lists "a", "b" and not "u2404.raw"`},
		"two different":            {sha + "  u2404.raw\n" + strings.Repeat("ef", 32) + "  u2404.raw\n", "sha256", "", "with 2 digests"},
		"a digest of another type": {md + "  u2404.raw\n", "sha256", "", "32 hexadecimal digits are md5, and sha256 has 64"},
		"a type that is not set":   {sha + "  u2404.raw\n", "", "", "which an unset type means"},
		"a page of HTML":           {"<html>login</html>", "sha256", "", "no line with a digest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, why := FindChecksum(tt.content, BaseName("http://img.local/x/u2404.raw?sig=1"), tt.kind)
			if got != tt.want || tt.why == "" && why != "" || !strings.Contains(why, tt.why) {
				t.Errorf("FindChecksum() = %q, %q, want %q, %q", got, why, tt.want, tt.why)
			}
		})
	}
}
