# SPDX-License-Identifier: Apache-2.0
"""Acceptance of a head, teacher-forced on the target's own answers.

A round starts with the feature of position t and token t + 1 known; draft i guesses token t + 1 + i. It counts if it equals
the token that the target chose there (the coupled rule: at temperature 1 that token was drawn with the target's own key),
and if all drafts before it counted. tau = tokens per target pass, bonus included.
"""

import json

import numpy as np
import torch

from .data import loop_share, pad
from .generate import Generator
from .kernels import sample
from .target import matmul_float32

DEPTH = 7
CHAINS = (1, 2, 3, 5, 7)


class AnswerSet:
    """prompts and the target's answers to them, one kind: T0, T0-noloop or T1. keys: sampling keys of the answers. features:
    HaastFeatures of `ids`, for heads to read instead of the target's own."""

    def __init__(self, ids, starts, keys, temperature, features=None):
        self.ids, self.starts, self.keys, self.temperature, self.features = ids, starts, keys, temperature, features

    def part(self, index):
        """Some of the answers."""
        pick = lambda values: [values[i] for i in index]
        return AnswerSet(pick(self.ids), pick(self.starts), pick(self.keys), self.temperature, self.features and self.features.part(index))

    def taps(self, target, layers, index, ids):
        """[B, S, len(layers)*H] of these answers, whose padded ids are [B, S]."""
        if self.features is None:
            return target.forward(ids, layers)[1]
        return self.features.batch(index, ids.shape[1], target.device, target.dtype)[1]


def make_answers(generator, tokenizer, sets, answer_tokens=256, seed=20260):
    """{set/kind: AnswerSet} for every set of user texts; greedy, greedy without loops, temperature 1."""
    out = {}
    for number, (name, texts) in enumerate(sets.items()):
        prompts = [p for p in map(tokenizer.chat, texts) if len(p) + answer_tokens < generator.length]
        n = len(prompts)
        keys = (seed + 7919 * number + 104_729 * np.arange(2 * n)).astype(np.int64)
        both = generator.run(prompts * 2, [0.0] * n + [1.0] * n, keys, answer_tokens)
        ids = [np.concatenate([p, a]) for p, a in zip(prompts * 2, both)]
        starts = [len(p) for p in prompts]
        straight = [i for i in range(n) if loop_share(both[i]) < 0.3]
        pick = lambda index: AnswerSet([ids[i] for i in index], [starts[i % n] for i in index], [keys[i] for i in index],
                                       float(index[0] >= n) if index else 0.0)
        out[f"{name}/T0"], out[f"{name}/T0-noloop"] = pick(list(range(n))), pick(straight)
        out[f"{name}/T1"] = pick(list(range(n, 2 * n)))
    return out


def read_answers(path, tokenizer):
    """{set/T0: AnswerSet} of greedy answers that an engine gave: JSONL of {"set", "prompt", "token_ids", "prompt_tokens"}.
    prompt_tokens: how long the engine found the prompt, template included."""
    sets = {}
    for number, line in enumerate(open(path)):
        row = json.loads(line)
        prompt = tokenizer.chat(row["prompt"])
        if len(prompt) != row["prompt_tokens"]:
            raise SystemExit(f"{path}: line {number + 1}: the prompt has {len(prompt)} tokens, the engine found {row['prompt_tokens']}")
        found = sets.setdefault(f"{row['set']}/T0", AnswerSet([], [], [], 0.0))
        found.ids.append(np.concatenate([prompt, np.asarray(row["token_ids"], np.int64)]))
        found.starts.append(len(prompt))
        found.keys.append(0)
    return sets


@torch.no_grad()
def matched_drafts(head, target, embedding, d2t, answers, depth=DEPTH, coupled=False, rows=32):
    """For each answer: [S] int array, how many leading drafts of a chain of `depth` count when a round starts at position t.

    coupled: drafts are drawn with the target's own noise and temperature instead of taken at the maximum."""
    found = []
    for b in range(0, len(answers.ids), rows):
        part = answers.ids[b:b + rows]
        ids, _ = pad(part, [np.ones(len(i), bool) for i in part], target.device)
        B, S = ids.shape
        taps = answers.taps(target, head.spec.taps, range(b, b + B), ids)
        alive = torch.ones(B * S, dtype=torch.bool, device=ids.device)
        count = torch.zeros(B * S, dtype=torch.long, device=ids.device)
        key = torch.as_tensor(np.asarray(answers.keys[b:b + rows]), device=ids.device).repeat_interleave(S)
        place = torch.arange(S, device=ids.device).repeat(B)
        weight = head.lm_head.weight.to(head.dtype)
        warm = torch.full((B * S,), answers.temperature if coupled else 0.0, device=ids.device)
        for j, h in enumerate(head.unroll(embedding, taps, ids, depth)):
            draft = torch.cat([sample(matmul_float32(x, weight), w, k, p + 2 + j, d2t) for x, w, k, p in zip(
                h.to(head.dtype).split(8192), warm.split(8192), key.split(8192), place.split(8192))])
            alive &= d2t[draft] == torch.roll(ids, -(2 + j), 1).view(-1)
            count += alive
        for i, row in enumerate(count.view(B, S).cpu().numpy()):
            found.append(row[:len(part[i])])
    return found


def chain_statistics(matched, starts, lengths, chains=CHAINS):
    """Walks rounds over each answer. Returns {"tau_chain_k"..., "position_acceptance" of the longest chain}.

    Like an engine, a round counts no token after the answer's last: where its drafts reach the end, there is no bonus."""
    out = {}
    for k in chains:
        rounds, tokens, reached = 0, 0, np.zeros(k + 1)
        for a, start, n in zip(matched, starts, lengths):
            t = start - 1  # features are known up to t; the first answer token, t + 1, is known
            while t + 1 < n - 1:
                c = min(int(a[t]), k, n - 2 - t)
                rounds, tokens, t = rounds + 1, tokens + min(c + 1, n - 2 - t), t + c + 1
                reached[:c + 1] += 1
        out[f"tau_chain_{k}"] = round(tokens / max(rounds, 1), 3)
        if k == max(chains):
            out["position_acceptance"] = [round(float(x) / max(rounds, 1), 3) for x in reached[1:]]
    return out


def evaluate(head, target, embedding, d2t, answer_sets, share=(0, 1)):
    """{set/kind: statistics}. share = (rank, world): this process takes every world-th answer (see merge_evaluations)."""
    out = {}
    for name, a in answer_sets.items():
        mine = a.part(range(share[0], len(a.ids), share[1]))
        kinds = [(name, False)] + ([(f"{name}-coupled-draft", True)] if a.temperature else [])
        for label, coupled in kinds:
            matched = matched_drafts(head, target, embedding, d2t, mine, coupled=coupled)
            out[label] = (matched, mine.starts, [len(i) for i in mine.ids])
    return {k: chain_statistics(*v) for k, v in out.items()} if share[1] == 1 else out


def merge_evaluations(parts):
    """Statistics over the shares of all processes."""
    joined = {k: [sum((list(p[k][i]) for p in parts), []) for i in range(3)] for k in parts[0]}
    return {k: chain_statistics(*v) for k, v in joined.items()}


def mean_tau(statistics, kind="T0", chain=5):
    values = [v[f"tau_chain_{chain}"] for k, v in statistics.items() if k.split("/")[1] == kind]
    return sum(values) / max(len(values), 1)


def table(statistics, chain=5):
    """One line a set: tau of the chain for each kind."""
    names = sorted({k.split("/")[0] for k in statistics})
    kinds = ["T0", "T0-noloop", "T1", "T1-coupled-draft"]
    lines = []
    for n in names:
        cells = [f"{statistics[f'{n}/{k}'][f'tau_chain_{chain}']:.3f}" if f"{n}/{k}" in statistics else "-" for k in kinds]
        lines.append(f"{n:12s} " + "  ".join(f"{k} {c}" for k, c in zip(kinds, cells)))
    return "\n".join(lines)


def greedy_answer(target, prompt_ids, tokens=64):
    """int64 [n]: the target's greedy answer, in its own precision."""
    prompt = np.asarray(prompt_ids, np.int64)
    return Generator(target, 1, len(prompt) + tokens + 1).run([prompt], [0.0], [0], tokens)[0]


@torch.no_grad()
def golden_trace(head, target, embedding, d2t, prompt_ids, answer_ids, depth=5):
    """One line of golden_trace.jsonl, in the precision of `head` and `target` (use float32 on the CPU).

    The greedy answer with its top-1 margins, and each round of a chain: the position whose feature starts it, the drafts up to
    and including the first wrong one, their margins, how many were accepted."""
    start = len(prompt_ids)
    ids = [int(i) for i in (*prompt_ids, *answer_ids)]
    x = torch.tensor([ids], device=target.device)
    hidden, taps = target.forward(x, head.spec.taps)
    top = target.logits(hidden[0, start - 1:-1]).topk(2)
    if top.indices[:, 0].tolist() != ids[start:]:
        raise ValueError("golden_trace: answer_ids is not the target's greedy answer")
    margins = [round(m, 4) for m in (top.values[:, 0] - top.values[:, 1]).tolist()]
    drafts, gaps = [], []
    for h in head.unroll(embedding, taps, x, depth):
        top = matmul_float32(h.to(head.dtype), head.lm_head.weight.to(head.dtype)).topk(2)
        drafts.append(d2t[top.indices[:, 0]].tolist())
        gaps.append((top.values[:, 0] - top.values[:, 1]).tolist())
    rounds, t, n = [], start - 1, len(ids)
    while t + 1 < n - 1:
        room = min(depth, n - 2 - t)
        accepted = 0
        while accepted < room and drafts[accepted][t] == ids[t + 2 + accepted]:
            accepted += 1
        shown = min(accepted + 1, room)
        rounds.append({"feature_position": t, "drafts": [drafts[i][t] for i in range(shown)],
                       "draft_margins": [round(gaps[i][t], 4) for i in range(shown)], "accepted": accepted})
        t += accepted + 1
    return json.dumps({"prompt_ids": [int(i) for i in prompt_ids], "answer_ids": ids[start:], "answer_margins": margins,
                       "rounds": rounds, "tokens_per_round": round(sum(r["accepted"] + 1 for r in rounds) / max(len(rounds), 1), 3)})
