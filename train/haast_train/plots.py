# SPDX-License-Identifier: Apache-2.0
"""Pictures of a run: loss and hits over the steps, acceptance by chain and by position (needs matplotlib)."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402


def _two_panels(image, draw):
    figure, panels = plt.subplots(1, 2, figsize=(11, 4))
    draw(*panels)
    figure.tight_layout()
    figure.savefig(image, dpi=110)
    plt.close(figure)


def plot_training(log, image):
    """log: train_log.jsonl. A resumed run repeats the steps after its checkpoint: the later row of a step counts."""
    rows = {r["step"]: r for r in map(json.loads, Path(log).read_text().splitlines())}
    steps = sorted(rows)

    def draw(left, right):
        left.plot(steps, [rows[s]["loss"] for s in steps])
        left.set(title="loss", xlabel="step")
        for j in range(len(rows[steps[0]]["hits"])):
            right.plot(steps, [rows[s]["hits"][j] for s in steps], label=f"unrolled step {j}")
        right.set(title="head's maximum = target's, on training batches", xlabel="step")
        right.legend(fontsize=7)

    _two_panels(image, draw)


def plot_acceptance(statistics, image):
    """statistics: {set/kind: ...} as in acceptance.json."""

    def draw(left, right):
        for name, s in statistics.items():
            style = "-" if name.endswith("/T0") else ":" if name.endswith("T0-noloop") else "--"
            chains = sorted(int(k.removeprefix("tau_chain_")) for k in s if k.startswith("tau_chain_"))
            left.plot(chains, [s[f"tau_chain_{k}"] for k in chains], style, label=name)
            right.plot(range(1, len(s["position_acceptance"]) + 1), s["position_acceptance"], style, label=name)
        left.set(title="tokens per target pass", xlabel="chain length")
        right.set(title="share of rounds whose draft i was accepted", xlabel="i")
        left.legend(fontsize=6)

    _two_panels(image, draw)
