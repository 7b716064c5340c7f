#!/usr/bin/env python3
"""Speed of haast, plain and speculative, beside llama.cpp on the same file: interleaved rounds, one Markdown table.

    bench/compare.py [--prompts FILE.jsonl ...] [--rounds 5] [--threads 2] [--llama-bench PATH | --no-peer]
        [--ik-bench PATH] [--out FILE.md] [--json FILE]

Each round runs every measurement once, so that a machine that changes its mood changes all of them alike; reported are the median and the
extremes over the rounds. A prompt file has one JSON object a line with `turns`; the first turn is answered greedily, plainly and with
speculation, in the chat template. MT-bench and HumanEval in this form are in SafeAILab/EAGLE (eagle/data); bench/prompts/own.jsonl is ours.
Without --llama-bench the peer is built by bench/llama_cpp.py (minutes, once). --ik-bench adds ik_llama.cpp by a llama-bench of its own.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEER_TESTS = {"pp512": (512, 0), "tg128": (0, 128)}
VERIFY_ROWS = range(1, 9)


def say(text):
    print(f"compare: {text}", file=sys.stderr, flush=True)


def default_model():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "haast" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def run_json(command):
    """Standard output of a command, as JSON; its errors go through."""
    result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"compare: {' '.join(map(str, command))} ended with {result.returncode}")
    return json.loads(result.stdout)


def peers(args):
    """name -> its llama-bench"""
    return {name: path for name, path in (("llama.cpp", args.llama_bench), ("ik_llama.cpp", args.ik_bench)) if path}


def peer_round(llama_bench, args):
    """llama-bench once: {"pp512": tokens/s, "tg128": tokens/s}"""
    command = [llama_bench, "-m", args.model, "-t", args.threads, "-p", 512, "-n", 128, "-r", 1, "-o", "json"]
    found = {}
    for entry in run_json(command):
        for name, (prompt, generated) in PEER_TESTS.items():
            if (entry["n_prompt"], entry["n_gen"]) == (prompt, generated):
                found[name] = entry["avg_ts"]
    return found


def haast_command(args, *more):
    command = [args.haast, "bench", "--json", "--model", args.model, "--threads", args.threads, "--repeats", 1, *more]
    return command + (["--draft", args.draft] if args.draft else [])


def steps_round(args):
    """The engine's own steps once, flattened: decode_tps, prefill_tps, verify_ms/M, draft_step_ms, roofline."""
    report = run_json(haast_command(args))
    values = {k: report[k] for k in ("decode_tps", "prefill_tps", "draft_step_ms", "roofline", "read_gb_per_s")}
    return values | {f"verify_ms/{m}": v for m, v in report["verify_ms"].items()}


def draft_flags(args):
    return ["--num-draft-tokens", args.num_draft_tokens] if args.num_draft_tokens else []


def prompts_round(args, path):
    """All prompts of one file once, plain and speculative in turns: tokens/s, tau. haast fails where an answer differs."""
    more = ["--no-steps", "--prompts", path, "--max-tokens", args.max_tokens, *draft_flags(args)]
    speculation = run_json(haast_command(args, *more, *(["--limit", args.limit] if args.limit else [])))["speculation"]
    return prompt_values(speculation)


def prompt_values(speculation):
    def number(value):
        return value["median"] if isinstance(value, dict) else value
    return {k: number(speculation[k]) for k in ("plain_tps", "speculative_tps", "plain_decode_tps", "speculative_decode_tps", "tau")}


class Series:
    """name -> one value a round."""

    def __init__(self):
        self.values = {}

    def add(self, prefix, found):
        for name, value in found.items():
            self.values.setdefault(prefix + name, []).append(value)

    def median(self, name):
        return statistics.median(self.values[name])

    def cell(self, name, digits=1):
        """median (min to max)"""
        values = self.values[name]
        return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"

    def ratio(self, above, below, digits=2):
        """Median, over rounds, of the ratio within a round."""
        return f"{statistics.median(a / b for a, b in zip(self.values[above], self.values[below])):.{digits}f}"


def machine():
    name = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return f"{name}, {os.cpu_count()} processors"


def commit():
    try:
        head = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        changed = subprocess.run(["git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True).stdout
    except FileNotFoundError:
        return "unknown (no git)"
    return (head or "unknown") + ("+" if changed else "")


def shown_arguments(args):
    """What decides the figures, without this machine's paths."""
    words = [f"--prompts {Path(p).name}" for p in args.prompts] + [f"--threads {args.threads}", f"--rounds {args.rounds}",
                                                                   *([f"--num-draft-tokens {args.num_draft_tokens}"] if args.num_draft_tokens else [])]
    return words + ([f"--limit {args.limit}"] if args.limit else []) + [f"--max-tokens {args.max_tokens}"]


def table(series, args, loads):
    named = [name for name in ("llama.cpp", "ik_llama.cpp") if f"{name}/tg128" in series.values]
    lines = [f"{datetime.date.today()}, {machine()}, {args.threads} threads, commit {commit()}; load average {min(loads):.1f} to "
             f"{max(loads):.1f}; median (least to greatest) of {args.rounds} interleaved rounds. Tokens after an answer's first; the speed-up of "
             "whole requests counts their prompts too.",
             f"`{' '.join(['bench/compare.py', *shown_arguments(args)])}`", "",
             "| tokens a second | plain | speculative | speed-up | of whole requests | tau |", "|---|---|---|---|---|---|"]
    lines += [f"| {name}, generating 128 | {series.cell(name + '/tg128')} | | | | |" for name in named]
    lines.append(f"| haast, generating 128 | {series.cell('steps/decode_tps')} | | | | |")
    for path in args.prompts:
        name = Path(path).stem
        lines.append(f"| haast, {name} | {series.cell(name + '/plain_decode_tps')} | {series.cell(name + '/speculative_decode_tps')} | "
                     f"{series.ratio(name + '/speculative_decode_tps', name + '/plain_decode_tps')} | "
                     f"{series.ratio(name + '/speculative_tps', name + '/plain_tps')} | {series.median(name + '/tau'):.2f} |")
    lines += [f"| {name}, prompt of 512 | {series.cell(name + '/pp512')} | | | | |" for name in named]
    lines += [f"| haast, prompt of 512 | {series.cell('steps/prefill_tps')} | | | | |", ""]
    for name in named:
        lines += [f"haast's plain decoding is {series.ratio('steps/decode_tps', name + '/tg128')} x {name}'s, its prompts "
                  f"{series.ratio('steps/prefill_tps', name + '/pp512')} x.", ""]
    rows = [m for m in VERIFY_ROWS if f"steps/verify_ms/{m}" in series.values]
    lines += ["| verify M rows | " + " | ".join(str(m) for m in rows) + " |", "|---" * (len(rows) + 1) + "|",
              "| ms | " + " | ".join(f"{series.median(f'steps/verify_ms/{m}'):.2f}" for m in rows) + " |",
              "| of M = 1 | " + " | ".join(series.ratio(f"steps/verify_ms/{m}", "steps/verify_ms/1") for m in rows) + " |", "",
              f"A draft step takes {series.median('steps/draft_step_ms'):.2f} ms. The memory was measured at "
              f"{series.median('steps/read_gb_per_s'):.1f} GB/s; one decode step reaches {100 * series.median('steps/roofline'):.0f} % of it."]
    return "\n".join(lines) + "\n"


def measure(args):
    series, loads = Series(), []
    for number in range(args.rounds):
        loads.append(os.getloadavg()[0])
        say(f"round {number + 1} of {args.rounds}, load average {loads[-1]:.1f}")
        for name, path in peers(args).items():
            series.add(f"{name}/", peer_round(path, args))
        series.add("steps/", steps_round(args))
        for path in args.prompts:
            say(f"  {Path(path).stem}")
            series.add(Path(path).stem + "/", prompts_round(args, path))
    return series, loads


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--haast", type=Path, default=ROOT / "build" / "haast")
    parser.add_argument("--model", type=Path, default=default_model())
    parser.add_argument("--draft", type=Path, help="head folder; the model's own where left out")
    parser.add_argument("--num-draft-tokens", type=int, help="drafts of a round; chosen round by round where left out")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--prompts", action="append", default=[], metavar="FILE.jsonl", help="may be given several times")
    parser.add_argument("--limit", type=int, help="only the first N prompts of each file")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--llama-bench", type=Path, help="a llama-bench that is built already")
    parser.add_argument("--ik-bench", type=Path, help="the llama-bench of an ik_llama.cpp that is built already")
    parser.add_argument("--no-peer", action="store_true", help="without llama.cpp")
    parser.add_argument("--out", type=Path, help="write the table here too")
    parser.add_argument("--json", type=Path, help="write every round's values here")
    args = parser.parse_args()
    args.prompts = args.prompts or [str(ROOT / "bench" / "prompts" / "own.jsonl")]
    if args.no_peer:
        args.llama_bench = None
    elif not args.llama_bench:
        built = subprocess.run([sys.executable, ROOT / "bench" / "llama_cpp.py"], stdout=subprocess.PIPE, text=True, check=True)
        args.llama_bench = Path(built.stdout.splitlines()[-1])
    for path in (args.haast, args.model, *peers(args).values(), *map(Path, args.prompts)):
        if path and not path.exists():
            sys.exit(f"compare: {path} does not exist; `make program model` makes the program and fetches the model")
    series, loads = measure(args)
    text = table(series, args, loads)
    print(text)
    if args.out:
        args.out.write_text(text)
    if args.json:
        args.json.write_text(json.dumps({"load": loads, "rounds": series.values}, indent=1) + "\n")


if __name__ == "__main__":
    main()
