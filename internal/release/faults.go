// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/internal/problem"
)

// Reasons of the errors of this package. They are stable.
const (
	// ReasonEmpty means that a file has no content.
	ReasonEmpty = "ReleaseEmpty"
	// ReasonNotYAML means that a file is not YAML.
	ReasonNotYAML = "NotYAML"
	// ReasonManyDocuments means that a release file has more than one document.
	ReasonManyDocuments = "ManyDocuments"
	// ReasonWrongKind means that the document is not a Release of a known version.
	ReasonWrongKind = "WrongKind"
	// ReasonUnknownField means that a field does not exist.
	ReasonUnknownField = "UnknownField"
	// ReasonDuplicateField means that a field is given twice.
	ReasonDuplicateField = "DuplicateField"
	// ReasonWrongType means that a value has the wrong type.
	ReasonWrongType = "WrongType"
	// ReasonTooLarge means that a document is larger than a release can sensibly be.
	ReasonTooLarge = "TooLarge"
	// ReasonMissingField means that a required field is not given.
	ReasonMissingField = "MissingField"
	// ReasonBadName means that a name can't be a Kubernetes name.
	ReasonBadName = "BadName"
	// ReasonDuplicateComponent means that two components share a name or an identity.
	ReasonDuplicateComponent = "DuplicateComponent"
	// ReasonBadVersion means that a version is not a semantic version with a leading v.
	ReasonBadVersion = "BadVersion"
	// ReasonBadRange means that a range of versions holds nothing or is not one.
	ReasonBadRange = "BadRange"
	// ReasonBadProvider means that a component's type and provider identity don't go together.
	ReasonBadProvider = "BadProvider"
	// ReasonBadSource means that a source does not say in exactly one way where the content is.
	ReasonBadSource = "BadSource"
	// ReasonBadDigest means that a digest is missing or is not written as one.
	ReasonBadDigest = "BadDigest"
	// ReasonPathEscapes means that a path leads out of the release directory.
	ReasonPathEscapes = "PathEscapes"
	// ReasonUnknownNeed means that a component needs one that the release does not have.
	ReasonUnknownNeed = "UnknownNeed"
	// ReasonNeedCycle means that components need each other in a circle.
	ReasonNeedCycle = "NeedCycle"
	// ReasonBadVariable means that the name of a variable can't be one, or is most likely misspelt.
	ReasonBadVariable = "BadVariable"
	// ReasonMissingVariable means that a manifest uses a variable that has neither value nor default.
	ReasonMissingVariable = "MissingVariable"
	// ReasonBadManifest means that a component's manifests are not Kubernetes objects.
	ReasonBadManifest = "BadManifest"
	// ReasonDuplicateObject means that one object is given twice.
	ReasonDuplicateObject = "DuplicateObject"
	// ReasonBadMetadata means that a provider's metadata.yaml is wrong or does not know the provider's version.
	ReasonBadMetadata = "BadMetadata"
	// ReasonBadRisk means that a known risk can't be matched with anything.
	ReasonBadRisk = "BadRisk"
	// ReasonBadDependent means that a dependent kind can't be found or its version not be read.
	ReasonBadDependent = "BadDependent"
	// ReasonNoVersion means that a repository has no version that can be used.
	ReasonNoVersion = "NoVersion"
	// ReasonCorrupt means that stored content is not what was stored.
	ReasonCorrupt = "Corrupt"
)

// fault is one thing that is wrong with a release.
type fault struct {
	path, reason, message, remedy string
	// line is set where it is not the line of the field at path.
	line int
}

// faults collects what is wrong with a release.
type faults struct {
	where *Positions
	list  []fault
}

// add records a fault of the field at path.
func (f *faults) add(path, reason, format string, args ...any) *fault {
	f.list = append(f.list, fault{path: path, reason: reason, message: fmt.Sprintf(format, args...)})
	return &f.list[len(f.list)-1]
}

// next says what to do about the fault.
func (f *fault) next(format string, args ...any) { f.remedy = fmt.Sprintf(format, args...) }

// line returns the line on which the fault stands, 0 for a release that is in no file.
func (f *faults) line(one fault) int {
	if one.line > 0 {
		return one.line
	}
	return f.where.line(one.path)
}

// err returns the first fault by line as one error that also counts the others, or nil.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b fault) int { return f.line(a) - f.line(b) })
	first := f.list[0]
	at := f.where.Where(first.path)
	if first.line > 0 {
		at = place(f.where.file, first.line)
	}
	message := first.message
	if f.where != nil && first.path != "" {
		message = first.path + ": " + message
	}
	switch more := len(f.list) - 1; more {
	case 0:
	case 1:
		message += " (and 1 more fault)"
	default:
		message += fmt.Sprintf(" (and %d more faults)", more)
	}
	p := problem.Usage(first.reason, at, "%s", message)
	p.Remedy = first.remedy
	return p
}
