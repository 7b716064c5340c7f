# SPDX-License-Identifier: Apache-2.0
"""The target model: a Llama-family decoder read from a GGUF file or a Hugging Face folder.

GGUF weights are dequantised, so that features and answers come from the values an engine serves.
Letters: B sequences, S positions, H hidden, Hq/Hkv heads, D head_dim, V vocabulary, L layers.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from .kernels import rotate

ARCHITECTURES = ("llama", "LlamaForCausalLM", "MistralForCausalLM", "mistral")


@dataclass(frozen=True)
class TargetSpec:
    """The sizes of a target, and what its files say about tokens."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    eps: float
    rope_theta: float
    context: int
    bos: int | None
    eos: tuple[int, ...]
    name: str

    def default_taps(self):
        """Layers whose *input* residual stream a head reads: [2, L/2, L-3] (SafeAILab/EAGLE, EAGLE-3).

        Engines want them ascending, so below 7 layers the outer ones are the neighbours of L/2."""
        if self.layers < 3:
            raise SystemExit(f"{self.name}: {self.layers} layers; an EAGLE-3 head reads 3 of them: use --version 1")
        middle = self.layers // 2
        return (min(2, middle - 1), middle, max(self.layers - 3, middle + 1))


def rms_norm(x, weight, eps):
    """x [..., H] -> float32 [..., H]."""
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def rope_table(spec, length, device):
    """cos, sin [length, D/2] float32."""
    inv = spec.rope_theta ** (-torch.arange(0, spec.head_dim, 2, device=device, dtype=torch.float64) / spec.head_dim)
    angle = torch.arange(length, device=device, dtype=torch.float64)[:, None] * inv
    return angle.cos().float(), angle.sin().float()


def matmul_float32(x, weight):
    """x [N, H] @ weight [V, H]^T with a float32 result (half-precision logits would tie, and ties are not greedy)."""
    if x.is_cuda and x.dtype != torch.float32:
        return torch.mm(x, weight.T, out_dtype=torch.float32)
    return (x @ weight.T).float()


def decoder_layer(x, cos, sin, w_in, w_qkv, w_o, w_post, w_gate_up, w_down, heads, kv_heads, eps):
    """One causal layer over right-padded rows. x [B, S, H] float32; cos, sin [S, D/2]. Returns x, k, v [B, Hkv, S, D]."""
    B, S, _ = x.shape
    D = 2 * cos.shape[-1]
    h = rms_norm(x, w_in, eps).to(w_qkv.dtype)
    q, k, v = (h @ w_qkv.T).view(B, S, -1, D).split([heads, kv_heads, kv_heads], 2)
    cos, sin = cos[:, None], sin[:, None]
    q, k = rotate(q, cos, sin).to(h.dtype).transpose(1, 2), rotate(k, cos, sin).to(h.dtype).transpose(1, 2)
    v = v.transpose(1, 2)
    a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
    x = x + (a.transpose(1, 2).reshape(B, S, heads * D) @ w_o.T).float()
    gate, up = (rms_norm(x, w_post, eps).to(h.dtype) @ w_gate_up.T).chunk(2, -1)
    x = x + ((F.silu(gate) * up) @ w_down.T).float()
    return x, k, v


class Target:
    """Weights on one device, the forward pass with taps, and the output head."""

    def __init__(self, spec, weights, device, compile=False):
        """weights: embed, lm_head [V, H]; norm [H]; layers: list of dicts (in, qkv, o, post, gate_up, down)."""
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        put = lambda w, t=dtype: w.to(device=device, dtype=t).contiguous()
        self.spec, self.device, self.dtype = spec, device, dtype
        self.embed = put(weights["embed"])
        self.lm_head = self.embed if weights.get("lm_head") is None else put(weights["lm_head"])
        self.norm = put(weights["norm"], torch.float32)
        vectors = ("in", "post")
        self.layers = [{k: put(w, torch.float32 if k in vectors else dtype) for k, w in l.items()} for l in weights["layers"]]
        self._layer = torch.compile(decoder_layer, dynamic=True) if compile else decoder_layer
        self.cos, self.sin = rope_table(spec, min(spec.context, 8192), device)

    @torch.no_grad()
    def forward(self, ids, taps=(), on_kv=None):
        """ids [B, S], right-padded (causal, so padding never reaches a real row).

        Returns (hidden [B, S, H] after the final norm, taps [B, S, len(taps)*H]: the residual stream entering those layers; L
        layers: L for what leaves the last one, L + 1 for `hidden`).
        on_kv(layer, k, v) receives the rotated keys and the values, [B, Hkv, S, D].
        """
        S = ids.shape[1]
        x, found = self.embed[ids].float(), {}
        for i, w in enumerate(self.layers):
            if i in taps:
                found[i] = x.to(self.dtype)
            x, k, v = self._layer(x, self.cos[:S], self.sin[:S], w["in"], w["qkv"], w["o"], w["post"], w["gate_up"],
                                  w["down"], self.spec.heads, self.spec.kv_heads, self.spec.eps)
            if on_kv is not None:
                on_kv(i, k, v)
        if len(self.layers) in taps:
            found[len(self.layers)] = x.to(self.dtype)
        hidden = rms_norm(x, self.norm, self.spec.eps).to(self.dtype)
        found[len(self.layers) + 1] = hidden
        return hidden, torch.cat([found[t] for t in taps], -1) if taps else None

    def logits(self, hidden):
        """hidden [N, H] after the final norm -> float32 [N, V]."""
        return matmul_float32(hidden, self.lm_head)


# ---------------------------------------------------------------- files

def load_target(path, device, compile=False):
    """Reads a .gguf file or a folder with config.json and safetensors."""
    path = Path(path)
    if path.is_dir():
        spec, weights = _read_hf(path)
    elif path.suffix == ".gguf":
        spec, weights = _read_gguf(path)
    else:
        raise SystemExit(f"{path}: expected a .gguf file or a Hugging Face folder with config.json")
    return Target(spec, weights, device, compile)


def _unpermute(w, heads):
    """GGUF stores q and k of Llama models with rotary pairs interleaved; back to the halves form. w [heads*D, H]."""
    return w.reshape(heads, w.shape[0] // heads // 2, 2, -1).transpose(1, 2).reshape(w.shape)


@lru_cache(maxsize=1)
def open_gguf(path):
    """The parsed file; parsing a vocabulary takes seconds, so it is done once."""
    from gguf import GGUFReader

    return GGUFReader(str(path))


def _read_gguf(path):
    from gguf.quants import dequantize

    reader = open_gguf(str(path))
    field = lambda k, d=None: reader.fields[k].contents() if k in reader.fields else d
    arch = field("general.architecture")
    if arch not in ARCHITECTURES:
        raise SystemExit(f"{path}: architecture {arch!r}; supported: {', '.join(ARCHITECTURES)}")
    raw = {t.name: t for t in reader.tensors}

    def tensor(name):
        if name not in raw:
            raise SystemExit(f"{path}: tensor {name} missing ({len(raw)} tensors present)")
        t = raw[name]
        return torch.from_numpy(np.array(dequantize(t.data, t.tensor_type), dtype=np.float32))

    hidden, heads = field(f"{arch}.embedding_length"), field(f"{arch}.attention.head_count")
    embed = tensor("token_embd.weight")
    eos = {field("tokenizer.ggml.eos_token_id"), field("tokenizer.ggml.eot_token_id")} - {None}
    spec = TargetSpec(
        layers=field(f"{arch}.block_count"), hidden=hidden, heads=heads,
        kv_heads=field(f"{arch}.attention.head_count_kv", heads),
        head_dim=field(f"{arch}.attention.key_length", hidden // heads), ffn=field(f"{arch}.feed_forward_length"),
        vocab=embed.shape[0], eps=round(field(f"{arch}.attention.layer_norm_rms_epsilon"), 12),
        rope_theta=field(f"{arch}.rope.freq_base", 10000.0), context=field(f"{arch}.context_length"),
        bos=field("tokenizer.ggml.bos_token_id"), eos=tuple(sorted(eos)), name=field("general.name", path.stem))
    layers = []
    for i in range(spec.layers):
        t = lambda n: tensor(f"blk.{i}.{n}.weight")
        q, k = _unpermute(t("attn_q"), heads), _unpermute(t("attn_k"), spec.kv_heads)
        layers.append({"in": t("attn_norm"), "qkv": torch.cat([q, k, t("attn_v")]), "o": t("attn_output"),
                       "post": t("ffn_norm"), "gate_up": torch.cat([t("ffn_gate"), t("ffn_up")]), "down": t("ffn_down")})
    head = tensor("output.weight") if "output.weight" in raw else None
    return spec, {"embed": embed, "lm_head": head, "norm": tensor("output_norm.weight"), "layers": layers}


def _read_hf(path):
    from safetensors import safe_open

    config = json.loads((path / "config.json").read_text())
    arch = (config.get("architectures") or [config.get("model_type")])[0]
    if arch not in ARCHITECTURES:
        raise SystemExit(f"{path}: architecture {arch!r}; supported: {', '.join(ARCHITECTURES)}")
    if config.get("rope_scaling"):
        raise SystemExit(f"{path}: rope_scaling {config['rope_scaling']} is not supported; supported: none")
    where = {}
    for f in sorted(path.glob("*.safetensors")):
        with safe_open(str(f), "pt") as s:
            where.update({k: f for k in s.keys()})

    def tensor(name):
        if name not in where:
            raise SystemExit(f"{path}: tensor {name} missing ({len(where)} tensors present)")
        with safe_open(str(where[name]), "pt") as s:
            return s.get_tensor(name)

    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    eos = config.get("eos_token_id")
    generation = path / "generation_config.json"
    if generation.exists():
        eos = json.loads(generation.read_text()).get("eos_token_id", eos)
    theta = config.get("rope_theta") or (config.get("rope_parameters") or {}).get("rope_theta", 10000.0)
    embed = tensor("model.embed_tokens.weight")
    spec = TargetSpec(
        layers=config["num_hidden_layers"], hidden=hidden, heads=heads,
        kv_heads=config.get("num_key_value_heads", heads), head_dim=config.get("head_dim") or hidden // heads,
        ffn=config["intermediate_size"], vocab=embed.shape[0], eps=config["rms_norm_eps"], rope_theta=theta,
        context=config["max_position_embeddings"], bos=config.get("bos_token_id"),
        eos=tuple(eos) if isinstance(eos, list) else (eos,), name=config.get("_name_or_path") or path.name)
    layers = []
    for i in range(spec.layers):
        t = lambda n: tensor(f"model.layers.{i}.{n}.weight")
        layers.append({"in": t("input_layernorm"), "post": t("post_attention_layernorm"), "o": t("self_attn.o_proj"),
                       "qkv": torch.cat([t(f"self_attn.{c}_proj") for c in "qkv"]), "down": t("mlp.down_proj"),
                       "gate_up": torch.cat([t("mlp.gate_proj"), t("mlp.up_proj")])})
    head = None if config.get("tie_word_embeddings") or "lm_head.weight" not in where else tensor("lm_head.weight")
    return spec, {"embed": embed, "lm_head": head, "norm": tensor("model.norm.weight"), "layers": layers}
