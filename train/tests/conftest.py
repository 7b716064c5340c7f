# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
import tiny  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def hf_folder(tmp_path_factory):
    return tiny.write_hf(tmp_path_factory.mktemp("hf"))


@pytest.fixture(scope="session")
def gguf_file(tmp_path_factory):
    return tiny.write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="session")
def target(hf_folder):
    from haast_train.target import load_target

    return load_target(hf_folder, torch.device("cpu"))


@pytest.fixture(scope="session")
def tokenizer(hf_folder):
    from haast_train.tokenizer import load_tokenizer

    return load_tokenizer(hf_folder)
