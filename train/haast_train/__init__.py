# SPDX-License-Identifier: Apache-2.0
"""Trains EAGLE-3 and EAGLE-3.1 draft heads. The recipe: docs/training.md."""

__version__ = "0.1.0"
