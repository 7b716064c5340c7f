# SPDX-License-Identifier: Apache-2.0
"""Curves of loss and of the hit share of each unrolled step (needs matplotlib)."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402


def plot_log(log, image):
    if not Path(log).exists():
        return
    rows = [json.loads(line) for line in Path(log).read_text().splitlines()]
    steps = [r["step"] for r in rows]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    left.plot(steps, [r["loss"] for r in rows])
    left.set(title="loss", xlabel="step")
    for j in range(len(rows[0]["hits"])):
        right.plot(steps, [r["hits"][j] for r in rows], label=f"step {j}")
    right.set(title="draft = target's argmax", xlabel="step")
    right.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(image, dpi=110)
    plt.close(figure)
