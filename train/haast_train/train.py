# SPDX-License-Identifier: Apache-2.0
"""The training loop: batches of one rank's corpus, training-time test, schedule, checkpoints, progress."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from .data import batches, pad
from .loss import Supervision, unrolled_loss
from .optim import Average, FlatGradients, learning_rate, make_optimizers
from .state import pack, save_checkpoint, save_parts, unpack


SPARE_MEMORY = 22e9  # bytes of GPU memory that the feature cache leaves to the training step


@dataclass
class TrainOptions:
    steps: int | None = None       # either a number of steps ...
    minutes: float | None = None   # ... or a time budget: the schedule then follows the clock
    unroll: int = 7
    step_decay: float = 0.8        # weight of unrolled step j: step_decay ** j
    optimizer: str = "muon"
    lr: float = 8e-4
    warmup: int = 50
    clip: float = 0.5
    ema: float = 0.998
    batch_tokens: int = 32768      # per process
    target_temperature: float = 1.0
    acceptance_weight: float = 0.0
    acceptance_from: float = 0.7   # progress from which the acceptance loss is mixed in
    per_token_loss: bool = False
    cache_gb: float = 0.0          # GPU memory for features kept between epochs
    seed: int = 1
    checkpoint_every: int = 500


class FeatureCache:
    """What the target says about each batch, kept while memory lasts and computed again otherwise."""

    def __init__(self, target, head, corpus, groups, t2d, options, features=None):
        """features: HaastFeatures of the corpus instead of the target's own forward pass."""
        self.features = features
        self.target, self.taps, self.corpus, self.groups, self.t2d = target, head.spec.taps, corpus, groups, t2d
        self.unroll, self.room, self.kept = options.unroll, options.cache_gb * 1e9, {}
        if target.device.type == "cuda":
            unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
            self.room = min(self.room, torch.cuda.mem_get_info()[0] + unused - SPARE_MEMORY)

    def get(self, b):
        """ids [B, S], taps [B, S, T*H], Supervision."""
        if b in self.kept:
            return self.kept[b]
        index = self.groups[b]
        ids, mask = pad([self.corpus.ids[i] for i in index], [self.corpus.masks[i] for i in index], self.target.device)
        hidden, taps = self._read(index, ids)
        entry = ids, taps, Supervision(self.target, hidden, mask, self.t2d, self.unroll)
        size = taps.nbytes + entry[2].hidden.nbytes + sum(x.nbytes for s in entry[2].steps for x in s)
        if size < self.room:
            self.room -= size
            self.kept[b] = entry
        return entry


    def _read(self, index, ids):
        if self.features is None:
            return self.target.forward(ids, self.taps)
        return self.features.batch(index, ids.shape[1], self.target.device, self.target.dtype)


class Trainer:
    def __init__(self, head, target, corpus, d2t, options, folder, log, rank=0, state_folder=None, features=None):
        self.head, self.target, self.options, self.d2t, self.rank, self.log = head, target, options, d2t, rank, log
        self.folder, self.state_folder = Path(folder), state_folder
        self.embedding = head.input_embedding(target)
        self.lm_rows = target.lm_head[d2t].contiguous()
        t2d = torch.full((target.spec.vocab,), -1, dtype=torch.long, device=target.device)
        t2d[d2t] = torch.arange(len(d2t), device=target.device)
        self.groups = batches([len(i) for i in corpus.ids], options.batch_tokens)
        self.cache = FeatureCache(target, head, corpus, self.groups, t2d, options, features)
        copy = head.empty_copy().to(target.device)
        copy.load_state_dict(head.state_dict())
        self.average = Average(head, copy, options.ema)
        self.gradients = FlatGradients(head.parameters())
        self.optimizers = make_optimizers(head, options.optimizer, options.lr)
        self.step, self.start_progress, self.tokens = 0, 0.0, 0
        self.checkpoint = self.folder / "checkpoint.pt"

    # -------------------------------------------------------- state
    def save(self, progress):
        if self.rank:
            return
        if self.state_folder:
            save_parts(self.state_folder, "state", pack(self.head, self.optimizers, self.step, progress, self.d2t,
                                                        self.average.copy))
        save_checkpoint(self.checkpoint, {
            "head": self.head.state_dict(), "average": self.average.copy.state_dict(), "step": self.step,
            "optimizers": [o.state_dict() for o in self.optimizers], "progress": progress, "tokens": self.tokens,
            "options": asdict(self.options), "d2t": self.d2t})

    def resume(self):
        """Loads the last checkpoint, if any."""
        if not self.checkpoint.exists():
            return False
        s = torch.load(self.checkpoint, map_location=self.target.device, weights_only=True)
        self.head.load_state_dict(s["head"])
        self.average.copy.load_state_dict(s["average"])
        for o, state in zip(self.optimizers, s["optimizers"]):
            o.load_state_dict(state)
        self.step, self.start_progress, self.tokens = s["step"], s["progress"], s["tokens"]
        self.log(f"resumed at step {self.step}, {self.start_progress:.1%} of the schedule")
        return True

    def restore(self, state):
        """Goes on from a compact state (state.pack): an unfinished schedule where it was, a finished one from its beginning."""
        self.step, progress = unpack(state, self.head, self.optimizers)
        self.average.copy.load_state_dict(self.head.state_dict())
        self.start_progress = progress if progress < 1 else 0.0
        self.log(f"state of step {self.step} read, {progress:.1%} of its schedule done")

    # -------------------------------------------------------- loop
    def _batch(self, step):
        """The batch of a step: a permutation per epoch, a pure function of (seed, rank, step)."""
        epoch, at = divmod(step, len(self.groups))
        if getattr(self, "_epoch", None) != epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self.options.seed, self.rank, epoch]).permutation(len(self.groups))
        return int(self._order[at])

    def _progress(self, began):
        """Share of the schedule that is done; the same number on every process."""
        o = self.options
        if o.steps is not None:
            return self.step / o.steps
        share = (time.time() - began) / (60 * o.minutes)
        value = torch.tensor([self.start_progress + share], device=self.target.device)
        if dist.is_initialized():
            dist.broadcast(value, 0)
        return float(value)

    def train_step(self, lr, mix):
        o = self.options
        ids, taps, supervision = self.cache.get(self._batch(self.step))
        p = supervision.distributions(self.lm_rows, o.target_temperature)
        loss, shares = unrolled_loss(self.head, self.embedding, taps, ids, supervision, p, o.step_decay, mix, o.per_token_loss)
        loss.backward()
        norm = self.gradients.reduce_and_clip(o.clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr
            optimizer.step()
        self.gradients.zero()
        self.average.update(self.step)
        self.tokens += ids.numel()
        return loss.detach(), shares, norm

    def run(self, report_every=50, on_report=None, halt_at=None):
        """Trains to the end of the schedule (or to step `halt_at`). Returns the averaged head."""
        o, began, first = self.options, time.time(), self.step
        progress = self._progress(began)
        while progress < 1 and self.step != halt_at:
            mix = o.acceptance_weight if progress >= o.acceptance_from else 0.0
            lr = learning_rate(o.lr, self.step, progress, o.warmup)
            loss, shares, norm = self.train_step(lr, mix)
            if self.step % report_every == 0:
                self._report(loss, shares, norm, lr, progress, began, first, on_report)
            self.step += 1
            if o.steps is not None or self.step % 10 == 0:
                progress = self._progress(began)
            if self.step % o.checkpoint_every == 0:
                self.save(progress)
        self.save(progress)
        return self.average.copy

    def _report(self, loss, shares, norm, lr, progress, began, first, on_report):
        spent = time.time() - began
        done = progress - self.start_progress
        eta = f"{spent * (1 - progress) / done:.0f} s" if done > 0.005 else "unknown yet"
        row = {"step": self.step, "epoch": round(self.step / len(self.groups), 2), "loss": round(float(loss), 4),
               "hits": [round(float(h) / max(n, 1), 4) for h, n in shares], "gradient_norm": round(float(norm), 3), "lr": lr,
               "seconds": round(spent, 1), "progress": round(progress, 4)}
        rate = spent / max(self.step - first, 1)
        self.log(f"step {self.step} epoch {row['epoch']} loss {row['loss']:.4f} hits "
                 f"{' '.join(f'{h:.3f}' for h in row['hits'])} lr {lr:.2e} {rate:.3f} s/step, eta {eta}")
        if self.rank == 0:
            with open(self.folder / "train_log.jsonl", "a") as f:
                f.write(json.dumps(row) + "\n")
        if on_report:
            on_report(row)
