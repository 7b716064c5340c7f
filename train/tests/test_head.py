# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
import torch.nn.functional as F

import tiny
from haast_train.attention import TrainingTimeTestAttention, attention_reference
from haast_train.eagle1 import Eagle1Head
from haast_train.head import Eagle3Head, HeadSpec, unit_embedding
from haast_train.loss import HeadLoss, Supervision, unrolled_loss
from haast_train.target import rms_norm, rope_table
from haast_train.kernels import rotate


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make(target, version="3.1", vocab=64):
    if version == "1":
        head, d2t = Eagle1Head(Eagle1Head.spec_for(target.spec), torch.float32, target), torch.arange(target.spec.vocab)
        head.init_from_target(target, d2t, 1)
        return head, d2t
    spec = HeadSpec.for_target(target.spec, vocab, version=version, taps=(1, 3, 5))
    head = Eagle3Head(spec, torch.float32)
    d2t = torch.arange(vocab) * 2 + 1
    head.init_from_target(target, d2t, 1)
    return head, d2t


@pytest.mark.parametrize("entries", [0, 1, 4])
def test_attention_and_its_gradient(entries):
    g = torch.Generator().manual_seed(entries)
    dtype, tolerance = (torch.bfloat16, 2e-2) if DEVICE == "cuda" else (torch.float32, 1e-4)
    r = lambda h: torch.randn(2, 70, h, 64, generator=g).to(DEVICE, dtype).requires_grad_()
    x = [r(6), r(2), r(2)] + [r(2) for _ in range(2 * entries)]
    wide = [i.detach().float().requires_grad_() for i in x]
    w = torch.randn(2, 70, 6, 64, generator=g).to(DEVICE)
    got, want = TrainingTimeTestAttention.apply(*x), attention_reference(*wide)
    near = lambda u, v: (u.float() - v).norm() <= tolerance * v.norm()
    assert near(got, want)
    a, b = torch.autograd.grad((got * w).sum(), x), torch.autograd.grad((want * w).sum(), wide)
    assert all(near(u, v) for u, v in zip(a, b))


def serve_chain(head, target, ids, taps, t, steps):
    """A chain as an engine runs it: draft KV of positions 0..t from target features, then the head's own outputs. The drafted
    tokens are the true ones. Yields the output of each step, lm_head's input."""
    s, first = head.spec, head.version == "1"
    layer = head.layers[0] if first else head.midlayer
    at = layer.self_attn
    cos, sin = rope_table(s, 512, ids.device)
    keys, values = [], []

    def row(token, g, position):
        if first:
            g = x = head.fc(torch.cat([target.embed[token], g]))
        else:
            e = rms_norm(target.embed[token], layer.input_layernorm.weight, s.eps)
            x = torch.cat([e, rms_norm(g, layer.hidden_norm.weight, s.eps)])
        cut = lambda p, h: F.linear(x, p.weight).view(h, -1)
        keys.append(rotate(cut(at.k_proj, s.kv_heads), cos[position], sin[position]))
        values.append(cut(at.v_proj, s.kv_heads))
        q = rotate(cut(at.q_proj, s.heads), cos[position], sin[position])
        k, v = (torch.stack(c).repeat_interleave(s.heads // s.kv_heads, 1) for c in (keys, values))
        p = (torch.einsum("hd,thd->ht", q, k) / s.head_dim ** 0.5).softmax(-1)
        x = g + at.o_proj(torch.einsum("ht,thd->hd", p, v).flatten())
        h = rms_norm(x, layer.post_attention_layernorm.weight, s.eps)
        x = x + layer.mlp.down_proj(F.silu(layer.mlp.gate_proj(h)) * layer.mlp.up_proj(h))
        return x, x if first else rms_norm(x, head.norm.weight, s.eps)

    for u in range(t + 1):
        x, output = row(ids[u + 1], head.fuse_features(taps[u:u + 1])[0], u)
    yield output
    for j in range(1, steps):
        x, output = row(ids[t + 1 + j], output if s.norm_output else x, t + j)
        yield output


@pytest.mark.parametrize("version", ["1", "3", "3.1"])
@torch.no_grad()
def test_unroll_equals_serving(target, version):
    head, _ = make(target, version)
    for p in head.parameters():
        p.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())) * 0.1)
    ids = torch.randint(2, tiny.V, (2, 24), generator=torch.Generator().manual_seed(1))
    _, taps = target.forward(ids, head.spec.taps)
    steps = [h.view(2, 24, -1) for h in head.unroll(head.input_embedding(target), taps, ids, 4)]
    for b, t in ((0, 0), (1, 11), (0, 18)):
        for j, want in enumerate(serve_chain(head, target, ids[b], taps[b], t, 4)):
            torch.testing.assert_close(steps[j][b, t], want, atol=1e-4, rtol=1e-3)


def test_loss_without_a_gradient_of_the_vocabulary_matrix():
    g = torch.Generator().manual_seed(4)
    h, w = torch.randn(3, 8, generator=g, requires_grad=True), torch.randn(30, 8, generator=g)
    p, row, weight = torch.softmax(torch.randn(3, 30, generator=g), -1), torch.arange(3), torch.ones(3)
    HeadLoss.apply(h, w, p, row, weight, 0.0)[0].backward()
    assert w.grad is None
    torch.testing.assert_close(h.grad, ((h @ w.T).softmax(-1) - p) @ w, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("mix", [0.0, 0.5])
def test_loss_gradient(mix):
    g = torch.Generator().manual_seed(4)
    h = torch.randn(9, 8, generator=g, requires_grad=True)
    w = torch.randn(30, 8, generator=g, requires_grad=True)
    p, row, weight = torch.softmax(torch.randn(5, 30, generator=g) * 2, -1), torch.arange(9) % 5, torch.rand(9, generator=g)
    loss, _ = HeadLoss.apply(h, w, p, row, weight, mix)
    q = (h @ w.T).softmax(-1)
    cross, overlap = -(p[row] * q.log()).sum(-1), torch.minimum(p[row], q).sum(-1)
    want = (((1 - mix) * cross - mix * overlap.log()) * weight).sum()
    torch.testing.assert_close(loss, want)
    for a, b in zip(torch.autograd.grad(loss, (h, w)), torch.autograd.grad(want, (h, w))):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-3)


def test_supervision_indices(target):
    """Step j at position t learns the target's distribution at t + 1 + j, inside the answer only."""
    ids = torch.randint(2, tiny.V, (1, 16), generator=torch.Generator().manual_seed(2))
    mask = torch.zeros(1, 16, dtype=torch.bool)
    mask[0, 6:14] = True
    hidden, _ = target.forward(ids)
    everything = torch.arange(tiny.V)
    s = Supervision(target, hidden, mask, everything, 3)
    p = s.distributions(target.lm_head)
    full = target.logits(hidden[0]).softmax(-1)
    for j, (index, row, weight) in enumerate(s.steps):
        assert index.tolist() == list(range(max(5 - 1 - j, 0), 13 - 1 - j))
        torch.testing.assert_close(p[row], full[index + 1 + j])
        assert weight.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("version", ["1", "3.1"])
def test_training_reduces_the_loss(target, version):
    head, d2t = make(target, version)
    frozen = target.lm_head.clone()
    t2d = torch.full((tiny.V,), -1)
    t2d[d2t] = torch.arange(len(d2t))
    ids = torch.randint(2, tiny.V, (4, 32), generator=torch.Generator().manual_seed(5))
    hidden, taps = target.forward(ids, head.spec.taps)
    s = Supervision(target, hidden, torch.ones_like(ids, dtype=torch.bool), t2d, 3)
    p, e = s.distributions(target.lm_head[d2t]), head.input_embedding(target)
    optimizer, seen = torch.optim.AdamW(head.parameters(), lr=3e-3), []
    for _ in range(30):
        loss, _ = unrolled_loss(head, e, taps, ids, s, p)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    assert seen[-1] < 0.8 * seen[0]
    assert torch.equal(target.lm_head, frozen)  # EAGLE-1's vocabulary matrix
