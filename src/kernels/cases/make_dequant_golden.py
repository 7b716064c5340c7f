#!/usr/bin/env python3
"""Writes dequant_golden.inc: blocks of every quantised format with the floats that the `gguf` package reads from them, and rows of
floats with the blocks that it writes. Run: pip install gguf==0.19.0 numpy && python3 make_dequant_golden.py > dequant_golden.inc"""
import numpy as np
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

BLOCK_BYTES = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34, "Q4_K": 144, "Q5_K": 176, "Q6_K": 210}
SCALE_OFFSETS = {"Q4_0": [0], "Q4_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def array(name, ctype, values, per_line):
    print(f"constexpr {ctype} {name}[] = {{")
    for i in range(0, len(values), per_line):
        print("    " + ", ".join(values[i : i + per_line]) + ",")
    print("};")


def bits(floats):
    return [f"0x{int(x):08x}" for x in np.ascontiguousarray(floats, dtype=np.float32).view(np.uint32).reshape(-1)]


def data(raw):
    return [str(int(x)) for x in np.asarray(raw, dtype=np.uint8).reshape(-1)]


rng = np.random.default_rng(20261130)
print("// Written by make_dequant_golden.py with the gguf package; floats as bits.")
for name, size in BLOCK_BYTES.items():
    blocks = 1 if size > 100 else 2
    raw = rng.integers(0, 256, size=(blocks, size), dtype=np.uint8)
    for block in range(blocks):
        for offset in SCALE_OFFSETS[name]:
            raw[block, offset : offset + 2] = np.array([rng.uniform(-0.2, 0.2)], dtype=np.float16).view(np.uint8)
    array(f"kBlocks{name}", "uint8_t", data(raw), 32)
    array(f"kFloats{name}", "uint32_t", bits(dequantize(raw, Type[name])), 10)

row = rng.normal(size=(1, 96)).astype(np.float32)
row[0, 32:64] = 0.0  # a block without a scale
array("kRow", "uint32_t", bits(row), 10)
for name in ("Q4_0", "Q4_1", "Q8_0"):
    array(f"kRounded{name}", "uint8_t", data(quantize(row, Type[name])), 32)
