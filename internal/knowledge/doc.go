// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

// Package knowledge holds combinations of versions that are known to be bad, as data with public sources, and matches them
// with what is there. It decides nothing about a plan and knows no cluster: facts come in as values.
package knowledge
