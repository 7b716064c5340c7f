# SPDX-License-Identifier: Apache-2.0
"""Optimiser, schedule, gradient buffer and weight average of a head."""

import math

import torch
import torch.distributed as dist


def make_optimizers(head, name, lr):
    """adamw: all parameters. muon: the layer's matrices and fc by Muon, with updates scaled to AdamW's; the rest by AdamW."""
    adam = dict(lr=lr, betas=(0.9, 0.95), weight_decay=0.0, fused=next(head.parameters()).is_cuda)
    if name == "adamw":
        return [torch.optim.AdamW(head.parameters(), **adam)]
    if name != "muon":
        raise SystemExit(f"--optimizer {name}: expected adamw or muon")
    named = dict(head.named_parameters())
    matrices = [n for n, p in named.items() if p.ndim == 2 and n != "lm_head.weight"]
    muon = torch.optim.Muon([named[n] for n in matrices], lr=lr, weight_decay=0.0, momentum=0.95, nesterov=True,
                            adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW([p for n, p in named.items() if n not in matrices], **adam)]


def learning_rate(peak, step, progress, warmup, floor=0.01):
    """Linear warm-up over steps, then cosine over progress 0..1 down to floor * peak."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(max(progress, 0.0), 1.0)))
    return peak * min(1.0, (step + 1) / max(warmup, 1)) * (cosine * (1 - floor) + floor)


class FlatGradients:
    """All gradients as views of one buffer: one reduction over processes, one norm."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.flat = torch.zeros(sum(p.numel() for p in self.parameters), device=self.parameters[0].device)
        at = 0
        for p in self.parameters:
            p.grad = self.flat[at:at + p.numel()].view_as(p)
            at += p.numel()

    def reduce_and_clip(self, limit):
        """Mean over processes, then scaled to norm <= limit. Returns the norm before (a tensor)."""
        if dist.is_initialized():
            dist.all_reduce(self.flat)
            self.flat /= dist.get_world_size()
        norm = self.flat.norm()
        self.flat *= (limit / (norm + 1e-6)).clamp(max=1.0)
        return norm

    def zero(self):
        self.flat.zero_()


class Average:
    """Exponential moving average of a head's parameters, held by a second head."""

    def __init__(self, head, copy, decay):
        self.decay, self.source, self.copy = decay, list(head.parameters()), copy
        self.values = list(copy.parameters())
        for p in self.values:
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, step):
        weight = 1 - min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.values, [p.detach() for p in self.source], weight)
