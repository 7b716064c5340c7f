# SPDX-License-Identifier: Apache-2.0
"""The four GPU kernels of data generation and of the loss, each with its definition in plain PyTorch.

Letters: R rows, Hq/Hkv query/KV heads, G = Hq/Hkv, D head_dim, T cache length, V vocabulary.
A public function runs the Triton kernel for CUDA tensors and the definition otherwise; tests compare the two.
"""

import math

import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # CPU-only installs
    triton = None

_MIX1, _MIX2, _POS, _TOK = 0x85EBCA6B, 0xC2B2AE35, 0x9E3779B1, 0x27D4EB2F
_MASK = 0xFFFFFFFF


def use_triton(x):
    return triton is not None and x.is_cuda


# ---------------------------------------------------------------- noise

def _mix(h):
    h = h ^ (h >> 16)
    h = (h * _MIX1) & _MASK
    h = h ^ (h >> 13)
    h = (h * _MIX2) & _MASK
    return h ^ (h >> 16)


def gumbel(key, position, token):
    """Gumbel noise, a pure function of (request key, absolute position of the sampled token, token id).

    key, position, token: int64 tensors that broadcast; returns float32 of the broadcast shape.
    """
    h = _mix((key ^ (position * _POS)) & _MASK)
    h = _mix((h + token * _TOK) & _MASK)
    u = ((h >> 8).float() + 0.5) * 2.0 ** -24
    return -torch.log(-torch.log(u))


def sample_reference(logits, temperature, key, position, tokens=None):
    ids = tokens if tokens is not None else torch.arange(logits.shape[1], device=logits.device)
    noise = gumbel(key[:, None], position[:, None], ids[None, :])
    return (logits.float() + temperature[:, None] * noise).argmax(-1)


def sample(logits, temperature, key, position, tokens=None):
    """Gumbel-max sampling. logits [R, C]; temperature [R] float32 (0 = greedy); key, position [R] int64;
    tokens [C] int64: the token id of each column (default: the column). Returns [R] int64 column indices.

    Two samplers that share key and position draw coupled tokens: they agree wherever their distributions nearly do.
    """
    if not use_triton(logits):
        return sample_reference(logits, temperature, key, position, tokens)
    R, C = logits.shape
    out = torch.empty(R, device=logits.device, dtype=torch.long)
    _sample[(R,)](logits, logits.stride(0), temperature, key, position, tokens if tokens is not None else key, out, C,
                  tokens is not None, 4096, num_warps=8)
    return out


# ---------------------------------------------------------------- decoding

def rotate(x, cos, sin):
    """Rotary embedding, halves form. x [..., D]; cos, sin [..., D/2] broadcast. float32 result."""
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def rope_and_store(qkv, cos, sin, k_cache, v_cache, position, heads):
    """Rotates q and k of one token a row and writes k, v into the caches.

    qkv [R, (Hq+2Hkv)*D]; cos, sin [R, D/2] float32; caches [R, Hkv, T, D]; position [R] int64 slot in T.
    Returns q [R, Hq, D].
    """
    R, Hkv, T, D = k_cache.shape
    if use_triton(qkv):
        q = torch.empty(R, heads, D, device=qkv.device, dtype=k_cache.dtype)
        _rope_store[(R, heads + 2 * Hkv)](qkv, cos, sin, k_cache, v_cache, q, position, T, heads, Hkv, D, num_warps=1)
        return q
    q, k, v = qkv.view(R, -1, D).split([heads, Hkv, Hkv], 1)
    rows = torch.arange(R, device=qkv.device)
    k_cache[rows, :, position] = rotate(k, cos[:, None], sin[:, None]).to(k_cache.dtype)
    v_cache[rows, :, position] = v.to(v_cache.dtype)
    return rotate(q, cos[:, None], sin[:, None]).to(k_cache.dtype)


def decode_attention(q, k_cache, v_cache, last):
    """One query a row over cache positions 0..last[row]. q [R, Hq, D]; caches [R, Hkv, T, D]; last [R] int64. [R, Hq, D]."""
    R, Hkv, T, D = k_cache.shape
    if use_triton(q):
        out = torch.empty_like(q)
        _decode[(R, Hkv)](q, k_cache, v_cache, last, out, T, Hkv, q.shape[1] // Hkv, D, 64, 1 / math.sqrt(D), num_warps=4)
        return out
    seen = torch.arange(T, device=q.device)[None] <= last[:, None]
    k, v = (c.repeat_interleave(q.shape[1] // Hkv, 1).float() for c in (k_cache, v_cache))
    score = torch.einsum("rhd,rhtd->rht", q.float(), k) / math.sqrt(D)
    p = score.masked_fill(~seen[:, None], float("-inf")).softmax(-1)
    return torch.einsum("rht,rhtd->rhd", p, v).to(q.dtype)


# ---------------------------------------------------------------- loss

def soft_cross_entropy_reference(z, p, row, weight, mix):
    zf, pf = z.float(), p[row].float()
    log_q = zf - torch.logsumexp(zf, -1, keepdim=True)
    q = log_q.exp()
    mass = pf.sum(-1, keepdim=True)
    overlap = torch.minimum(pf, q).sum(-1, keepdim=True).clamp_min(1e-6)
    below = (q < pf).float()  # d overlap / d q
    grad_accept = -(q * below - q * (q * below).sum(-1, keepdim=True)) / overlap
    grad = (1 - mix) * (q * mass - pf) + mix * grad_accept
    loss = (1 - mix) * -(pf * log_q).sum(-1) - mix * torch.log(overlap[:, 0])
    hit = (z.argmax(-1) == pf.argmax(-1)).float()
    z.copy_(grad * weight[:, None])
    return loss * weight, hit


def soft_cross_entropy_(z, p, row, weight, mix=0.0):
    """(1-mix) * cross entropy + mix * -log(sum of min(p, q)), per row, and its gradient written over z.

    z [R, C] logits, overwritten; p [M, C] target distributions, row [R] int64 picks one; weight [R] float32.
    Returns (loss [R], hit [R]: 1 where the logits' maximum sits on the target's).
    """
    if not use_triton(z):
        return soft_cross_entropy_reference(z, p, row, weight, mix)
    R, C = z.shape
    loss = torch.empty(R, device=z.device)
    hit = torch.empty(R, device=z.device)
    _soft_ce[(R,)](z, p, row, weight, loss, hit, mix, C, mix > 0, 4096, num_warps=8)
    return loss, hit


if triton is not None:
    @triton.jit
    def _mix32(h):
        h = h ^ (h >> 16)
        h = h * 0x85EBCA6B
        h = h ^ (h >> 13)
        h = h * 0xC2B2AE35
        return h ^ (h >> 16)

    @triton.jit
    def _sample(Z, stride, TEMP, KEY, POS, IDS, OUT, C, MAPPED: tl.constexpr, BLOCK: tl.constexpr):
        r = tl.program_id(0)
        temp = tl.load(TEMP + r)
        key = tl.load(KEY + r).to(tl.uint32)
        pos = tl.load(POS + r).to(tl.uint32)
        h0 = _mix32(key ^ (pos * 0x9E3779B1))
        i = tl.arange(0, BLOCK)
        best = tl.full([BLOCK], -1e30, tl.float32)
        where = tl.zeros([BLOCK], tl.int32)
        for s in range(0, C, BLOCK):
            c = s + i
            ok = c < C
            x = tl.load(Z + r.to(tl.int64) * stride + c, mask=ok, other=-1e30).to(tl.float32)
            if temp > 0:
                ids = c
                if MAPPED:
                    ids = tl.load(IDS + c, mask=ok, other=0).to(tl.int32)
                h = _mix32(h0 + ids.to(tl.uint32) * 0x27D4EB2F)
                u = ((h >> 8).to(tl.float32) + 0.5) * 5.9604644775390625e-08
                x = tl.where(ok, x - temp * tl.log(-tl.log(u)), -1e30)
            better = x > best
            best = tl.where(better, x, best)
            where = tl.where(better, c, where)
        top = tl.max(best, 0)
        tl.store(OUT + r, tl.min(tl.where(best == top, where, C), 0).to(tl.int64))

    @triton.jit
    def _rope_store(X, COS, SIN, KC, VC, Q, POS, T, HQ: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr):
        r = tl.program_id(0).to(tl.int64)
        h = tl.program_id(1)
        i = tl.arange(0, D // 2)
        pos = tl.load(POS + r)
        src = X + (r * (HQ + 2 * HKV) + h) * D
        a = tl.load(src + i).to(tl.float32)
        b = tl.load(src + D // 2 + i).to(tl.float32)
        c = tl.load(COS + r * (D // 2) + i)
        s = tl.load(SIN + r * (D // 2) + i)
        lo = a * c - b * s
        hi = b * c + a * s
        if h < HQ:
            dst = Q + (r * HQ + h) * D
        elif h < HQ + HKV:
            dst = KC + ((r * HKV + h - HQ) * T + pos) * D
        else:
            dst = VC + ((r * HKV + h - HQ - HKV) * T + pos) * D
            lo = a
            hi = b
        tl.store(dst + i, lo.to(Q.dtype.element_ty))
        tl.store(dst + D // 2 + i, hi.to(Q.dtype.element_ty))

    @triton.jit
    def _decode(Q, KC, VC, LAST, OUT, T, HKV: tl.constexpr, G: tl.constexpr, D: tl.constexpr, BT: tl.constexpr,
                SCALE: tl.constexpr):
        r = tl.program_id(0).to(tl.int64)
        h = tl.program_id(1)
        last = tl.load(LAST + r).to(tl.int32)
        d = tl.arange(0, D)
        g = tl.arange(0, 16)
        t = tl.arange(0, BT)
        rows = (r * HKV + h) * G * D + g[:, None] * D + d[None, :]
        live = (g < G)[:, None]
        q = tl.load(Q + rows, mask=live, other=0.0)
        base = (r * HKV + h) * T * D
        m = tl.full([16], -1e30, tl.float32)
        total = tl.zeros([16], tl.float32)
        acc = tl.zeros([16, D], tl.float32)
        for s in range(0, last + 1, BT):
            seen = s + t <= last
            off = base + (s + t)[:, None] * D + d[None, :]
            k = tl.load(KC + off, mask=seen[:, None], other=0.0)
            v = tl.load(VC + off, mask=seen[:, None], other=0.0)
            x = tl.where(seen[None, :], tl.dot(q, tl.trans(k)) * SCALE, -1e30)
            new = tl.maximum(m, tl.max(x, 1))
            keep = tl.exp(m - new)
            p = tl.exp(x - new[:, None])
            total = total * keep + tl.sum(p, 1)
            acc = acc * keep[:, None] + tl.dot(p.to(v.dtype), v)
            m = new
        tl.store(OUT + rows, (acc / total[:, None]).to(OUT.dtype.element_ty), mask=live)

    @triton.jit
    def _soft_ce(Z, P, ROW, WEIGHT, LOSS, HIT, mix, C, ACCEPT: tl.constexpr, BLOCK: tl.constexpr):
        r = tl.program_id(0).to(tl.int64)
        z0 = Z + r * C
        p0 = P + tl.load(ROW + r) * C
        w = tl.load(WEIGHT + r)
        i = tl.arange(0, BLOCK)
        m = -1e30
        total = 0.0
        mass = 0.0
        cross = 0.0
        p_top = -1.0
        z_at_p_top = -1e30
        for s in range(0, C, BLOCK):
            ok = s + i < C
            z = tl.load(z0 + s + i, mask=ok, other=-1e30).to(tl.float32)
            p = tl.load(p0 + s + i, mask=ok, other=0.0).to(tl.float32)
            new = tl.maximum(m, tl.max(z, 0))
            total = total * tl.exp(m - new) + tl.sum(tl.exp(z - new), 0)
            m = new
            mass += tl.sum(p, 0)
            cross += tl.sum(tl.where(ok, p * z, 0.0), 0)
            top = tl.max(p, 0)
            at = tl.max(tl.where(p == top, z, -1e30), 0)
            z_at_p_top = tl.where(top > p_top, at, z_at_p_top)
            p_top = tl.maximum(p_top, top)
        lse = m + tl.log(total)
        loss = lse * mass - cross
        tl.store(HIT + r, tl.where(z_at_p_top >= m, 1.0, 0.0))
        overlap = 0.0
        below = 0.0
        if ACCEPT:
            for s in range(0, C, BLOCK):
                ok = s + i < C
                z = tl.load(z0 + s + i, mask=ok, other=-1e30).to(tl.float32)
                p = tl.load(p0 + s + i, mask=ok, other=0.0).to(tl.float32)
                q = tl.exp(z - lse)
                overlap += tl.sum(tl.minimum(p, q), 0)
                below += tl.sum(tl.where(q < p, q, 0.0), 0)
            overlap = tl.maximum(overlap, 1e-6)
            loss = (1 - mix) * loss - mix * tl.log(overlap)
        tl.store(LOSS + r, loss * w)
        for s in range(0, C, BLOCK):
            ok = s + i < C
            z = tl.load(z0 + s + i, mask=ok, other=-1e30).to(tl.float32)
            p = tl.load(p0 + s + i, mask=ok, other=0.0).to(tl.float32)
            q = tl.exp(z - lse)
            grad = q * mass - p
            if ACCEPT:
                grad = (1 - mix) * grad - mix * (tl.where(q < p, q, 0.0) - q * below) / overlap
            tl.store(z0 + s + i, (grad * w).to(Z.dtype.element_ty), mask=ok)
