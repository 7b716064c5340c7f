#!/usr/bin/env bash
# clang-format over all C++ files of the tree: in place, or with --check only a report of what differs.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
[[ "${1:-}" == --check ]] && mode=(--dry-run --Werror)
git ls-files --cached --others --exclude-standard -- '*.h' '*.cc' '*.cu' '*.cuh' | while read -r file; do [[ -f $file ]] && echo "$file"; done |
  xargs -r -P "$(nproc)" -n 16 clang-format-19 "${mode[@]}"
