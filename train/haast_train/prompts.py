# SPDX-License-Identifier: Apache-2.0
"""What the target is asked: seed tasks, arithmetic, code stubs, fragments of text, and openings for its own questions.

All prompts are drawn from a seed; nothing is downloaded. Evaluation prompts never enter: see overlap.py.
"""

import ast
import random
import re
import sysconfig
from importlib import resources
from pathlib import Path

NAMES = ("Anna Ben Carla David Emma Felix Grace Henry Iris Jack Kate Leo Maria Noah Olivia Paul Quinn Rosa Sam Tina Uma "
         "Victor Wendy Xavier Yara Zoe").split()
THINGS = ("apples books pencils cookies marbles stickers eggs tickets flowers coins oranges cards shirts chairs bottles "
          "balloons stamps toys pens").split()
AUDIENCES = ("a five-year-old", "a high-school student", "a beginner", "a busy manager", "a grandparent",
             "an expert in another field", "a new employee", "a tourist", "a curious teenager", "a class of ten-year-olds")
LANGUAGES = ("Python",) * 6 + ("JavaScript", "Java", "C", "C++", "Go", "Rust", "SQL", "TypeScript", "Bash")
CODE_FORMS = (
    "Write a {l} function that {v}.", "Write a function in {l} that {v}. Include comments.",
    "How do I write a {l} function that {v}?", "Write {l} code that {v} and show an example of how to use it.",
    "Complete the following {l} function, which {v}.", "Write a unit test in {l} for a function that {v}.",
    "Explain step by step how a function that {v} works in {l}.",
    "Please implement the following in {l}: a function that {v}. Only output code.",
    "I need a {l} program that {v}. What should it look like?")
CODE_EXTRAS = ("", "", "", " Use type hints.", " Keep it short.", " Explain the code.", " Handle empty input.",
               " Add a docstring.", " Also give the time complexity.", " Do not use any library.", " Show a sample run.")
STUB_FORMS = ("{s}", "Complete this function:\n\n{s}", "Finish the body of the function below.\n\n{s}",
              "Implement this in Python:\n```python\n{s}```", "What should this function return?\n\n{s}",
              "Write the missing code.\n\n{s}", "Explain what this function does:\n\n{s}", "Write tests for:\n\n{s}")
TEXT_FORMS = (
    "Summarize the following text:\n\n{f}", "Summarize this in one sentence: {f}", "What is the main point of this text?\n\n{f}",
    "Rewrite the following text in simpler words:\n\n{f}", "Write a title for this text: {f}", "{f}\n\nExplain this.",
    "Extract the key points from this text as a bulleted list:\n\n{f}", "List the important terms in this passage:\n\n{f}",
    "Answer the question based on the text. Text: {f}\nQuestion: What is described here?", "Paraphrase: {f}",
    "What questions does this passage answer?\n\n{f}", "Turn the following into an email to a colleague:\n\n{f}",
    "Write three quiz questions about this text.\n\n{f}", "Continue this text:\n\n{f}")


def _lines(name):
    text = resources.files("haast_train").joinpath("seeds", name).read_text()
    return [line.replace("\\n", "\n") for line in text.splitlines() if line.strip()]


def seed_tasks(rng, count):
    """Everyday tasks: forms times topics."""
    topics, forms = _lines("topics.txt"), _lines("tasks.txt")
    for _ in range(count):
        t, u, v, w = rng.sample(topics, 4)
        yield rng.choice(forms).format(t=t, u=u, v=v, w=w, a=rng.choice(AUDIENCES), n=rng.randint(2, 10),
                                       T=t[0].upper() + t[1:])


def code_tasks(rng, count):
    verbs = _lines("code_tasks.txt")
    for _ in range(count):
        yield rng.choice(CODE_FORMS).format(l=rng.choice(LANGUAGES), v=rng.choice(verbs)) + rng.choice(CODE_EXTRAS)


def arithmetic(rng, count):
    for _ in range(count):
        a, b = rng.sample(NAMES, 2)
        i, j = rng.sample(THINGS, 2)
        x, y, z = rng.randint(2, 60), rng.randint(2, 40), rng.randint(2, 12)
        yield rng.choice((
            f"{a} has {x + y} {i}. {a} gives {y} {i} to {b} and then buys {z} more. How many {i} does {a} have now?",
            f"A box holds {z} {i}. {a} fills {y} boxes and has {x} {i} left over. How many {i} were there at the start?",
            f"{a} earns ${x} per hour and works {z} hours a day for {rng.randint(2, 6)} days. How much is that in total?",
            f"What is {x} + {y}?", f"What is {x} * {z}?", f"What is {x * z} divided by {z}?",
            f"What is {rng.randint(5, 95)}% of {rng.randint(2, 40) * 10}?",
            f"Solve for x: {z}x + {y} = {z * rng.randint(2, 20) + y}.",
            f"A train travels {x * 5} miles in {z} hours. What is its average speed?",
            f"A rectangle is {x} cm long and {y} cm wide. What are its area and its perimeter?",
            f"{a} buys {z} {i} for ${rng.randint(1, 9)} each and {rng.randint(2, 9)} {j} for ${rng.randint(1, 9)} each. "
            f"How much does {a} spend?",
            f"There are {x * 2} students in a class. Half of them are girls, and {rng.randint(1, 5)} girls are absent. "
            "How many girls are present?",
            f"{a} is {z} years older than {b}. In {rng.randint(2, 9)} years, {b} will be {x} years old. How old is {a} now?",
            f"{a} reads {x} pages on Monday, twice as many on Tuesday and {y} fewer on Wednesday than on Tuesday. "
            f"How many pages does {a} read altogether?",
            f"{a} and {b} share {x * 2} {i}. {a} gets {z} more than {b}. How many {i} does each of them get?",
            f"A shop sells {i} at ${z} and {j} at ${rng.randint(2, 9)}. On one day it sells {x} {i} and {y} {j}. How much "
            "money does it take?",
            f"{a} saves ${x} a week. After how many weeks can {a} buy a bicycle for ${x * z + rng.randint(0, x)}?",
            f"It takes {a} {x} minutes to walk to school and {b} {z} minutes longer. How long do both walk in a week of five "
            "days, there and back?",
            f"Round {rng.randint(1000, 99999) / 100} to the nearest whole number.",
            f"List the first {z} multiples of {rng.randint(3, 19)}.",
        )) + rng.choice(("", "", "", " Think step by step.", " Explain your answer.", " Show your work."))


def read_texts(rng, folders, files=500):
    """(paragraphs, Python stubs) from the standard library's own sources and from any folders of text; at most `files`
    files of each folder."""
    paragraphs, stubs = [], []
    for folder in (sysconfig.get_paths()["stdlib"], *folders):
        root = Path(folder)
        skip = {"test", "tests", "idlelib", "site-packages", "dist-packages"} - set(root.parts)
        found = sorted(p for p in root.rglob("*") if p.suffix in (".py", ".txt", ".md", ".rst") and skip.isdisjoint(p.parts)
                       and p.stat().st_size < 400_000)
        for path in rng.sample(found, min(files, len(found))):
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            if path.suffix == ".py":
                _python_texts(text, paragraphs, stubs)
            else:
                paragraphs += re.split(r"\n\s*\n", text)[:40]
    clean = (re.sub(r"\s+", " ", p).strip() for p in paragraphs)
    keep = [p for p in clean if 160 < len(p) < 900 and sum(c.isalpha() for c in p) > 0.7 * len(p)]
    return list(dict.fromkeys(keep)), list(dict.fromkeys(stubs))


def _python_texts(source, paragraphs, stubs):
    """Docstrings as prose, and 'def f(...): docstring' without its body as a stub."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    lines = source.splitlines(keepends=True)
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
            continue
        doc = ast.get_docstring(node)
        if not doc:
            continue
        paragraphs.extend(re.split(r"\n\s*\n", doc)[:8])
        if isinstance(node, ast.FunctionDef) and 40 < len(doc) < 600 and len(node.body) > 1:
            indent = node.col_offset
            stub = "".join(l[indent:] for l in lines[node.lineno - 1:node.body[0].end_lineno])
            if len(stub) < 900:
                stubs.append(stub)


def user_texts(seed, counts, folders=()):
    """counts: {"tasks", "code", "arithmetic", "text", "stubs"} -> how many draws. Distinct texts, shuffled."""
    rng = random.Random(seed)
    found = list(seed_tasks(rng, counts["tasks"])) + list(code_tasks(rng, counts["code"]))
    found += arithmetic(rng, counts["arithmetic"])
    paragraphs, stubs = read_texts(rng, folders)
    for pool, forms, name, count in ((paragraphs, TEXT_FORMS, "f", counts["text"]), (stubs, STUB_FORMS, "s", counts["stubs"])):
        found += [rng.choice(forms).format(**{name: rng.choice(pool)}) for _ in range(count if pool else 0)]
    found = list(dict.fromkeys(found))
    rng.shuffle(found)
    return found


def openings(seed, count):
    """First words of questions; the target continues them as the user. Half are empty: unconditioned questions."""
    rng = random.Random(seed + 1)
    words = _lines("openings.txt")
    return ["" if rng.random() < 0.5 else rng.choice(words) for _ in range(count)]


def read_conversations(path, count=None):
    """User turns of a JSON or JSONL file: {"prompt"}, {"turns": [...]}, ShareGPT {"conversations": [{"from", "value"}]},
    OpenAI {"messages": [{"role", "content"}]}. Returns a list of lists of user turns; answers in the file are ignored,
    because the target writes its own."""
    import json

    text = Path(path).read_text()
    rows = json.loads(text) if text.lstrip().startswith("[") else [json.loads(l) for l in text.splitlines() if l.strip()]
    found = []
    for n, row in enumerate(rows[:count]):
        if isinstance(row, str):
            turns = [row]
        elif "prompt" in row:
            turns = [row["prompt"]]
        elif "turns" in row:
            turns = row["turns"]
        elif "conversations" in row:
            turns = [m["value"] for m in row["conversations"] if m["from"] in ("human", "user")]
        elif "messages" in row:
            turns = [m["content"] for m in row["messages"] if m["role"] == "user"]
        else:
            raise SystemExit(f"{path}: entry {n + 1} has keys {sorted(row)}; expected prompt, turns, conversations or messages")
        found.append([t for t in turns if t])
    return [t for t in found if t]
