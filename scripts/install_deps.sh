#!/usr/bin/env bash
# Installs the Debian packages that haast needs and this machine lacks; says which. Does nothing where nothing is missing.
#   scripts/install_deps.sh            to build, run and test
#   scripts/install_deps.sh lint       also what `make lint`, `make format` and `make fuzz` need
#   scripts/install_deps.sh arm64      also what `make arm64` needs; adds the architecture arm64 to dpkg
set -euo pipefail
export LC_ALL=C.UTF-8

rust_minimum=1.88
missing=()

# tool PROGRAM PACKAGE...: wanted unless the program is on the PATH already, from wherever.
tool() { command -v "$1" >/dev/null || missing+=("${@:2}"); }
# lib PACKAGE: wanted unless installed.
lib() { [[ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" == ii* ]] || missing+=("$1"); }

# True if the first cargo found is new enough; the build looks in the same places (haast_find_cargo).
rust_is_new_enough() {
  local cargo version
  for cargo in cargo "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" /usr/bin/cargo; do
    version=$("$cargo" --version 2>/dev/null | awk '{print $2}') || continue
    if [[ -n "$version" ]] && printf '%s\n%s\n' "$rust_minimum" "$version" | sort -CV; then return 0; fi
  done
  return 1
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install_deps: no apt on this system: install g++ >= 12, cmake >= 3.25, ninja, fmt, tl-expected, simdjson, nlohmann-json, CLI11," \
    "libedit, xxHash, GoogleTest, Python 3 with pip, cargo and rustc >= $rust_minimum by hand" >&2
  exit 0
fi

tool g++ g++
tool cmake cmake
tool ninja ninja-build
tool ccache ccache
tool pkg-config pkg-config
tool python3 python3
python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
[[ -e /etc/ssl/certs/ca-certificates.crt ]] || missing+=(ca-certificates)
for package in libfmt-dev libexpected-dev libsimdjson-dev nlohmann-json3-dev libcli11-dev libedit-dev libxxhash-dev libgtest-dev libgmock-dev; do
  lib "$package"
done
rust_is_new_enough || missing+=(cargo-web rustc-web)
if [[ "${1:-}" == lint ]]; then
  tool git git
  tool clang-format-19 clang-format-19
  tool clang-tidy-22 clang-tidy-22
  tool clang++-19 clang-19
  lib libclang-rt-19-dev
  if ! cargo clippy --version >/dev/null 2>&1; then missing+=(rust-web-clippy); fi
fi

if [[ "${1:-}" == arm64 ]]; then
  tool aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
  tool qemu-aarch64 qemu-user
  for package in libfmt-dev libxxhash-dev libgtest-dev libgmock-dev; do lib "$package:arm64"; done
fi

if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi

echo "install_deps: installing with apt: ${missing[*]}"
as_root=()
if [[ $EUID -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "install_deps: not root and no sudo here; as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
if [[ "${missing[*]}" == *:arm64* ]]; then "${as_root[@]}" dpkg --add-architecture arm64; fi
"${as_root[@]}" apt-get update
if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; then
  echo "install_deps: apt could not install: ${missing[*]}. haast is built on Debian 12 or newer with its security suite" \
    "(cargo-web, rustc-web) and, for lint, clang 19; see CONTRIBUTING.md for other ways" >&2
  exit 1
fi
if ! rust_is_new_enough; then
  echo "install_deps: cargo is still older than $rust_minimum: $(cargo --version 2>&1 || true). Install Rust with rustup" >&2
  exit 1
fi
