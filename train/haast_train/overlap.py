# SPDX-License-Identifier: Apache-2.0
"""Proof that evaluation prompts are not trained on: shared runs of tokens between the two."""

import numpy as np

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def run_hashes(ids, n):
    """64-bit hash of every run of n tokens. ids uint64 [..., T], T >= n -> uint64 [..., T - n + 1]."""
    count = ids.shape[-1] - n + 1
    h = np.zeros((*ids.shape[:-1], count), np.uint64)
    with np.errstate(over="ignore"):
        for i in range(n):
            h = (h ^ ids[..., i:i + count]) * _MULTIPLIER
            h ^= h >> np.uint64(29)
    return h


def ngram_hashes(ids, n):
    """run_hashes of one token sequence; empty when it is shorter than n."""
    return run_hashes(np.asarray(ids, np.uint64), n) if len(ids) >= n else np.zeros(0, np.uint64)


class EvaluationGuard:
    """Refuses training prompts that share a run of `n` tokens with an evaluation prompt."""

    def __init__(self, evaluation, n=13):
        """evaluation: token arrays of the prompt *texts*, without the chat template (which all prompts share)."""
        self.n, self.prompts = n, len(evaluation)
        self.exact = {tuple(map(int, e)) for e in evaluation}
        self.seen = {h for e in evaluation for h in ngram_hashes(e, n).tolist()}
        self.checked, self.refused = 0, 0

    def allows(self, ids):
        """ids: tokens of one training text."""
        self.checked += 1
        bad = not self.seen.isdisjoint(ngram_hashes(ids, self.n).tolist()) or tuple(map(int, ids)) in self.exact
        self.refused += bad
        return not bad

    def report(self):
        return {"ngram": self.n, "evaluation_prompts": self.prompts, "training_texts_checked": self.checked,
                "training_texts_refused": self.refused}
