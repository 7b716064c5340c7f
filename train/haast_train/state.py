# SPDX-License-Identifier: Apache-2.0
"""Training state on disk: a full checkpoint, and a compact one that travels in small files.

compact: parameters in bfloat16, optimiser moments in 8 bits with one scale for 256 values (second moments as their roots),
cut into files of at most PART bytes. Everything else (data, order of batches) follows from the seed.
"""

import os
from pathlib import Path

import torch
from safetensors.torch import load, save

PART = 15_000_000
BLOCK = 256


def save_checkpoint(path, state):
    """Written beside and renamed: a kill at any moment leaves the old or the new file."""
    temporary = Path(str(path) + ".tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)


def quantize(x):
    """float -> (int8 [n/256, 256], float32 scale [n/256]), padded with zeros."""
    flat = torch.nn.functional.pad(x.detach().float().flatten(), (0, -x.numel() % BLOCK)).view(-1, BLOCK)
    scale = flat.abs().amax(1) / 127
    return (flat / scale.clamp_min(1e-30)[:, None]).round().clamp(-127, 127).to(torch.int8), scale


def dequantize(q, scale, shape):
    n = 1
    for s in shape:
        n *= s
    return (q.float() * scale[:, None]).flatten()[:n].view(shape)


def pack(head, optimizers, step, progress, d2t, values=None):
    """One flat dict of tensors for safetensors. values: a head whose parameters are stored instead (the average)."""
    stored = (values or head).named_parameters()
    out = {f"head.{n}": p.detach().to(torch.bfloat16).cpu().contiguous() for n, p in stored}
    names = {id(p): n for n, p in head.named_parameters()}
    for o in optimizers:
        for p, values in o.state.items():
            for key, value in values.items():
                if not torch.is_tensor(value) or value.shape != p.shape:
                    continue
                root = key == "exp_avg_sq"
                q, scale = quantize(value.sqrt() if root else value)
                out[f"{key}.{names[id(p)]}"], out[f"{key}.scale.{names[id(p)]}"] = q.cpu(), scale.cpu()
    out["step"], out["progress"] = torch.tensor([step]), torch.tensor([progress], dtype=torch.float64)
    out["d2t"] = d2t.cpu()
    return out


@torch.no_grad()
def unpack(state, head, optimizers):
    """Restores parameters and moments. Returns (step, progress)."""
    step = int(state["step"])
    for n, p in head.named_parameters():
        p.copy_(state[f"head.{n}"].float())
    names = {id(p): n for n, p in head.named_parameters()}
    for o in optimizers:
        for group in o.param_groups:
            for p in group["params"]:
                n = names[id(p)]
                for key in ("momentum_buffer", "exp_avg", "exp_avg_sq"):
                    if f"{key}.{n}" not in state:
                        continue
                    value = dequantize(state[f"{key}.{n}"], state[f"{key}.scale.{n}"], p.shape).to(p.device)
                    o.state[p][key] = value.square() if key == "exp_avg_sq" else value
                    if key == "exp_avg":
                        o.state[p]["step"] = torch.tensor(float(step), device=p.device)
    return step, float(state["progress"])


def save_parts(folder, name, tensors):
    """safetensors bytes of `tensors` as name.00, name.01, ... of at most PART bytes, written beside and renamed together.

    Returns the paths."""
    data, paths = save(tensors), []
    Path(folder).mkdir(parents=True, exist_ok=True)
    for i in range(0, len(data), PART):
        paths.append(Path(folder) / f"{name}.{i // PART:02d}")
        paths[-1].with_suffix(paths[-1].suffix + ".tmp").write_bytes(data[i:i + PART])
    for path in paths:
        os.replace(path.with_suffix(path.suffix + ".tmp"), path)
    return paths


def load_parts(folder, name):
    paths = sorted(Path(folder).glob(f"{name}.[0-9][0-9]"))
    if not paths:
        raise SystemExit(f"{folder}: no {name}.00; expected the parts that --state wrote")
    return load(b"".join(p.read_bytes() for p in paths))
