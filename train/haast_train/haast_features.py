# SPDX-License-Identifier: Apache-2.0
"""Features from haast's own forward pass (`haast features`): a head learns from what a quantised target hands it when it is served."""

import copy
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open


def find_binary(path):
    """The program that --haast-binary names, or `haast` of PATH."""
    found = shutil.which(path or "haast")
    if not found:
        raise SystemExit(f"--features haast: no program {path or 'haast on PATH'}; build haast and give --haast-binary PATH")
    return str(Path(found).resolve())


def write_ids(path, sequences):
    """{"token_ids": [..]} lines, written beside and renamed."""
    temporary = Path(str(path) + ".tmp")
    with open(temporary, "w") as f:
        for ids in sequences:
            f.write('{"token_ids": ' + json.dumps(np.asarray(ids).tolist()) + "}\n")
    temporary.replace(path)


def pieces(folder):
    """The files that are there, in their order."""
    return sorted(Path(folder).glob("features-*.safetensors"))


def write_features(binary, target, sequences, taps, folder, dtype, log, every=30.0):
    """Runs `haast features` on `sequences`; what an earlier call wrote to `folder` is kept. dtype: "bf16" or "f32"."""
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    ids = folder.with_name(folder.name + ".jsonl")
    write_ids(ids, sequences)
    threads = max(1, len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
    command = [binary, "features", str(ids), str(folder), "--model", str(target), "--layers", ",".join(map(str, taps)),
               "--dtype", dtype, "--threads", str(threads), "--json"]
    began = time.time()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        while True:
            try:
                out, errors = run.communicate(timeout=every)
                break
            except subprocess.TimeoutExpired:
                log(_progress(folder, began))
    if run.returncode:
        raise SystemExit(f"--features haast: exit code {run.returncode} of {' '.join(command)}\n{errors.strip()}")
    ids.unlink()
    report = json.loads(out)
    log(f"features of haast: {report['tokens']} tokens, {report['pieces_kept']} of {report['pieces']} files were there, "
        f"{report['computed_tokens'] / max(report['seconds'], 1e-9):.0f} tokens/s")


def _progress(folder, began):
    made = sum(p.stat().st_mtime >= began for p in pieces(folder))
    there = len(pieces(folder))
    manifest = folder / "features.json"
    if not manifest.exists() or not made:
        return "features of haast: begun"
    total = json.loads(manifest.read_text())["pieces"]
    return f"features of haast: {there} of {total} files, eta {(time.time() - began) / made * (total - there):.0f} s"


class HaastFeatures:
    """The features of the sequences of one corpus, read from the files of `haast features` when a batch asks for them."""

    def __init__(self, folder, sequences):
        manifest = json.loads((Path(folder) / "features.json").read_text())
        self.files = [safe_open(str(p), "pt") for p in pieces(folder)]
        if len(self.files) != manifest["pieces"]:
            raise SystemExit(f"{folder}: {len(self.files)} of {manifest['pieces']} files are there; run the same command again")
        self.where = []  # of each sequence: file, first row, row after its last
        for number, f in enumerate(self.files):
            offsets, ids = f.get_tensor("offsets").tolist(), f.get_tensor("token_ids").numpy()
            for begin, end in zip(offsets, offsets[1:]):
                i = len(self.where)
                if i >= len(sequences) or not np.array_equal(ids[begin:end], sequences[i]):
                    raise SystemExit(f"{folder}: sequence {i} is not that of the corpus; remove the folder")
                self.where.append((number, begin, end))
        if len(self.where) != len(sequences):
            raise SystemExit(f"{folder}: {len(self.where)} sequences, the corpus has {len(sequences)}; remove the folder")

    def part(self, index):
        """Those of some of the sequences."""
        some = copy.copy(self)
        some.where = [self.where[i] for i in index]
        return some

    def batch(self, index, length, device, dtype):
        """What Target.forward gives for these sequences, right-padded with zeros: hidden [B, length, H], taps [B, length, T*H]."""
        return tuple(self._padded(name, index, length).to(device, dtype) for name in ("hidden", "taps"))

    def _padded(self, name, index, length):
        out = None
        for row, i in enumerate(index):
            number, begin, end = self.where[i]
            part = self.files[number].get_slice(name)[begin:end]
            if out is None:
                out = torch.zeros(len(index), length, part.shape[1], dtype=part.dtype)
            out[row, :end - begin] = part
        return out
