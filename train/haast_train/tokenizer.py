# SPDX-License-Identifier: Apache-2.0
"""Text to tokens for a target: the tokenizer and chat template of its own files."""

import json
from pathlib import Path

import jinja2
import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from .target import open_gguf

# Pre-tokenisers by the name that a GGUF file gives (tokenizer.ggml.pre); a byte-level BPE follows each.
_DIGITS = pre_tokenizers.Digits(individual_digits=True)
_GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
_LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def _split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


PRE_TOKENIZERS = {
    "smollm": lambda: pre_tokenizers.Sequence([_DIGITS, _GPT2]),
    "gpt-2": lambda: _GPT2,
    "llama-bpe": lambda: _split(_LLAMA3),
    "qwen2": lambda: _split(_QWEN2),
}


class ChatTokenizer:
    """encode(text) -> ids, decode(ids) -> text, and the pieces of the chat template as ids."""

    def __init__(self, tokenizer, template, bos_token=""):
        self.tokenizer, self.bos_token = tokenizer, bos_token
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = lambda m: (_ for _ in ()).throw(ValueError(m))
        self.template = environment.from_string(template)

    def encode(self, text):
        """int64 [n]; special tokens in the text are recognised, none is added."""
        return np.asarray(self.tokenizer.encode(text, add_special_tokens=False).ids, np.int64)

    def encode_many(self, texts):
        return [np.asarray(e.ids, np.int64) for e in self.tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def decode(self, ids):
        return self.tokenizer.decode([int(i) for i in ids], skip_special_tokens=True)

    def render(self, messages, generate=True):
        return self.template.render(messages=messages, add_generation_prompt=generate, bos_token=self.bos_token)

    def chat(self, *turns):
        """Turns alternate user, assistant, user, ...; the result ends with the assistant's header."""
        roles = ("user", "assistant")
        return self.encode(self.render([{"role": roles[i % 2], "content": t} for i, t in enumerate(turns)]))

    def pieces(self):
        """(before a first user text, between a user text and its answer, between an answer and the next user text),
        as ids: found by rendering marked messages, so that any template works."""
        mark = ["\u2402A\u2403", "\u2402B\u2403", "\u2402C\u2403"]
        one = self.render([{"role": "user", "content": mark[0]}])
        head, header = one.split(mark[0])
        many = self.render([{"role": r, "content": m} for r, m in zip(("user", "assistant", "user"), mark)])
        between = many.split(mark[1])[1].split(mark[2])[0]
        return self.encode(head), self.encode(header), self.encode(between)


def load_tokenizer(path):
    path = Path(path)
    return _from_folder(path) if path.is_dir() else _from_gguf(path)


def _from_folder(path):
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    config = json.loads((path / "tokenizer_config.json").read_text())
    template = config.get("chat_template")
    if template is None and (path / "chat_template.jinja").exists():
        template = (path / "chat_template.jinja").read_text()
    if not isinstance(template, str):
        raise SystemExit(f"{path}: no chat_template in tokenizer_config.json and no chat_template.jinja")
    bos = config.get("bos_token") or ""
    return ChatTokenizer(tokenizer, template, bos if isinstance(bos, str) else bos["content"])


def _from_gguf(path):
    fields = open_gguf(str(path)).fields
    field = lambda k, d=None: fields[k].contents() if k in fields else d
    model, pre = field("tokenizer.ggml.model"), field("tokenizer.ggml.pre", "gpt-2")
    if model != "gpt2" or pre not in PRE_TOKENIZERS:
        raise SystemExit(f"{path}: tokenizer {model!r} with pre-tokeniser {pre!r}; supported: gpt2 with "
                         f"{', '.join(PRE_TOKENIZERS)}. Put tokenizer.json and tokenizer_config.json of the model in a "
                         "folder and pass it with --tokenizer")
    tokens, kinds = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    merges = [tuple(m.split(" ", 1)) for m in field("tokenizer.ggml.merges") or ()]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                  for t, k in zip(tokens, kinds) if k in (3, 4)])
    template = field("tokenizer.chat_template")
    if template is None:
        raise SystemExit(f"{path}: the file has no tokenizer.chat_template; pass a folder with --tokenizer")
    bos = field("tokenizer.ggml.bos_token_id")
    return ChatTokenizer(tokenizer, template, tokens[bos] if bos is not None else "")
