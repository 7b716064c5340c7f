# SPDX-License-Identifier: Apache-2.0
"""Training data, written by the target itself: questions, answers, follow-up turns; then batches of similar length."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from .overlap import EvaluationGuard, ngram_hashes, run_hashes
from .prompts import openings, user_texts

ANSWER_TEMPERATURES = {0.0: 0.45, 0.7: 0.1, 1.0: 0.45}


LOOP_RUN = 6       # tokens in a run whose repetition counts
LOOP_LIMIT = 0.3   # share of repeated runs from which an answer counts as a loop
LOOP_TAIL = 32     # tokens kept after a loop has begun, unless said otherwise


def loop_shares(answers):
    """Share of runs of LOOP_RUN tokens that occurred before in the same answer; 0 for answers under 40 tokens. [n] float."""
    out = np.zeros(len(answers))
    long = [i for i, a in enumerate(answers) if len(a) >= 40]
    for b in range(0, len(long), 4096):
        part = long[b:b + 4096]
        lengths = np.array([len(answers[i]) - LOOP_RUN + 1 for i in part])
        ids = np.zeros((len(part), int(lengths.max()) + LOOP_RUN - 1), np.uint64)
        for r, i in enumerate(part):
            ids[r, :len(answers[i])] = answers[i]
        h = run_hashes(ids, LOOP_RUN)
        h[np.arange(h.shape[1])[None] >= lengths[:, None]] = 0  # one extra distinct value in padded rows
        h.sort(1)
        distinct = 1 + (h[:, 1:] != h[:, :-1]).sum(1) - (lengths < h.shape[1])
        out[part] = 1 - distinct / lengths
    return out


def loop_share(answer):
    return float(loop_shares([np.asarray(answer)])[0])


def trim_loop(answer, tail=LOOP_TAIL):
    """The answer up to `tail` tokens after its loop begins: the first run from which nearly all of 48 runs are repeats."""
    h = ngram_hashes(answer, LOOP_RUN)
    first = np.unique(h, return_index=True)[1]
    again = np.ones(len(h))
    again[first] = 0
    window = np.convolve(again, np.ones(48), "full")[47:47 + len(h)] / 48  # share of repeats in the 48 runs from here on
    onset = np.nonzero((window > 0.8) & (again > 0))[0]
    return answer[:onset[0] + tail] if len(onset) else answer


class Corpus:
    """Token sequences with a mask of the target's own tokens, stored flat."""

    def __init__(self):
        self.ids, self.masks = [], []

    def add(self, ids, mask):
        self.ids.append(np.asarray(ids, np.int32))
        self.masks.append(np.asarray(mask, bool))

    def __len__(self):
        return len(self.ids)

    def answer_tokens(self):
        return int(sum(m.sum() for m in self.masks))

    def save(self, path):
        offsets = np.cumsum([0] + [len(i) for i in self.ids])
        temporary = Path(str(path) + ".tmp.npz")
        np.savez(temporary, ids=np.concatenate(self.ids), mask=np.packbits(np.concatenate(self.masks)), offsets=offsets)
        temporary.replace(path)

    @staticmethod
    def load(path):
        z, c = np.load(path), Corpus()
        o = z["offsets"]
        flat, mask = z["ids"], np.unpackbits(z["mask"])[:o[-1]].astype(bool)
        c.ids = [flat[a:b] for a, b in zip(o, o[1:])]
        c.masks = [mask[a:b] for a, b in zip(o, o[1:])]
        return c


class CorpusWriter:
    """One rank's share of the corpus: every `world`-th prompt from `rank`."""

    def __init__(self, generator, tokenizer, options, guard, rank, world, log):
        """options: counts {tasks, code, arithmetic, text, stubs, questions, follow_ups}, seed, answer_tokens, folders,
        conversations, temperatures, minutes, loop_tail."""
        self.generator, self.tokenizer, self.options, self.guard = generator, tokenizer, options, guard
        self.rank, self.world, self.log = rank, world, log
        self.head, self.header, self.between = tokenizer.pieces()
        self.eos = set(generator.target.spec.eos)
        self.rng = np.random.default_rng([options["seed"], rank])
        self.report = {"answers": 0, "loops": 0, "loop_tokens_cut": 0, "incomplete_questions": 0}
        self.max_prompt = generator.length - options["answer_tokens"] - 1

    def _keys(self, stage, count):
        """Distinct sampling keys per stage and rank."""
        return (self.options["seed"] * 1_000_003 + stage * 100_000_007 + self.rank * 50_000_017 + np.arange(count)) % 2**32

    def _run(self, name, stage, prompts, temperatures, limit, share):
        began = time.time()
        budget = self.options.get("minutes")
        until = began + 60 * budget * share if budget else None
        out = self.generator.run(prompts, temperatures, self._keys(stage, len(prompts)), limit, until, None)
        made = sum(len(a) for a in out if a is not None)
        self.log(f"{name}: {sum(a is not None for a in out)} of {len(prompts)} texts, {made} tokens, "
                 f"{time.time() - began:.1f} s")
        return out

    def questions(self):
        """User texts that the target writes when given only the template up to the user's turn (and perhaps an opening)."""
        count = self.options["counts"]["questions"]
        first = openings(self.options["seed"], count)[self.rank::self.world]
        starts = self.tokenizer.encode_many(first)
        prompts = [np.concatenate([self.head, s]) for s in starts]
        warm = self.rng.choice([0.8, 1.0], len(prompts))
        texts = self._run("questions", 1, prompts, warm, self.options.get("question_tokens", 96), 0.15)
        found = {}
        for s, t in zip(starts, texts):
            if t is None or int(t[-1]) not in self.eos:
                self.report["incomplete_questions"] += t is not None
                continue
            body = np.concatenate([s, t[:-1]])
            if len(body) >= 5 and not self.eos & set(map(int, body)):
                found[body.tobytes()] = body
        return list(found.values())

    def texts(self):
        written = user_texts(self.options["seed"], self.options["counts"], self.options.get("folders", ()))
        mine = self.tokenizer.encode_many(written[self.rank::self.world])
        given = [self.tokenizer.encode(c[0]) for c in self.options.get("conversations", [])[self.rank::self.world]]
        return mine + given

    def write(self):
        """Returns the Corpus of this rank."""
        with ThreadPoolExecutor(1) as side:  # texts are drawn while the target writes questions
            texts = side.submit(self.texts)
            bodies = self.questions()
            bodies = texts.result() + bodies
        bodies = [b for b in bodies
                  if len(b) + len(self.head) + len(self.header) <= self.max_prompt and self.guard.allows(b)]
        order = self.rng.permutation(len(bodies))
        prompts = [np.concatenate([self.head, bodies[i], self.header]) for i in order]
        values, shares = zip(*self.options.get("temperatures", ANSWER_TEMPERATURES).items())
        warm = self.rng.choice(values, len(prompts), p=shares)
        answers = self._run("answers", 2, prompts, warm, self.options["answer_tokens"], 0.75)
        corpus = Corpus()
        for p, a in zip(prompts, self._without_loops(answers)):
            if a is not None and len(a) >= 4:
                corpus.add(np.concatenate([p, a]), np.repeat([False, True], [len(p), len(a)]))
        self._follow_ups(corpus)
        return corpus

    def _without_loops(self, answers):
        """Loops inflate acceptance and teach little: each answer is cut shortly after it begins to repeat itself."""
        there = [i for i, a in enumerate(answers) if a is not None]
        out = list(answers)
        for i, share in zip(there, loop_shares([answers[i] for i in there])):
            if share > LOOP_LIMIT:
                out[i] = trim_loop(answers[i], self.options.get("loop_tail", LOOP_TAIL))
                self.report["loops"] += 1
                self.report["loop_tokens_cut"] += len(answers[i]) - len(out[i])
        self.report["answers"] += len(there)
        return out

    def _follow_ups(self, corpus):
        """A second user turn and its answer, on conversations that ended and leave room."""
        limit = self.options["answer_tokens"] * 2 // 3
        short = [i for i, s in enumerate(corpus.ids)
                 if int(s[-1]) in self.eos and len(s) + 64 + len(self.between) + limit < self.generator.length]
        count = self.options["counts"]["follow_ups"] // self.world
        chosen = self.rng.permutation(short)[:count]
        starts = [np.concatenate([corpus.ids[i][:-1], self.between]) for i in chosen]
        turns = self._run("follow-up questions", 3, starts, [0.9] * len(starts), 48, 0.04)
        good = [(i, np.concatenate([s, t[:-1], self.header])) for i, s, t in zip(chosen, starts, turns)
                if t is not None and int(t[-1]) in self.eos and len(t) > 5 and self.guard.allows(t[:-1])]
        prompts = [p for _, p in good]
        warm = self.rng.choice([0.0, 1.0], len(prompts))
        answers = self._run("follow-up answers", 4, prompts, warm, limit, 0.06)
        for (i, p), a in zip(good, self._without_loops(answers)):
            if a is not None and len(a) >= 4:
                mask = np.r_[corpus.masks[i], np.zeros(len(p) - len(corpus.ids[i]), bool), np.ones(len(a), bool)]
                corpus.ids[i], corpus.masks[i] = np.concatenate([p, a]).astype(np.int32), mask


def evaluation_guard(tokenizer, sets):
    """sets: {name: [user text]} -> a guard over all of them."""
    return EvaluationGuard([tokenizer.encode(t) for texts in sets.values() for t in texts])


def read_prompt_sets(paths, limit=80):
    """JSONL files with "turns" (first turn used) or any form of prompts.read_conversations. {file stem: [text]}."""
    from .prompts import read_conversations

    return {Path(p).stem: [c[0] for c in read_conversations(p)][:limit] for p in paths}


def batches(lengths, token_budget, multiple=64):
    """Groups indices of similar length so that rows * padded length <= token_budget. Returns a list of index arrays."""
    order = np.argsort(lengths, kind="stable")
    out, current = [], []
    for i in order:
        padded = -(-int(lengths[i]) // multiple) * multiple
        if current and (len(current) + 1) * padded > token_budget:
            out.append(np.array(current))
            current = []
        current.append(i)
    return out + [np.array(current)] if current else out


def pad(ids, masks, device, multiple=64):
    """Right-padded ids [B, S] int64 and mask [B, S] bool."""
    S = -(-max(map(len, ids)) // multiple) * multiple
    x, m = np.zeros((len(ids), S), np.int64), np.zeros((len(ids), S), bool)
    for i, (s, k) in enumerate(zip(ids, masks)):
        x[i, :len(s)], m[i, :len(s)] = s, k
    return torch.from_numpy(x).to(device), torch.from_numpy(m).to(device)


def choose_draft_vocabulary(counts, size, always=()):
    """The `size` most frequent token ids, ascending; `always` are in. counts [V] -> int64 [size]."""
    counts = np.asarray(counts, np.float64).copy()
    counts[list(always)] = np.inf
    return np.sort(np.argsort(-counts, kind="stable")[:size]).astype(np.int64)


def write_json(path, value):
    temporary = Path(str(path) + ".tmp")
    temporary.write_text(json.dumps(value, indent=1) + "\n")
    temporary.replace(path)
