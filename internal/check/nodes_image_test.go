// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/check"
	"github.com/capstan-dev/capstan/internal/roll"
	"github.com/capstan-dev/capstan/internal/world"
)

// imageCase is an image with what its servers said.
type imageCase struct {
	image v1alpha1.NodeImageSpec
	probe *world.ImageProbe
	hosts []world.BareHost
}

func goodImage() imageCase {
	const at = "http://img/u2404.raw"
	return imageCase{
		image: v1alpha1.NodeImageSpec{URL: at, Checksum: at + ".sha256sum", ChecksumType: "sha256", Format: "raw", SizeBytes: 5},
		probe: &world.ImageProbe{
			Image:    &world.Fetched{URL: at, Final: at, Status: "200 OK", OK: true, Length: 5},
			Checksum: &world.Fetched{URL: at + ".sha256sum", Final: at + ".sha256sum", Status: "200 OK", OK: true, Length: 80},

			ChecksumFile: strings.Repeat("ab", 32) + "  u2404.raw\n",
		},
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		id     string
		change func(*imageCase)
		want   string
	}{
		"a checksum file with its type":  {"CAP-IMAGE-CHECKSUM", func(*imageCase) {}, ""},
		"no checksum":                    {"CAP-IMAGE-CHECKSUM", func(c *imageCase) { c.image.Checksum = "" }, "Block Image u at|has no checksum"},
		"no checksum of a live ISO":      {"CAP-IMAGE-CHECKSUM", func(c *imageCase) { c.image.Checksum, c.image.Format = "", "live-iso" }, ""},
		"no checksum of an OCI artifact": {"CAP-IMAGE-CHECKSUM", func(c *imageCase) { c.image.Checksum, c.image.URL = "", "oci://r/u@sha256:1" }, ""},
		"a checksum of an OCI artifact":  {"CAP-IMAGE-CHECKSUM", func(c *imageCase) { c.image.URL = "oci://r/u" }, "Block |OCI artifact"},
		"a digest that fits":             {"CAP-IMAGE-CHECKSUM", func(c *imageCase) { c.image.Checksum = strings.Repeat("ab", 32) }, ""},
		"a digest of another length":     {"CAP-IMAGE-CHECKSUM", func(c *imageCase) { c.image.Checksum = strings.Repeat("ab", 16) }, "Block |32 hexadecimal digits are md5, and sha256 has 64"},
		"a digest without a type":        {"CAP-IMAGE-CHECKSUM", func(c *imageCase) { c.image.Checksum, c.image.ChecksumType = strings.Repeat("ab", 32), "" }, "Block |md5, which an unset type means"},
		"an md5 without a type":          {"CAP-IMAGE-CHECKSUM", func(c *imageCase) { c.image.Checksum, c.image.ChecksumType = strings.Repeat("ab", 16), "" }, "Warn |takes for md5"},
		"what is no digest":              {"CAP-IMAGE-CHECKSUM", func(c *imageCase) { c.image.Checksum = "not-a-digest" }, "Block |not hexadecimal"},
		"a file without a type":          {"CAP-IMAGE-CHECKSUM", func(c *imageCase) { c.image.ChecksumType = "" }, "Warn |takes for md5"},
		"a name of the same format":      {"CAP-IMAGE-FORMAT", func(*imageCase) {}, ""},
		"a name of another format":       {"CAP-IMAGE-FORMAT", func(c *imageCase) { c.image.Format = "qcow2" }, "Warn |u2404.raw, and its format in the catalog is qcow2"},
		"a URL with a version":           {"CAP-IMAGE-URL", func(*imageCase) {}, ""},
		"a URL that moves":               {"CAP-IMAGE-URL", func(c *imageCase) { c.image.URL = "http://img/Latest/u.raw" }, `Warn |has "latest" in it`},
		"a word that only looks like it": {"CAP-IMAGE-URL", func(c *imageCase) { c.image.URL = "http://img/maintained/u.raw" }, ""},
		"another checksum at the same URL": {"CAP-IMAGE-URL", func(c *imageCase) {
			c.hosts = []world.BareHost{{Namespace: "n", Name: "h", Image: c.image.URL, ImageChecksum: "other"}}
		}, "Block |(n/h)"},
		"an image that is there":         {"CAP-IMAGE-REACHABLE", func(*imageCase) {}, ""},
		"an image that is not":           {"CAP-IMAGE-REACHABLE", func(c *imageCase) { c.probe.Image.OK, c.probe.Image.Status = false, "404 Not Found" }, "Block |http://img/u2404.raw: the server answers 404 Not Found"},
		"an image that moved to nothing": {"CAP-IMAGE-REACHABLE", func(c *imageCase) { c.probe.Image.Length, c.probe.Image.Final = 0, "http://img/x" }, "Block |it is empty, redirected to http://img/x"},
		"a server that is silent":        {"CAP-IMAGE-REACHABLE", func(c *imageCase) { c.probe.Image.OK, c.probe.Image.Failed = false, "no answer within 15s" }, "Block |no answer within 15s"},
		"a file of another size":         {"CAP-IMAGE-REACHABLE", func(c *imageCase) { c.probe.Image.Length = 7 }, "Block |7 bytes"},
		"an image that nobody asked for": {"CAP-IMAGE-REACHABLE", func(c *imageCase) { c.probe = nil }, "Unknown |nobody looked"},
		"an image that is no http URL":   {"CAP-IMAGE-REACHABLE", func(c *imageCase) { c.image.URL, c.probe = "file:///u.raw", nil }, ""},
		"a checksum file that lists it":  {"CAP-IMAGE-CHECKSUM-FILE", func(*imageCase) {}, ""},
		"a checksum file that is not there": {
			"CAP-IMAGE-CHECKSUM-FILE", func(c *imageCase) { c.probe.Checksum.OK, c.probe.Checksum.Status = false, "404 Not Found" },
			"Block |u2404.raw.sha256sum: the server answers 404",
		},
		"a checksum file with a path": {
			"CAP-IMAGE-CHECKSUM-FILE", func(c *imageCase) { c.probe.ChecksumFile = strings.Repeat("ab", 32) + "  /build/out/u2404.raw\n" },
			`Block |it lists "/build/out/u2404.raw" and not "u2404.raw"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := goodImage()
			tt.change(&c)
			w := nodeFleet(func(*world.NodeCluster) {})
			w.Survey.Looked[world.TopicImage], w.Survey.Image = "", c.probe
			w.Survey.Pools = &world.PoolSurvey{Clusters: []world.PoolCluster{{Hosts: c.hosts}}}
			target := nodeTarget("", true)
			target.Nodes.Image = &v1alpha1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "u"}, Spec: c.image}
			got := onlyCheck(t, tt.id, w, target)
			if tt.want == "" {
				if len(got) > 0 {
					t.Errorf("findings = %q, want none", got)
				}
				return
			}
			verdict, words, _ := strings.Cut(tt.want, "|")
			if len(got) != 1 || !strings.HasPrefix(got[0], verdict) || !strings.Contains(got[0], words) {
				t.Errorf("findings = %q, want %s… with %q", got, verdict, words)
			}
		})
	}
}

func TestFindingsOfARollHaveTheirCheck(t *testing.T) {
	t.Parallel()
	w := nodeFleet(func(*world.NodeCluster) {})
	w.Survey.Looked[world.TopicPools] = ""
	target := nodeTarget("", true)
	target.Nodes.Image = &v1alpha1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "u"}, Spec: v1alpha1.NodeImageSpec{ID: "ami-1"}}
	ids := []string{
		roll.IDTemplate, roll.IDOwner, roll.IDStrategy, roll.IDSpare, roll.IDAutoscaler, roll.IDUnavailable, roll.IDHealthCheck, roll.IDDrift, roll.IDVersion, roll.IDHeld,
		roll.IDFit, roll.IDCleaning,
	}
	target.Nodes.Roll = &roll.Result{}
	for _, id := range ids {
		target.Nodes.Roll.Findings = append(target.Nodes.Roll.Findings, v1alpha1.Finding{
			ID: id, Verdict: v1alpha1.VerdictBlock, Summary: id, Remedy: "mend it", Objects: []v1alpha1.ObjectReference{{Kind: "Cluster", Name: "a"}},
		})
	}
	for _, id := range ids {
		if got := onlyCheck(t, id, w, target); len(got) != 1 || got[0] != "Block "+id {
			t.Errorf("check %s finds %q", id, got)
		}
	}
	if c := checkOf(t, roll.IDCleaning); !c.Waivable {
		t.Errorf("%s can't be accepted", c.ID)
	}
}

func TestARollThatCouldNotBePlannedIsUnknown(t *testing.T) {
	t.Parallel()
	w := nodeFleet(func(*world.NodeCluster) {})
	w.Survey.Looked[world.TopicPools] = "forbidden"
	target := nodeTarget("", true)
	target.Nodes.Image = &v1alpha1.NodeImage{}
	got := check.Run([]check.Check{checkOf(t, roll.IDTemplate)}, w, target)
	if len(got) != 1 || got[0].ID != roll.IDTemplate || got[0].Verdict != v1alpha1.VerdictUnknown {
		t.Errorf("findings = %+v, want %s unknown", got, roll.IDTemplate)
	}
}

func checkOf(t *testing.T, id string) check.Check {
	t.Helper()
	for _, c := range check.For(check.Nodes) {
		if c.ID == id {
			return c
		}
	}
	t.Fatalf("there is no check %s", id)
	return check.Check{}
}
