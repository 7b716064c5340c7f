#!/usr/bin/env python3
"""tau of drafters over prompt files, and with --costs their priced speed: one `haast bench` a cell, kept on disk, so that a stopped run goes on.

    bench/acceptance.py --out DIR --prompts mt_bench.jsonl --prompts gsm8k.jsonl            chains of 3 and 5, T = 0 and 1, 256 tokens
    bench/acceptance.py ... --compare models/smollm2-135m-eagle3.1/acceptance.json          fails where tau is off by more than 5 % (T = 0), 7 % (T = 1)
    bench/acceptance.py ... --shapes chain3,chain5,chain7,tree8,tree16,tree32,tree60 --algorithms eagle3,ngram,suffix --limit 20 --max-tokens 128
    bench/acceptance.py ... --costs FILE                                                    speed beside tau: every launch at its price (haast bench --costs-out FILE)

One cell of each file and temperature answers plainly. Exit code 1 where another one's answers are not the same tokens.
"""

import argparse
import json
import sys
from pathlib import Path

from cells import PLAIN, Cell, Setting, add_arguments, different_answers, run_all

TOLERANCE = {"0": 0.05, "1": 0.07}  # relative, of the evaluation's teacher-forced tau
HAVE_TREES = ("eagle3", "eagle", "suffix")


def decode_tps(cell: Cell) -> float:
    return cell.result()["speculative_priced"]["decode_tps"]


def print_table(cells: list[Cell], priced: bool) -> None:
    sets = list(dict.fromkeys(cell.set for cell in cells))
    plain = {(c.set, c.temperature): c for c in cells if c.setting == PLAIN}
    print("| drafter | shape | T | " + " | ".join(sets) + " |")
    print("|---|---|---|" + "---|" * len(sets))
    for setting, temperature in dict.fromkeys((c.setting, c.temperature) for c in cells if c.setting != PLAIN):
        text = []
        for cell in (c for c in cells if (c.setting, c.temperature) == (setting, temperature)):
            speed = f", {decode_tps(cell) / decode_tps(plain[cell.set, temperature]):.2f}x" if priced else ""
            text.append(f"{cell.result()['tau']:.2f}{speed}")
        print(f"| {setting.algorithm} | {setting.shape} | {temperature} | " + " | ".join(text) + " |")


def compare(cells: list[Cell], path: str) -> int:
    """Chains against the head's evaluation: greedy rows, and at T = 1 those whose drafts are drawn with the target's noise."""
    expected = json.loads(Path(path).read_text())
    failed = 0
    for cell in cells:
        key = f"{cell.set}/T{cell.temperature}" + ("-coupled-draft" if cell.temperature == "1" else "")
        value = expected.get(key, {}).get("tau_chain_" + cell.setting.shape.removeprefix("chain"))
        if value is None:
            continue
        tau = cell.result()["tau"]
        off = tau / value - 1
        bad = abs(off) > TOLERANCE[cell.temperature]
        failed += bad
        print(f"{key} {cell.setting.shape}: tau {tau:.3f}, evaluation {value:.3f}, {100 * off:+.1f} %{'  TOO FAR' if bad else ''}")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, limit=0, max_tokens=256)
    parser.add_argument("--costs", help="step costs of `haast bench --costs-out`")
    parser.add_argument("--algorithms", default="eagle3")
    parser.add_argument("--shapes", default="chain3,chain5")
    parser.add_argument("--compare", metavar="acceptance.json")
    args = parser.parse_args()
    Path(args.out).mkdir(parents=True, exist_ok=True)
    settings = [Setting(a, s) for a in args.algorithms.split(",") for s in args.shapes.split(",")
                if a in HAVE_TREES or not s.startswith("tree")]
    cells = [Cell(args, p, s, t) for s in [PLAIN, *settings] for t in args.temperatures.split(",") for p in args.prompts]
    run_all(cells, args.jobs)
    print_table(cells, args.costs is not None)
    different = different_answers(cells)
    for name in different:
        print(f"{name}: answers DIFFER from plain decoding", file=sys.stderr)
    failed = compare(cells, args.compare) if args.compare else 0
    return 1 if different or failed else 0


if __name__ == "__main__":
    sys.exit(main())
