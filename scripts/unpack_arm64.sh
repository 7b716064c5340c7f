#!/usr/bin/env bash
# Unpacks packages of the architecture arm64 into a folder, for those that Debian cannot install beside their amd64 twins.
#   scripts/unpack_arm64.sh DIR PACKAGE...        does nothing for a package that DIR holds already
set -euo pipefail
mkdir -p "$1"
cd "$1"
for package in "${@:2}"; do
  if ! compgen -G "${package}_*_arm64.deb" >/dev/null; then apt-get download -qq "$package:arm64"; fi
  dpkg -x "${package}"_*_arm64.deb .
done
