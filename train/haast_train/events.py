# SPDX-License-Identifier: Apache-2.0
"""TensorBoard events of a run (needs tensorboard)."""

from torch.utils.tensorboard import SummaryWriter


class Events:
    """Loss, hits, gradient norm and rate of each reported step, acceptance at the end."""

    def __init__(self, folder):
        self.writer = SummaryWriter(str(folder))

    def step(self, row):
        """row: a line of train_log.jsonl."""
        for name in ("loss", "lr", "gradient_norm"):
            self.writer.add_scalar(name, row[name], row["step"])
        for j, share in enumerate(row["hits"]):
            self.writer.add_scalar(f"hits/unrolled_step_{j}", share, row["step"])

    def acceptance(self, statistics, step):
        for name, s in statistics.items():
            for key, value in s.items():
                if key.startswith("tau_chain_"):
                    self.writer.add_scalar(f"{key}/{name}", value, step)
        self.writer.close()
