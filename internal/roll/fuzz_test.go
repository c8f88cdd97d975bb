// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"strings"
	"testing"
)

// FuzzFindChecksum feeds the reader of checksum files: what it finds stands in the file, or it says why it found nothing.
func FuzzFindChecksum(f *testing.F) {
	f.Add("d41d8cd98f00b204e9800998ecf8427e  a.qcow2\n", "a.qcow2", "md5")
	f.Add("SHA256 (a) = e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "a", "sha256")
	f.Add("\\x *b", "b", "")
	f.Fuzz(func(t *testing.T, content, base, kind string) {
		digest, why := FindChecksum(content, base, kind)
		if (digest == "") == (why == "") {
			t.Errorf("digest %q and reason %q: want one of them", digest, why)
		}
		if !strings.Contains(strings.ToLower(content), strings.ToLower(digest)) {
			t.Errorf("digest %q is not in the file", digest)
		}
	})
}

// FuzzParseMaps feeds the reader of field maps.
func FuzzParseMaps(f *testing.F) {
	f.Add(builtIn)
	f.Add([]byte("maps: []"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = ParseMaps("fields.yaml", data)
	})
}
