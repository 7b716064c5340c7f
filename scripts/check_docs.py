#!/usr/bin/env python3
"""Fails where the Markdown pages promise what the tree does not hold: relative links, paths and tests in
backticks, make targets, unfinished words.

    scripts/check_docs.py [--root DIR]

Also fails for such words in any source file: what is left undone is said where the work is planned, not in the code.
"""

import argparse
import re
import sys
from pathlib import Path

import tree

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
TREE_PATH = re.compile(r"`((?:src|include|scripts|bench|cmake|docs|models|tests|examples|train)/[\w./-]+)`")
TEST_NAME = re.compile(r"`([A-Z]\w*\.[A-Z]\w*)`")
TEST_MACRO = re.compile(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", re.MULTILINE)
MAKE = re.compile(r"(?:^|[`\s])(?:make|\./run) ([a-z][a-z0-9-]*)", re.MULTILINE)
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
SOURCES = (".h", ".cc", ".cu", ".cuh", ".rs", ".py", ".sh", ".cmake", ".txt", ".md", ".json")


def line_of(text, match):
    return text[:match.start(1)].count("\n") + 1


def test_names(root):
    """Suite.Test of every C++ test."""
    names = set()
    for name in tree.project_files(root):
        if name.endswith("_test.cc"):
            names |= {f"{suite}.{test}" for suite, test in TEST_MACRO.findall((root / name).read_text(encoding="utf-8"))}
    return names


def check_page(root, name, text, targets, tests):
    folder = (root / name).parent
    for match in LINK.finditer(text):
        if "://" not in match[1] and not match[1].startswith("mailto:") and not (folder / match[1]).exists():
            yield f"{name}:{line_of(text, match)}: link to {match[1]}, which does not exist"
    for match in TREE_PATH.finditer(text):
        if not (root / match[1]).exists():
            yield f"{name}:{line_of(text, match)}: names {match[1]}, which does not exist"
    for match in TEST_NAME.finditer(text):
        if match[1] not in tests:
            yield f"{name}:{line_of(text, match)}: names the test {match[1]}, which does not exist"
    for code in CODE.finditer(text):
        for match in MAKE.finditer(code[0]):
            if match[1] not in targets:
                yield f"{name}:{text[:code.start() + match.start(1)].count(chr(10)) + 1}: make has no target {match[1]}"


def check(root):
    makefile = root / "Makefile"
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile.read_text(), re.MULTILINE)) if makefile.exists() else set()
    tests = test_names(root)
    for name in tree.project_files(root):
        if not name.endswith(SOURCES) or "corpus" in name or name.startswith("tests/goldens/"):
            continue
        text = (root / name).read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if UNFINISHED.search(line):
                yield f"{name}:{number}: unfinished: {line.strip()[:80]}"
        if name.endswith(".md"):
            yield from check_page(root, name, text, targets, tests)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    violations = list(check(parser.parse_args().root.resolve()))
    for violation in violations:
        print(violation)
    print(f"check_docs: {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
