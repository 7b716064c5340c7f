# SPDX-License-Identifier: Apache-2.0
"""haast-train --target MODEL --out DIR: data, training, evaluation, export. Every stage that is on disk is not done again."""

import argparse
import json
import os
import shlex
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from .data import LOOP_TAIL, Corpus, CorpusWriter, choose_draft_vocabulary, evaluation_guard, read_prompt_sets, write_json
from .eagle1 import Eagle1Head
from .evaluate import AnswerSet, evaluate, golden_trace, greedy_answer, make_answers, mean_tau, merge_evaluations, read_answers, table
from .export import acceptance_table, export_head, model_card, read_head
from .generate import Generator
from .haast_features import HaastFeatures, find_binary, write_features
from .head import Eagle3Head, HeadSpec
from .prompts import read_conversations
from .state import load_parts, unpack
from .target import load_target
from .tokenizer import load_tokenizer
from .train import Trainer, TrainOptions

SHARES = {"tasks": 0.5, "code": 0.14, "arithmetic": 0.16, "text": 0.12, "stubs": 0.08}  # of --texts


def shares(text):
    """'code=0.2,stubs=0.2' -> SHARES with these replaced."""
    given = dict(part.partition("=")[::2] for part in text.split(","))
    unknown = given.keys() - SHARES.keys()
    if unknown:
        raise argparse.ArgumentTypeError(f"{sorted(unknown)}: expected {', '.join(SHARES)}")
    return SHARES | {k: float(v) for k, v in given.items()}


def parser():
    p = argparse.ArgumentParser(prog="haast-train", description="Trains an EAGLE-3 or 3.1 draft head; the target writes the data.")
    a = p.add_argument
    a("--target", required=True, help="a .gguf file (dequantised, as served) or a Hugging Face folder")
    a("--tokenizer", help="folder with tokenizer.json and tokenizer_config.json (default: the target's own)")
    a("--out", required=True, help="folder of the head; its subfolder work/ holds data and checkpoints")
    a("--stage", choices=("all", "data", "train", "evaluate", "export"), default="all",
      help="data: stop after it; train: start from existing data; evaluate: --compare heads only; export: --resume-state as a head")
    a("--corpus", help="folder with data of an earlier run (default: OUT/work)")
    a("--seed", type=int, default=1)
    g = p.add_argument_group("data").add_argument
    g("--texts", type=int, default=100_000, help="draws from seed tasks, arithmetic, code and text fragments")
    g("--shares", type=shares, default=SHARES, metavar="KIND=SHARE,...", help=f"of --texts, where it is not {SHARES}")
    g("--questions", type=int, default=150_000, help="questions that the target asks itself")
    g("--follow-ups", type=int, default=20_000)
    g("--answer-tokens", type=int, default=384, help="longest answer")
    g("--loop-tail", type=int, default=LOOP_TAIL, help="tokens kept of an answer after it has begun to repeat itself")
    g("--data-minutes", type=float, help="time budget of data generation")
    g("--text-dir", action="append", default=[], help="folder of .txt, .md, .rst or .py files to quote from (repeatable)")
    g("--conversations", action="append", default=[], help="your own prompts: JSONL, ShareGPT or OpenAI form (repeatable)")
    g("--greedy-share", type=float, default=0.45, help="share of greedy answers; a tenth is at 0.7, the rest at 1.0")
    g("--slots", type=int, default=2048, help="sequences generated at one time")
    g("--slot-tokens", type=int, default=832, help="longest prompt and answer together; at most the target's context")
    g = p.add_argument_group("head").add_argument
    g("--version", choices=("1", "3", "3.1"), default="3.1", help="of EAGLE")
    g("--init", default="target", help="'target': copy its last layer; or a folder with a head to go on from")
    g("--draft-vocab", type=int, default=16384, help="(EAGLE-1 has the whole vocabulary)")
    g("--ffn", type=int, help="width of the head's MLP (default: the target's)")
    g = p.add_argument_group("training").add_argument
    d = TrainOptions()
    g("--steps", type=int, help="length of the schedule in steps (default: 2000, unless --minutes)")
    g("--minutes", type=float, help="length of the schedule in minutes instead")
    for name in ("unroll", "step_decay", "lr", "warmup", "ema", "batch_tokens", "target_temperature", "acceptance_weight",
                 "acceptance_from", "cache_gb", "checkpoint_every"):
        g("--" + name.replace("_", "-"), type=type(getattr(d, name)), default=getattr(d, name))
    g("--optimizer", choices=("adamw", "muon"), default=d.optimizer)
    g("--per-token-loss", action="store_true", help="weigh tokens, not sequences, equally")
    g("--features", choices=("torch", "haast"), default="torch",
      help="what the head trains on (with --stage evaluate: is measured on): the target's forward pass here on dequantised weights, "
           "or haast's own, as it serves")
    g("--haast-binary", metavar="PATH", help="with --features haast: the program (default: haast on PATH)")
    g("--no-compile", action="store_true", help="no torch.compile (slower, nothing to build)")
    g("--state", help="folder for a compact state of small files, written with every checkpoint")
    g("--resume-state", help="folder with such a state: an unfinished schedule goes on where it was, a finished one begins anew")
    g("--tensorboard", metavar="DIR", help="folder for TensorBoard events of loss, hits and acceptance")
    g = p.add_argument_group("evaluation").add_argument
    g("--eval-prompts", nargs="*", default=[], help="JSONL files of prompts to measure on; never trained on")
    g("--eval-limit", type=int, default=80, help="prompts of each file")
    g("--eval-tokens", type=int, default=256)
    g("--answers", help="with --stage evaluate: JSONL of greedy answers of an engine to measure on, see evaluate.read_answers")
    g("--traces", type=int, default=4, help="prompts in golden_trace.jsonl, one of each set (float32 on the CPU)")
    g("--compare", action="append", default=[], help="folder of another head, measured on the same answers (repeatable)")
    return p


def short_path(word):
    """A path argument as its last part: a card names files, not somebody's folders."""
    return Path(word).name if "/" in word and not word.startswith("-") else word


class Run:
    """One process of a run: device, rank, log, folders, target."""

    def __init__(self, args):
        self.args = args
        self.rank, self.world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if cuda else torch.device("cpu")
        if cuda:
            torch.cuda.set_device(self.device)
        if self.world > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if cuda else "gloo", device_id=self.device if cuda else None)
        self.out, self.work = Path(args.out), Path(args.out) / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        for stage, needed in (("export", "resume_state"), ("evaluate", "compare")):
            if args.stage == stage and not getattr(args, needed):
                raise SystemExit(f"--stage {stage} needs --{needed.replace('_', '-')}")
        self.corpus_dir = Path(args.corpus) if args.corpus else self.work
        self.haast = find_binary(args.haast_binary) if args.features == "haast" else None
        self.began = time.time()
        torch.manual_seed(args.seed)
        self.compile = cuda and not args.no_compile
        self.target = load_target(args.target, self.device, self.compile)
        if args.stage != "evaluate" and args.version != "1" and args.init == "target":
            self.target.spec.default_taps()  # refuses a target without enough layers before any data is made
        self.tokenizer = load_tokenizer(args.tokenizer or args.target)
        self.sets = read_prompt_sets(args.eval_prompts, args.eval_limit)
        self.events = self._open_events()
        self.log(f"target {self.target.spec.name}: {self.target.spec}; {self.world} process(es) on {self.device}")

    def log(self, text):
        line = f"[{time.time() - self.began:7.1f}] {text}"
        if self.rank == 0:
            print(line, flush=True)
        with open(self.work / f"log-{self.rank}.txt", "a") as f:
            f.write(line + "\n")

    def barrier(self):
        if self.world > 1:
            dist.barrier()

    # -------------------------------------------------------- data
    def data(self):
        """Writes this rank's corpus, and (rank 0) the answers to the evaluation prompts."""
        mine = self.work / f"corpus-{self.rank}of{self.world}.npz"
        answers = self.work / "evaluation.pt"
        if not mine.exists() or (self.sets and not answers.exists()):
            self._generate(mine, answers)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.barrier()

    def _generate(self, mine, answers):
        a = self.args
        generator = Generator(self.target, a.slots, min(a.slot_tokens, self.target.spec.context))
        generator.run([self.tokenizer.chat("Hello")] * 2, [0.0, 1.0], [0, 1], 2)  # builds its kernels before the clock runs
        if self.rank == 0 and self.sets and not answers.exists():
            made = make_answers(generator, self.tokenizer, self.sets, a.eval_tokens)
            torch.save({k: vars(v) for k, v in made.items()}, answers)
            self.log(f"evaluation answers: { {k: len(v.ids) for k, v in made.items()} }")
        if not mine.exists():
            guard = evaluation_guard(self.tokenizer, self.sets)
            counts = {k: int(a.texts * s) for k, s in a.shares.items()} | {"questions": a.questions, "follow_ups": a.follow_ups}
            rest = 1 - a.greedy_share
            options = {"counts": counts, "seed": a.seed, "answer_tokens": a.answer_tokens, "folders": a.text_dir,
                       "minutes": a.data_minutes, "loop_tail": a.loop_tail, "temperatures": {0.0: a.greedy_share, 0.7: 0.18 * rest, 1.0: 0.82 * rest},
                       "conversations": sum((read_conversations(c) for c in a.conversations), [])}
            writer = CorpusWriter(generator, self.tokenizer, options, guard, self.rank, self.world, self.log)
            corpus = writer.write()
            corpus.save(mine)
            report = {"sequences": len(corpus), "tokens": int(sum(map(len, corpus.ids))), "overlap": guard.report(),
                      "answer_tokens": corpus.answer_tokens(), **writer.report}
            write_json(self.work / f"corpus-{self.rank}of{self.world}.json", report)
            self.log(f"corpus: {report}")

    def corpus(self):
        """This rank's share of the corpus files, and the reports of all of them."""
        files = sorted(self.corpus_dir.glob("corpus-*of*.npz"))
        if not files:
            raise SystemExit(f"{self.corpus_dir}: no corpus-*.npz; run --stage data first")
        mine = Corpus()
        for f in files[self.rank::self.world] or files[:1]:
            part = Corpus.load(f)
            mine.ids += part.ids
            mine.masks += part.masks
        return mine, [json.loads(f.with_suffix(".json").read_text()) for f in files]

    def answer_sets(self):
        if self.args.answers:
            return read_answers(self.args.answers, self.tokenizer)
        path = self.corpus_dir / "evaluation.pt"
        return {k: AnswerSet(**v) for k, v in torch.load(path, weights_only=False).items()} if path.exists() else {}

    # -------------------------------------------------------- training
    def token_counts(self, corpus):
        """[V] how often each token occurs in answers, over all processes."""
        flat = np.concatenate(corpus.ids)[np.concatenate(corpus.masks)]
        total = torch.as_tensor(np.bincount(flat, minlength=self.target.spec.vocab), device=self.device)
        if self.world > 1:
            dist.all_reduce(total)
        return total.cpu().numpy()

    def make_head(self, counts):
        """(head, d2t): from the target's last layer, or from an exported head."""
        a, t = self.args, self.target
        if a.init != "target":
            return read_head(a.init, self.device, t.dtype, t)
        size = t.spec.vocab if a.version == "1" else min(a.draft_vocab, t.spec.vocab)
        d2t = torch.as_tensor(choose_draft_vocabulary(counts, size, t.spec.eos), device=self.device)
        head = self.new_head(size)
        head.init_from_target(t, d2t, a.seed)
        return head, d2t

    def new_head(self, draft_vocab):
        a, t = self.args, self.target
        if a.version == "1":
            return Eagle1Head(Eagle1Head.spec_for(t.spec, a.ffn), t.dtype, t).to(self.device)
        return Eagle3Head(HeadSpec.for_target(t.spec, draft_vocab, version=a.version, ffn=a.ffn), t.dtype).to(self.device)

    def train(self):
        a = self.args
        corpus, reports = self.corpus()
        counts = self.token_counts(corpus)
        head, d2t = self.make_head(counts)
        coverage = float(counts[d2t.cpu().numpy()].sum() / max(counts.sum(), 1))
        self.log(f"draft vocabulary {len(d2t)} covers {coverage:.4%} of {counts.sum()} answer tokens")
        if self.compile:
            from .attention import compile_attention

            compile_attention()
            head.compile_pieces()
        names = TrainOptions.__dataclass_fields__
        options = TrainOptions(**{k: v for k, v in vars(a).items() if k in names})
        if options.steps is None and options.minutes is None:
            options.steps = 2000
        trainer = Trainer(head, self.target, corpus, d2t, options, self.work, self.log, self.rank, a.state,
                          self.haast_features(corpus, head.spec.taps))
        if not trainer.resume() and a.resume_state:
            trainer.restore(load_parts(a.resume_state, "state"))
        average = trainer.run(on_report=self.events.step if self.events else None)
        facts = {"steps": trainer.step, "coverage": coverage, "reports": reports, "tokens": trainer.tokens * self.world}
        return average, d2t, facts

    def haast_features(self, corpus, taps):
        """This rank's features in the folder of the corpus, where other runs on it find them; None with --features torch."""
        if self.haast is None:
            return None
        return self._run_haast(self.corpus_dir / f"features-{self.rank}of{self.world}", corpus.ids, taps)

    def _run_haast(self, folder, sequences, taps):
        dtype = "f32" if self.target.dtype == torch.float32 else "bf16"
        folder = folder.with_name(f"{folder.name}-{'.'.join(map(str, taps))}-{dtype}")
        write_features(self.haast, self.args.target, sequences, taps, folder, dtype, self.log)
        return HaastFeatures(folder, sequences)

    def _open_events(self):
        """The writer of --tensorboard, or None."""
        if not self.args.tensorboard or self.rank:
            return None
        try:
            from .events import Events
        except ImportError:
            self.log("--tensorboard: no events are written: tensorboard is not installed (pip install tensorboard)")
            return None
        return Events(self.args.tensorboard)

    def export_state(self):
        """Writes the head that a compact state holds, in the form of --init (or of --version and --draft-vocab)."""
        a, state = self.args, load_parts(self.args.resume_state, "state")
        d2t = state["d2t"].to(self.device)
        if a.init != "target":
            head, _ = read_head(a.init, self.device, self.target.dtype, self.target)
        else:
            head = self.new_head(len(d2t))
        step, _ = unpack(state, head, [])
        export_head(self.out, head, self.target.spec, d2t)
        sets = {f"{n}/T0": AnswerSet([self.tokenizer.chat(t[0])], [10**9], [0], 0.0) for n, t in self.sets.items()}
        self._traces(head, d2t, sets)
        self.log(f"head of step {step} written to {self.out}")

    # -------------------------------------------------------- evaluation and export
    def measure(self, head, d2t, sets):
        parts = evaluate(head, self.target, head.input_embedding(self.target), d2t, sets, (self.rank, self.world))
        if self.world == 1:
            return parts
        gathered = [None] * self.world
        dist.all_gather_object(gathered, parts)
        return merge_evaluations(gathered)

    def compare(self, sets):
        for folder in self.args.compare:
            other, d2t = read_head(folder, self.device, self.target.dtype, self.target)
            if self.haast and self.args.stage == "evaluate":
                for name, answers in sets.items():
                    answers.features = self._run_haast(self.work / f"features-{name.replace('/', '-')}", answers.ids, other.spec.taps)
            statistics = self.measure(other, d2t, sets)
            self.log(f"{folder} (mean greedy tau {mean_tau(statistics):.3f})\n{table(statistics)}")
            if self.rank == 0:
                write_json(self.work / f"compare-{Path(folder).name}.json", statistics)

    def finish(self, head, d2t, facts):
        a, sets = self.args, self.answer_sets()
        statistics = self.measure(head, d2t, sets) if sets else {}
        if sets:
            self.log(f"this head (mean greedy tau {mean_tau(statistics):.3f})\n{table(statistics)}")
            self.compare(sets)
        if self.rank:
            return
        s, reports = head.spec, facts["reports"]
        reads = "the output after the final norm" if head.version == "1" else \
            f"the residual stream entering layers {', '.join(map(str, s.taps))}"
        card = model_card(
            version=head.version, target=self.target.spec.name, draft_vocab=s.draft_vocab, vocab=s.vocab,
            params=sum(p.numel() for p in head.parameters()) / 1e6, reads=reads,
            answer_tokens=sum(r["answer_tokens"] for r in reports) / 1e6, sequences=sum(r["sequences"] for r in reports),
            steps=facts["steps"], unroll=a.unroll, optimizer=a.optimizer, coverage=facts["coverage"],
            overlap="; ".join(json.dumps(r["overlap"]) for r in reports[:1]), table=acceptance_table(statistics),
            command="haast-train " + shlex.join(short_path(x) for x in sys.argv[1:]))
        export_head(self.out, head, self.target.spec, d2t, statistics or None, card)
        write_json(self.work / "facts.json", facts)
        self._traces(head, d2t, sets)
        self._plots(statistics)
        if self.events:
            self.events.acceptance(statistics, facts["steps"])
        self.log(f"head written to {self.out}")

    def _traces(self, head, d2t, sets):
        """golden_trace.jsonl: one prompt a set, in float32 on the CPU, on the weights as exported."""
        if not sets or not self.args.traces:
            return
        cpu = torch.device("cpu")
        target = load_target(self.args.target, cpu)
        exported, _ = read_head(self.out, cpu, torch.float32, target)
        picks = [s for n, s in sets.items() if n.endswith("/T0")][:self.args.traces]
        lines = []
        for s in picks:
            prompt = s.ids[0][:s.starts[0]]
            lines.append(golden_trace(exported, target, exported.input_embedding(target), d2t.cpu(), prompt, greedy_answer(target, prompt)))
        (self.out / "golden_trace.jsonl").write_text("\n".join(lines) + "\n")

    def _plots(self, statistics):
        """training.png and acceptance.png beside the head."""
        log = self.work / "train_log.jsonl"
        try:
            from .plots import plot_acceptance, plot_training
        except ImportError:
            self.log("no plots: matplotlib is not installed (pip install matplotlib)")
            return
        if log.exists():
            plot_training(log, self.out / "training.png")
        if statistics:
            plot_acceptance(statistics, self.out / "acceptance.png")


def main(argv=None):
    args = parser().parse_args(argv)
    run = Run(args)
    try:
        if args.stage == "export":
            return run.export_state()
        if args.stage == "evaluate":
            return run.compare(run.answer_sets())
        if args.stage in ("all", "data") and not args.corpus:
            run.data()
        if args.stage != "data":
            run.finish(*run.train())
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
