# SPDX-License-Identifier: Apache-2.0
"""The draft head: one decoder layer over (next token's embedding, feature), EAGLE-3 or EAGLE-3.1; EAGLE-1 is in eagle1.py.

Parameter names are those of the exported files (SafeAILab/EAGLE, SpecForge: LlamaForCausalLMEagle3).
Letters: B, S; N = B*S; H hidden; Hq, Hkv, D; C draft vocabulary; V target vocabulary.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from .attention import TrainingTimeTestAttention
from .kernels import rotate
from .target import rms_norm, rope_table


@dataclass(frozen=True)
class HeadSpec:
    """Sizes and toggles of a head. taps: see Target.forward. fc_norm, norm_output: both on = EAGLE-3.1."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    draft_vocab: int
    eps: float
    rope_theta: float
    context: int
    taps: tuple[int, ...]
    fc_norm: bool = True
    norm_output: bool = True

    @staticmethod
    def for_target(t, draft_vocab, taps=None, version="3.1", ffn=None):
        on = version == "3.1"
        return HeadSpec(t.hidden, t.heads, t.kv_heads, t.head_dim, ffn or t.ffn, t.vocab, draft_vocab, t.eps, t.rope_theta,
                        t.context, tuple(taps or t.default_taps()), on, on)


def project_inputs(e, g, w_in, w_hidden, w_qkv, cos, sin, heads, kv_heads, eps, dtype):
    """e [N, H] embedding divided by its own root mean square; g [N, H] float32; cos, sin [N, D/2].

    Returns q [N, Hq, D], k, v [N, Hkv, D]."""
    x = torch.cat([e.float() * w_in, rms_norm(g, w_hidden, eps)], -1).to(dtype)
    q, k, v = (x @ w_qkv.to(dtype).T).view(x.shape[0], -1, 2 * cos.shape[-1]).split([heads, kv_heads, kv_heads], 1)
    cos, sin = cos[:, None], sin[:, None]
    return rotate(q, cos, sin).to(dtype), rotate(k, cos, sin).to(dtype), v.contiguous()


def finish_layer(a, g, w_o, w_post, w_gate_up, w_down, w_norm, eps):
    """a [N, Hq*D] attention output; g [N, H] float32 residual. Returns the sum before the final norm, and after it.

    w_norm None: there is no final norm."""
    dtype = a.dtype
    x = g + (a @ w_o.to(dtype).T).float()
    gate, up = (rms_norm(x, w_post, eps).to(dtype) @ w_gate_up.to(dtype).T).chunk(2, -1)
    x = x + ((F.silu(gate) * up) @ w_down.to(dtype).T).float()
    return x, x if w_norm is None else rms_norm(x, w_norm, eps)


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))


class Attention(nn.Module):
    def __init__(self, s, width):
        """width: of what q, k and v read."""
        super().__init__()
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.q_proj, self.k_proj = linear(width, s.heads * s.head_dim), linear(width, s.kv_heads * s.head_dim)
        self.v_proj, self.o_proj = linear(width, s.kv_heads * s.head_dim), linear(s.heads * s.head_dim, s.hidden)


class Mlp(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(s.hidden, s.ffn, bias=False), nn.Linear(s.hidden, s.ffn, bias=False)
        self.down_proj = nn.Linear(s.ffn, s.hidden, bias=False)


class _Layer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.input_layernorm, self.hidden_norm = Norm(s.hidden), Norm(s.hidden)
        self.post_attention_layernorm = Norm(s.hidden)
        self.self_attn, self.mlp = Attention(s, 2 * s.hidden), Mlp(s)


class DraftHead(nn.Module):
    """What the forms share: training-time test over one layer. A form has lm_head (its own, or the target's, which is no
    parameter then) and says what it reads (input_embedding, fuse_features), what the layer adds to (residual) and its weights."""

    def __init__(self, spec, dtype):
        """dtype: of the matrix products; parameters stay float32."""
        super().__init__()
        self.spec, self.dtype = spec, dtype
        self._project, self._finish = type(self).project, finish_layer
        self._table = None

    def compile_pieces(self):
        self._project = torch.compile(type(self).project, dynamic=True)
        self._finish = torch.compile(finish_layer, dynamic=True)

    def rope(self, length, device):
        if self._table is None or self._table[0].shape[0] < length:
            self._table = rope_table(self.spec, max(length, 2048), device)
        return self._table

    def unroll(self, embedding, taps, ids, steps):
        """Training-time test. embedding [V, H]: see input_embedding; taps [B, S, T*H]; ids [B, S].

        Yields, for j = 0..steps-1, the output [N, H] that predicts token t + 2 + j at position t (lm_head's input)."""
        s, (B, S) = self.spec, ids.shape
        enter, leave = self.layer_weights()
        cos, sin = self.rope(S + steps, ids.device)
        g = self.fuse_features(taps.reshape(B * S, -1))
        seen = []
        for j in range(steps):
            e = embedding[torch.roll(ids, -(1 + j), 1).view(-1)]
            at_j = lambda x: x[j:j + S].repeat(B, 1)
            x = self.residual(e, g)
            q, k, v = self._project(e, x, *enter, at_j(cos), at_j(sin), s.heads, s.kv_heads, s.eps, self.dtype)
            seen += [k.view(B, S, s.kv_heads, -1), v.view(B, S, s.kv_heads, -1)]
            a = TrainingTimeTestAttention.apply(q.view(B, S, s.heads, -1), *seen)
            before, output = self._finish(a.reshape(B * S, -1), x, *leave, s.eps)
            g = output if s.norm_output else before
            yield output


class Eagle3Head(DraftHead):
    project = staticmethod(project_inputs)

    def __init__(self, spec, dtype):
        super().__init__(spec, dtype)
        self.fc = nn.Linear(len(spec.taps) * spec.hidden, spec.hidden, bias=False)
        if spec.fc_norm:
            self.fc_norm = nn.ModuleList([Norm(spec.hidden) for _ in spec.taps])
        self.midlayer = _Layer(spec)
        self.norm = Norm(spec.hidden)
        self.lm_head = nn.Linear(spec.hidden, spec.draft_vocab, bias=False)

    @property
    def version(self):
        return "3.1" if self.spec.fc_norm else "3"

    def empty_copy(self):
        return Eagle3Head(self.spec, self.dtype)

    def input_embedding(self, target):
        """[V, H]: every token embedding divided by its root mean square (the norm of the head's input, less its weight)."""
        return unit_embedding(target)

    def fuse_features(self, taps):
        """taps [N, len(taps)*H] from the target -> g [N, H] float32. Used only where features come from the target."""
        if self.spec.fc_norm:
            parts = zip(taps.chunk(len(self.spec.taps), -1), self.fc_norm)
            taps = torch.cat([rms_norm(x, n.weight, self.spec.eps) for x, n in parts], -1)
        return (taps.to(self.dtype) @ self.fc.weight.to(self.dtype).T).float()

    def residual(self, e, g):
        return g

    def layer_weights(self):
        """(of project_inputs, of finish_layer), those that are multiplied together side by side."""
        layer, at = self.midlayer, self.midlayer.self_attn
        w_qkv = torch.cat([at.q_proj.weight, at.k_proj.weight, at.v_proj.weight])
        w_gate_up = torch.cat([layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight])
        return ((layer.input_layernorm.weight, layer.hidden_norm.weight, w_qkv),
                (at.o_proj.weight, layer.post_attention_layernorm.weight, w_gate_up, layer.mlp.down_proj.weight, self.norm.weight))

    @torch.no_grad()
    def init_from_target(self, target, d2t, seed):
        """Copies the target's last layer and the embedding rows of the draft vocabulary; new matrices start small.

        The half of q, k, v that reads embeddings starts near zero, `fc` near 'take the last tap'."""
        s, w = self.spec, target.layers[-1]
        generator = torch.Generator().manual_seed(seed)
        small = lambda *shape: torch.randn(*shape, generator=generator).to(target.device) * 0.02
        H, taps = s.hidden, len(s.taps)
        put = lambda p, x: p.weight.copy_(x.float())
        put(self.fc, small(H, taps * H) + torch.cat([torch.zeros(H, (taps - 1) * H), torch.eye(H)], 1).to(target.device))
        layer, at = self.midlayer, self.midlayer.self_attn
        parts = w["qkv"].split([s.heads * s.head_dim, s.kv_heads * s.head_dim, s.kv_heads * s.head_dim])
        for p, x in zip((at.q_proj, at.k_proj, at.v_proj), parts):
            put(p, torch.cat([small(*x.shape), x.float()], 1))
        put(at.o_proj, w["o"])
        put(layer.hidden_norm, w["in"])
        put(layer.post_attention_layernorm, w["post"])
        gate, up = w["gate_up"].chunk(2)
        n = min(s.ffn, gate.shape[0])
        for p, x in ((layer.mlp.gate_proj, gate), (layer.mlp.up_proj, up)):
            put(p, torch.cat([x[:n].float(), small(s.ffn - n, H)]))
        put(layer.mlp.down_proj, torch.cat([w["down"][:, :n].float(), torch.zeros(H, s.ffn - n, device=target.device)], 1))
        put(self.norm, torch.ones_like(target.norm) * target.norm.mean() if s.norm_output else target.norm)
        put(self.lm_head, target.lm_head[d2t])


def unit_embedding(target):
    """[V, H]: every token embedding divided by its root mean square (the norm of the head's input, less its weight)."""
    one = torch.ones(target.spec.hidden, device=target.device)
    return rms_norm(target.embed, one, target.spec.eps).to(target.dtype)
