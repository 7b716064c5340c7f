#!/usr/bin/env python3
"""clang-tidy over the files that changed, or over all; stops starting new files when the time given is used up.

    scripts/run_clang_tidy.py --build DIR [--since COMMIT | FILE...] [--jobs N] [--seconds S]

DIR holds compile_commands.json. With --since, the .cc files that differ from that commit and those that include a differing header by name;
tests are left out, for GoogleTest's macros trip the checks. Files are taken in an order that rotates with the day, so that a time limit does
not always skip the same ones. Exits 1 if any finding was printed; says how many files the time limit left out.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def compiled_files(build):
    """Own sources in the compilation database, without tests."""
    entries = json.loads((build / "compile_commands.json").read_text())
    files = {Path(e["directory"], e["file"]).resolve() for e in entries}
    return sorted(f for f in files if f.suffix == ".cc" and f.is_relative_to(ROOT / "src") and not f.stem.endswith(("_test", "_fuzz")))


def changed_since(commit, files):
    names = subprocess.run(["git", "-C", ROOT, "diff", "--name-only", commit, "--"], capture_output=True, text=True, check=True).stdout.split()
    headers = [n.removeprefix("src/").removeprefix("include/") for n in names if n.endswith(".h")]
    changed = {ROOT / n for n in names}

    def affected(file):
        text = file.read_text(encoding="utf-8")
        return file in changed or any(f'"{h}"' in text for h in headers)
    return [f for f in files if affected(f)]


def tidy(build, file, deadline):
    if time.monotonic() > deadline:
        return file, None, ""
    command = ["clang-tidy-19", "--quiet", "-p", str(build), "--extra-arg=-Wno-unknown-warning-option", str(file)]
    result = subprocess.run(command, capture_output=True, text=True)
    return file, result.returncode, result.stdout + (result.stderr if result.returncode else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--since", metavar="COMMIT")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args()
    files = compiled_files(args.build)
    if args.files:
        files = [f for f in files if f in {p.resolve() for p in args.files}]
    elif args.since:
        files = changed_since(args.since, files)
    if files:
        turn = int(time.time() // 86400) % len(files)
        files = files[turn:] + files[:turn]

    deadline = time.monotonic() + args.seconds
    bad, skipped = 0, 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for file, code, text in pool.map(lambda f: tidy(args.build, f, deadline), files):
            if code is None:
                skipped += 1
                continue
            print(f"clang-tidy {'ok  ' if code == 0 else 'FAIL'} {file.relative_to(ROOT)}", flush=True)
            if code != 0:
                bad += 1
                print(text, flush=True)
    print(f"run_clang_tidy: {len(files) - skipped} files checked, {bad} with findings, {skipped} left out by the time limit")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
