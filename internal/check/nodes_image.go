// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/roll"
	"github.com/capstan-dev/capstan/internal/world"
)

// imageChecks are about the image that nodes are rolled to.
func imageChecks() []Check {
	return []Check{
		imageChecksum(), imageFormat(), imageURL(), imageReachable(), imageChecksumFile(),
		{
			ID: roll.IDVersion, Scope: Nodes, Title: "The image holds the kubelet that Machines ask for",
			Doc: "The version in a control plane or MachineDeployment says what Machines should be, and the image what they are. Where the two differ, nodes come back with " +
				"the old kubelet, and Cluster API goes on as if they had the new one, or replaces them again and again.",
			Fix: "Take an image with the kubelet of that version, or change version and image in one roll: `--kubernetes VERSION`.",
			Sources: []string{
				"https://github.com/kubernetes-sigs/cluster-api-provider-vsphere/issues/635", "https://github.com/vmware-archive/cluster-api-upgrade-tool/issues/139",
			}, Run: fromRoll(roll.IDVersion),
		},
	}
}

// eachImage makes the function of a check out of one about an image whose URL is used.
func eachImage(judge func(i *v1alpha1.NodeImage, w *world.World, t *Target) []v1alpha1.Finding) func(*world.World, *Target) []v1alpha1.Finding {
	return func(w *world.World, t *Target) []v1alpha1.Finding {
		image := t.nodes().Image
		if image == nil || image.Spec.URL == "" || t.Nodes.Roll != nil && !t.Nodes.Roll.UsesURL {
			return nil
		}
		return judge(image, w, t)
	}
}

func imageRef(i *v1alpha1.NodeImage) world.Ref {
	return world.Ref{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeImage", Name: i.Name}
}

func editImage(i *v1alpha1.NodeImage) string { return "kubectl edit nodeimage " + i.Name }

func imageChecksum() Check {
	return Check{
		ID: "CAP-IMAGE-CHECKSUM", Scope: Nodes, Title: "The image's checksum is there and fits its type",
		Doc: "A provisioner checks what it wrote against the checksum, and a Metal3MachineTemplate takes any text for one. An unset type means MD5 there, so a SHA-256 digest " +
			"without its type fails on the first host, after that has lost its old image.",
		Fix:     "Write the digest in hexadecimal with its type (md5, sha256, sha512), or the URL of a checksum file.",
		Sources: []string{"https://github.com/metal3-io/metal3-docs/pull/481"},
		Run: eachImage(func(i *v1alpha1.NodeImage, _ *world.World, _ *Target) []v1alpha1.Finding {
			s, ref := i.Spec, imageRef(i)
			oci := strings.HasPrefix(strings.ToLower(s.URL), "oci://")
			switch {
			case oci && s.Checksum != "":
				return []v1alpha1.Finding{block(fmt.Sprintf("Image %s is an OCI artifact, whose digest is part of its name, and has a checksum besides", i.Name), "take the checksum away: "+editImage(i), ref)}
			case oci, s.Format == "live-iso":
				return nil
			case s.Checksum == "":
				return []v1alpha1.Finding{block(fmt.Sprintf("Image %s at %s has no checksum", i.Name, s.URL), "add one: "+editImage(i), ref)}
			case world.IsHTTP(s.Checksum) && s.ChecksumType == "":
				return []v1alpha1.Finding{warn(fmt.Sprintf("Image %s has a checksum file and no type, which a provisioner takes for md5", i.Name), "set checksumType: "+editImage(i), ref)}
			case world.IsHTTP(s.Checksum):
				return nil
			}
			if p := roll.ChecksumProblem(s.Checksum, s.ChecksumType); p != "" {
				return []v1alpha1.Finding{block(fmt.Sprintf("The checksum of image %s does not fit: %s", i.Name, p), "set checksum and checksumType: "+editImage(i), ref)}
			}
			if s.ChecksumType == "" {
				return []v1alpha1.Finding{warn(fmt.Sprintf("Image %s has no checksumType, which a provisioner takes for md5", i.Name), "set it: "+editImage(i), ref)}
			}
			return nil
		}),
	}
}

func imageFormat() Check {
	return Check{
		ID: "CAP-IMAGE-FORMAT", Scope: Nodes, Title: "The image's format is what its name says",
		Doc: "A provisioner writes the file as the format that the template names. A qcow2 file that is called raw is written as it is, and the host does not boot.",
		Fix: "Correct the catalog entry; `capstan image inspect` reads the format from the file.",
		Run: eachImage(func(i *v1alpha1.NodeImage, _ *world.World, _ *Target) []v1alpha1.Finding {
			name := strings.ToLower(roll.BaseName(i.Spec.URL))
			for suffix, format := range map[string]string{".qcow2": "qcow2", ".raw": "raw", ".vmdk": "vmdk", ".vdi": "vdi", ".iso": "live-iso"} {
				if strings.HasSuffix(name, suffix) && i.Spec.Format != "" && i.Spec.Format != format {
					return []v1alpha1.Finding{warn(fmt.Sprintf("Image %s is called %s, and its format in the catalog is %s", i.Name, name, i.Spec.Format),
						"capstan image inspect "+i.Spec.URL, imageRef(i))}
				}
			}
			return nil
		}),
	}
}

func imageURL() Check {
	return Check{
		ID: "CAP-IMAGE-URL", Scope: Nodes, Waivable: true, Title: "The image's URL means the same image tomorrow",
		Doc: "What is behind a URL with latest or current in it changes, so Machines that are made later get something else, or fail the checksum. And a provisioner tells " +
			"images by their URL alone: another image under the URL of before is taken for the same.",
		Fix: "Give each image a URL of its own, with its version or digest in it.",
		Run: eachImage(func(i *v1alpha1.NodeImage, w *world.World, _ *Target) []v1alpha1.Finding {
			var out []v1alpha1.Finding
			if word := movingWord(i.Spec.URL); word != "" {
				out = append(out, warn(fmt.Sprintf("The URL of image %s has %q in it, so what is there may change: %s", i.Name, word, i.Spec.URL), "copy the image to a URL of its own", imageRef(i)))
			}
			return append(out, reused(i, w)...)
		}),
	}
}

// movingWord is the part of a URL that says that what is there changes.
func movingWord(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.Trim(regexp.MustCompile(`(?i)(^|[/:._-])(latest|current|nightly|daily|stable|master|main)([/._-]|$)`).FindString(u.Path), "/:._-"))
}

// reused finds hosts that have an image from the same URL with another checksum.
func reused(i *v1alpha1.NodeImage, w *world.World) []v1alpha1.Finding {
	if w.Survey == nil || w.Survey.Pools == nil || i.Spec.Checksum == "" {
		return nil
	}
	var hosts []string
	for _, c := range w.Survey.Pools.Clusters {
		for _, h := range c.Hosts {
			if h.Image == i.Spec.URL && h.ImageChecksum != "" && !strings.EqualFold(h.ImageChecksum, i.Spec.Checksum) {
				hosts = append(hosts, h.Namespace+"/"+h.Name)
			}
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	return []v1alpha1.Finding{block(
		fmt.Sprintf("Image %s has the URL of the image that hosts have already, with another checksum: a provisioner compares URLs alone, and takes it for the same (%s)", i.Name, strings.Join(hosts, ", ")),
		"copy the image to a URL of its own, and name that in the catalog", imageRef(i))}
}

func imageReachable() Check {
	return Check{
		ID: "CAP-IMAGE-REACHABLE", Scope: Nodes, Waivable: true, Title: "The image can be fetched",
		Doc: "A host finds out that its image is not there when the old one is gone. So the image's URL is asked before, from where Capstan runs: hosts may be in another " +
			"network, and where Capstan can't reach it but hosts can, the finding is accepted by name.",
		Fix:     "Upload the image, or correct the URL. To roll without the look: `--accept CAP-IMAGE-REACHABLE=REASON`, which the plan records.",
		Sources: []string{"https://github.com/metal3-io/cluster-api-provider-metal3/issues/36", "https://github.com/metal3-io/baremetal-operator/issues/428"},
		Run: eachImage(func(i *v1alpha1.NodeImage, w *world.World, _ *Target) []v1alpha1.Finding {
			if !world.IsHTTP(i.Spec.URL) {
				return nil
			}
			if f := unasked(i, w); f != nil {
				return f
			}
			p := w.Survey.Image.Image
			if p == nil || p.URL != i.Spec.URL {
				return []v1alpha1.Finding{unknown(fmt.Sprintf("Nobody asked for image %s at %s", i.Name, i.Spec.URL), "plan again", imageRef(i))}
			}
			if why := unfetched(p); why != "" {
				return []v1alpha1.Finding{block(fmt.Sprintf("Image %s can't be fetched from %s: %s", i.Name, i.Spec.URL, why), "upload it, or correct its URL: "+editImage(i), imageRef(i))}
			}
			if want := i.Spec.SizeBytes; want > 0 && p.Length > 0 && want != p.Length {
				return []v1alpha1.Finding{block(fmt.Sprintf("At %s are %d bytes, and image %s has %d in the catalog: it is another file", i.Spec.URL, p.Length, i.Name, want),
					"capstan image inspect "+i.Spec.URL, imageRef(i))}
			}
			return nil
		}),
	}
}

// unasked is the finding where the servers of an image were not asked, nil if they were.
func unasked(i *v1alpha1.NodeImage, w *world.World) []v1alpha1.Finding {
	why, failed := w.Survey.Failed(world.TopicImage)
	if !failed && w.Survey.Image == nil {
		why, failed = "nobody looked", true
	}
	if !failed {
		return nil
	}
	return []v1alpha1.Finding{unknown(fmt.Sprintf("Whether image %s can be fetched is not known: %s", i.Name, why), "plan again", imageRef(i))}
}

// unfetched says why there is nothing to fetch, empty if there is.
func unfetched(f *world.Fetched) string {
	redirected := ""
	if f.Final != "" && f.Final != f.URL {
		redirected = ", redirected to " + f.Final
	}
	switch {
	case f.Failed != "":
		return f.Failed + redirected
	case !f.OK:
		return "the server answers " + f.Status + redirected
	case f.Length == 0:
		return "it is empty" + redirected
	}
	return ""
}

func imageChecksumFile() Check {
	return Check{
		ID: "CAP-IMAGE-CHECKSUM-FILE", Scope: Nodes, Waivable: true, Title: "The checksum file lists the image",
		Doc: "Where the checksum is a URL, a provisioner fetches that file and looks for the last part of the image's URL in it. A file that was made with a path in front of " +
			"the names, or for another build, has no such line, and the first host fails after it has lost its old image.",
		Fix: "Make the file in the image's own directory (`sha256sum NAME > NAME.sha256sum`), or write the digest itself into the catalog.",
		Sources: []string{
			"https://github.com/openshift-metal3/dev-scripts/pull/1245", "https://github.com/openshift/baremetal-operator/pull/500",
		},
		Run: eachImage(func(i *v1alpha1.NodeImage, w *world.World, _ *Target) []v1alpha1.Finding {
			if !world.IsHTTP(i.Spec.Checksum) {
				return nil
			}
			if f := unasked(i, w); f != nil {
				return f
			}
			p := w.Survey.Image.Checksum
			if p == nil || p.URL != i.Spec.Checksum {
				return []v1alpha1.Finding{unknown(fmt.Sprintf("Nobody asked for the checksum file of image %s at %s", i.Name, i.Spec.Checksum), "plan again", imageRef(i))}
			}
			why := unfetched(p)
			if why != "" {
				return []v1alpha1.Finding{block(fmt.Sprintf("The checksum file of image %s can't be fetched from %s: %s", i.Name, i.Spec.Checksum, why), "upload it, or correct it: "+editImage(i), imageRef(i))}
			}
			if _, why = roll.FindChecksum(w.Survey.Image.ChecksumFile, roll.BaseName(i.Spec.URL), i.Spec.ChecksumType); why != "" {
				return []v1alpha1.Finding{block(fmt.Sprintf("The checksum file %s has no digest for image %s: %s", i.Spec.Checksum, i.Name, why),
					fmt.Sprintf("make it next to the image, so that it lists %s without a path", roll.BaseName(i.Spec.URL)), imageRef(i))}
			}
			return nil
		}),
	}
}
