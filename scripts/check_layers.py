#!/usr/bin/env python3
"""Fails when a folder includes what its layer may not know: prints file:line of each violation.

    scripts/check_layers.py [--root DIR]

The table below is that of docs/architecture.md. Checked are the quoted includes of C++ files, the angle includes of the public headers,
the DEPS of each folder's haast_library, and that only the table of knobs reads the environment.
"""

import argparse
import re
import sys
from pathlib import Path

# A folder of src -> what else of src it may include. All folders may include include/haast, base and core, unless ONLY says less.
MAY_INCLUDE = {
    "base": [],
    "core": [],
    "kernels": [],
    "io": [],
    "attention": ["kernels", "io/json.h", "io/json_lines.h"],
    "kv": [],
    "sampling": ["kernels"],
    "model": ["attention", "kernels", "io"],
    "exec": ["model", "kv", "attention", "kernels"],
    "spec": ["exec", "sampling", "model", "kv"],
    "text": [],
    "engine": ["spec", "exec", "sampling", "kv", "model", "io"],
    "cli": ["text", "io/json.h", "io/json_lines.h"],
}
# What the lowest layers may include of base and core.
ONLY = {"base": [], "core": ["base"], "text": ["base"]}
# Front doors link the engine, though they may not include it.
FRONT_DOORS = {"cli"}
# The public headers stand alone: the standard library, tl::expected and each other.
PUBLIC_ANGLE = re.compile(r"^([a-z_0-9]+|tl/expected\.hpp)$")
ENVIRONMENT_READER = "src/base/knobs.cc"

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")
LIBRARY = re.compile(r"haast_library\s*\(([^)]*)\)")


def allowed_folders(folder):
    low = ONLY.get(folder, ["base", "core"])
    return [folder, "haast", *low, *MAY_INCLUDE[folder]]


def is_allowed(include, allowed):
    return include in allowed or include.split("/")[0] in allowed


def cpp_files(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in (".h", ".cc", ".cu", ".cuh") and "target" not in p.parts)


def numbered_lines(path):
    return enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)


def check_source(path, name, allowed):
    """One file of src: quoted includes name a folder that `allowed` holds. Tests and what only they use may include tests/support."""
    if path.stem.endswith(("_test", "_fuzz", "_test_util", "_harness")):
        allowed = allowed + ["support"]
    for number, line in numbered_lines(path):
        match = INCLUDE.match(line)
        if match and match[1] == '"' and not is_allowed(match[2], allowed):
            yield f'{name}:{number}: may not include "{match[2]}"; allowed here: {", ".join(allowed)}'
        if GETENV.search(line) and name != ENVIRONMENT_READER:
            yield f"{name}:{number}: reads the environment; add a knob to {ENVIRONMENT_READER} instead"


def check_public(path, name):
    for number, line in numbered_lines(path):
        match = INCLUDE.match(line)
        if not match:
            continue
        if match[1] == '"' and not match[2].startswith("haast/"):
            yield f'{name}:{number}: a public header may not include "{match[2]}"; only "haast/..."'
        if match[1] == "<" and not PUBLIC_ANGLE.match(match[2]):
            yield f"{name}:{number}: a public header may include the standard library and <tl/expected.hpp>, not <{match[2]}>"


def check_link(path, name, folder):
    """The libraries that a folder's own library links."""
    text = path.read_text(encoding="utf-8")
    allowed = [a.split("/")[0] for a in allowed_folders(folder)]
    for call in LIBRARY.finditer(text):
        for dep in re.finditer(r"\bhaast_([a-z]+)\b", call[1]):
            if dep[1] in MAY_INCLUDE and dep[1] not in allowed:
                number = text[: call.start(1) + dep.start()].count("\n") + 1
                yield f"{name}:{number}: may not link haast_{dep[1]}; allowed here: {', '.join(allowed)}"


def check_folder(root, folder):
    name = folder.name
    if name not in MAY_INCLUDE:
        yield f"src/{name}:1: this folder is not in the table of layers (scripts/check_layers.py, docs/architecture.md)"
        return
    for path in cpp_files(folder):
        yield from check_source(path, str(path.relative_to(root)), allowed_folders(name))
    if name not in FRONT_DOORS:
        for path in sorted(folder.rglob("CMakeLists.txt")):
            yield from check_link(path, str(path.relative_to(root)), name)


def check(root):
    for folder in sorted(p for p in (root / "src").iterdir() if p.is_dir()):
        yield from check_folder(root, folder)
    for path in cpp_files(root / "include"):
        yield from check_public(path, str(path.relative_to(root)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    violations = list(check(root))
    for violation in violations:
        print(violation)
    print(f"check_layers: {len(violations)} violations in {len(cpp_files(root / 'src')) + len(cpp_files(root / 'include'))} files")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
