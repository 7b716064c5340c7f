# SPDX-License-Identifier: Apache-2.0
"""--features haast. Tests that run haast take build/haast of this tree, or the program that $HAAST_BINARY names."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import tiny
from haast_train import cli, data, evaluate, haast_features
from haast_train.target import load_target
from test_run import command

CPU = torch.device("cpu")


@pytest.fixture(scope="session")
def haast():
    path = Path(os.environ.get("HAAST_BINARY", Path(__file__).parents[2] / "build" / "haast"))
    if not path.exists():
        pytest.skip("haast is not built: give HAAST_BINARY")
    return path


def sequences(*lengths):
    rng = np.random.default_rng(5)
    return [rng.integers(2, tiny.V, n).astype(np.int32) for n in lengths]


def write_pieces(folder, groups, pieces=None):
    """Files as haast writes them, whose features are the row's number."""
    folder.mkdir()
    (folder / "features.json").write_text(json.dumps({"pieces": pieces or len(groups)}))
    row = 0
    for i, group in enumerate(groups):
        ids = torch.from_numpy(np.concatenate(group))
        values = torch.arange(row, row + len(ids), dtype=torch.bfloat16)[:, None]
        row += len(ids)
        save_file({"offsets": torch.tensor(np.cumsum([0] + [len(s) for s in group])), "token_ids": ids,
                   "taps": values.repeat(1, 6), "hidden": values.repeat(1, 2)}, str(folder / f"features-{i:05}.safetensors"))


def test_sequences_are_found_in_their_files_and_padded(tmp_path):
    s = sequences(3, 5, 2, 4)
    write_pieces(tmp_path / "f", [s[:2], s[2:3], s[3:]])
    hidden, taps = haast_features.HaastFeatures(tmp_path / "f", s).batch(np.array([3, 0]), 6, CPU, torch.float32)
    assert hidden.shape == (2, 6, 2) and taps.shape == (2, 6, 6) and taps.dtype == torch.float32
    assert hidden[:, :, 0].tolist() == [[10, 11, 12, 13, 0, 0], [0, 1, 2, 0, 0, 0]] == taps[:, :, 5].tolist()


def test_features_of_other_sequences_are_refused(tmp_path):
    s = sequences(3, 5)
    write_pieces(tmp_path / "f", [s])
    for other, message in ((s[::-1], "sequence 0 is not that of the corpus"), (s[:1], "sequence 1 is not"),
                           (s + s, "2 sequences, the corpus has 4")):
        with pytest.raises(SystemExit, match=message):
            haast_features.HaastFeatures(tmp_path / "f", other)
    write_pieces(tmp_path / "g", [s], pieces=2)
    with pytest.raises(SystemExit, match="1 of 2 files are there"):
        haast_features.HaastFeatures(tmp_path / "g", s)


def test_a_missing_program_is_said_before_anything_is_done(hf_folder, tmp_path):
    with pytest.raises(SystemExit, match="no program .*none; build haast and give --haast-binary"):
        cli.main(command(hf_folder, tmp_path, "--features", "haast", "--haast-binary", tmp_path / "none"))
    assert not (tmp_path / "work" / "log-0.txt").exists()


def relative_error(a, b):
    return float((a - b).norm() / b.norm())


def errors(haast, model, s, folder):
    """Relative errors of haast's (hidden, taps) against torch's."""
    haast_features.write_features(str(haast), model, s, (2, 3, 4), folder, "f32", print)
    hidden, taps = haast_features.HaastFeatures(folder, s).batch(range(len(s)), 128, CPU, torch.float32)
    target, found = load_target(model, CPU), []
    for i, ids in enumerate(s):
        want = target.forward(torch.from_numpy(ids).long()[None], (2, 3, 4))
        found += [relative_error(got[i, :len(ids)], expected[0]) for got, expected in zip((hidden, taps), want)]
    return found


def test_haasts_features_are_those_of_the_target(haast, gguf_file, tmp_path):
    """The same on float weights but for keys and values in half precision; with activations in 8 bits near, and not torch's."""
    s = sequences(9, 70, 33)
    assert max(errors(haast, tiny.write_gguf(tmp_path / "f32.gguf", quantize=False), s, tmp_path / "f")) < 0.01
    rounded = errors(haast, gguf_file, s, tmp_path / "g")
    assert 0.01 < max(rounded) and max(rounded) < 0.2


def test_what_was_written_is_kept(haast, gguf_file, tmp_path):
    write = lambda: haast_features.write_features(str(haast), gguf_file, sequences(9, 70), (1,), tmp_path / "f", "bf16", print)
    write()
    before = {p: p.stat().st_mtime_ns for p in haast_features.pieces(tmp_path / "f")}
    write()
    assert before == {p: p.stat().st_mtime_ns for p in haast_features.pieces(tmp_path / "f")}
    assert load_file(str(next(iter(before))))["taps"].dtype == torch.bfloat16


def test_haasts_refusal_is_shown(haast, gguf_file, tmp_path):
    with pytest.raises(SystemExit, match="(?s)exit code 3 of .*got 9999"):
        haast_features.write_features(str(haast), gguf_file, [np.array([9999])], (1,), tmp_path / "f", "f32", print)


def test_a_run_on_haasts_features(haast, gguf_file, tmp_path, monkeypatch):
    """Killed and resumed it ends with the same head; another run on the corpus finds the features; torch's give another head."""
    of_haast = ["--features", "haast", "--haast-binary", haast]
    whole, cut, torchs = tmp_path / "whole", tmp_path / "cut", tmp_path / "torch"
    cli.main(command(gguf_file, whole, "--steps", 6, *of_haast))
    folder = next((whole / "work").glob("features-0of1-2.3.4-f32"))
    made = {p: p.stat().st_mtime_ns for p in haast_features.pieces(folder)}
    halted = command(gguf_file, cut, "--steps", 6, "--corpus", whole / "work", *of_haast)
    run = cli.Trainer.run
    monkeypatch.setattr(cli.Trainer, "run", lambda self, **k: run(self, halt_at=3, **k))
    cli.main(halted)
    monkeypatch.setattr(cli.Trainer, "run", run)
    cli.main(halted)
    cli.main(command(gguf_file, torchs, "--steps", 6, "--corpus", whole / "work"))
    assert made and made == {p: p.stat().st_mtime_ns for p in haast_features.pieces(folder)}
    a, b, c = (load_file(str(f / "model.safetensors")) for f in (whole, cut, torchs))
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not torch.equal(a["fc.weight"], c["fc.weight"]) and relative_error(a["fc.weight"].float(), c["fc.weight"].float()) < 0.05
    corpus = data.Corpus.load(next((whole / "work").glob("corpus-*.npz")))
    assert sum(load_file(str(p))["token_ids"].numel() for p in made) == sum(map(len, corpus.ids))


def test_evaluation_on_haasts_features(haast, gguf_file, tmp_path, tokenizer):
    """Of an engine's answers; what the head reads there are the rows of haast's files."""
    cli.main(command(gguf_file, tmp_path / "head", "--steps", 1))
    answers = tmp_path / "answers.jsonl"
    rows = [{"set": "own", "prompt": p, "token_ids": [7] * n, "prompt_tokens": len(tokenizer.chat(p))}
            for p, n in (("One.", 9), ("And two.", 14))]
    answers.write_text("".join(json.dumps(r) + "\n" for r in rows))
    more = ["--stage", "evaluate", "--compare", tmp_path / "head", "--answers", answers]
    cli.main(command(gguf_file, tmp_path / "out", *more, "--features", "haast", "--haast-binary", haast))
    found = json.loads((tmp_path / "out" / "work" / "compare-head.json").read_text())
    assert 1 <= found["own/T0"]["tau_chain_5"] <= 6
    folder = next((tmp_path / "out" / "work").glob("features-own-T0-2.3.4-f32"))
    sets = evaluate.read_answers(answers, tokenizer)["own/T0"]
    sets.features = haast_features.HaastFeatures(folder, sets.ids)
    second = sets.part([1])
    ids, _ = data.pad(second.ids, [np.ones(len(i), bool) for i in second.ids], CPU)
    taps = second.taps(load_target(gguf_file, CPU), (2, 3, 4), range(1), ids)
    piece = load_file(str(haast_features.pieces(folder)[0]))
    assert torch.equal(taps[0, :len(second.ids[0])], piece["taps"][len(sets.ids[0]):])
