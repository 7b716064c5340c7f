"""The fp32 reference that make_goldens.py asks: the target in Hugging Face transformers, the draft head in plain torch.

Everything is built from the files the engine itself reads (the GGUF, the head's safetensors), dequantised with the `gguf` package, so that the
engine's arithmetic is all that can differ.
"""

import json
import sys

import gguf
import jinja2.sandbox
import numpy as np
import safetensors.torch
import tokenizers
import torch
import transformers

# GGUF name -> transformers name; inside blk.N the latter is under model.layers.N.
NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class GgufFile:
    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        if self.field("general.architecture") != "llama" or self.field("tokenizer.ggml.pre") != "smollm":
            sys.exit(f"{path}: this script knows the llama architecture with the smollm tokenizer only")

    def field(self, key):
        return self.reader.fields[key].contents()

    def llama(self, key):
        return self.field("llama." + key)


def half_rotation(weight, heads):
    """Rows of q and k from GGUF's order, where rope pairs neighbours, to transformers', where it pairs the halves of a head."""
    rows, cols = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)


def load_target(file):
    heads, kv_heads = file.llama("attention.head_count"), file.llama("attention.head_count_kv")
    config = transformers.LlamaConfig(
        hidden_size=file.llama("embedding_length"), intermediate_size=file.llama("feed_forward_length"),
        num_hidden_layers=file.llama("block_count"), num_attention_heads=heads, num_key_value_heads=kv_heads,
        max_position_embeddings=file.llama("context_length"), vocab_size=file.llama("vocab_size"),
        # stored as float32: 9.999999747e-06 means 1e-05
        rms_norm_eps=float(f"{file.llama('attention.layer_norm_rms_epsilon'):.6g}"),
        rope_parameters={"rope_type": "default", "rope_theta": float(file.llama("rope.freq_base"))},
        tie_word_embeddings=not any(t.name == "output.weight" for t in file.reader.tensors), attn_implementation="eager")
    config.eos_token_id = file.field("tokenizer.ggml.eos_token_id")
    state = {}
    for tensor in file.reader.tensors:
        parts = tensor.name.split(".")
        layer, kind = (f"model.layers.{parts[1]}.", parts[2]) if parts[0] == "blk" else ("", parts[0])
        weight = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if kind in ("attn_q", "attn_k"):
            weight = half_rotation(weight, heads if kind == "attn_q" else kv_heads)
        state[f"{layer}{NAMES[kind]}.weight"] = torch.from_numpy(np.ascontiguousarray(weight))
    model = transformers.LlamaForCausalLM(config).to(torch.float32).eval()
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:
        sys.exit(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model


def load_tokenizer(file):
    pieces, kinds = file.field("tokenizer.ggml.tokens"), file.field("tokenizer.ggml.token_type")
    merges = [tuple(m.split(" ")) for m in file.field("tokenizer.ggml.merges")]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={p: i for i, p in enumerate(pieces)}, merges=merges))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    special = [p for p, kind in zip(pieces, kinds) if kind == int(gguf.TokenType.CONTROL)]
    tokenizer.add_special_tokens([tokenizers.AddedToken(p, special=True, normalized=False) for p in special])
    return tokenizer


def chat_encoder(file, tokenizer):
    """messages -> ids of the rendered chat, ready for the assistant's answer."""
    template = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(
        file.field("tokenizer.chat_template"))
    return lambda messages: tokenizer.encode(template.render(messages=messages, add_generation_prompt=True), add_special_tokens=False).ids


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


class EagleHead:
    """An EAGLE-3 or 3.1 head, one decoder layer. Row p takes (feature of token p, id of token p + 1) and predicts token p + 2."""

    def __init__(self, folder, embeddings):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = {k: w if w.dtype == torch.int64 else w.float()
                        for k, w in safetensors.torch.load_file(folder / "model.safetensors").items()}
        self.embeddings = self.weights.get("embed_tokens.weight", embeddings)
        self.eps = self.config["rms_norm_eps"]
        self.d2t = self.weights["d2t"]
        outputs = self.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
        self.taps = [layer + 1 for layer in outputs]  # hidden_states[i] enters layer i

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T

    def fuse(self, features):
        """[rows, taps, hidden] -> [rows, hidden]"""
        parts = list(features.unbind(1))
        if self.config.get("fc_norm"):
            parts = [rms_norm(p, self.weights[f"fc_norm.{i}.weight"], self.eps) for i, p in enumerate(parts)]
        return self.linear(torch.cat(parts, -1), "fc")

    def rope(self, x, positions):
        """x [rows, heads, head_dim], halves rotated."""
        half = x.shape[-1] // 2
        angles = positions[:, None].double() / self.config["rope_theta"] ** (torch.arange(half).double() / half)
        cos, sin = angles.cos().float()[:, None], angles.sin().float()[:, None]
        low, high = x[..., :half], x[..., half:]
        return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)

    def layer(self, g, next_ids, positions, past):
        """g [rows, hidden] at consecutive positions, after `past` (k, v) rows. Returns (logits, carried value, k, v)."""
        w, heads, dim = self.weights, self.config["num_attention_heads"], self.config["head_dim"]
        kv_heads = self.config["num_key_value_heads"]
        x = torch.cat([rms_norm(self.embeddings[next_ids], w["midlayer.input_layernorm.weight"], self.eps),
                       rms_norm(g, w["midlayer.hidden_norm.weight"], self.eps)], -1)
        q, k, v = (self.linear(x, f"midlayer.self_attn.{n}_proj").unflatten(-1, (-1, dim)) for n in "qkv")
        q, k = self.rope(q, positions), self.rope(k, positions)
        if past is not None:
            k, v = torch.cat([past[0], k]), torch.cat([past[1], v])
        key, value = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, key) / dim**0.5
        mask = torch.arange(k.shape[0])[None] > torch.arange(k.shape[0] - len(g), k.shape[0])[:, None]
        mixed = torch.einsum("hqk,khd->qhd", scores.masked_fill(mask, -torch.inf).softmax(-1), value).flatten(1)
        h = g + self.linear(mixed, "midlayer.self_attn.o_proj")
        y = rms_norm(h, w["midlayer.post_attention_layernorm.weight"], self.eps)
        gated = torch.nn.functional.silu(self.linear(y, "midlayer.mlp.gate_proj")) * self.linear(y, "midlayer.mlp.up_proj")
        h = h + self.linear(gated, "midlayer.mlp.down_proj")
        out = rms_norm(h, w["norm.weight"], self.eps)
        return self.linear(out, "lm_head"), out if self.config.get("norm_output") else h, k, v

    def best(self, logits):
        """(target id of the best draft, its distance to the second)"""
        top = logits.topk(2)
        index = top.indices[0].item()
        return index + self.d2t[index].item(), (top.values[0] - top.values[1]).item()
