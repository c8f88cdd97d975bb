// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package mask hides values that nobody should read on a screen, in a log or in a stored plan. A hidden value is replaced
// by the beginning of its digest, so that a change of it can be seen. It does not decide what is shown.
package mask

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// lastApplied is where kubectl apply keeps a copy of all that it was given.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Value returns what is shown instead of a value.
func Value(value []byte) string {
	if len(value) == 0 {
		return "*** (empty)"
	}
	return "*** (sha256 " + Digest(value) + ")"
}

// Digest returns the first digits of a value's digest: enough to see that two differ.
func Digest(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:4])
}

// Looks tells whether a name, of an environment variable, an argument or a key, looks like that of a secret.
func Looks(name string) bool {
	name = strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name))
	// A name that ends so says where the secret is, not what it is.
	for _, end := range []string{"name", "namespace", "file", "path", "dir", "ref", "expiration", "ttl"} {
		if strings.HasSuffix(name, end) {
			return false
		}
	}
	return slices.ContainsFunc([]string{"password", "passwd", "token", "secret", "credential", "apikey", "accesskey", "privatekey"},
		func(word string) bool { return strings.Contains(name, word) })
}

// IsSecret tells whether an object is a Secret.
func IsSecret(u *unstructured.Unstructured) bool {
	return u.GetKind() == "Secret" && u.GetAPIVersion() == "v1"
}

// Data returns the values of a Secret by key: data decoded, with stringData over it as the API server lays it. A value
// that is not base64 is taken as it is.
func Data(secret *unstructured.Unstructured) map[string][]byte {
	out := map[string][]byte{}
	for key, value := range stringsAt(secret, "data") {
		raw, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			raw = []byte(value)
		}
		out[key] = raw
	}
	for key, value := range stringsAt(secret, "stringData") {
		out[key] = []byte(value)
	}
	return out
}

// stringsAt returns a map of strings; what is no string counts as empty.
func stringsAt(u *unstructured.Unstructured, field string) map[string]string {
	m, _ := u.Object[field].(map[string]any)
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k], _ = v.(string)
	}
	return out
}

// Object returns a copy of an object without values that nobody should read: the data of a Secret, and elsewhere what
// has the name of a secret.
func Object(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := u.DeepCopy()
	metadata, _ := out.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if !IsSecret(out) {
		walk(out.Object)
		delete(annotations, lastApplied) // a copy of what is there, in which nothing would be hidden
		return out
	}
	values := Data(out)
	for _, field := range []string{"data", "stringData"} {
		m, _ := out.Object[field].(map[string]any)
		for key := range m {
			m[key] = Value(values[key])
		}
	}
	if copied, ok := annotations[lastApplied].(string); ok {
		annotations[lastApplied] = Value([]byte(copied))
	}
	return out
}

// walk hides in place: literal environment variables, arguments, and plain values by their names.
func walk(value any) {
	switch value := value.(type) {
	case map[string]any:
		name, named := value["name"].(string)
		if literal, ok := value["value"].(string); ok && named && Looks(name) {
			value["value"] = Value([]byte(literal))
		}
		for _, key := range []string{"args", "command"} {
			if list, ok := value[key].([]any); ok {
				arguments(list)
			}
		}
		data, _ := value["data"].(map[string]any)
		for key, v := range data {
			if text, ok := v.(string); ok && Looks(key) {
				data[key] = Value([]byte(text))
			}
		}
		for _, v := range value {
			walk(v)
		}
	case []any:
		for _, v := range value {
			walk(v)
		}
	}
}

func arguments(list []any) {
	for i, v := range list {
		text, _ := v.(string)
		list[i] = v
		if flag, _, ok := strings.Cut(text, "="); ok {
			list[i] = Argument(flag, text)
			continue
		}
		if i > 0 && !strings.HasPrefix(text, "-") && text != "" {
			if flag, ok := list[i-1].(string); ok && strings.HasPrefix(flag, "-") && !strings.Contains(flag, "=") && Looks(flag) {
				list[i] = Value([]byte(text))
			}
		}
	}
}

// Argument returns an argument "--flag=value", with the value hidden where the flag has the name of a secret.
func Argument(flag, argument string) string {
	value, ok := strings.CutPrefix(argument, flag+"=")
	if !ok || !Looks(flag) {
		return argument
	}
	return flag + "=" + Value([]byte(value))
}
