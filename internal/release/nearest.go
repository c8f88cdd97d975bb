// Copyright The Capstan Authors
// SPDX-License-Identifier: Apache-2.0

package release

import "slices"

// nearest returns the candidate that was most likely meant by word, or "" when none is close.
func nearest(word string, candidates []string) string {
	best, bestDistance := "", len(word)/2+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if d := distance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the letters to insert, delete or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
