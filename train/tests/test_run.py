# SPDX-License-Identifier: Apache-2.0
"""The command, end to end on tiny models: files, resumption, evaluation, guard."""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import tiny
from haast_train import cli, data, evaluate, export, kernels, overlap, prompts, state
from haast_train.head import unit_embedding

SMALL = ["--texts", "24", "--questions", "12", "--follow-ups", "4", "--answer-tokens", "24", "--slots", "8", "--slot-tokens",
         "480", "--draft-vocab", "64", "--unroll", "3", "--batch-tokens", "2048", "--warmup", "2"]


@pytest.fixture
def prompt_file(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(json.dumps({"turns": [t]}) for t in ("Say one.", "Say two, please.", "What is three?")))
    return path


def command(target, out, *more):
    return ["--target", str(target), "--out", str(out), *SMALL, *map(str, more)]


def test_a_target_without_enough_layers_is_refused_before_any_data(target, gguf_file, tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "load_target", lambda *_: SimpleNamespace(spec=dataclasses.replace(target.spec, layers=2)))
    with pytest.raises(SystemExit, match="2 layers; an EAGLE-3 head reads 3 of them: use --version 1"):
        cli.main(command(gguf_file, tmp_path))
    assert not (tmp_path / "work" / "log-0.txt").exists()


def test_end_to_end(gguf_file, prompt_file, tmp_path):
    out = tmp_path / "head"
    cli.main(command(gguf_file, out, "--steps", 6, "--eval-prompts", prompt_file, "--eval-tokens", 16, "--state",
                     tmp_path / "state"))
    tensors, config = load_file(str(out / "model.safetensors")), json.loads((out / "config.json").read_text())
    assert tensors["fc.weight"].shape == (tiny.H, 3 * tiny.H) and tensors["d2t"].dtype == torch.int64
    assert config["draft_vocab_size"] == 64 and config["fc_norm"] and config["norm_output"]
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [1, 2, 3]
    acceptance = json.loads((out / "acceptance.json").read_text())
    assert {"own/T0", "own/T1", "own/T1-coupled-draft"} <= set(acceptance)
    assert all(1 <= v["tau_chain_5"] <= 6 for v in acceptance.values())
    assert len((out / "golden_trace.jsonl").read_text().splitlines()) == 1
    assert "evaluation prompts seen in training" in (out / "README.md").read_text()
    cli.main(command(gguf_file, tmp_path / "same", "--stage", "export", "--resume-state", tmp_path / "state", "--init", out))
    again = load_file(str(tmp_path / "same" / "model.safetensors"))
    assert all(torch.equal(tensors[k], again[k]) for k in tensors)
    # go on from the compact state, then from the exported head
    cli.main(command(gguf_file, tmp_path / "two", "--steps", 8, "--corpus", out / "work", "--resume-state", tmp_path / "state",
                     "--init", out))
    cli.main(command(gguf_file, tmp_path / "three", "--minutes", 0.02, "--optimizer", "adamw", "--corpus", out / "work",
                     "--init", out, "--compare", out))
    assert (tmp_path / "three" / "work" / f"compare-{out.name}.json").exists()


def test_eagle1_end_to_end(gguf_file, prompt_file, tmp_path):
    out = tmp_path / "head"
    cli.main(command(gguf_file, out, "--version", "1", "--steps", 4, "--eval-prompts", prompt_file, "--eval-tokens", 16, "--state",
                     tmp_path / "state"))
    tensors = load_file(str(out / "model.safetensors"))
    assert "lm_head.weight" not in tensors and tensors["embed_tokens.weight"].shape == (tiny.V, tiny.H)
    assert json.loads((out / "acceptance.json").read_text())["own/T0"]["tau_chain_5"] >= 1
    assert len((out / "golden_trace.jsonl").read_text().splitlines()) == 1
    assert "EAGLE-1 draft head" in (out / "README.md").read_text()
    cli.main(command(gguf_file, tmp_path / "same", "--version", "1", "--stage", "export", "--resume-state", tmp_path / "state"))
    again = load_file(str(tmp_path / "same" / "model.safetensors"))
    assert tensors.keys() == again.keys() and all(torch.equal(tensors[k], again[k]) for k in tensors)
    cli.main(command(gguf_file, tmp_path / "more", "--steps", 2, "--corpus", out / "work", "--init", out, "--compare", out))


def test_pictures_and_events(hf_folder, prompt_file, tmp_path):
    pytest.importorskip("matplotlib"), pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    cli.main(command(hf_folder, tmp_path / "head", "--steps", 3, "--eval-prompts", prompt_file, "--eval-tokens", 8, "--traces", 0,
                     "--tensorboard", tmp_path / "events"))
    for name in ("training.png", "acceptance.png"):
        assert (tmp_path / "head" / name).read_bytes().startswith(b"\x89PNG")
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    assert {"loss", "lr", "hits/unrolled_step_2", "tau_chain_5/own/T1"} <= set(events.Tags()["scalars"])
    row = json.loads((tmp_path / "head" / "work" / "train_log.jsonl").read_text().splitlines()[0])
    assert events.Scalars("loss")[0].value == pytest.approx(row["loss"])


def test_a_run_without_matplotlib_and_tensorboard_says_so(hf_folder, tmp_path, monkeypatch, capsys):
    for name in ("matplotlib", "tensorboard", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("plots", "events"):
        monkeypatch.delitem(sys.modules, f"haast_train.{name}", raising=False)
        monkeypatch.delattr(f"haast_train.{name}", raising=False)
    cli.main(command(hf_folder, tmp_path / "head", "--steps", 1, "--tensorboard", tmp_path / "events"))
    said = capsys.readouterr().out
    assert "no plots: matplotlib is not installed" in said and "tensorboard is not installed" in said
    assert (tmp_path / "head" / "model.safetensors").exists() and not (tmp_path / "head" / "training.png").exists()


def test_a_slot_is_no_longer_than_the_context(hf_folder, tmp_path):
    long = tmp_path / "long.jsonl"
    long.write_text(json.dumps({"prompt": "long " * 120}))  # a token a byte: fits the slot, not the context
    cli.main(command(hf_folder, tmp_path, "--stage", "data", "--slot-tokens", 700, "--conversations", long))
    corpus = data.Corpus.load(next((tmp_path / "work").glob("corpus-*.npz")))
    assert 0 < max(map(len, corpus.ids)) <= tiny.CONTEXT


def test_a_killed_run_resumes_to_the_same_head(hf_folder, tmp_path, monkeypatch):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    cli.main(command(hf_folder, whole, "--steps", 8))
    halted = command(hf_folder, cut, "--steps", 8, "--corpus", whole / "work")
    run = cli.Trainer.run
    monkeypatch.setattr(cli.Trainer, "run", lambda self, **k: run(self, halt_at=5, **k))
    cli.main(halted)
    monkeypatch.setattr(cli.Trainer, "run", run)
    cli.main(halted)
    a, b = (load_file(str(f / "model.safetensors")) for f in (whole, cut))
    assert all(torch.equal(a[k], b[k]) for k in a)


def test_two_processes(hf_folder, tmp_path):
    """Data parallel: both processes end with the same head, and half of the data each."""
    out = tmp_path / "two"
    program = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29617", "-m",
               "haast_train", *command(hf_folder, out, "--steps", 4)]
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parent.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(program, env=env, text=True, capture_output=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(list((out / "work").glob("corpus-*of2.npz"))) == 2 and (out / "model.safetensors").exists()


@pytest.mark.parametrize("version", ["1", "3", "3.1"])
def test_exported_head_reads_back(target, tmp_path, version):
    from test_head import make

    head, d2t = make(target, version)
    export.export_head(tmp_path, head, target.spec, d2t)
    back, ids = export.read_head(tmp_path, torch.device("cpu"), torch.float32, target)
    assert torch.equal(ids, d2t) and back.spec == head.spec and back.version == version
    for a, b in zip(head.parameters(), back.parameters()):
        assert torch.equal(a.to(torch.bfloat16).float(), b)


def test_guard_refuses_evaluation_prompts(tokenizer):
    text = "Compose an engaging blog post about a recent trip, highlighting cultural experiences."
    guard = data.evaluation_guard(tokenizer, {"own": [text, "Short one."]})
    assert not guard.allows(tokenizer.encode(text)) and not guard.allows(tokenizer.encode("Please: " + text[10:60] + "!"))
    assert not guard.allows(tokenizer.encode("Short one.")) and guard.allows(tokenizer.encode("Something else entirely."))
    assert guard.report() == {"ngram": 13, "evaluation_prompts": 2, "training_texts_checked": 4, "training_texts_refused": 3}


def test_corpus_never_contains_an_evaluation_prompt(hf_folder, tokenizer, tmp_path):
    """Even when the user's own conversations are the evaluation prompts."""
    own = tmp_path / "own.jsonl"
    texts = ["This exact sentence is an evaluation prompt and must not be trained on.", "A second long evaluation prompt, with words."]
    own.write_text("\n".join(json.dumps({"prompt": t}) for t in texts))
    out = tmp_path / "out"
    cli.main(command(hf_folder, out, "--stage", "data", "--eval-prompts", own, "--eval-tokens", 8, "--conversations", own))
    corpus = data.Corpus.load(next((out / "work").glob("corpus-*.npz")))
    seen = {h for t in texts for h in overlap.ngram_hashes(tokenizer.encode(t), 13).tolist()}
    assert all(seen.isdisjoint(overlap.ngram_hashes(i, 13).tolist()) for i in corpus.ids)
    report = json.loads(next((out / "work").glob("corpus-*.json")).read_text())
    assert report["overlap"]["training_texts_refused"] == 2


def test_chain_statistics_by_hand():
    # answer tokens at 2..7, the first from the prompt; from t = 1: two drafts count, then t = 4: none, then t = 5: the last token
    matched = [np.array([0, 2, 0, 0, 0, 3, 0, 0])]
    s = evaluate.chain_statistics(matched, [2], [8], chains=(1, 5))
    assert s["tau_chain_5"] == round((3 + 1 + 1) / 3, 3)
    assert s["tau_chain_1"] == round((2 + 1 + 1 + 1) / 4, 3)


class WordTokenizer:
    def chat(self, text):
        return np.arange(len(text.split()))


def test_answers_of_an_engine(tmp_path):
    path = tmp_path / "answers.jsonl"
    row = {"set": "s", "prompt": "two words", "token_ids": [7, 8, 9], "prompt_tokens": 2}
    path.write_text(json.dumps(row) + "\n")
    found = evaluate.read_answers(path, WordTokenizer())["s/T0"]
    assert found.ids[0].tolist() == [0, 1, 7, 8, 9] and found.starts == [2] and found.temperature == 0.0
    path.write_text(json.dumps(row | {"prompt_tokens": 3}) + "\n")
    with pytest.raises(SystemExit, match="line 1: the prompt has 2 tokens, the engine found 3"):
        evaluate.read_answers(path, WordTokenizer())


@pytest.mark.parametrize("coupled", [False, True])
def test_matched_drafts_by_hand(target, coupled):
    """An answer is built so that exactly two drafts of the round at t = 17 count: greedy, and drawn with the target's noise."""
    from test_head import make

    head, d2t = make(target, vocab=tiny.V // 2)
    ids, e, t = np.random.default_rng(1).integers(2, tiny.V, 40), unit_embedding(target), 17

    def draft(j):
        x = torch.from_numpy(ids)[None]
        z = list(head.unroll(e, target.forward(x, head.spec.taps)[1], x, 3))[j][t] @ head.lm_head.weight.T
        noise = kernels.gumbel(torch.tensor(7), torch.tensor(t + 2 + j), d2t) if coupled else 0
        return int(d2t[(z + noise).argmax()])

    for j in (0, 1):
        ids[t + 2 + j] = draft(j)
    ids[t + 4] = (draft(2) + 1) % tiny.V
    answers = evaluate.AnswerSet([ids], [10], [7], float(coupled))
    assert evaluate.matched_drafts(head, target, e, d2t, answers, depth=3, coupled=coupled)[0][t] == 2
    ids[t + 2] = (ids[t + 2] + 1) % tiny.V
    assert evaluate.matched_drafts(head, target, e, d2t, answers, depth=3, coupled=coupled)[0][t] == 0


def test_loop_share():
    assert data.loop_share(np.arange(100)) == 0 and data.loop_share(np.tile(np.arange(10), 10)) > 0.8
    assert data.loop_share(np.zeros(20)) == 0
    mixed = [np.arange(70), np.tile(np.arange(7), 30), np.r_[np.arange(60), np.arange(20)], np.arange(5)]
    by_hand = [1 - len({tuple(a[i:i + 6]) for i in range(len(a) - 5)}) / (len(a) - 5) if len(a) >= 40 else 0 for a in mixed]
    np.testing.assert_allclose(data.loop_shares(mixed), by_hand)


def test_loops_are_cut_shortly_after_they_begin():
    answer = np.r_[np.arange(100, 160), np.tile(np.arange(9), 20)]
    kept = data.trim_loop(answer)
    assert 60 + 9 <= len(kept) <= 60 + 9 + data.LOOP_TAIL and (kept == answer[:len(kept)]).all()
    assert len(data.trim_loop(np.arange(100))) == 100


def test_batches_fit_the_budget():
    lengths = np.random.default_rng(1).integers(5, 400, 300)
    groups = data.batches(lengths, 4096)
    assert sorted(np.concatenate(groups).tolist()) == list(range(300))
    assert all(len(g) * -(-lengths[g].max() // 64) * 64 <= 4096 for g in groups)


def test_loop_tail_is_an_option():
    answer = np.r_[np.arange(100, 160), np.tile(np.arange(9), 20)]
    assert len(data.trim_loop(answer, 80)) == len(data.trim_loop(answer)) + 80 - data.LOOP_TAIL


def test_shares_of_the_texts():
    assert cli.shares("code=0.2,stubs=0.1") == {**cli.SHARES, "code": 0.2, "stubs": 0.1}
    with pytest.raises(argparse.ArgumentTypeError, match="poems.*expected tasks, code"):
        cli.shares("poems=1")


def test_an_unfinished_schedule_goes_on_where_its_state_was(hf_folder, tmp_path, monkeypatch):
    whole, part = tmp_path / "whole", tmp_path / "state"
    run, seen = cli.Trainer.run, []
    monkeypatch.setattr(cli.Trainer, "run", lambda self, **k: seen.append((self.step, self.start_progress)) or run(self, halt_at=6, **k))
    cli.main(command(hf_folder, whole, "--steps", 8, "--state", part))
    cli.main(command(hf_folder, tmp_path / "again", "--minutes", 1, "--corpus", whole / "work", "--resume-state", part))
    assert seen == [(0, 0.0), (6, 0.75)]


def test_draft_vocabulary():
    assert data.choose_draft_vocabulary([5, 0, 9, 1, 7], 3, always=(1,)).tolist() == [1, 2, 4]


def test_compact_state_is_close(target, tmp_path):
    from test_head import make
    from haast_train.optim import FlatGradients, make_optimizers

    head, d2t = make(target)
    grads, optimizers = FlatGradients(head.parameters()), make_optimizers(head, "muon", 1e-3)
    grads.flat.copy_(torch.randn(grads.flat.shape, generator=torch.Generator().manual_seed(1)))
    for o in optimizers:
        o.step()
    state.save_parts(tmp_path, "state", state.pack(head, optimizers, 3, 0.5, d2t))
    other, _ = make(target)
    again = make_optimizers(other, "muon", 1e-3)
    assert state.unpack(state.load_parts(tmp_path, "state"), other, again) == (3, 0.5)
    for a, b in zip(optimizers, again):
        for p, q in zip(a.param_groups[0]["params"], b.param_groups[0]["params"]):
            assert torch.equal(p.to(torch.bfloat16).float(), q)
            for key in a.state[p]:
                if key == "step":
                    continue
                torch.testing.assert_close(a.state[p][key], b.state[q][key], atol=0.02, rtol=0.05)


def test_conversation_forms(tmp_path):
    rows = [{"prompt": "a"}, {"turns": ["b", "c"]}, {"conversations": [{"from": "human", "value": "d"}, {"from": "gpt", "value": "x"}]},
            {"messages": [{"role": "user", "content": "e"}, {"role": "assistant", "content": "x"}]}]
    path = tmp_path / "c.json"
    for text in (json.dumps(rows), "\n".join(map(json.dumps, rows))):
        path.write_text(text)
        assert prompts.read_conversations(path) == [["a"], ["b", "c"], ["d"], ["e"]]
    path.write_text(json.dumps({"question": "?"}))
    with pytest.raises(SystemExit, match="entry 1 has keys"):
        prompts.read_conversations(path)


def test_prompts_are_seeded():
    counts = {"tasks": 20, "code": 5, "arithmetic": 20, "text": 6, "stubs": 4}
    assert prompts.user_texts(3, counts) == prompts.user_texts(3, counts) != prompts.user_texts(4, counts)
