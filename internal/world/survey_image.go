// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package world

import "strings"

// TopicImage is whether the image and its checksum file can be fetched from here.
const TopicImage Topic = "the image and its checksum file"

// AskImage asks for an image to be probed from where Capstan runs.
type AskImage struct {
	// URL is the image's, Checksum its digest or the URL of a checksum file. What is no http(s) URL is not probed.
	URL, Checksum string
}

// ImageProbe is what the servers of an image and of its checksum file said.
type ImageProbe struct {
	// Image is nil where no http(s) URL was to be asked.
	Image *Fetched
	// Checksum is nil where the checksum is no URL.
	Checksum *Fetched
	// ChecksumFile is the beginning of the checksum file.
	ChecksumFile string
}

// Fetched is the answer to a request.
type Fetched struct {
	// URL is what was asked, Final where redirects led.
	URL, Final string
	// Failed says why there was no answer: a timeout, a redirect in a circle.
	Failed string
	// Status is the HTTP status, "404 Not Found" for example; OK that it is 2xx.
	Status string
	OK     bool
	// Length is the length of what is there, -1 if the server does not say.
	Length int64
}

// IsHTTP tells whether a value is a URL that can be asked.
func IsHTTP(s string) bool {
	s = strings.ToLower(s)
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}
