#!/usr/bin/env python3
"""clang-tidy over the files that changed, or over all; stops starting new files when the time given is used up.

    scripts/run_clang_tidy.py --build DIR [--since COMMIT | --changed-first | FILE...] [--jobs N] [--seconds S]

DIR holds compile_commands.json. Changed are the .cc files that differ from a commit and those that include a differing header by name: only
those with --since; before all others with --changed-first, whose commit is where this branch left origin/main, or the one before HEAD
(neither known, as in a clone without history: none is first). Files are taken in an order that rotates with the day, so that a time limit
does not always skip the same ones. Exits 1 for findings; with --changed-first only for those in changed files, while those in other files
are printed. Says how many files the time limit left out.
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
    """Own sources in the compilation database."""
    entries = json.loads((build / "compile_commands.json").read_text())
    files = {Path(e["directory"], e["file"]).resolve() for e in entries}
    return sorted(f for f in files if f.suffix == ".cc" and f.is_relative_to(ROOT) and not f.is_relative_to(build.resolve()))


def git(*arguments, root=ROOT):
    """Output lines, or None where git refuses: no repository, no such commit."""
    result = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True)
    return result.stdout.splitlines() if result.returncode == 0 else None


def base_commit(root=ROOT):
    """Where this branch left origin/main; on origin/main itself, or without it, the commit before HEAD; None where history is missing."""
    head = git("rev-parse", "--verify", "-q", "HEAD", root=root)
    left = git("merge-base", "origin/main", "HEAD", root=root)
    if left and left != head:
        return left[0]
    before = git("rev-parse", "--verify", "-q", "HEAD~1", root=root)
    return before[0] if before else None


def changed_since(commit, files, root=ROOT):
    """Those of `files` that differ from `commit` in the work tree, or include a header that does."""
    names = git("diff", "--name-only", commit, "--", root=root)
    if names is None:
        sys.exit(f"run_clang_tidy: no commit {commit} in {root}: expected one that git knows here (a shallow clone knows few)")
    headers = [n.removeprefix("src/").removeprefix("include/").removeprefix("tests/") for n in names if n.endswith(".h")]
    changed = {root / n for n in names}

    def affected(file):
        text = file.read_text(encoding="utf-8")
        return file in changed or any(f'"{h}"' in text for h in headers)
    return [f for f in files if affected(f)]


def rotated(files, day):
    turn = day % max(len(files), 1)
    return files[turn:] + files[:turn]


def ordered(files, first, day):
    """`first`, then the other files, each in the rotation of the day."""
    return rotated(first, day) + [f for f in rotated(files, day) if f not in first]


def verdict(bad, first, changed_first):
    """Exit code for the files with findings."""
    return 1 if (set(bad) & set(first) if changed_first else bad) else 0


def analyzer_flags(file):
    """Tests and benchmarks go without the path-sensitive analyzer: on their macros it takes six times as long as all else."""
    is_test = file.stem.endswith(("test", "bench")) or (ROOT / "tests") in file.parents
    return ["--checks=-clang-analyzer-*"] if is_test else []


def tidy(build, file, deadline):
    if time.monotonic() > deadline:
        return file, None, ""
    command = ["clang-tidy-22", "--quiet", "-p", str(build), "--extra-arg=-Wno-unknown-warning-option", *analyzer_flags(file), str(file)]
    result = subprocess.run(command, capture_output=True, text=True)
    return file, result.returncode, result.stdout + (result.stderr if result.returncode else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--since", metavar="COMMIT")
    parser.add_argument("--changed-first", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args()
    files = compiled_files(args.build)
    first = []
    if args.files:
        files = [f for f in files if f in {p.resolve() for p in args.files}]
    elif args.since:
        files = changed_since(args.since, files)
    elif args.changed_first and (commit := base_commit()):
        first = changed_since(commit, files)
    files = ordered(files, first, int(time.time() // 86400))

    deadline = time.monotonic() + args.seconds
    bad, skipped = [], []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for file, code, text in pool.map(lambda f: tidy(args.build, f, deadline), files):
            if code is None:
                skipped.append(file)
                continue
            print(f"clang-tidy {'ok  ' if code == 0 else 'FAIL'} {file.relative_to(ROOT)}", flush=True)
            if code != 0:
                bad.append(file)
                print(text, flush=True)
    changed_bad, changed_skipped = len(set(bad) & set(first)), len(set(skipped) & set(first))
    print(f"run_clang_tidy: {len(files) - len(skipped)} files checked, {len(bad)} with findings ({changed_bad} of them changed); "
          f"the time limit left out {len(skipped)} ({changed_skipped} of them changed)")
    return verdict(bad, first, args.changed_first)


if __name__ == "__main__":
    sys.exit(main())
