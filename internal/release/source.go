// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// OCIScheme begins a reference to an OCI artifact.
const OCIScheme = "oci://"

// Describe names a source the way it is written.
func Describe(s v1alpha1.Source) string {
	switch {
	case s.Path != "":
		return s.Path
	case s.URL != "":
		if u, err := url.Parse(s.URL); err == nil {
			return u.Redacted()
		}
		return s.URL
	case s.ConfigMap != nil:
		return fmt.Sprintf("ConfigMap %s/%s", s.ConfigMap.Namespace, s.ConfigMap.Name)
	case s.Repository != "":
		return "repository " + s.Repository
	}
	return s.OCI
}

// ParseOCI reads a reference to an OCI artifact: a registry, a repository, and a tag or a digest or both.
func ParseOCI(ref string) (name.Reference, error) {
	rest, ok := strings.CutPrefix(ref, OCIScheme)
	if !ok {
		return nil, fmt.Errorf("%q does not begin with %s", ref, OCIScheme)
	}
	parsed, err := name.ParseReference(rest, name.StrictValidation)
	if err != nil {
		return nil, fmt.Errorf("%q is not a reference of the form %sregistry/repository:tag or %[2]sregistry/repository@sha256:..., a tag or digest included", ref, OCIScheme)
	}
	return parsed, nil
}

// WantedDigest returns the digest that the content of a source must have, "" for none. For an OCI artifact this is the
// digest of its manifest, as registries print it, and it may also be part of the reference.
func WantedDigest(s v1alpha1.Source) string {
	if s.Digest != "" || s.OCI == "" {
		return s.Digest
	}
	ref, err := ParseOCI(s.OCI)
	if err != nil {
		return ""
	}
	if d, ok := ref.(name.Digest); ok {
		return d.DigestStr()
	}
	return ""
}

// Make sure that a source says in exactly one way where the content is, and which content it is.
func checkSource(f *faults, at string, s v1alpha1.Source) {
	var given []string
	for _, one := range []struct {
		name  string
		given bool
	}{{"path", s.Path != ""}, {"url", s.URL != ""}, {"oci", s.OCI != ""}, {"configMap", s.ConfigMap != nil}, {"repository", s.Repository != ""}} {
		if one.given {
			given = append(given, one.name)
		}
	}
	if len(given) != 1 {
		found := "none is given"
		if len(given) > 1 {
			found = strings.Join(given, " and ") + " are given"
		}
		f.add(at, ReasonBadSource, "exactly one of path, url, oci, configMap and repository is wanted, %s", found)
	}
	if s.Path != "" {
		checkPath(f, child(at, "path"), s.Path)
	}
	if s.URL != "" {
		checkURL(f, child(at, "url"), s.URL)
	}
	if s.OCI != "" {
		checkOCI(f, at, s)
	}
	if s.ConfigMap != nil {
		checkConfigMap(f, child(at, "configMap"), *s.ConfigMap)
	}
	checkDigest(f, at, s)
}

// Make sure that a ConfigMap can be asked for.
func checkConfigMap(f *faults, at string, c v1alpha1.ConfigMapSource) {
	if problems := validation.IsDNS1123Label(c.Namespace); len(problems) > 0 {
		f.add(child(at, "namespace"), ReasonBadSource, "%q can't be a namespace", c.Namespace)
	}
	if problems := validation.IsDNS1123Subdomain(c.Name); len(problems) > 0 {
		f.add(child(at, "name"), ReasonBadSource, "%q can't be the name of a ConfigMap", c.Name)
	}
}

// Make sure that a repository can be looked into for a component: it is laid out by provider.
func checkRepository(f *faults, at string, c v1alpha1.Component) {
	where := child(child(at, "source"), "repository")
	checkPath(f, where, c.Source.Repository)
	if c.Source.Digest != "" {
		f.add(child(child(at, "source"), "digest"), ReasonBadDigest, "a repository has many versions and so no digest").
			next("give path and digest instead if the content must not change")
	}
	if c.Type != v1alpha1.ComponentProvider {
		f.add(where, ReasonBadSource, "only providers can come from a repository, component %q is of type %s", c.Name, c.Type)
	}
	if c.Metadata != nil {
		f.add(child(at, "metadata"), ReasonBadSource, "the metadata of component %q is in the repository already", c.Name).next("leave metadata out")
	}
}

// Make sure that a path stays in the release directory.
func checkPath(f *faults, at, p string) {
	clean := path.Clean(p)
	switch {
	case path.IsAbs(p), !fs.ValidPath(clean):
		f.add(at, ReasonPathEscapes, "%q leads out of the release directory", p).next("keep the files of a release in its directory")
	case clean == "." && !strings.HasSuffix(at, ".repository"):
		f.add(at, ReasonBadSource, "%q is the release directory itself", p).next("put the component's files into a directory of their own")
	}
}

// Make sure that an address can be asked for.
func checkURL(f *faults, at, address string) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		f.add(at, ReasonBadSource, "%q is not an https or http address", address)
	}
}

// Make sure that an OCI reference can be asked for and does not contradict the digest.
func checkOCI(f *faults, at string, s v1alpha1.Source) {
	ref, err := ParseOCI(s.OCI)
	if err != nil {
		f.add(child(at, "oci"), ReasonBadSource, "%v", err)
		return
	}
	if d, ok := ref.(name.Digest); ok && s.Digest != "" && d.DigestStr() != s.Digest {
		f.add(child(at, "digest"), ReasonBadDigest, "digest %s is another one than that in the reference, %s", s.Digest, d.DigestStr())
	}
}

// Make sure that a digest is there where content comes from elsewhere, and is written as one.
func checkDigest(f *faults, at string, s v1alpha1.Source) {
	if s.Digest == "" {
		if s.URL != "" {
			f.add(child(at, "digest"), ReasonBadDigest, "a url needs a digest").next("add digest: sha256:..., of \"sha256sum\" over the file")
		}
		if _, err := ParseOCI(s.OCI); err == nil && WantedDigest(s) == "" {
			f.add(child(at, "digest"), ReasonBadDigest, "an oci source needs a digest").next("add digest: sha256:..., the digest of the artifact's manifest")
		}
		return
	}
	if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(s.Digest) {
		f.add(child(at, "digest"), ReasonBadDigest, "%q is not a digest, which is \"sha256:\" and 64 hexadecimal digits in lower case", s.Digest)
	}
}
