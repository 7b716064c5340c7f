# SPDX-License-Identifier: Apache-2.0
import dataclasses

import numpy as np
import pytest
import torch

import tiny
from haast_train.generate import Generator
from haast_train.target import load_target
from haast_train.tokenizer import load_tokenizer

CPU = torch.device("cpu")


def test_logits_equal_transformers(target, hf_folder):
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(str(hf_folder), dtype=torch.float32)
    ids = torch.randint(2, tiny.V, (2, 40), generator=torch.Generator().manual_seed(1))
    theirs = model(ids, output_hidden_states=True)
    hidden, taps = target.forward(ids, (0, 2, 3))
    torch.testing.assert_close(target.logits(hidden.reshape(80, -1)).view(2, 40, -1), theirs.logits, atol=2e-4, rtol=1e-4)
    want = torch.cat([theirs.hidden_states[i] for i in (0, 2, 3)], -1)  # entry i is the stream entering layer i
    torch.testing.assert_close(taps, want, atol=2e-4, rtol=1e-4)


def test_gguf_is_the_same_model(target, tmp_path):
    other = load_target(tiny.write_gguf(tmp_path / "f32.gguf", quantize=False), CPU)
    assert other.spec.eos == (tiny.EOS,) and other.spec.default_taps() == (2, 3, 4)
    ids = torch.arange(2, 60)[None]
    torch.testing.assert_close(other.forward(ids)[0], target.forward(ids)[0], atol=1e-5, rtol=1e-5)


def test_default_taps_ascend_at_every_depth(target):
    taps = {n: dataclasses.replace(target.spec, layers=n).default_taps() for n in range(3, 130)}
    assert all(0 <= a < b < c < n for n, (a, b, c) in taps.items())
    assert (taps[3], taps[5], taps[7], taps[30]) == ((0, 1, 2), (1, 2, 3), (2, 3, 4), (2, 15, 27))


def test_quantised_gguf_is_dequantised(target, gguf_file):
    other = load_target(gguf_file, CPU)
    ids = torch.arange(2, 60)[None]
    a, b = other.forward(ids)[0], target.forward(ids)[0]
    error = (a - b).norm() / b.norm()
    assert 1e-4 < error < 0.2  # 8-bit blocks: near, and not the float weights


def test_gguf_tokenizer_equals_the_folder(hf_folder, gguf_file):
    a, b = load_tokenizer(hf_folder), load_tokenizer(gguf_file)
    text = "Write f(x) = 12 + y.\n\n<|im_end|> é"
    assert a.encode(text).tolist() == b.encode(text).tolist()
    assert a.chat("Hello", "Hi", "Bye").tolist() == b.chat("Hello", "Hi", "Bye").tolist()


def test_template_pieces(tokenizer):
    head, header, between = tokenizer.pieces()
    text = [tokenizer.encode(t) for t in ("question", "answer", "more")]
    whole = np.concatenate([head, text[0], header, text[1], between, text[2], header])
    assert whole.tolist() == tokenizer.chat("question", "answer", "more").tolist()


def test_generator_is_greedy_decoding(target):
    prompts = [np.arange(2, 2 + n) for n in (3, 70, 9, 20, 5, 41, 8)]
    answers = Generator(target, slots=3, length=128).run(prompts, [0.0] * 7, range(7), 12)
    for p, a in zip(prompts, answers):
        ids = list(p)
        for _ in range(12):
            ids.append(int(target.logits(target.forward(torch.tensor([ids]))[0][0, -1:])[0].argmax()))
            if ids[-1] == tiny.EOS:
                break
        assert a.tolist() == ids[len(p):]


def test_sampled_answers_depend_on_the_key_alone(target):
    """Not on the slot, the batch mates or the order."""
    prompts, keys = [np.arange(2, 2 + n) for n in (3, 30, 9, 20)], [5, 6, 7, 8]
    a = Generator(target, slots=4, length=96).run(prompts, [1.0] * 4, keys, 20)
    b = Generator(target, slots=2, length=96).run(prompts[::-1], [1.0] * 4, keys[::-1], 20)[::-1]
    assert [x.tolist() for x in a] == [x.tolist() for x in b]
    c = Generator(target, slots=4, length=96).run(prompts, [1.0] * 4, [9, 10, 11, 12], 20)
    assert [x.tolist() for x in a] != [x.tolist() for x in c]


def test_too_long_prompt_is_refused(target):
    with pytest.raises(ValueError, match="has 80 tokens; a slot holds 64"):
        Generator(target, slots=1, length=64).run([np.arange(80)], [0.0], [1], 4)


def test_errors_name_the_remedy(tmp_path):
    with pytest.raises(SystemExit, match="expected a .gguf file or"):
        load_target(tmp_path / "x.bin", CPU)
