# SPDX-License-Identifier: Apache-2.0
"""Answers from the target, many at a time: continuous batching over fixed slots, one CUDA graph for the decode step.

A sampled token is a pure function of (weights, prompt, temperature, request key, position): see kernels.gumbel.
"""

import time
from collections import deque

import numpy as np
import torch
import torch.nn.functional as F

from .kernels import decode_attention, rope_and_store, sample
from .target import rms_norm

PREFILL_TOKENS = 32768
STRIDE = 16  # decode steps between two looks at which slots are done (a done slot idles until the next look)


class Generator:
    """B slots, each with room for `length` tokens (prompt and answer)."""

    def __init__(self, target, slots, length):
        s, dev = target.spec, target.device
        self.target, self.slots, self.length = target, slots, length
        shape = (slots, s.kv_heads, length, s.head_dim)
        self.k = [torch.zeros(shape, device=dev, dtype=target.dtype) for _ in range(s.layers)]
        self.v = [torch.zeros(shape, device=dev, dtype=target.dtype) for _ in range(s.layers)]
        self.tokens = torch.zeros(slots, length, device=dev, dtype=torch.long)  # [slot, position]
        self.last = torch.zeros(slots, device=dev, dtype=torch.long)            # position of the newest token
        self.limit = torch.zeros(slots, device=dev, dtype=torch.long)           # last position it may take
        self.done = torch.ones(slots, device=dev, dtype=torch.bool)
        self.temperature = torch.zeros(slots, device=dev)
        self.key = torch.zeros(slots, device=dev, dtype=torch.long)
        self.eos = torch.tensor(s.eos, device=dev)
        self.graph = None

    def _finish_token(self, hidden, rows):
        """Samples the token after `last` for the given slots and stores it. hidden [R, H]."""
        position = (self.last[rows] + 1).clamp_max(self.length - 1)
        token = sample(self.target.logits(hidden), self.temperature[rows], self.key[rows], position)
        self.tokens[rows, position] = torch.where(self.done[rows], self.tokens[rows, position], token)
        self.last[rows] = torch.where(self.done[rows], self.last[rows], position)
        self.done[rows] |= (token[:, None] == self.eos[None]).any(1) | (position >= self.limit[rows])

    def _prefill(self, rows, prompts):
        S = -(-max(map(len, prompts)) // 64) * 64
        ids = np.zeros((len(prompts), min(S, self.length)), np.int64)
        for i, p in enumerate(prompts):
            ids[i, :len(p)] = p
        ids = torch.from_numpy(ids).to(self.target.device)
        slots = torch.tensor(rows, device=ids.device)
        n = torch.tensor([len(p) for p in prompts], device=ids.device)

        def keep(layer, k, v):
            self.k[layer][slots, :, :ids.shape[1]] = k
            self.v[layer][slots, :, :ids.shape[1]] = v

        hidden, _ = self.target.forward(ids, on_kv=keep)
        self.tokens[slots, :ids.shape[1]] = ids
        self.last[slots], self.done[slots] = n - 1, False
        self._finish_token(hidden[torch.arange(len(rows), device=ids.device), n - 1], slots)

    def _step(self):
        t, s = self.target, self.target.spec
        rows = torch.arange(self.slots, device=t.device)
        position = torch.where(self.done, 0, self.last)  # an idle slot reads one key: no work
        x = t.embed[self.tokens[rows, position]].float()
        cos, sin = t.cos[position], t.sin[position]
        for w, k, v in zip(t.layers, self.k, self.v):
            qkv = F.rms_norm(x, (s.hidden,), w["in"], s.eps).to(t.dtype) @ w["qkv"].T
            q = rope_and_store(qkv, cos, sin, k, v, position, s.heads)
            x = x + (decode_attention(q, k, v, position).view(self.slots, -1) @ w["o"].T)
            gate, up = (F.rms_norm(x, (s.hidden,), w["post"], s.eps).to(t.dtype) @ w["gate_up"].T).chunk(2, -1)
            x = x + (F.silu(gate) * up) @ w["down"].T
        self._finish_token(rms_norm(x, t.norm, s.eps).to(t.dtype), rows)

    def _run_step(self):
        if self.target.device.type != "cuda":
            return self._step()
        if self.graph is None:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            saved = [x.clone() for x in (self.tokens, self.last, self.done)]
            self.done.fill_(True)
            with torch.cuda.stream(side):
                self._step()
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._step()
            for x, y in zip((self.tokens, self.last, self.done), saved):
                x.copy_(y)
        self.graph.replay()

    @torch.no_grad()
    def run(self, prompts, temperatures, keys, max_new, until=None, on_progress=None):
        """prompts: int arrays; temperatures, keys: one number each; max_new: tokens per answer.

        until (time.time()): no new prompt starts after it; those running are finished, so that short answers gain no
        advantage. Returns a list of int64 arrays (the answer, end token kept), None where it was not started.
        """
        too_long = [i for i, p in enumerate(prompts) if len(p) + 1 >= self.length]
        if too_long:
            raise ValueError(f"prompt {too_long[0]} has {len(prompts[too_long[0]])} tokens; a slot holds {self.length}")
        answers = [None] * len(prompts)
        queue, owner = deque(range(len(prompts))), [-1] * self.slots
        self.done.fill_(True)
        produced, began = 0, time.time()
        while True:
            done = self.done.tolist()
            finished = [r for r in range(self.slots) if done[r] and owner[r] >= 0]
            if finished:
                rows = torch.tensor(finished, device=self.target.device)
                text, ends = self.tokens[rows].cpu().numpy(), self.last[rows].tolist()
                for r, t, e in zip(finished, text, ends):
                    answers[owner[r]] = t[len(prompts[owner[r]]):e + 1].copy()
                    produced += len(answers[owner[r]])
                    owner[r] = -1
                if on_progress:
                    on_progress(len(prompts) - len(queue), len(prompts), produced, time.time() - began)
            if until is not None and time.time() > until:
                queue.clear()
            free = [r for r in range(self.slots) if owner[r] < 0]
            batch = [queue.popleft() for _ in range(min(len(free), len(queue)))]
            self._admit(free, batch, prompts, temperatures, keys, max_new, owner)
            if not any(o >= 0 for o in owner):
                return answers
            for _ in range(STRIDE):
                self._run_step()

    def _admit(self, free, batch, prompts, temperatures, keys, max_new, owner):
        """Prefills waiting prompts into free slots, those of similar length together."""
        if not batch:
            return
        batch.sort(key=lambda i: len(prompts[i]))
        rows = torch.tensor(free[:len(batch)], device=self.target.device)
        self.temperature[rows] = torch.tensor([float(temperatures[i]) for i in batch], device=rows.device)
        self.key[rows] = torch.tensor([int(keys[i]) for i in batch], device=rows.device)
        ends = [min(len(prompts[i]) + max_new, self.length) - 1 for i in batch]
        self.limit[rows] = torch.tensor(ends, device=rows.device)
        start = 0
        while start < len(batch):
            stop = start + 1
            while stop < len(batch) and (stop + 1 - start) * (len(prompts[batch[stop]]) + 64) <= PREFILL_TOKENS:
                stop += 1
            for r, i in zip(free[start:stop], batch[start:stop]):
                owner[r] = i
            self._prefill(free[start:stop], [prompts[i] for i in batch[start:stop]])
            start = stop
