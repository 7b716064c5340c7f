#!/usr/bin/env python3
"""Automatic speculation over loads, prompt sets and temperatures, against no speculation and every fixed chain.

    haast bench --no-steps --costs-out costs.json                                           first, on a quiet machine
    bench/auto_sweep.py --out DIR --costs costs.json --prompts mt_bench.jsonl --prompts gsm8k.jsonl --prompts humaneval.jsonl
    bench/auto_sweep.py ... --confirm 4                                                     then times 4 of the points, on a quiet machine

Every launch counts at its price, so what else the machine does changes nothing. A point is a prompt file, a temperature and a number of
requests that run together. Exit code 1 where automatic speculation is under 0.98x of the point's best fixed setting, under 0.97x of none,
or changes an answer. --confirm runs points again by the clock, where automatic speculation measures the costs itself: off, the best
fixed chain and automatic in turns, the median of the ratios within a turn.
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cells import PLAIN, Cell, Setting, add_arguments, different_answers, run_all

OF_BEST_FIXED, OF_OFF = 0.98, 0.97


@dataclass
class Point:
    cells: dict[Setting, Cell]
    auto: Setting

    def name(self) -> str:
        cell = self.cells[PLAIN]
        return f"{cell.set} | {cell.temperature} | {cell.concurrency}"

    def best_fixed(self) -> Setting:
        """No speculation is a fixed setting too."""
        return max((s for s in self.cells if s != self.auto), key=lambda s: self.cells[s].priced_tps())

    def ratio(self, setting: Setting) -> float:
        return self.cells[self.auto].priced_tps() / self.cells[setting].priced_tps()

    def bad(self) -> bool:
        return self.ratio(self.best_fixed()) < OF_BEST_FIXED or self.ratio(PLAIN) < OF_OFF


def make_points(args: argparse.Namespace) -> list[Point]:
    auto = Setting(args.algorithm, "auto")
    fixed = [Setting(args.algorithm, f"chain{depth}") for depth in range(1, args.deepest + 1)]
    return [Point({s: Cell(args, p, s, t, int(c)) for s in [PLAIN, *fixed, auto]}, auto)
            for c in args.concurrency.split(",") for t in args.temperatures.split(",") for p in args.prompts]


def print_table(points: list[Point]) -> None:
    print("| set | T | requests | off, tokens/s | best fixed | auto / best fixed | auto / off |\n|---|---|---|---|---|---|---|")
    for point in points:
        best = point.best_fixed()
        print(f"| {point.name()} | {point.cells[PLAIN].priced_tps():.0f} | {best.shape}, {point.cells[best].priced_tps():.0f} | "
              f"{point.ratio(best):.3f}{' BAD' if point.bad() else ''} | {point.ratio(PLAIN):.3f} |")
    for name, of in (("best fixed", Point.best_fixed), ("off", lambda _: PLAIN)):
        ratios = [point.ratio(of(point)) for point in points]
        print(f"auto / {name}: least {min(ratios):.3f}, median {statistics.median(ratios):.3f}", file=sys.stderr)


def wall_tps(cell: Cell) -> float:
    command = [part for part in cell.command]
    if "--costs" in command:
        at = command.index("--costs")
        del command[at:at + 2]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["speculation"]["speculative_tps"]["median"]


def confirm(points: list[Point], count: int, turns: int) -> None:
    """Of `count` points, evenly spread over the list."""
    print(f"\nBy the clock, medians of {turns} turns:\n| set | T | requests | best fixed | auto / best fixed | auto / off |\n|---|---|---|---|---|---|")
    for point in points[::max(1, len(points) // count)][:count]:
        best = point.best_fixed()
        of_best, of_off = [], []
        settings = list(dict.fromkeys((PLAIN, best, point.auto)))
        for turn in range(turns):
            first = turn % len(settings)  # another one begins each turn: a machine may slow down within it
            tps = {setting: wall_tps(point.cells[setting]) for setting in settings[first:] + settings[:first]}
            of_best.append(tps[point.auto] / tps[best])
            of_off.append(tps[point.auto] / tps[PLAIN])
        print(f"| {point.name()} | {best.shape} | {statistics.median(of_best):.3f} | {statistics.median(of_off):.3f} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, limit=16, max_tokens=64)
    parser.add_argument("--costs", required=True, help="step costs of `haast bench --costs-out`")
    parser.add_argument("--algorithm", default="eagle3")
    parser.add_argument("--concurrency", default="1,2,4,8,16")
    parser.add_argument("--deepest", type=int, default=7, help="the fixed chains are 1 to this")
    parser.add_argument("--confirm", type=int, default=0, metavar="N", help="time N points")
    parser.add_argument("--turns", type=int, default=5, help="of --confirm")
    args = parser.parse_args()
    Path(args.out).mkdir(parents=True, exist_ok=True)
    points = make_points(args)
    cells = [cell for point in points for cell in point.cells.values()]
    run_all(cells, args.jobs)
    print_table(points)
    different = different_answers(cells)
    for name in different:
        print(f"{name}: answers DIFFER from plain decoding", file=sys.stderr)
    if args.confirm > 0:
        confirm(points, args.confirm, args.turns)
    return 1 if different or any(point.bad() for point in points) else 0


if __name__ == "__main__":
    sys.exit(main())
