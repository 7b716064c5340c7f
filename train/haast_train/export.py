# SPDX-License-Identifier: Apache-2.0
"""The folder that engines load: config.json and model.safetensors of LlamaForCausalLMEagle3, and its papers."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from .head import Eagle3Head, HeadSpec


def head_config(spec, target):
    """config.json. Layer ids in eagle_config are layer *outputs* (SGLang's reading), hence tap - 1."""
    config = {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": spec.hidden,
        "target_hidden_size": target.hidden, "intermediate_size": spec.ffn, "num_hidden_layers": 1,
        "num_attention_heads": spec.heads, "num_key_value_heads": spec.kv_heads, "head_dim": spec.head_dim,
        "vocab_size": spec.vocab, "draft_vocab_size": spec.draft_vocab, "rms_norm_eps": spec.eps,
        "rope_theta": spec.rope_theta, "max_position_embeddings": spec.context, "hidden_act": "silu",
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": target.bos, "eos_token_id": target.eos[0],
        "attention_bias": False, "mlp_bias": False, "num_aux_hidden_states": len(spec.taps),
        "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [t - 1 for t in spec.taps]},
    }
    if spec.fc_norm:
        config["fc_norm"] = True
    if spec.norm_output:
        config["norm_output"] = True
    return config


def head_tensors(head, d2t):
    """Parameters in bfloat16 under their own names; d2t as offsets: target id = draft id + d2t[draft id]."""
    tensors = {n: p.detach().to(torch.bfloat16).cpu().contiguous() for n, p in head.named_parameters()}
    tensors["d2t"] = d2t.cpu() - torch.arange(len(d2t))
    return tensors


def export_head(folder, head, target_spec, d2t, acceptance=None, card=None):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(head_tensors(head, d2t), str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(head_config(head.spec, target_spec), indent=2) + "\n")
    if acceptance is not None:
        (folder / "acceptance.json").write_text(json.dumps(acceptance, indent=1) + "\n")
    if card is not None:
        (folder / "README.md").write_text(card)


def read_head(folder, device, dtype):
    """(Eagle3Head, d2t [C] int64 target ids) from an exported folder."""
    folder = Path(folder)
    c = json.loads((folder / "config.json").read_text())
    taps = tuple(i + 1 for i in c["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
    spec = HeadSpec(c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"],
                    c["intermediate_size"], c["vocab_size"], c["draft_vocab_size"], c["rms_norm_eps"], c["rope_theta"],
                    c["max_position_embeddings"], taps, c.get("fc_norm", False), c.get("norm_output", False))
    tensors = load_file(str(folder / "model.safetensors"))
    d2t = tensors.pop("d2t") + torch.arange(spec.draft_vocab)
    if int(d2t.min()) < 0 or int(d2t.max()) >= spec.vocab:
        raise SystemExit(f"{folder}: d2t reaches ids {int(d2t.min())}..{int(d2t.max())}; the vocabulary is 0..{spec.vocab - 1}")
    tensors.pop("t2d", None)
    head = Eagle3Head(spec, dtype)
    missing, extra = head.load_state_dict({k: v.float() for k, v in tensors.items()}, strict=False)
    if missing or extra:
        raise SystemExit(f"{folder}: tensors missing {missing[:4]}, unexpected {extra[:4]}")
    return head.to(device), d2t.to(device)


CARD = """---
license: apache-2.0
---
# EAGLE-{version} draft head for {target}

Made by `haast-train`, which writes its own data with the target: no data set was used.

| | |
|---|---|
| form | EAGLE-{version}, one layer, {params:.1f} M parameters, draft vocabulary {draft_vocab} of {vocab} |
| reads | the residual stream entering layers {taps} |
| trained on | {answer_tokens:.1f} M answer tokens in {sequences} conversations written by the target |
| schedule | {steps} steps, {unroll} unrolled, {optimizer} |
| answer tokens inside the draft vocabulary | {coverage:.2%} |
| evaluation prompts seen in training | none: {overlap} |

Tokens per target pass (tau, bonus included), chain of 5, on the target's own answers:

{table}

`T1` is temperature 1 with the coupled rule; loops are answers that repeat themselves (share of greedy answers: see
`acceptance.json`). Same command again: `{command}`
"""


def model_card(**values):
    return CARD.format(**values)


def acceptance_table(statistics, chain=5):
    names = list(dict.fromkeys(k.split("/")[0] for k in statistics))
    kinds = [k for k in ("T0", "T0-noloop", "T1") if f"{names[0]}/{k}" in statistics] if names else []
    lines = ["| set | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for n in names:
        lines.append(f"| {n} | " + " | ".join(f"{statistics[f'{n}/{k}'][f'tau_chain_{chain}']:.2f}" for k in kinds) + " |")
    return "\n".join(lines)
