#!/usr/bin/env bash
# Copyright The Capstan Authors
# SPDX-License-Identifier: Apache-2.0
#
# Checks that generated files and go.mod are as they should be, lints, and leaves the tree as it found it. Arguments are
# the directories of the modules to check. What differs is printed and stays in the tree, ready to be committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# tree prints what differs from the last commit, untracked files with their content included.
tree() {
	git status --porcelain
	git diff HEAD
	git ls-files --others --exclude-standard -z | xargs -0 -r sha256sum
}

git rev-parse --is-inside-work-tree >/dev/null || {
	echo "verify: this is no git checkout, so there is nothing to compare with" >&2
	exit 1
}
before=$(tree | sha256sum)
failed=0

echo "verify: generated files"
make --no-print-directory generate
if [[ $(tree | sha256sum) != "$before" ]]; then
	git status --short
	echo "verify: 'make generate' changed files: commit them" >&2
	failed=1
fi

for m in "$@"; do
	echo "verify: go.mod of $m"
	if ! diff=$(cd "$m" && go mod tidy -diff 2>&1); then
		head -40 <<<"$diff"
		echo "verify: go.mod or go.sum of $m is not tidy: run 'make tidy' and commit" >&2
		failed=1
	fi
done

echo "verify: lint"
make --no-print-directory lint || failed=1
exit "$failed"
