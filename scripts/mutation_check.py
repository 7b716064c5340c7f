#!/usr/bin/env python3
"""Puts known kinds of bugs into a copy of the code, one at a time, and sees that a test fails.

    scripts/mutation_check.py [--only NAME...] [--list] [--scratch DIR] [--results FILE] [--jobs N] [--timeout S] [--named] [--fresh]

The bugs are in scripts/mutations.py. The copy (files that git knows or would add) lies in DIR, by default build-mutation/, and its
Release build in DIR/build; beside the work tree, where relative paths are as long as here, ccache has most of it. For each bug:
apply, build the tests named with it, run them in order until one fails, then the other fast tests (not with --named), restore.
A bug that does not compile shows nothing about the tests and is reported, unless its entry says that the compiler is what catches
it. A test that runs into the time limit has caught it. Each test must pass without a bug before it is believed.

Results are kept in FILE (DIR/build/mutations.json): what was caught is not tried again while the file it changes stays the same; --fresh
tries all. Exits 1 if a bug survives or does not compile, 2 where an entry's text is not in its file exactly once, or the code as
it is does not build or pass.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from mutations import MUTATIONS

ROOT = Path(__file__).resolve().parent.parent
# What a bug meets that its own tests did not notice: seconds each, without a download and without the text library.
FAST_TESTS = ("attention_test", "kv_test", "sampling_test", "spec_test", "scheduler_test", "swap_space_test", "runner_test", "eagle3_test",
              "dump_checker_test", "engine_test", "paging_test", "session_test", "known_bugs_test", "tiny_golden_test",
              "kernels_test", "property_test", "exactness_test")
SURVIVED, NOT_COMPILED = "SURVIVED", "DOES NOT COMPILE"


class Refused(Exception):
    """The check itself cannot be made."""


def check_entries(mutations, root):
    """Every entry names a file that holds its text exactly once, and changes it."""
    names = [m.name for m in mutations]
    problems = [f"{name}: named twice" for name in sorted(set(names)) if names.count(name) > 1]
    for m in mutations:
        path = root / m.file
        count = path.read_text(encoding="utf-8").count(m.old) if path.is_file() else None
        if count != 1:
            problems.append(f"{m.name}: {m.file} " + ("is missing" if count is None else f"holds its text {count} times, expected once"))
        elif m.old == m.new:
            problems.append(f"{m.name}: changes nothing")
    if problems:
        raise Refused("scripts/mutations.py is not in step with the code:\n  " + "\n  ".join(problems))


def copy_if_changed(source, target):
    if target.is_file() and target.read_bytes() == source.read_bytes():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)  # with a new time, so that it is built again


def sync_tree(root, copy):
    """Makes `copy` the work tree of `root`, build folder excepted; unchanged files keep their times."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"], check=True, capture_output=True, text=True)
    names = {name for name in listed.stdout.split("\0") if name and (root / name).is_file()}
    for name in sorted(names):
        copy_if_changed(root / name, copy / name)
    for path in copy.rglob("*"):
        name = path.relative_to(copy)
        if path.is_file() and name.parts[0] != "build" and str(name) not in names:
            path.unlink()


def failed_case(output):
    """The GoogleTest case that a failed run's output points to: the first that failed, else the one that was running."""
    failed = re.search(r"\[  FAILED  \] ([\w/.]+)", output)
    running = re.findall(r"\[ RUN      \] ([\w/.]+)", output)
    return failed[1] if failed else running[-1] if running else ""


class Workplace:
    """The copy and its build."""

    def __init__(self, copy, jobs, timeout):
        self.copy = copy
        self.build_dir = self.copy / "build"
        self.jobs = jobs
        self.timeout = timeout
        self.sound = set()  # tests that pass without a bug

    def prepare(self, root):
        sync_tree(root, self.copy)
        # As the work tree is configured here: libraries in unusual places are found again.
        prefix = [f"-D{line}" for line in cache_lines(root / "build" / "CMakeCache.txt") if line.startswith("CMAKE_PREFIX_PATH")]
        result = subprocess.run(["cmake", "--preset", "release", "-B", self.build_dir, *prefix], cwd=self.copy, capture_output=True, text=True)
        if result.returncode != 0:
            raise Refused(f"cmake refuses the copy in {self.copy}:\n{result.stderr[-2000:]}")

    def build(self, targets):
        """Empty, or the compiler's words."""
        result = subprocess.run(["ninja", f"-j{self.jobs}", "-C", self.build_dir, *targets], capture_output=True, text=True)
        return "" if result.returncode == 0 else result.stdout[-4000:]

    def failure(self, test):
        """None where the test passes, else the case that failed."""
        environment = {**os.environ, "GTEST_FAIL_FAST": "1"}
        command = ["ctest", "--test-dir", self.build_dir, "-R", f"^{test}$", "--output-on-failure", "--timeout", str(self.timeout),
                   "--no-tests=error"]
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
        if result.returncode == 0:
            return None
        return "timeout" if "***Timeout" in result.stdout else failed_case(result.stdout) or "failed"


def cache_lines(path):
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def require_sound(workplace, tests):
    """The tests build and pass as long as no bug is applied."""
    tests = sorted(set(tests) - workplace.sound)
    if not tests:
        return
    if words := workplace.build(tests):
        raise Refused(f"the code as it is does not build:\n{words}")
    if failing := [t for t in tests if workplace.failure(t) is not None]:
        raise Refused(f"the code as it is fails {', '.join(failing)}")
    workplace.sound.update(tests)


def catching_test(workplace, mutation, tests):
    """What the tests say of a mutation: the first that fails, SURVIVED or NOT_COMPILED."""
    path = workplace.copy / mutation.file
    original = path.read_text(encoding="utf-8")
    try:
        path.write_text(original.replace(mutation.old, mutation.new), encoding="utf-8")
        if words := workplace.build(tests):
            print(words, file=sys.stderr)
            return NOT_COMPILED if mutation.compiles else "the compiler"
        for test in tests if mutation.compiles else ():
            if (case := workplace.failure(test)) is not None:
                return f"{test}: {case}"
        return SURVIVED
    finally:
        path.write_text(original, encoding="utf-8")


def try_mutation(workplace, mutation, named_only):
    start = time.monotonic()
    others = [] if named_only else [t for t in FAST_TESTS if t not in mutation.tests]
    for tests in filter(None, (mutation.tests, others)):
        require_sound(workplace, tests)
        verdict = catching_test(workplace, mutation, tests)
        if verdict != SURVIVED or not mutation.compiles:
            break
    return {"verdict": verdict, "seconds": round(time.monotonic() - start, 1)}


def key_of(mutation, root):
    """What a result depends on, as far as it is remembered."""
    return hashlib.sha256("\0".join((mutation.old, mutation.new, (root / mutation.file).read_text(encoding="utf-8"))).encode()).hexdigest()


def caught(result):
    return result["verdict"] not in (SURVIVED, NOT_COMPILED)


def print_table(mutations, results):
    width = max(len(m.name) for m in mutations)
    for m in mutations:
        result = results.get(m.name)
        words = f"{result['verdict']}  ({result['seconds']} s)" if result else "not tried"
        print(f"{m.name:{width}}  {m.file:36}  {words}")


def run(mutations, workplace, results_file, options, root=ROOT):
    """0, or 1 where a bug was not caught. Refused: see the exit code 2."""
    check_entries(mutations, root)
    results = {} if options.fresh or not results_file.is_file() else json.loads(results_file.read_text(encoding="utf-8"))
    keys = {m.name: key_of(m, root) for m in mutations}
    todo = [m for m in mutations if not (r := results.get(m.name)) or r["key"] != keys[m.name] or not caught(r)]
    if todo:
        workplace.prepare(root)
        require_sound(workplace, [t for m in todo for t in m.tests])
    for m in todo:
        results[m.name] = {**try_mutation(workplace, m, options.named), "key": keys[m.name]}
        results_file.write_text(json.dumps(results, indent=1), encoding="utf-8")
        print(f"{m.name}: {results[m.name]['verdict']} ({results[m.name]['seconds']} s)", flush=True)
    print_table(mutations, results)
    missed = [m.name for m in mutations if not caught(results[m.name])]
    print(f"{len(mutations) - len(missed)} of {len(mutations)} caught" + (f"; not: {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these bugs alone")
    parser.add_argument("--list", action="store_true", help="name the bugs and stop")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build-mutation", metavar="DIR")
    parser.add_argument("--results", type=Path, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=int, default=600, metavar="S", help="seconds for one test")
    parser.add_argument("--named", action="store_true", help="only the tests named with each bug")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    args = parser.parse_args()
    mutations = [m for m in MUTATIONS if not args.only or m.name in args.only]
    if args.only and len(mutations) != len(set(args.only)):
        parser.error(f"unknown: {', '.join(sorted(set(args.only) - {m.name for m in MUTATIONS}))}")
    if args.list:
        for m in mutations:
            print(f"{m.name}: {m.kind} ({m.file})")
        return 0
    workplace = Workplace(args.scratch.resolve(), args.jobs, args.timeout)
    workplace.build_dir.mkdir(parents=True, exist_ok=True)
    try:
        return run(mutations, workplace, args.results or workplace.build_dir / "mutations.json", args)
    except Refused as refused:
        print(f"mutation_check: {refused}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
