#!/usr/bin/env bash
# Copyright The Capstan Authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs the programs that tests make disk images with, where they are missing and can be installed. Where they can't,
# those tests are skipped and say so; with CAPSTAN_IMAGE_TOOLS set, as in CI, they fail.
set -euo pipefail
PATH="$PATH:/usr/sbin:/sbin"

packages=()
while read -r tool package; do
	command -v "$tool" >/dev/null || packages+=("$package")
done <<'TOOLS'
mke2fs e2fsprogs
sfdisk fdisk
qemu-img qemu-utils
mkfs.xfs xfsprogs
TOOLS
((${#packages[@]})) || exit 0

if [[ "$(id -u)" != 0 ]] || ! command -v apt-get >/dev/null; then
	echo "image-tools: tests of disk images will be skipped; they need the packages ${packages[*]}" >&2
	exit 0
fi
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install -q -y --no-install-recommends "${packages[@]}")
"${install[@]}" </dev/null || { apt-get update -q </dev/null && "${install[@]}" </dev/null; }
