# SPDX-License-Identifier: Apache-2.0
"""Tiny random targets as files: a Hugging Face folder and a GGUF, with a byte-level tokenizer and a chat template."""

import json

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

L, H, HQ, HKV, D, FFN, CONTEXT = 6, 32, 4, 2, 8, 64, 512
SPECIAL = ["<|im_start|>", "<|im_end|>"]
TEMPLATE = ("{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def vocabulary():
    return SPECIAL + sorted(pre_tokenizers.ByteLevel.alphabet())


V = len(vocabulary())
EOS = 1


def weights(seed=3):
    g = torch.Generator().manual_seed(seed)
    r = lambda *s: torch.randn(*s, generator=g) * 0.35
    w = {"model.embed_tokens.weight": r(V, H) * 3, "model.norm.weight": 1 + r(H) * 0.1}
    for i in range(L):
        p = f"model.layers.{i}."
        w |= {p + "input_layernorm.weight": 1 + r(H) * 0.1, p + "post_attention_layernorm.weight": 1 + r(H) * 0.1,
              p + "self_attn.q_proj.weight": r(HQ * D, H), p + "self_attn.k_proj.weight": r(HKV * D, H),
              p + "self_attn.v_proj.weight": r(HKV * D, H), p + "self_attn.o_proj.weight": r(H, HQ * D),
              p + "mlp.gate_proj.weight": r(FFN, H), p + "mlp.up_proj.weight": r(FFN, H),
              p + "mlp.down_proj.weight": r(H, FFN)}
    return w


def config():
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": H, "num_hidden_layers": L,
            "num_attention_heads": HQ, "num_key_value_heads": HKV, "head_dim": D, "intermediate_size": FFN, "vocab_size": V,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": CONTEXT, "tie_word_embeddings": True,
            "bos_token_id": 0, "eos_token_id": EOS, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False}


def write_hf(folder):
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights(), str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(config()))
    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(vocabulary())}, merges=[]))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    t.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "bos_token": SPECIAL[0]}))
    return folder


def write_gguf(path, quantize=True):
    """The same model as a GGUF: q and k with interleaved rotary pairs, matrices in Q8_0 where `quantize`."""
    import gguf

    w = gguf.GGUFWriter(str(path), "llama")
    w.add_name("tiny"), w.add_block_count(L), w.add_embedding_length(H), w.add_head_count(HQ), w.add_head_count_kv(HKV)
    w.add_feed_forward_length(FFN), w.add_layer_norm_rms_eps(1e-5), w.add_rope_freq_base(10000.0)
    w.add_context_length(CONTEXT)
    w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre("gpt-2"), w.add_token_list(vocabulary()), w.add_token_merges([])
    w.add_token_types([3] * len(SPECIAL) + [1] * (V - len(SPECIAL)))
    w.add_bos_token_id(0), w.add_eos_token_id(EOS), w.add_chat_template(TEMPLATE)
    permute = lambda x, h: x.reshape(h, 2, D // 2, -1).transpose(0, 2, 1, 3).reshape(x.shape)
    names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
             "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    for name, x in weights().items():
        x = x.numpy()
        if name == "model.embed_tokens.weight":
            out = "token_embd.weight"
        elif name == "model.norm.weight":
            out = "output_norm.weight"
        else:
            _, _, i, rest = name.split(".", 3)
            out = f"blk.{i}.{names[rest.removesuffix('.weight')]}.weight"
            x = permute(x, HQ) if "attn_q" in out else permute(x, HKV) if "attn_k" in out else x
        kind = gguf.GGMLQuantizationType.Q8_0
        if quantize and x.ndim == 2:
            w.add_tensor(out, gguf.quants.quantize(np.ascontiguousarray(x), kind), raw_dtype=kind)
        else:
            w.add_tensor(out, np.ascontiguousarray(x))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    return path
