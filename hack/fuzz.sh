#!/usr/bin/env bash
# Copyright The Capstan Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs every fuzz target of the module for FUZZTIME (60s), one after the other, and ends with a table. The targets are found,
# not listed: `go test -list` knows them.
set -euo pipefail

go=${GO:-go}
time=${FUZZTIME:-60s}
table=$(mktemp)
trap 'rm -f "$table"' EXIT
failed=0

# The sandbox is a module of its own and has none.
packages=$(grep -rl --include='*_test.go' --exclude-dir=sandbox '^func Fuzz' . | xargs -r -n1 dirname | sort -u)

while read -r package; do
	targets=$("$go" test -list '^Fuzz' "$package" | grep '^Fuzz') # a package that does not compile ends the script
	while read -r target; do
		echo "fuzz $target in $package for $time"
		if "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package"; then
			result=ok
		else
			result=FAILED failed=1
		fi
		printf '%-8s %-28s %s\n' "$result" "$target" "$package" >>"$table"
	done <<<"$targets"
done <<<"$packages"

echo
cat "$table"
exit $failed
