#!/usr/bin/env python3
"""tau and speed of drafters over prompt files: one `haast bench` a cell, kept on disk, so that a stopped run goes on.

    bench/acceptance.py --out DIR --prompts mt_bench.jsonl --prompts gsm8k.jsonl            chains of 3 and 5, T = 0 and 1, 256 tokens
    bench/acceptance.py ... --compare models/smollm2-135m-eagle3.1/acceptance.json          fails where tau is off by more than 5 % (T = 0), 7 % (T = 1)
    bench/acceptance.py ... --shapes chain3,chain5,chain7,tree8,tree16,tree32,tree60 --algorithms eagle3,ngram,suffix --limit 20 --max-tokens 128
    bench/acceptance.py ... --jobs 8                                                        eight cells at a time, a core each: for tau, not for speed

Each cell also answers plainly and fails where an answer differs by a bit.
"""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

TOLERANCE = {"0": 0.05, "1": 0.07}  # relative, of the evaluation's teacher-forced tau


def shape_flags(shape: str) -> list[str]:
    """chainN, or treeN: N drafts of which a node has at most 4 (8 from 32 drafts on) and the tree 6 levels."""
    if shape == "auto":
        return []
    if shape.startswith("chain"):
        return ["--num-draft-tokens", shape[5:]]
    size = int(shape.removeprefix("tree"))
    return ["--num-draft-tokens", str(size), "--draft-top-k", str(8 if size >= 32 else 4), "--draft-depth", "6"]


class Cell:
    def __init__(self, args, prompts: str, algorithm: str, shape: str, temperature: str):
        self.set = Path(prompts).stem
        self.algorithm, self.shape, self.temperature = algorithm, shape, temperature
        self.name = f"{self.set}.{algorithm}.{shape}.T{temperature}.{args.limit}x{args.max_tokens}"
        self.path = Path(args.out) / (self.name + ".json")
        self.command = [args.haast, "bench", "--json", "--no-steps", "--prompts", prompts, "--max-tokens", str(args.max_tokens),
                        "--limit", str(args.limit), "--temperature", temperature, "--seed", "1", "--repeats", str(args.repeats),
                        "--concurrency", str(args.concurrency), "--threads", str(args.threads), "--speculative-algorithm", algorithm,
                        *shape_flags(shape), *args.flags]

    def run(self, core: int | None) -> None:
        pinned = ["taskset", "-c", str(core)] if core is not None else []
        done = subprocess.run([*pinned, *self.command], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}: exit code {done.returncode}: {done.stderr.strip() or done.stdout[-500:]}")
        part = self.path.with_suffix(".part")
        part.write_text(done.stdout)
        part.replace(self.path)

    def result(self) -> dict:
        return json.loads(self.path.read_text())["speculation"]


def run_all(cells: list[Cell], jobs: int) -> None:
    missing = [cell for cell in cells if not cell.path.exists()]
    cores: Queue = Queue()
    for core in sorted(os.sched_getaffinity(0))[:jobs] if jobs > 1 else [None]:
        cores.put(core)
    done = len(cells) - len(missing)

    def one(cell: Cell) -> None:
        nonlocal done
        core = cores.get()
        try:
            cell.run(core)
        finally:
            cores.put(core)
        done += 1
        print(f"[{done}/{len(cells)}] {cell.name}: tau {cell.result()['tau']:.3f}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        list(pool.map(one, missing))


def print_table(cells: list[Cell], speed: bool) -> None:
    sets = list(dict.fromkeys(cell.set for cell in cells))
    print("| drafter | shape | T | " + " | ".join(sets) + " |")
    print("|---|---|---|" + "---|" * len(sets))
    for key in dict.fromkeys((c.algorithm, c.shape, c.temperature) for c in cells):
        row = {c.set: c.result() for c in cells if (c.algorithm, c.shape, c.temperature) == key}
        text = [f"{r['tau']:.2f}" + (f", {r['decode_speedup']:.2f}x" if speed else "") for r in row.values()]
        print(f"| {key[0]} | {key[1]} | {key[2]} | " + " | ".join(text) + " |")


def compare(cells: list[Cell], path: str) -> int:
    """Chains against the head's evaluation: greedy rows, and at T = 1 those whose drafts are drawn with the target's noise."""
    expected = json.loads(Path(path).read_text())
    failed = 0
    for cell in cells:
        key = f"{cell.set}/T{cell.temperature}" + ("-coupled-draft" if cell.temperature == "1" else "")
        value = expected.get(key, {}).get("tau_chain_" + cell.shape.removeprefix("chain"))
        if value is None:
            continue
        tau = cell.result()["tau"]
        off = tau / value - 1
        bad = abs(off) > TOLERANCE[cell.temperature]
        failed += bad
        print(f"{key} {cell.shape}: tau {tau:.3f}, evaluation {value:.3f}, {100 * off:+.1f} %{'  TOO FAR' if bad else ''}")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--haast", default="build/haast")
    parser.add_argument("--out", required=True, help="folder of the cells' results")
    parser.add_argument("--prompts", action="append", required=True, metavar="FILE.jsonl")
    parser.add_argument("--algorithms", default="eagle3")
    parser.add_argument("--shapes", default="chain3,chain5")
    parser.add_argument("--temperatures", default="0,1")
    parser.add_argument("--limit", type=int, default=0, help="prompts of each file; 0: all")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--compare", metavar="acceptance.json")
    parser.add_argument("flags", nargs="*", help="after --: further flags for haast")
    args = parser.parse_args()
    if args.jobs > 1:
        args.threads = 1
    Path(args.out).mkdir(parents=True, exist_ok=True)
    cells = [Cell(args, p, a, s, t) for a in args.algorithms.split(",") for s in args.shapes.split(",")
             for t in args.temperatures.split(",") for p in args.prompts
             if a == "eagle3" or a == "suffix" or not s.startswith("tree")]
    run_all(cells, args.jobs)
    print_table(cells, speed=args.jobs == 1)
    return 1 if args.compare and compare(cells, args.compare) else 0


if __name__ == "__main__":
    sys.exit(main())
