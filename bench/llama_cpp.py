#!/usr/bin/env python3
"""Builds the peer that bench/compare.py measures against: llama.cpp, as the source package of llama-cpp-python 0.3.36 carries it.

    bench/llama_cpp.py [--cache DIR] [--jobs N]

Prints the path of `llama-bench` as its last line. Sources and build stay in the cache folder, outside the repository; a finished build is
used again. Native, static, Release: about 6 minutes on two free cores.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "llama-cpp-python"
VERSION = "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
TARGETS = ["llama-bench", "llama-simple"]
# LLAMA_USE_PREBUILT_UI would download a web page at configure time.
OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_UI=OFF",
           "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_APP=OFF"]


def say(text):
    print(f"llama_cpp: {text}", file=sys.stderr, flush=True)


def default_cache():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "haast" / "llama.cpp"


def fetch_sdist(cache):
    """The source package, through pip's configured index, checked against SHA256."""
    name = f"{PACKAGE.replace('-', '_')}-{VERSION}.tar.gz"
    target = cache / name
    if not target.exists():
        say(f"downloading {PACKAGE} {VERSION} (77 MB)")
        with tempfile.TemporaryDirectory(dir=cache) as work:
            subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", PACKAGE, "-d", work,
                            f"{PACKAGE}=={VERSION}"], check=True, stdout=sys.stderr)
            os.replace(Path(work) / name, target)
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    if digest != SHA256:
        target.unlink()
        sys.exit(f"{target}: expected sha256 {SHA256}, got {digest}; removed, run again")
    return target


def unpack(sdist, cache):
    """Only the vendored llama.cpp, renamed into place when complete."""
    source = cache / f"source-{VERSION}"
    if source.exists():
        return source
    say("unpacking")
    prefix = f"{PACKAGE.replace('-', '_')}-{VERSION}/vendor/llama.cpp/"
    with tempfile.TemporaryDirectory(dir=cache) as work:
        with tarfile.open(sdist) as tar:
            members = [m for m in tar.getmembers() if m.name.startswith(prefix)]
            for member in members:
                member.name = member.name[len(prefix):]
            tar.extractall(Path(work) / "source", members=members)
        os.replace(Path(work) / "source", source)
    return source


def build(source, cache, jobs):
    out = cache / f"build-{VERSION}"
    binaries = [out / "bin" / name for name in TARGETS]
    if (out / "complete").exists() and all(b.exists() for b in binaries):
        return binaries[0]
    say(f"building {', '.join(TARGETS)} with {jobs} jobs at low priority")
    nice = ["nice", "-n", "19"]
    subprocess.run([*nice, "cmake", "-S", source, "-B", out, "-G", "Ninja", *OPTIONS], check=True, stdout=sys.stderr)
    subprocess.run([*nice, "ninja", "-C", out, f"-j{jobs}", *TARGETS], check=True, stdout=sys.stderr)
    (out / "complete").touch()
    return binaries[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of sources and build (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    for tool in ("cmake", "ninja"):
        if not shutil.which(tool):
            sys.exit(f"llama_cpp: {tool} is not on the PATH; `make deps` installs it")
    args.cache.mkdir(parents=True, exist_ok=True)
    print(build(unpack(fetch_sdist(args.cache), args.cache), args.cache, args.jobs))


if __name__ == "__main__":
    main()
