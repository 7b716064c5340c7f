#!/usr/bin/env python3
"""Regenerates tests/goldens: what an fp32 reference makes of the default model and head, for the engine's tests to compare with.

    python3 scripts/make_goldens.py --gguf MODEL.gguf --head models/smollm2-135m-eagle3.1 --out DIR [--only STEP,STEP]

Needs torch, transformers, gguf, tokenizers, safetensors, jinja2, numpy; 3 minutes on two cores. Prompts are read from DIR/prompts.json and
the strings of tokens.jsonl from DIR/tokens.jsonl (both are kept; ids are computed anew). With --compare OTHER the result is compared with the
goldens in OTHER, near ties aside. tests/goldens/README.md describes the files.
"""

import argparse
import hashlib
import json
import math
import sys
from pathlib import Path

import safetensors.torch
import torch
import transformers

import golden_reference as reference

GREEDY_TOKENS = 32
SPREAD = 4           # positions besides the last one whose logits are kept
HIDDEN_POSITIONS = 4
LOGIT_STRIDE = 32    # every how manyth logit is kept
TOP = 32
DRAFTS = 5
NEAR_TIE = 0.02      # margins below this are not compared


def forward(model, ids, **kwargs):
    with torch.inference_mode():
        return model(torch.tensor([ids]), **kwargs)


def greedy(model, prompt, tokens):
    """Greedy ids, the logit distance to the second choice at each, and that second choice. Stops after the end token."""
    output, margins, second, past, fresh = [], [], [], None, prompt
    while len(output) < tokens and model.config.eos_token_id not in output:
        result = forward(model, fresh, past_key_values=past, use_cache=True)
        past, best = result.past_key_values, result.logits[0, -1].topk(2)
        output.append(best.indices[0].item())
        second.append(best.indices[1].item())
        margins.append(round((best.values[0] - best.values[1]).item(), 4))
        fresh = output[-1:]
    return output, margins, second


def tokens_step(tokenizer, lines):
    for line in lines:
        tokenizer.encode_special_tokens = False
        fresh = {"text": line["text"], "ids": tokenizer.encode(line["text"], add_special_tokens=False).ids}
        tokenizer.encode_special_tokens = True  # special tokens are ordinary text
        plain = tokenizer.encode(line["text"], add_special_tokens=False).ids
        yield fresh if plain == fresh["ids"] else fresh | {"ids_plain": plain}
    tokenizer.encode_special_tokens = False


def logits_step(model, chat, prompts, taps):
    tensors = {}
    for name, messages in prompts.items():
        ids = chat(messages)
        got = forward(model, ids, use_cache=False, output_hidden_states=True)
        positions = [len(ids) * (i + 1) // (SPREAD + 1) for i in range(SPREAD)] + [len(ids) - 1]
        logits = got.logits[0, positions]
        top = logits.topk(TOP, dim=-1)
        tensors |= {
            f"{name}.input_ids": torch.tensor(ids, dtype=torch.int32),
            f"{name}.positions": torch.tensor(positions, dtype=torch.int32),
            f"{name}.strided_logits": logits[:, ::LOGIT_STRIDE].contiguous(),
            f"{name}.top_ids": top.indices.to(torch.int32),
            f"{name}.top_logits": top.values.clone(),
            f"{name}.logsumexp": logits.double().logsumexp(-1).float(),
        }
        for tap in taps:
            tensors[f"{name}.hidden_{tap:02d}"] = got.hidden_states[tap][0, -HIDDEN_POSITIONS:].clone()
    return tensors


def greedy_step(model, chat, prompts):
    for number, text in enumerate(prompts):
        prompt = chat([{"role": "user", "content": text}])
        output, margins, second = greedy(model, prompt, GREEDY_TOKENS)
        yield {"name": f"greedy_{number:02d}", "text": text, "prompt_ids": prompt, "output_ids": output, "margins": margins,
               "runner_up": second}


def draft_round(head, extended, start, ids):
    """One round of a chain: drafts up to and including the first wrong one. `extended` holds the head's rows on target features."""
    logits, carried, keys, values = extended
    row, carry, past = logits[start], carried[start], (keys[: start + 1], values[: start + 1])
    drafts, margins = [], []
    for step in range(min(DRAFTS, len(ids) - start - 2)):
        draft, margin = head.best(row)
        drafts.append(draft)
        margins.append(round(margin, 4))
        if draft != ids[start + 2 + step]:
            break
        position = torch.tensor([start + 1 + step])
        out, fed, keys, values = head.layer(carry[None], torch.tensor([draft]), position, past)
        row, carry, past = out[0], fed[0], (keys, values)
    return drafts, margins


def trace_step(model, head, prompts):
    for prompt in prompts:
        answer, margins, _ = greedy(model, prompt["prompt_ids"], prompt["answer_tokens"])
        ids = prompt["prompt_ids"] + answer
        hidden = forward(model, ids, use_cache=False, output_hidden_states=True).hidden_states
        features = torch.stack([hidden[tap][0] for tap in head.taps], 1)[:-1]
        with torch.inference_mode():
            extended = head.layer(head.fuse(features), torch.tensor(ids[1:]), torch.arange(len(ids) - 1), None)
            rounds, start = [], len(prompt["prompt_ids"]) - 1
            while start + 2 < len(ids):
                drafts, gaps = draft_round(head, extended, start, ids)
                accepted = sum(d == t for d, t in zip(drafts, ids[start + 2:]))
                rounds.append({"feature_position": start, "drafts": drafts, "draft_margins": gaps, "accepted": accepted})
                start += accepted + 1
        # the answer's first token belongs to no round, and a round that the answer's end cuts short commits no token past it
        committed = [min(r["accepted"] + 1, len(ids) - r["feature_position"] - 2) for r in rounds]
        yield {"prompt_ids": prompt["prompt_ids"], "answer_ids": answer, "answer_margins": margins, "rounds": rounds,
               "tokens_per_round": round(sum(committed) / len(rounds), 3)}


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def compare(new, old):
    """Prints the largest differences; near ties end the comparison of their answer."""
    def same_prefix(a, b, margins):
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y:
                return margins[i] < NEAR_TIE
        return len(a) == len(b)
    bad = sum(a != b for a, b in zip(read_lines(new / "tokens.jsonl"), read_lines(old / "tokens.jsonl")))
    print(f"tokens.jsonl: {bad} lines differ")
    a, b = (safetensors.torch.load_file(d / "logits.safetensors") for d in (new, old))
    for kind in sorted({k.split(".")[1] for k in a}):
        print(f"logits.safetensors {kind}: largest difference",
              max((a[k].double() - b[k].double()).abs().max().item() for k in a if k.endswith("." + kind)))
    worse = [x["name"] for x, y in zip(read_lines(new / "greedy.jsonl"), read_lines(old / "greedy.jsonl"))
             if not same_prefix(x["output_ids"], y["output_ids"], y["margins"])]
    print(f"greedy.jsonl: answers that differ beyond near ties: {worse}")
    for x, y in zip(read_lines(new / "golden_trace.jsonl"), read_lines(old / "golden_trace.jsonl")):
        same = sum(r in y["rounds"] or any(r["drafts"] == s["drafts"] and r["feature_position"] == s["feature_position"]
                                           for s in y["rounds"]) for r in x["rounds"])
        print(f"golden_trace.jsonl: answer equal {x['answer_ids'] == y['answer_ids']}, {same} of {len(y['rounds'])} rounds equal, "
              f"tokens per round {x['tokens_per_round']} and {y['tokens_per_round']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", required=True, type=Path)
    parser.add_argument("--head", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--only", default="tokens,logits,greedy,trace")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    steps = args.only.split(",")
    prompts = json.loads((args.out / "prompts.json").read_text())
    file = reference.GgufFile(args.gguf)
    tokenizer = reference.load_tokenizer(file)
    chat = reference.chat_encoder(file, tokenizer)
    model = reference.load_target(file)
    head = reference.EagleHead(args.head, model.model.embed_tokens.weight.detach())

    # a wrong rope layout, epsilon or tie shows here at once: a sane model is well below 30
    perplexity = {}
    for name, text in prompts["sanity"].items():
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        logits = forward(model, ids, use_cache=False).logits[0, :-1].double()
        perplexity[name] = round(math.exp(torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:])).item()), 3)
    if max(perplexity.values()) > 30:
        sys.exit(f"the reference model is not sane: perplexity {perplexity}")

    if "tokens" in steps:
        write_lines(args.out / "tokens.jsonl", list(tokens_step(tokenizer, read_lines(args.out / "tokens.jsonl"))))
    if "logits" in steps:
        safetensors.torch.save_file(logits_step(model, chat, prompts["logits"], head.taps), args.out / "logits.safetensors", metadata={
            "order": ",".join(prompts["logits"]), "taps": ",".join(map(str, head.taps)), "logit_stride": str(LOGIT_STRIDE)})
    if "greedy" in steps:
        write_lines(args.out / "greedy.jsonl", greedy_step(model, chat, prompts["greedy"]))
    if "trace" in steps:
        write_lines(args.out / "golden_trace.jsonl", trace_step(model, head, prompts["trace"]))
    meta = {"gguf_sha256": hashlib.sha256(args.gguf.read_bytes()).hexdigest(),
            "head_sha256": hashlib.sha256((args.head / "model.safetensors").read_bytes()).hexdigest(),
            "versions": {m.__name__: m.__version__ for m in (torch, transformers)}, "perplexity": perplexity}
    (args.out / "golden_meta.json").write_text(json.dumps(meta, indent=2) + "\n")
    if args.compare:
        compare(args.out, args.compare)


if __name__ == "__main__":
    main()
