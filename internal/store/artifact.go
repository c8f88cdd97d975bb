// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/problem"
)

const (
	// ArtifactLabel is on each Secret of an artifact; its value is the first 40 hexadecimal digits of the digest, as in
	// the name.
	ArtifactLabel = "capstan.dev/artifact"
	// digestAnnotation holds the whole digest, partsAnnotation the number of Secrets that the artifact is split into.
	digestAnnotation = "capstan.dev/digest"
	partsAnnotation  = "capstan.dev/parts"
	// artifactKey is the one key of each Secret.
	artifactKey = "data.gz"
	// partSize keeps a Secret below the API server's limit of 1 MiB.
	partSize = 900 << 10
	// artifactLimit bounds what a damaged artifact may unpack to.
	artifactLimit = 512 << 20
	// partAttempts is how often a part is tried that somebody else writes or removes at the same time.
	partAttempts = 5
)

// Put keeps data and returns its digest, "sha256:" and 64 hexadecimal digits. Data that is there already is not written
// again; damaged parts of it are written anew.
//
// The first Secret names the number of parts and is written last: an artifact whose first Secret is there is complete.
func (s *Store) Put(ctx context.Context, data []byte) (string, error) {
	digest := digestOf(data)
	if _, err := s.Get(ctx, digest); err == nil {
		return digest, nil
	} else if _, ok := errors.AsType[*problem.Error](err); !ok {
		return "", err
	}
	secrets, err := pack(digest, data, partSize)
	if err != nil {
		return "", err
	}
	for _, secret := range slices.Backward(secrets) {
		if err := s.putPart(ctx, secret); err != nil {
			return "", err
		}
	}
	return digest, nil
}

// putPart creates one Secret. One of the same name and another content is damaged, or was packed by another compressor
// and not finished; it can't be changed, so it is replaced.
func (s *Store) putPart(ctx context.Context, want *corev1.Secret) error {
	what := "write artifact " + want.Name
	for range partAttempts {
		err := s.client.Create(ctx, want.DeepCopy(), client.FieldOwner(v1alpha1.FieldOwner))
		if !apierrors.IsAlreadyExists(err) {
			return translate(what, err)
		}
		have := &corev1.Secret{}
		err = s.client.Get(ctx, client.ObjectKeyFromObject(want), have)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return translate(what, err)
		}
		if same(have, want) {
			return nil
		}
		uid := have.GetUID()
		err = s.client.Delete(ctx, have, client.Preconditions{UID: &uid})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return translate(what, err)
		}
	}
	return fmt.Errorf("%s: %w", what, ErrConflict)
}

func same(a, b *corev1.Secret) bool {
	return bytes.Equal(a.Data[artifactKey], b.Data[artifactKey]) &&
		a.Annotations[digestAnnotation] == b.Annotations[digestAnnotation] &&
		a.Annotations[partsAnnotation] == b.Annotations[partsAnnotation]
}

// Get returns the data with this digest. Data that is missing or does not have the digest is a problem.Error.
func (s *Store) Get(ctx context.Context, digest string) ([]byte, error) {
	name, err := artifactName(digest)
	if err != nil {
		return nil, err
	}
	first, err := s.part(ctx, digest, name)
	if err != nil {
		return nil, err
	}
	parts, err := strconv.Atoi(first.Annotations[partsAnnotation])
	if err != nil || parts < 1 {
		return nil, damaged(digest, fmt.Sprintf("annotation %s is %q", partsAnnotation, first.Annotations[partsAnnotation]))
	}
	packed := bytes.Clone(first.Data[artifactKey])
	for i := 1; i < parts; i++ {
		next, err := s.part(ctx, digest, partName(name, i))
		if err != nil {
			return nil, err
		}
		packed = append(packed, next.Data[artifactKey]...)
	}
	return unpack(digest, packed)
}

func (s *Store) part(ctx context.Context, digest, name string) (*corev1.Secret, error) {
	out := &corev1.Secret{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: v1alpha1.Namespace, Name: name}, out)
	if apierrors.IsNotFound(err) {
		return nil, (&problem.Error{
			Reason: "ArtifactMissing",
			Message: fmt.Sprintf("Secret %s/%s is not there, which holds the content with the digest %s",
				v1alpha1.Namespace, name, digest),
			Exit: problem.ExitBlocked,
		}).WithRemedy("plan again: the content is stored anew").WithCause(err)
	}
	return out, translate("read artifact "+name, err)
}

func damaged(digest, why string) *problem.Error {
	name, _ := artifactName(digest)
	return (&problem.Error{
		Reason:  "ArtifactDamaged",
		Message: fmt.Sprintf("the content in Secret %s/%s is not what it was: %s", v1alpha1.Namespace, name, why),
		Exit:    problem.ExitBlocked,
	}).WithRemedy("plan again: the content is stored anew")
}

// pack returns the Secrets that hold data, the first one first.
func pack(digest string, data []byte, size int) ([]*corev1.Secret, error) {
	name, err := artifactName(digest)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(data); err != nil {
		return nil, fmt.Errorf("compress artifact: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress artifact: %w", err)
	}
	parts := (packed.Len() + size - 1) / size
	out := make([]*corev1.Secret, parts)
	for i := range out {
		out[i] = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   v1alpha1.Namespace,
				Name:        partName(name, i),
				Labels:      map[string]string{ArtifactLabel: strings.TrimPrefix(name, "artifact-")},
				Annotations: map[string]string{digestAnnotation: digest, partsAnnotation: strconv.Itoa(parts)},
			},
			Type:      "capstan.dev/artifact",
			Immutable: new(true),
			Data:      map[string][]byte{artifactKey: bytes.Clone(packed.Next(size))},
		}
	}
	return out, nil
}

func unpack(digest string, packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, damaged(digest, "it can't be unpacked: "+err.Error())
	}
	data, err := io.ReadAll(io.LimitReader(z, artifactLimit))
	if err != nil {
		return nil, damaged(digest, "it can't be unpacked: "+err.Error())
	}
	if got := digestOf(data); got != digest {
		return nil, damaged(digest, fmt.Sprintf("its digest is %s, not %s", got, digest))
	}
	return data, nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// artifactName returns the name of the artifact's first Secret.
func artifactName(digest string) (string, error) {
	sum, ok := strings.CutPrefix(digest, "sha256:")
	if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("%q is not a digest: want sha256: and 64 hexadecimal digits", digest)
	}
	return "artifact-" + sum[:40], nil
}

func partName(name string, i int) string {
	if i == 0 {
		return name
	}
	return name + "-" + strconv.Itoa(i)
}
