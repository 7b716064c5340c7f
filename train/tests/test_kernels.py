# SPDX-License-Identifier: Apache-2.0
"""Every Triton kernel against its definition: on a GPU where there is one, else in Triton's interpreter (its own process)."""

import os
import sys

import pytest
import torch

from haast_train import kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALF = torch.bfloat16 if DEVICE == "cuda" else torch.float32


def both(monkeypatch, f):
    """(kernel's result, definition's result)"""
    monkeypatch.setattr(kernels, "use_triton", lambda x: True)
    a = f()
    monkeypatch.setattr(kernels, "use_triton", lambda x: False)
    return a, f()


@pytest.fixture(autouse=True)
def need_triton():
    if kernels.triton is None or (DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1"):
        pytest.skip("runs on a GPU, or under TRITON_INTERPRET=1 (see test_interpreter)")


def test_sample(monkeypatch):
    g = torch.Generator().manual_seed(1)
    z = torch.randn(6, 300, generator=g).to(DEVICE) * 3
    warm = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.7, 2.0], device=DEVICE)
    key = torch.tensor([1, 2, 3, 4294967295, 5, 6], device=DEVICE)
    place = torch.arange(6, device=DEVICE) * 511
    ids = torch.arange(300, device=DEVICE) * 163
    for tokens in (None, ids):
        a, b = both(monkeypatch, lambda: kernels.sample(z, warm, key, place, tokens))
        assert a.tolist() == b.tolist()


def test_decode(monkeypatch):
    R, hq, hkv, D, T = 5, 9, 3, 16, 150
    g = torch.Generator().manual_seed(2)
    r = lambda *s: torch.randn(*s, generator=g).to(DEVICE, HALF)
    qkv, last = r(R, (hq + 2 * hkv) * D), torch.tensor([0, 63, 64, 149, 17], device=DEVICE)
    cos, sin = torch.rand(R, D // 2, generator=g).to(DEVICE), torch.rand(R, D // 2, generator=g).to(DEVICE)
    k, v = r(R, hkv, T, D), r(R, hkv, T, D)

    def go():
        kc, vc = k.clone(), v.clone()
        q = kernels.rope_and_store(qkv, cos, sin, kc, vc, last, hq)
        return q, kc, vc, kernels.decode_attention(q, kc, vc, last)

    a, b = both(monkeypatch, go)
    for x, y in zip(a, b):
        torch.testing.assert_close(x, y, atol=2e-2 if HALF == torch.bfloat16 else 1e-5, rtol=1e-2)


@pytest.mark.parametrize("mix", [0.0, 0.3])
def test_soft_cross_entropy(monkeypatch, mix):
    g = torch.Generator().manual_seed(3)
    z = (torch.randn(7, 5000, generator=g) * 2).to(DEVICE, HALF)
    p = torch.softmax(torch.randn(4, 5000, generator=g) * 3, -1).to(DEVICE, HALF)
    row, weight = torch.tensor([0, 1, 2, 3, 0, 1, 2], device=DEVICE), torch.rand(7, generator=g).to(DEVICE)
    z[0, p[0].float().argmax()] = 20

    def go():
        zz = z.clone()
        return (*kernels.soft_cross_entropy_(zz, p, row, weight, mix), zz)

    a, b = both(monkeypatch, go)
    for x, y in zip(a, b):
        torch.testing.assert_close(x, y, atol=1e-5, rtol=2e-2 if HALF == torch.bfloat16 else 1e-3)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q"]))
