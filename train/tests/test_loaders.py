# SPDX-License-Identifier: Apache-2.0
"""An exported head against what the loaders of SGLang, vLLM and SafeAILab/EAGLE build from config.json alone.

Facts from sgl-project/sglang python/sglang/srt/models/llama_eagle3.py and vllm-project/vllm
vllm/model_executor/models/llama_eagle3.py: q, k, v and gate, up are stacked; `d2t` holds offsets; `t2d` is skipped; names get the
prefix `model.` where needed; vLLM calls the layer `layers.0`; embeddings come from the target. EAGLE-1:
vllm/model_executor/models/llama_eagle.py builds fc without a bias and knows no other name; SafeAILab's eagle/model/cnets1.py loads
strictly, embeddings included, and builds the bias unless config.json says `"bias": false`.
"""

import json

import pytest
import torch
from safetensors.torch import load_file

from haast_train import export
from test_head import make

STACKED = {"q_proj": ("qkv_proj", 0), "k_proj": ("qkv_proj", 1), "v_proj": ("qkv_proj", 2),
           "gate_proj": ("gate_up_proj", 0), "up_proj": ("gate_up_proj", 1)}


def expected_parameters(c, layer):
    """{name: [shapes of the parts]} of the draft model that an engine allocates."""
    H, D, F = c["hidden_size"], c["head_dim"], c["intermediate_size"]
    q, kv = c["num_attention_heads"] * D, c["num_key_value_heads"] * D
    p = f"model.{layer}."
    want = {"model.fc.weight": [(H, c["num_aux_hidden_states"] * c["target_hidden_size"])], "model.norm.weight": [(H,)],
            "lm_head.weight": [(c["draft_vocab_size"], H)], p + "self_attn.qkv_proj.weight": [(q, 2 * H), (kv, 2 * H), (kv, 2 * H)],
            p + "self_attn.o_proj.weight": [(H, q)], p + "mlp.gate_up_proj.weight": [(F, H), (F, H)],
            p + "mlp.down_proj.weight": [(H, F)]}
    for n in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        want[p + n + ".weight"] = [(H,)]
    for i in range(c["num_aux_hidden_states"] if c.get("fc_norm") else 0):
        want[f"model.fc_norm.{i}.weight"] = [(H,)]
    return want


@pytest.mark.parametrize("version", ["3", "3.1"])
@pytest.mark.parametrize("layer", ["midlayer", "layers.0"])
def test_every_tensor_finds_its_parameter(target, tmp_path, version, layer):
    head, d2t = make(target, version)
    export.export_head(tmp_path, head, target.spec, d2t)
    config, tensors = json.loads((tmp_path / "config.json").read_text()), load_file(str(tmp_path / "model.safetensors"))
    want = expected_parameters(config, layer)
    filled = {name: [None] * len(parts) for name, parts in want.items()}
    offsets = tensors.pop("d2t")
    for name, x in tensors.items():
        name, part = name.replace("midlayer", layer), 0
        for short, (stacked, index) in STACKED.items():
            if f".{short}." in name:
                name, part = name.replace(short, stacked), index
        filled[name if name in want else f"model.{name}"][part] = tuple(x.shape)
    assert filled == want
    assert offsets.dtype == torch.int64 and torch.equal(offsets + torch.arange(len(offsets)), d2t)
    assert config["architectures"] == ["LlamaForCausalLMEagle3"] and config["num_hidden_layers"] == 1


def test_every_tensor_of_an_eagle1_head_finds_its_parameter(target, tmp_path):
    head, d2t = make(target, "1")
    export.export_head(tmp_path, head, target.spec, d2t)
    c, tensors = json.loads((tmp_path / "config.json").read_text()), load_file(str(tmp_path / "model.safetensors"))
    H, D, F = c["hidden_size"], c["head_dim"], c["intermediate_size"]
    q, kv = c["num_attention_heads"] * D, c["num_key_value_heads"] * D
    want = {"embed_tokens.weight": (c["vocab_size"], H), "fc.weight": (H, 2 * H), "layers.0.post_attention_layernorm.weight": (H,),
            "layers.0.self_attn.q_proj.weight": (q, H), "layers.0.self_attn.k_proj.weight": (kv, H),
            "layers.0.self_attn.v_proj.weight": (kv, H), "layers.0.self_attn.o_proj.weight": (H, q),
            "layers.0.mlp.gate_proj.weight": (F, H), "layers.0.mlp.up_proj.weight": (F, H), "layers.0.mlp.down_proj.weight": (H, F)}
    assert {n: tuple(x.shape) for n, x in tensors.items()} == want
    assert c["architectures"] == ["LlamaForCausalLM"] and c["num_hidden_layers"] == 1 and c["bias"] is False
    assert "draft_vocab_size" not in c and "eagle_config" not in c  # these would make it an EAGLE-3 head


def test_layer_ids_are_outputs(target):
    """SGLang adds one to eagle_config's ids; the list is not exported at the top level, where others read it as entered layers."""
    head, _ = make(target)
    config = export.head_config(head, target.spec)
    assert [i + 1 for i in config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]] == list(head.spec.taps)
    assert "eagle_aux_hidden_state_layer_ids" not in config
