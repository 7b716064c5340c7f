# SPDX-License-Identifier: Apache-2.0
"""The folder that engines load: config.json and model.safetensors, and its papers.

EAGLE-3 and 3.1: LlamaForCausalLMEagle3. EAGLE-1: a Llama config of one layer, as SafeAILab's; fc tells it from a model."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from .eagle1 import Eagle1Head
from .head import Eagle3Head, HeadSpec


def head_config(head, target):
    """config.json. Layer ids in eagle_config are layer *outputs* (SGLang's reading), hence tap - 1."""
    spec = head.spec
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
    if head.version == "1":
        for key in ("target_hidden_size", "draft_vocab_size", "num_aux_hidden_states", "eagle_config"):
            del config[key]
        return config | {"architectures": ["LlamaForCausalLM"], "bias": False}
    if spec.fc_norm:
        config["fc_norm"] = True
    if spec.norm_output:
        config["norm_output"] = True
    return config


def head_tensors(head, d2t):
    """Parameters in bfloat16 under their own names. EAGLE-3: d2t as offsets, target id = draft id + d2t[draft id]. EAGLE-1: the
    target's embeddings too, because SafeAILab's loader wants them in the file."""
    stored = lambda x: x.detach().to(torch.bfloat16).cpu().contiguous()
    tensors = {n: stored(p) for n, p in head.named_parameters()}
    if head.version == "1":
        return tensors | {"embed_tokens.weight": stored(head.target.embed)}
    return tensors | {"d2t": d2t.cpu() - torch.arange(len(d2t))}


def export_head(folder, head, target_spec, d2t, acceptance=None, card=None):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(head_tensors(head, d2t), str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(head_config(head, target_spec), indent=2) + "\n")
    if acceptance is not None:
        (folder / "acceptance.json").write_text(json.dumps(acceptance, indent=1) + "\n")
    if card is not None:
        (folder / "README.md").write_text(card)


def read_head(folder, device, dtype, target=None):
    """(head, d2t [C] int64 target ids) from an exported folder. target: for EAGLE-1, whose vocabulary matrix is the target's."""
    folder = Path(folder)
    c = json.loads((folder / "config.json").read_text())
    tensors = load_file(str(folder / "model.safetensors"))
    sizes = (c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], c["intermediate_size"],
             c["vocab_size"])
    rest = (c["rms_norm_eps"], c["rope_theta"], c["max_position_embeddings"])
    if "eagle_config" not in c:
        head = Eagle1Head(HeadSpec(*sizes, c["vocab_size"], *rest, (target.spec.layers + 1,), False, False), dtype, target)
        d2t = torch.arange(c["vocab_size"])
        tensors.pop("embed_tokens.weight", None)
    else:
        taps = tuple(i + 1 for i in c["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
        head = Eagle3Head(HeadSpec(*sizes, c["draft_vocab_size"], *rest, taps, c.get("fc_norm", False), c.get("norm_output", False)),
                          dtype)
        d2t = tensors.pop("d2t") + torch.arange(c["draft_vocab_size"])
        tensors.pop("t2d", None)
    if int(d2t.min()) < 0 or int(d2t.max()) >= c["vocab_size"]:
        raise SystemExit(f"{folder}: d2t reaches ids {int(d2t.min())}..{int(d2t.max())}; the vocabulary is 0..{c['vocab_size'] - 1}")
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
| reads | {reads} |
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
