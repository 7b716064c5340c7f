# SPDX-License-Identifier: Apache-2.0
"""Runs test_kernels.py under Triton's interpreter where there is no GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from haast_train import kernels


@pytest.mark.skipif(torch.cuda.is_available() or kernels.triton is None, reason="test_kernels.py ran on the GPU, or no Triton")
def test_kernels_in_the_interpreter():
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", str(here / "test_kernels.py")], cwd=here.parent, text=True,
                          capture_output=True, env={**os.environ, "TRITON_INTERPRET": "1"})
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout[-3000:]
