# SPDX-License-Identifier: Apache-2.0
"""Attention of training-time test: causal over the keys of step 0, plus one own entry for each later step.

At step j, position t sees the step-0 keys of positions 0..t and its own keys of steps 1..j, j extra dot products a query.
So a flash kernel does the causal part, and the extra entries are merged through the log-sum-exp. Its backward kernel is
right for the merged softmax as it is, when it is given the merged output and the merged log-sum-exp.
Letters: B, S; Hq, Hkv heads; G = Hq/Hkv; D head_dim; N = B*S.
"""

import math

import torch

aten = torch.ops.aten


def merge_entry(q, k, v, out, lse, scale):
    """Adds one key to a softmax. q, out [N, Hkv, G, D] (out float32); k, v [N, Hkv, D]; lse [N, Hkv, G]."""
    score = (q.float() * k.float()[:, :, None]).sum(-1) * scale
    merged = torch.logaddexp(lse, score)
    keep, add = torch.exp(lse - merged), torch.exp(score - merged)
    return out * keep[..., None] + add[..., None] * v.float()[:, :, None], merged


def entry_gradient(q, k, v, grad, delta, lse, scale):
    """Gradients through one merged entry. grad [N, Hkv, G, D]; delta = sum(grad * out), lse [N, Hkv, G].

    Returns dq [N, Hkv, G, D], dk, dv [N, Hkv, D], float32."""
    q, k, v, grad = q.float(), k.float()[:, :, None], v.float()[:, :, None], grad.float()
    p = torch.exp((q * k).sum(-1) * scale - lse)[..., None]
    ds = p * ((grad * v).sum(-1, keepdim=True) - delta[..., None]) * scale
    return ds * k, (ds * q).sum(2), (p * grad).sum(2)


_merge, _gradient = merge_entry, entry_gradient


def compile_attention():
    """Fuses the per-entry arithmetic (torch.compile)."""
    global _merge, _gradient
    _merge = torch.compile(merge_entry, dynamic=True)
    _gradient = torch.compile(entry_gradient, dynamic=True)


def _causal_forward(q, k, v, scale):
    """q, k, v [B, Hq, S, D] -> out, lse [B, Hq, S], and what the backward kernel needs."""
    if q.is_cuda:
        out, lse, *rest = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True, False, scale=scale)
        return out, lse, rest[:6]
    out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True, scale=scale)
    return out, lse, ()


def _causal_backward(grad, q, k, v, out, lse, rest, scale):
    if q.is_cuda:
        cum_q, cum_k, max_q, max_k, seed, offset = rest
        return aten._scaled_dot_product_flash_attention_backward(
            grad, q, k, v, out, lse, cum_q, cum_k, max_q, max_k, 0.0, True, seed, offset, scale=scale)
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, lse, 0.0, True, scale=scale)


class TrainingTimeTestAttention(torch.autograd.Function):
    """apply(q, k0, v0, k1, v1, ..., kj, vj): q [B, S, Hq, D], every k and v [B, S, Hkv, D] -> [B, S, Hq, D]."""

    @staticmethod
    def forward(ctx, q, k0, v0, *own):
        B, S, Hq, D = q.shape
        Hkv, scale = k0.shape[2], 1 / math.sqrt(D)
        wide = lambda x: x.transpose(1, 2).repeat_interleave(Hq // Hkv, 1)
        qt, kt, vt = q.transpose(1, 2), wide(k0), wide(v0)
        out, lse, rest = _causal_forward(qt, kt, vt, scale)
        flat_lse = lse[..., :S].transpose(1, 2).reshape(B * S, Hkv, Hq // Hkv).float()
        flat_q = q.reshape(B * S, Hkv, Hq // Hkv, D)
        if own:
            flat = out.transpose(1, 2).reshape(B * S, Hkv, Hq // Hkv, D).float()
            for k, v in zip(own[::2], own[1::2]):
                flat, flat_lse = _merge(flat_q, k.reshape(B * S, Hkv, D), v.reshape(B * S, Hkv, D), flat, flat_lse, scale)
            out = flat.view(B, S, Hq, D).to(q.dtype).transpose(1, 2)
            lse = flat_lse.view(B, S, Hq).transpose(1, 2).contiguous()
        ctx.save_for_backward(q, k0, v0, out, lse, flat_lse, *own)
        ctx.rest, ctx.scale = rest, scale
        return out.transpose(1, 2)

    @staticmethod
    def backward(ctx, grad):
        q, k0, v0, out, lse, flat_lse, *own = ctx.saved_tensors
        B, S, Hq, D = q.shape
        Hkv = k0.shape[2]
        wide = lambda x: x.transpose(1, 2).repeat_interleave(Hq // Hkv, 1)
        grad = grad.contiguous()
        dq, dk, dv = _causal_backward(grad.transpose(1, 2), q.transpose(1, 2), wide(k0), wide(v0), out, lse, ctx.rest,
                                      ctx.scale)
        narrow = lambda x: x.view(B, Hkv, Hq // Hkv, S, D).sum(2).transpose(1, 2)
        dq, results = dq.transpose(1, 2), [narrow(dk), narrow(dv)]
        if own:
            shape = (B * S, Hkv, Hq // Hkv, D)
            flat_q, flat_grad = q.reshape(shape), grad.reshape(shape)
            delta = (flat_grad.float() * out.transpose(1, 2).reshape(shape).float()).sum(-1)
            total = dq.reshape(shape).float()
            for k, v in zip(own[::2], own[1::2]):
                eq, ek, ev = _gradient(flat_q, k.reshape(B * S, Hkv, D), v.reshape(B * S, Hkv, D), flat_grad, delta,
                                       flat_lse, ctx.scale)
                total = total + eq
                results += [ek.view(k.shape).to(k.dtype), ev.view(v.shape).to(v.dtype)]
            dq = total.view(q.shape)
        return (dq.to(q.dtype), *results)


def attention_reference(q, k0, v0, *own):
    """The definition, with an explicit score matrix; tests compare with it."""
    S, Hq, D = q.shape[1:]
    G = Hq // k0.shape[2]
    wide = lambda x: x.repeat_interleave(G, 2)
    scores = torch.einsum("bshd,bthd->bhst", q, wide(k0)) / math.sqrt(D)
    hidden = torch.ones(S, S, dtype=torch.bool, device=q.device).triu(1)
    scores = scores.masked_fill(hidden, float("-inf"))
    extra = [(q * wide(k)).sum(-1).transpose(1, 2)[..., None] / math.sqrt(D) for k in own[::2]]
    p = torch.cat([scores, *extra], -1).softmax(-1)
    out = torch.einsum("bhst,bthd->bshd", p[..., :S], wide(v0))
    for i, v in enumerate(own[1::2]):
        out = out + p[..., S + i].transpose(1, 2)[..., None] * wide(v)
    return out
