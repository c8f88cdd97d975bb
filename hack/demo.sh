#!/usr/bin/env bash
# Copyright The Capstan Authors
# SPDX-License-Identifier: Apache-2.0
#
# Shows one platform upgrade from beginning to end: a real management cluster with a running workload cluster, built from
# source, moves from one Cluster API version to the next under Capstan. The sandbox is gone afterwards, also after a fault
# or Ctrl-C. Called by `make demo`, which builds what it needs and sets CAPSTAN, SANDBOX, FROM and TO.
set -euo pipefail
: "${CAPSTAN:=bin/capstan}" "${SANDBOX:=bin/sandbox}" "${FROM:=v1.13.4}" "${TO:=v1.14.2}"

work=$(mktemp -d "${TMPDIR:-/tmp}/capstan-demo-XXXXXX")
home=$work/sandbox

finish() {
	local code=$?
	trap - EXIT INT TERM
	echo
	if ! "$SANDBOX" down --dir "$home"; then
		echo "demo: the sandbox did not end cleanly, look into $home" >&2
		exit 1
	fi
	if ((code == 0)); then
		rm -rf "$work"
		echo "The demo is over after $((SECONDS / 60)) min $((SECONDS % 60)) s. Next: read README.md, or 'make sandbox' to try it yourself."
	else
		echo "demo: stopped with exit code $code; logs are in $home, the releases in $work" >&2
	fi
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step() { printf '\n── %s\n' "$1"; }
# show prints a command as a user would type it, then runs it.
show() {
	printf '$ %s\n' "${*//$work\//}" >&2
	"$@"
}

step "A management cluster with Cluster API $FROM and a workload cluster of 3 + 3 machines"
show "$SANDBOX" up --dir "$home" --capi "$FROM" --offer "$TO" --clusters 1 --control-planes 3 --workers 3 >/dev/null
KUBECONFIG=$("$SANDBOX" kubeconfig --dir "$home")
export KUBECONFIG

step "Two releases of the platform, made from the Go modules of Cluster API and cert-manager"
show "$SANDBOX" release --capi "$FROM" --out "$work/releases/$FROM"
show "$SANDBOX" release --capi "$TO" --upgrade-from "$FROM" --out "$work/releases/$TO"

step "What is there"
show "$CAPSTAN" status

step "What would happen (this writes nothing)"
show "$CAPSTAN" plan "$work/releases/$TO"

step "The upgrade"
show "$CAPSTAN" upgrade "$work/releases/$TO" --yes

step "The same once more: nothing is left to do"
show "$CAPSTAN" upgrade "$work/releases/$TO" --yes

step "What is kept of it"
show "$CAPSTAN" history

step "What clusterctl $TO says about the result"
show "$SANDBOX" clusterctl --dir "$home" --capi "$TO" -- upgrade plan
