#!/usr/bin/env python3
"""Reports what has grown too large to read: files, functions, parameter lists, nesting. Fails only for files over 600 lines.

    scripts/size_report.py [--root DIR]

Limits: a file 400 lines (600 fails), a function 80 (kernels 250), 6 parameters, nesting 3. Functions are found by their braces after the
text is stripped of comments and strings, which clang-formatted code allows; it is a report, not a parser.
"""

import argparse
import re
import sys
from pathlib import Path

import tree

FILE_LOOK, FILE_FAIL = 400, 600
FUNCTION, KERNEL_FUNCTION = 80, 250
PARAMETERS, NESTING = 6, 3
SUFFIXES = (".h", ".cc", ".cu", ".cuh", ".rs", ".py", ".sh", ".cmake")
KERNEL_FOLDERS = ("src/kernels/cpu/", "src/kernels/cuda/")

NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|R"([a-z]*)\(.*?\)\1"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
NOT_FUNCTION = re.compile(r"\b(if|for|while|switch|catch|return|namespace|class|struct|enum|union|extern|do|else|try)\b")
CONTAINER = re.compile(r"\b(namespace|class|struct|enum|union|extern)\b")


def strip(text):
    """The text with comments, strings and preprocessor lines blanked; lines keep their numbers."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])
    text = NOISE.sub(blank, text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.MULTILINE)


def count_parameters(head):
    """Parameters of the last balanced (...) of a function's head; template arguments hide their commas."""
    end = head.rfind(")")
    depth, angle, commas = 0, 0, 0
    for position in range(end, -1, -1):
        char = head[position]
        depth += (char == ")") - (char == "(")
        angle += (char == ">") - (char == "<")
        commas += char == "," and depth == 1 and angle == 0
        if depth == 0:
            return commas + 1 if head[position + 1:end].strip() else 0
    return 0


def function_name(head):
    match = re.search(r"([\w:~]+)\s*\(", head)
    return match[1] if match else head.strip()[:40]


def parameter_head(head):
    """A head without what may follow its parameters: constructor initialisers, qualifiers, a trailing return type."""
    depth = 0
    for position, char in enumerate(head):
        depth += (char == "(") - (char == ")")
        if char == ")" and depth == 0:
            return head[:position + 1]
    return head


def functions(text):
    """(name, first line, lines, parameters, deepest nesting) of each function body."""
    stack, head_start, line, parens = [], 0, 1, 0
    for position, char in enumerate(text):
        line += char == "\n"
        parens += (char == "(") - (char == ")")
        if char == ";" and parens == 0:
            head_start = position + 1
        elif char == "{":
            head = text[head_start:position]
            inside = any(block["function"] for block in stack)
            is_function = not inside and parens == 0 and "(" in head and not NOT_FUNCTION.search(head.split("(")[0])
            stack.append({"function": is_function, "head": head, "line": line, "deepest": 0, "parens": parens})
            parens = 0
            if inside and not re.search(r"[=,({]\s*$", head) and re.search(r"\b(if|for|while|switch|do|else|try|catch)\b", head):
                stack[-1]["nests"] = True
                depth = sum(block.get("nests", False) for block in stack)
                for block in stack:
                    block["deepest"] = max(block["deepest"], depth)
            head_start = position + 1
        elif char == "}" and stack:
            block = stack.pop()
            parens = block["parens"]
            head_start = position + 1
            if block["function"]:
                head = parameter_head(block["head"].lstrip())
                yield function_name(head), block["line"], line - block["line"] + 1, count_parameters(head), block["deepest"]


def report_functions(name, text):
    limit = KERNEL_FUNCTION if name.startswith(KERNEL_FOLDERS) else FUNCTION
    for function, line, lines, parameters, nesting in functions(strip(text)):
        where = f"{name}:{line}: {function}"
        if lines > limit:
            yield f"{where} has {lines} lines (look again over {limit})"
        if parameters > PARAMETERS:
            yield f"{where} has {parameters} parameters (look again over {PARAMETERS})"
        if nesting > NESTING:
            yield f"{where} nests {nesting} deep (look again over {NESTING})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    failures, notes, total = [], [], 0
    names = [n for n in tree.project_files(root) if n.endswith(SUFFIXES)]
    for name in names:
        text = (root / name).read_text(encoding="utf-8")
        lines = text.count("\n")
        total += lines
        if lines > FILE_FAIL:
            failures.append(f"{name}:1: {lines} lines (at most {FILE_FAIL})")
        elif lines > FILE_LOOK:
            notes.append(f"{name}:1: {lines} lines (look again over {FILE_LOOK})")
        if name.endswith((".h", ".cc", ".cu", ".cuh")):
            notes.extend(report_functions(name, text))
    for line in notes + failures:
        print(line)
    print(f"size_report: {len(names)} files, {total} lines; {len(notes)} to look at again, {len(failures)} too long")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
