# SPDX-License-Identifier: Apache-2.0
"""EAGLE-1 (and EAGLE-2) heads: fc joins the next token's embedding and the target's output after its final norm; one layer
without a norm of its input; no final norm; vocabulary matrix and embeddings are the target's.

The paper trains it by regression on features; here it is trained like EAGLE-3, by training-time test on tokens.
Parameter names are those of the exported files (SafeAILab/EAGLE). Letters: see head.py.
"""

from types import SimpleNamespace

import torch
from torch import nn

from .head import Attention, DraftHead, HeadSpec, Mlp, Norm
from .kernels import rotate


def project_layer(e, x, w_qkv, cos, sin, heads, kv_heads, eps, dtype):
    """x [N, H] float32 output of fc (e is in it already); cos, sin [N, D/2]. Returns q [N, Hq, D], k, v [N, Hkv, D]."""
    q, k, v = (x.to(dtype) @ w_qkv.to(dtype).T).view(x.shape[0], -1, 2 * cos.shape[-1]).split([heads, kv_heads, kv_heads], 1)
    cos, sin = cos[:, None], sin[:, None]
    return rotate(q, cos, sin).to(dtype), rotate(k, cos, sin).to(dtype), v.contiguous()


class _Layer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.post_attention_layernorm = Norm(s.hidden)
        self.self_attn, self.mlp = Attention(s, s.hidden), Mlp(s)


class Eagle1Head(DraftHead):
    project = staticmethod(project_layer)
    version = "1"

    def __init__(self, spec, dtype, target):
        super().__init__(spec, dtype)
        self.fc = nn.Linear(2 * spec.hidden, spec.hidden, bias=False)
        self.layers = nn.ModuleList([_Layer(spec)])
        self.target = target  # no module: not a part of parameters() and state_dict()
        self.lm_head = SimpleNamespace(weight=target.lm_head)

    @staticmethod
    def spec_for(t, ffn=None):
        return HeadSpec(t.hidden, t.heads, t.kv_heads, t.head_dim, ffn or t.ffn, t.vocab, t.vocab, t.eps, t.rope_theta, t.context,
                        (t.layers + 1,), fc_norm=False, norm_output=False)

    def empty_copy(self):
        return Eagle1Head(self.spec, self.dtype, self.target)

    def input_embedding(self, target):
        return target.embed

    def fuse_features(self, taps):
        return taps.float()

    def residual(self, e, g):
        pair = torch.cat([e.to(self.dtype), g.to(self.dtype)], -1)
        return (pair @ self.fc.weight.to(self.dtype).T).float()

    def layer_weights(self):
        layer, at = self.layers[0], self.layers[0].self_attn
        w_qkv = torch.cat([at.q_proj.weight, at.k_proj.weight, at.v_proj.weight])
        w_gate_up = torch.cat([layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight])
        return (w_qkv,), (at.o_proj.weight, layer.post_attention_layernorm.weight, w_gate_up, layer.mlp.down_proj.weight, None)

    @torch.no_grad()
    def init_from_target(self, target, d2t, seed):
        """Copies the target's last layer. It read a normed stream and now reads features, which have the final norm's weight:
        that and the weight of its own norm move into q, k and v. fc starts as 'take the feature', what the layer adds small."""
        s, w = self.spec, target.layers[-1]
        generator = torch.Generator().manual_seed(seed)
        small = lambda *shape: torch.randn(*shape, generator=generator).to(target.device) * 0.02
        H, layer, at = s.hidden, self.layers[0], self.layers[0].self_attn
        put = lambda p, x: p.weight.copy_(x.float())
        put(self.fc, small(H, 2 * H) + torch.cat([torch.zeros(H, H), torch.eye(H)], 1).to(target.device))
        scale = w["in"] / target.norm.clamp_min(0.1 * target.norm.mean())
        parts = (w["qkv"].float() * scale).split([s.heads * s.head_dim, s.kv_heads * s.head_dim, s.kv_heads * s.head_dim])
        for p, x in zip((at.q_proj, at.k_proj, at.v_proj), parts):
            put(p, x)
        put(at.o_proj, 0.1 * w["o"].float())
        put(layer.post_attention_layernorm, w["post"])
        gate, up = w["gate_up"].chunk(2)
        n = min(s.ffn, gate.shape[0])
        for p, x in ((layer.mlp.gate_proj, gate), (layer.mlp.up_proj, up)):
            put(p, torch.cat([x[:n].float(), small(s.ffn - n, H)]))
        put(layer.mlp.down_proj, torch.cat([0.1 * w["down"][:, :n].float(), torch.zeros(H, s.ffn - n, device=target.device)], 1))
