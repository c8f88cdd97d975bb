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

// Close tells whether two different words are so alike that one was most likely typed for the other. Letters that changed
// places count as two; of very short words nothing can be told.
func Close(a, b string) bool {
	shorter := min(len(a), len(b))
	return a != b && shorter >= 4 && distance(a, b) <= max(1, (shorter+1)/3)
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
