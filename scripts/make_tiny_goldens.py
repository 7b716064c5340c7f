#!/usr/bin/env python3
"""Make tests/goldens/tiny_llama.json: what Hugging Face transformers computes for the tiny Llama variants of the tests.

    build/tests/write_tiny_cases DIR && python scripts/make_tiny_goldens.py DIR tests/goldens/tiny_llama.json

For each folder: fp32 logits (every 16th id) at positions 0, 99, 199 and 299 of the ids in ids.txt. Needs torch, transformers.
"""

import json
import sys
from pathlib import Path

import torch
import transformers

POSITIONS = [0, 99, 199, 299]
STRIDE = 16


def main() -> None:
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    goldens = {"versions": {"torch": torch.__version__, "transformers": transformers.__version__}, "stride": STRIDE, "positions": POSITIONS, "cases": {}}
    for folder in sorted(path for path in source.iterdir() if (path / "ids.txt").exists()):
        ids = [int(line) for line in (folder / "ids.txt").read_text().split()]
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, POSITIONS, ::STRIDE]
        goldens["cases"][folder.name] = [[round(value, 7) for value in row] for row in logits.tolist()]
        print(folder.name, tuple(logits.shape), "largest logit", logits.abs().max().item())
    out.write_text(json.dumps(goldens) + "\n")


if __name__ == "__main__":
    main()
