# SPDX-License-Identifier: Apache-2.0
"""Loss of training-time test: soft cross entropy against the target on the draft vocabulary.

Letters: B, S; H hidden; C draft vocabulary; M supervised positions; K unrolled steps.
"""

import torch

from .kernels import soft_cross_entropy_
from .target import matmul_float32

CHUNK = 16384  # rows whose logits exist at one time


class HeadLoss(torch.autograd.Function):
    """apply(h [R, H], W [C, H], p [M, C], row [R], weight [R], mix) -> (loss, hits). Gradients are made in the forward pass,
    chunk by chunk, so that the logits of all rows never exist together. W without requires_grad is the target's: no gradient."""

    @staticmethod
    def forward(ctx, h, w, p, row, weight, mix):
        wide, hb = w.to(p.dtype), h.to(p.dtype)
        dh, dw = torch.empty_like(hb), torch.zeros_like(w) if ctx.needs_input_grad[1] else None
        loss, hits = torch.zeros((), device=h.device), torch.zeros((), device=h.device)
        for b in range(0, h.shape[0], CHUNK):
            z = hb[b:b + CHUNK] @ wide.T
            part, hit = soft_cross_entropy_(z, p, row[b:b + CHUNK], weight[b:b + CHUNK], mix)
            loss, hits = loss + part.sum(), hits + hit.sum()
            dh[b:b + CHUNK] = z @ wide
            if dw is not None:
                dw += z.T @ hb[b:b + CHUNK]
        ctx.save_for_backward(dh, dw)
        ctx.mark_non_differentiable(hits)
        return loss, hits

    @staticmethod
    def backward(ctx, grad_loss, _):
        dh, dw = ctx.saved_tensors
        return dh.float() * grad_loss, None if dw is None else dw * grad_loss, None, None, None, None


class Supervision:
    """Which positions of a batch the target supervises, and what each unrolled step trains on; cheap to keep between epochs."""

    @torch.no_grad()
    def __init__(self, target, hidden, mask, t2d, steps):
        """hidden [B, S, H]; mask [B, S]: the token belongs to an answer; t2d [V]: draft id or -1.

        Position u is supervised if token u + 1 belongs to an answer and the target's argmax there is in the draft vocabulary.
        steps[j] = (flat positions t whose prediction of token t + 2 + j is supervised, their rows of p, the weight of each:
        every sequence counts the same, whatever its length)."""
        B, S = mask.shape
        predicts = torch.roll(mask, -1, 1)
        predicts[:, -1] = False
        index = predicts.view(-1).nonzero()[:, 0]
        h = hidden.reshape(B * S, -1)[index]
        best = torch.cat([t2d[target.logits(c).argmax(-1)] for c in h.split(CHUNK)]) if len(h) else index
        index, self.hidden = index[best >= 0], h[best >= 0]
        row = torch.full((B * S,), -1, dtype=torch.long, device=hidden.device)
        row[index] = torch.arange(len(index), device=hidden.device)
        self.steps = [self._step(row.view(B, S), j) for j in range(steps)]

    @staticmethod
    def _step(row, j):
        B, S = row.shape
        row = torch.roll(row, -(1 + j), 1)
        row[:, max(S - 1 - j, 0):] = -1
        ok = row >= 0
        weight = ok.float() / ok.sum(1, keepdim=True).clamp_min(8) / B
        index = ok.view(-1).nonzero()[:, 0]
        return index, row.view(-1)[index], weight.view(-1)[index]

    @torch.no_grad()
    def distributions(self, lm_rows, temperature=1.0):
        """The target's distributions on the draft vocabulary, renormalised. lm_rows [C, H] -> [M, C]."""
        parts = [torch.softmax(matmul_float32(c, lm_rows) / temperature, -1).to(lm_rows.dtype)
                 for c in self.hidden.split(CHUNK)]
        return torch.cat(parts)


def unrolled_loss(head, embedding, taps, ids, supervision, p, decay=0.8, mix=0.0, per_token=False):
    """Sum over steps j of decay^j times the loss of step j. Returns (loss, [(hits, positions) of step j])."""
    total, shares = 0.0, []
    for j, h in enumerate(head.unroll(embedding, taps, ids, len(supervision.steps))):
        index, row, weight = supervision.steps[j]
        if per_token:
            weight = torch.full_like(weight, 1 / max(len(index), 1))
        loss, hits = HeadLoss.apply(h.index_select(0, index), head.lm_head.weight, p, row, weight, mix)
        total = total + loss * decay ** j
        shares.append((hits, len(index)))
    return total, shares
