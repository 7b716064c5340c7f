#!/usr/bin/env python3
"""Makes the golden files of the text tests, from programs other than this one.

    pip install transformers==5.24.0 tokenizers sentencepiece jinja2 gguf
    python make_goldens.py [--gguf SmolLM2-135M-Instruct.Q4_1.gguf]

  smollm_vocab.bin      (with --gguf) the default model's vocabulary: magic "HVOC1\\n", uint32 count and that many (uint8 length,
                        bytes) of base tokens, then uint32 count and that many (uint16 left, uint16 right) merges. Merge i makes
                        token base + i, so nothing else is needed.
  pretokenizer.jsonl    {"pre", "text", "ids"}: Hugging Face tokenizers with the default vocabulary and the pre-tokenizer of
                        other models' tokenizer.json files
  spm_vocab.json        a tiny SentencePiece vocabulary, trained here, as GGUF metadata has it, and as a tokenizer.json
  spm_tokens.jsonl      {"text", "ids", "decoded"}: from the sentencepiece library itself; rows with "special" from Hugging Face
                        tokenizers, special tokens parsed: the library cannot parse them, and puts no space after them
  templates.jsonl       {"name", "template", "specials", "messages", "tools", "variables", "add_generation_prompt", "local_seconds",
                        "expected" or "error"}: from transformers' own Jinja environment

smollm_tokens.jsonl ({"text", "ids", "ids_plain"}) comes from Hugging Face transformers with the default model's vocabulary: special
tokens parsed, and `ids_plain` where treating them as text gives something else.
"""

import argparse
import io
import json
import random
import struct
from pathlib import Path

import sentencepiece
import tokenizers
from templates_golden import template_cases
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

HERE = Path(__file__).parent


def write_lines(name, rows):
    with open(HERE / name, "w", encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row, ensure_ascii=True) + "\n")
    print(f"{name}: {len(rows)} rows")


# ---- the default model's vocabulary ------------------------------------------------------------------------------

def pack_gguf(path):
    import gguf

    fields = gguf.GGUFReader(path).fields
    strings = lambda key: [bytes(fields[key].parts[i]).decode() for i in fields[key].data]
    tokens, merges = strings("tokenizer.ggml.tokens"), strings("tokenizer.ggml.merges")
    base = len(tokens) - len(merges)
    ids = {token: i for i, token in enumerate(tokens)}
    out = [b"HVOC1\n", struct.pack("<I", base)]
    for token in tokens[:base]:
        out.append(struct.pack("<B", len(token.encode())) + token.encode())
    out.append(struct.pack("<I", len(merges)))
    for i, merge in enumerate(merges):
        left, right = merge.split(" ")
        assert tokens[base + i] == left + right
        out.append(struct.pack("<HH", ids[left], ids[right]))
    (HERE / "smollm_vocab.bin").write_bytes(b"".join(out))


def unpack():
    f = io.BytesIO((HERE / "smollm_vocab.bin").read_bytes())
    assert f.read(6) == b"HVOC1\n"
    tokens = [f.read(f.read(1)[0]).decode() for _ in range(struct.unpack("<I", f.read(4))[0])]
    merges = []
    for _ in range(struct.unpack("<I", f.read(4))[0]):
        left, right = struct.unpack("<HH", f.read(4))
        merges.append((tokens[left], tokens[right]))
        tokens.append(tokens[left] + tokens[right])
    return {token: i for i, token in enumerate(tokens)}, merges


# ---- pre-tokenizers by name --------------------------------------------------------------------------------------

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CASED = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {
    "llama-bpe": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL],
    "qwen2": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL],
    "tekken": [CASED % ("", "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL],
    "gpt-4o": [CASED % (CONTRACTIONS + "?", CONTRACTIONS + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL],
    "deepseek-v3": [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
                    + TAIL],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
}
TEXTS = [
    "Hello, world! It's 2024-11-30, isn't IT? WE'LL see: I'M, you'Re.",
    "numbers 1 12 123 1234 12345 1234567, 3.14159, ½ ² ३४५ and a1b22c333",
    "  leading, trailing  \n\n\n  and\ttabs\t\tand \r\n line\r\nends   \n",
    "camelCase HTTPServer XMLHttpRequest snake_case kebab-case ALLCAPS iPhone",
    "def f(x):\n    return {'a': [x**2, x//3]}  # comment\n\n\tif x != y: pass\n",
    "naïve café Ünïcödé — “quotes” … ¿qué? ¡sí! Ελληνικά Русский עברית العربية",
    "中文测试。日本語のテスト、カタカナ。한국어 시험 ไทย हिन्दी বাংলা",
    "emoji 😀👍🏽🏳️‍🌈 and symbols ∑∫√ ∞ ≠ ≤ → ← €£¥ ©®™",
    "e\u0301 combining a\u0308\u0323 vs é; ﬁ ligature; Ａｌｐｈａ; \u00a0nbsp\u2003em\u200bzero",
    "https://example.com/a/b?c=d&e=f#g user@host.org /usr/lib/x86_64 C:\\dir\\file",
    "!!! ??? ... --- === *** ((( ))) [[]] {{}} <<>> ~~ `` '' \"\" \\\\ //\n/\n",
    "'s 't 're 've 'm 'll 'd 'S 'T 'RE 'x 'sa ſ'ſ",
    "a" * 70 + " " * 33 + "b" + "\n" * 9 + "c",
    "",
]


def pretokenizer_rows():
    vocab, merges = unpack()
    rows = []
    for pre in ["smollm", "gpt-2", *SPLITS, "falcon", "default"]:
        tokenizer = tokenizers.Tokenizer(models.BPE(vocab, merges, ignore_merges=pre in ("llama-bpe", "tekken")))
        split = lambda pattern: pre_tokenizers.Split(Regex(pattern), "isolated")
        last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
        words = split(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
        steps = {
            "smollm": [pre_tokenizers.Digits(individual_digits=True), gpt2],
            "gpt-2": [gpt2],
            "falcon": [split(r"[\p{P}\$\+<=>\^~\|`]+"), words, split("[0-9][0-9][0-9]"), last],
            "default": [split(r"[\p{P}\$\+<=>\^~\|]+"), words, split(r"\p{N}+"), split("[0-9][0-9][0-9]"), last],
        }.get(pre) or [*map(split, SPLITS[pre]), last]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
        if pre == "qwen2":
            tokenizer.normalizer = normalizers.NFC()
        rows += [{"pre": pre, "text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS]
    return rows


# ---- SentencePiece -----------------------------------------------------------------------------------------------

CORPUS = """The river runs past the old mill and under the stone bridge before it reaches the sea.
A small boat was tied to the bridge, and nobody remembered who had left it there.
She asked the miller whether the boat belonged to him, and he said that it did not.
In the morning the water was high; in the evening it was low, and the boat lay in the mud.
Numbers such as 10, 100 and 1000 appear in the ledger beside the names of the sailors.
Der Fluss fließt an der alten Mühle vorbei, und das Boot liegt am Ufer.
Le bateau était attaché au pont; personne ne savait à qui il appartenait.
""" * 8


def spm_model():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.splitlines()), model_writer=model, model_type="bpe", vocab_size=480, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, add_dummy_prefix=True,
        control_symbols=["<|user|>", "<|end|>"], user_defined_symbols=["<tool>"], allow_whitespace_only_pieces=True,
        minloglevel=2)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def spm_vocab(sp):
    kinds = []
    for i in range(sp.get_piece_size()):
        kinds.append(2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else
                     4 if sp.id_to_piece(i) == "<tool>" else 1)
    return {
        "tokens": [sp.id_to_piece(i) for i in range(sp.get_piece_size())],
        "scores": [sp.get_score(i) for i in range(sp.get_piece_size())],
        "types": kinds, "unknown_id": sp.unk_id(), "bos_id": sp.bos_id(), "eos_id": sp.eos_id(),
    }


def spm_tokenizer_json(vocab):
    """As transformers converts a Llama SentencePiece model (convert_slow_tokenizer, LlamaConverter)."""
    from transformers.tokenization_utils_base import generate_merges

    ids = {token: i for i, token in enumerate(vocab["tokens"])}
    normal = {t: s for t, s, k in zip(vocab["tokens"], vocab["scores"], vocab["types"]) if k not in (2, 3)}
    merges = generate_merges({t: ids[t] for t in normal}, normal)
    tokenizer = tokenizers.Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.add_special_tokens([tokenizers.AddedToken(t, normalized=False, special=True)
                                  for t, k in zip(vocab["tokens"], vocab["types"]) if k in (2, 3)])
    tokenizer.add_tokens([tokenizers.AddedToken("<tool>", normalized=False)])
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", ids["<s>"])])
    return json.loads(tokenizer.to_str())


def spm_special_rows(tokenizer):
    texts = ["the<tool>boat", "<tool>", "a <tool> b", "<|user|>the bridge</s>", "<s>the</s><s> boat", "<|user|> \n<|end|>\n", "<unk>x"]
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(tokenizer))
    rows = [(text, tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]
    return [{"text": t, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=True), "special": True} for t, ids in rows]


def spm_rows(sp):
    texts = [t for t in TEXTS if "<" not in t] + CORPUS.splitlines()[:7] + [
        "the", " the", "  the  ", "bridge", "bridges", " ", "  ", "\n", "a\nb\n\n", "100", "1000000", "mill pond", "zzz qqq",
        "日本", "é", "ß", "😀",
    ]
    rng = random.Random(1)
    words = CORPUS.split()
    texts += [" ".join(rng.choice(words) for _ in range(rng.randrange(1, 12))) for _ in range(60)]
    texts += ["".join(rng.choice("aebridgthm nl.,\n1é") for _ in range(rng.randrange(1, 30))) for _ in range(60)]
    return [{"text": t, "ids": sp.encode(t), "decoded": sp.decode(sp.encode(t))} for t in dict.fromkeys(texts) if "▁" not in t]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gguf", help="also write smollm_vocab.bin from this model file")
    args = parser.parse_args()
    if args.gguf:
        pack_gguf(args.gguf)
    write_lines("pretokenizer.jsonl", pretokenizer_rows())
    sp = spm_model()
    vocab = spm_vocab(sp)
    vocab["tokenizer_json"] = spm_tokenizer_json(vocab)
    (HERE / "spm_vocab.json").write_text(json.dumps(vocab, ensure_ascii=True) + "\n")
    write_lines("spm_tokens.jsonl", spm_rows(sp) + spm_special_rows(vocab["tokenizer_json"]))
    write_lines("templates.jsonl", template_cases())


if __name__ == "__main__":
    main()
