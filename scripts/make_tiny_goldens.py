#!/usr/bin/env python3
"""Make tests/goldens/tiny_llama.json: what Hugging Face transformers computes for the tiny Llama variants of the tests.

    build/tests/write_tiny_cases DIR && python scripts/make_tiny_goldens.py DIR tests/goldens/tiny_llama.json

For each folder: fp32 logits (every 16th id) at positions 0, 99, 199 and 299 of the ids in ids.txt; and draft logits of an EAGLE-1
head. Needs torch, transformers.
"""

import json
import sys
from pathlib import Path

import torch
import transformers

POSITIONS = [0, 99, 199, 299]
STRIDE = 16


def eagle1(source: Path, target) -> dict:
    """Draft logits of the EAGLE-1 head: over all pairs (feature of token p, id of token p + 1), then one step on its own output."""
    from safetensors.torch import load_file
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    ids = [int(line) for line in (source / "untied_gqa" / "ids.txt").read_text().split()]
    weights = load_file(source / "eagle1_head" / "model.safetensors")
    config = target.config
    config._attn_implementation = "eager"
    layers = []
    for i in range(2):
        layer = LlamaDecoderLayer(config, i)
        state = {k.removeprefix(f"layers.{i}."): v for k, v in weights.items() if k.startswith(f"layers.{i}.")}
        if i == 0:
            layer.input_layernorm = torch.nn.Identity()
        layer.load_state_dict(state)
        layers.append(layer.float())
    rope = LlamaRotaryEmbedding(config)

    def run(features, next_ids):
        embedded = target.model.embed_tokens(torch.tensor(next_ids))[None]
        x = torch.nn.functional.linear(torch.cat([embedded, features[None]], -1), weights["fc.weight"], weights["fc.bias"])
        n = x.shape[1]
        mask = torch.full((n, n), float("-inf")).triu(1)[None, None]
        position = torch.arange(n)[None]
        for layer in layers:
            out = layer(x, attention_mask=mask, position_ids=position, position_embeddings=rope(x, position))
            x = out[0] if isinstance(out, tuple) else out
        return x[0]

    with torch.no_grad():
        features = target.model(torch.tensor([ids])).last_hidden_state[0]
        first = run(features[:-1], ids[1:])
        again = run(torch.cat([features[:-1], first[-1:]]), ids[1:] + [5])
        rows = torch.cat([first[[0, 99, 199, 298]], again[-1:]])
        return [[round(value, 7) for value in row] for row in target.lm_head(rows)[:, ::STRIDE].tolist()]


def main() -> None:
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    goldens = {"versions": {"torch": torch.__version__, "transformers": transformers.__version__}, "stride": STRIDE, "positions": POSITIONS, "cases": {}}
    for folder in sorted(path for path in source.iterdir() if (path / "ids.txt").exists()):
        ids = [int(line) for line in (folder / "ids.txt").read_text().split()]
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, POSITIONS, ::STRIDE]
        goldens["cases"][folder.name] = [[round(value, 7) for value in row] for row in logits.tolist()]
        if folder.name == "untied_gqa":
            goldens["eagle1"] = eagle1(source, model)
        print(folder.name, tuple(logits.shape), "largest logit", logits.abs().max().item())
    out.write_text(json.dumps(goldens) + "\n")


if __name__ == "__main__":
    main()
