#!/usr/bin/env python3
"""Runs every libFuzzer program of a fuzz build on its committed corpus, sharing the time given.

    scripts/run_fuzzers.py --build build-fuzz [--seconds 120]

New inputs are kept in DIR/corpus/NAME, not in the repository; a crash leaves its input in DIR/crashes and fails the run.
"""

import argparse
import subprocess
import sys
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--seconds", type=int, default=120)
    args = parser.parse_args()
    listing = args.build / "fuzzers.list"
    fuzzers = [line.split() for line in listing.read_text().splitlines() if line] if listing.exists() else []
    if not fuzzers:
        sys.exit(f"run_fuzzers: no fuzzers in {listing}; build them with `cmake --preset fuzz && cmake --build --preset fuzz`")
    each = max(5, args.seconds // len(fuzzers))
    crashes = args.build / "crashes"
    crashes.mkdir(exist_ok=True)
    failed = []
    for program, corpus in fuzzers:
        name = Path(program).name
        found = args.build / "corpus" / name
        found.mkdir(parents=True, exist_ok=True)
        print(f"run_fuzzers: {name} for {each} s", flush=True)
        command = [program, str(found), corpus, f"-max_total_time={each}", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1",
                   "-verbosity=1", f"-artifact_prefix={crashes}/{name}-"]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        lines = result.stdout.splitlines()
        if result.returncode != 0:
            failed.append(name)
            print("\n".join(lines[-60:]))
        else:
            print("\n".join(line for line in lines if line.startswith(("stat::number_of_executed_units", "stat::new_units_added"))))
    print(f"run_fuzzers: {len(fuzzers)} fuzzers, {len(failed)} failed {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
