"""Runs of `haast bench` over prompt files, one cell each, kept on disk: a stopped series goes on where it was."""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue


@dataclass(frozen=True)
class Setting:
    """How a cell answers: a drafter and a shape (shape_flags); or plainly, as the others' answers must be."""
    algorithm: str
    shape: str


PLAIN = Setting("none", "off")


def shape_flags(setting: Setting) -> list[str]:
    """auto, chainN, or treeN: N drafts of which a node has at most 4 (8 from 32 drafts on) and the tree 6 levels."""
    if setting.shape in ("off", "auto"):
        return []
    if setting.shape.startswith("chain"):
        return ["--num-draft-tokens", setting.shape[5:]]
    size = int(setting.shape.removeprefix("tree"))
    return ["--num-draft-tokens", str(size), "--draft-top-k", str(8 if size >= 32 else 4), "--draft-depth", "6"]


def add_arguments(parser: argparse.ArgumentParser, limit: int, max_tokens: int) -> None:
    parser.add_argument("--haast", default="build/haast")
    parser.add_argument("--out", required=True, help="folder of the cells' results")
    parser.add_argument("--prompts", action="append", required=True, metavar="FILE.jsonl")
    parser.add_argument("--temperatures", default="0,1")
    parser.add_argument("--limit", type=int, default=limit, help="prompts of each file; 0: all")
    parser.add_argument("--max-tokens", type=int, default=max_tokens)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, a core each: for tau and prices, not for wall-clock")
    parser.add_argument("flags", nargs="*", help="after --: further flags for haast")


class Cell:
    """One prompt file, setting, temperature and number of requests that run together."""

    def __init__(self, args: argparse.Namespace, prompts: str, setting: Setting, temperature: str, concurrency: int = 1):
        self.prompts, self.setting, self.temperature, self.concurrency = prompts, setting, temperature, concurrency
        self.set = Path(prompts).stem
        parts = [self.set, setting.algorithm, setting.shape, f"T{temperature}", f"c{concurrency}", f"{args.limit}x{args.max_tokens}"]
        self.name = ".".join(parts)
        self.path = Path(args.out) / (self.name + ".json")
        self.command = [args.haast, "bench", "--json", "--no-steps", "--single", "--prompts", prompts, "--max-tokens", str(args.max_tokens),
                        "--limit", str(args.limit), "--temperature", temperature, "--seed", "1", "--repeats", "1",
                        "--concurrency", str(concurrency), "--threads", str(1 if args.jobs > 1 else args.threads),
                        "--speculative-algorithm", setting.algorithm, *shape_flags(setting),
                        *(["--costs", args.costs] if args.costs else []), *args.flags]

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

    def priced_tps(self) -> float:
        return self.result()["speculative_priced"]["tps"]


def run_all(cells: list[Cell], jobs: int) -> None:
    """Runs the cells that are not there yet, in their order."""
    missing = [cell for cell in cells if not cell.path.exists()]
    cores: Queue = Queue()
    for core in sorted(os.sched_getaffinity(0))[:jobs] if jobs > 1 else [None]:
        cores.put(core)
    done = len(cells) - len(missing)

    def one(cell: Cell) -> None:
        nonlocal done
        core = cores.get()
        try:
            if not cell.path.exists():  # another series may share the folder
                cell.run(core)
        finally:
            cores.put(core)
        done += 1
        print(f"[{done}/{len(cells)}] {cell.name}: tau {cell.result()['tau']:.3f}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        list(pool.map(one, missing))


def different_answers(cells: list[Cell]) -> list[str]:
    """Cells whose answers are not those of the plain cell of the same prompts and temperature (at whatever concurrency)."""
    plain = {(c.set, c.temperature): c.result()["answers_checksum"] for c in cells if c.setting == PLAIN}
    return [c.name for c in cells if c.result()["answers_checksum"] != plain[c.set, c.temperature]]
