// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/internal/problem"
)

// The reasons of faults; they are stable.
const (
	// ReasonNotFound means that there is no such file, or that it can't be opened.
	ReasonNotFound = "ImageFileNotFound"
	// ReasonUnreachable means that an address gave no image.
	ReasonUnreachable = "ImageUnreachable"
	// ReasonEmpty means that the file, or the disk in it, holds nothing.
	ReasonEmpty = "ImageEmpty"
	// ReasonTruncated means that the file ends before what it promises.
	ReasonTruncated = "ImageTruncated"
	// ReasonEncrypted means that the image can't be read without a key.
	ReasonEncrypted = "ImageEncrypted"
	// ReasonBacking means that a part of the disk is in another file.
	ReasonBacking = "ImageNeedsOtherFile"
	// ReasonUnrecognised means that the file is no disk image that Capstan knows.
	ReasonUnrecognised = "ImageUnrecognised"
	// ReasonUnsupported means that the format is known but a feature or version of it is not.
	ReasonUnsupported = "ImageUnsupported"
	// ReasonCorrupt means that the image contradicts itself.
	ReasonCorrupt = "ImageCorrupt"
	// ReasonTooLarge means that the image asks for more than any node's disk has.
	ReasonTooLarge = "ImageTooLarge"
	// ReasonNoSpace means that there is no room for the temporary file.
	ReasonNoSpace = "NoSpaceForImage"
)

// The next steps that several faults have.
const (
	remedyAgain   = "copy or download the image again and compare its size and checksum with the source"
	remedyRebuild = "build the image again, and check the old one with: qemu-img check FILE"
	remedyConvert = "make a plain image of it: qemu-img convert -O qcow2 OLD NEW"
)

// fault is what is wrong with an image whose name is not known where it is found.
type fault struct{ reason, what, remedy string }

// Error returns what is wrong, to follow the image's name.
func (f *fault) Error() string { return f.what }

func fail(reason, remedy, format string, args ...any) error {
	return &fault{reason: reason, remedy: remedy, what: fmt.Sprintf(format, args...)}
}

// named puts an error in the user's words. Errors that are no faults, such as those of a disk that can't be read, stay.
func named(name string, err error) error {
	f, ok := errors.AsType[*fault](err)
	if !ok {
		return fmt.Errorf("read image %s: %w", name, err)
	}
	p := &problem.Error{Reason: f.reason, Message: name + " " + f.what, Exit: problem.ExitError, Err: err}
	return p.WithObject(name).WithRemedy("%s", f.remedy)
}
