"""bench/compare.py against stand-ins for haast and llama-bench that print known figures."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

HAAST = """#!{python}
import json, sys
report = {{"decode_tps": 200.0, "prefill_tps": 900.0, "verify_ms": {{str(m): 4.0 + m for m in range(1, 17)}}, "draft_step_ms": 0.5,
           "roofline": 0.75, "read_gb_per_s": 30.0}}
if "--prompts" in sys.argv:
    report["speculation"] = {speculation}
print(json.dumps(report))
"""
PEER = """#!{python}
import json
print(json.dumps([{{"n_prompt": 512, "n_gen": 0, "avg_ts": 300.0}}, {{"n_prompt": 0, "n_gen": 128, "avg_ts": 80.0}}]))
"""
SPECULATION = {"plain_tps": {"min": 190.0, "median": 195.0, "max": 199.0}, "speculative_tps": {"min": 290.0, "median": 292.5, "max": 300.0},
               "plain_decode_tps": {"min": 200.0, "median": 200.0, "max": 200.0},
               "speculative_decode_tps": {"min": 320.0, "median": 320.0, "max": 320.0}, "tau": 2.75}


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        self.program("haast", HAAST.format(python=sys.executable, speculation=repr(SPECULATION)))
        self.program("llama-bench", PEER.format(python=sys.executable))
        (self.root / "m.gguf").write_text("")
        (self.root / "some_prompts.jsonl").write_text('{"turns": ["a"]}\n')

    def program(self, name, text):
        (self.root / name).write_text(text)
        (self.root / name).chmod(0o755)

    def compare(self, *more):
        command = [sys.executable, ROOT / "bench" / "compare.py", "--haast", self.root / "haast", "--model", self.root / "m.gguf",
                   "--prompts", self.root / "some_prompts.jsonl", "--rounds", "3", *more]
        return subprocess.run(command, capture_output=True, text=True)

    def test_table(self):
        result = self.compare("--llama-bench", self.root / "llama-bench", "--json", self.root / "out.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| llama.cpp, generating 128 | 80.0 (80.0 to 80.0) |", result.stdout)
        self.assertIn("| haast, some_prompts | 200.0 (200.0 to 200.0) | 320.0 (320.0 to 320.0) | 1.60 | 1.50 | 2.75 |", result.stdout)
        self.assertIn("haast's plain decoding is 2.50 x llama.cpp's, its prompts 3.00 x.", result.stdout)
        self.assertIn("| of M = 1 | 1.00 | 1.20 | 1.40 | 1.60 |", result.stdout)
        self.assertIn("reaches 75 % of it", result.stdout)
        self.assertEqual(len(json.loads((self.root / "out.json").read_text())["rounds"]["steps/decode_tps"]), 3)

    def test_a_second_peer(self):
        self.program("ik-bench", PEER.format(python=sys.executable).replace("80.0", "160.0"))
        result = self.compare("--llama-bench", self.root / "llama-bench", "--ik-bench", self.root / "ik-bench")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| ik_llama.cpp, generating 128 | 160.0 (160.0 to 160.0) |", result.stdout)
        self.assertIn("haast's plain decoding is 2.50 x llama.cpp's", result.stdout)
        self.assertIn("haast's plain decoding is 1.25 x ik_llama.cpp's", result.stdout)
        missing = self.compare("--no-peer", "--ik-bench", self.root / "none")
        self.assertIn("none does not exist", missing.stderr)

    def test_without_a_peer(self):
        result = self.compare("--no-peer")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("llama.cpp", result.stdout)

    def test_a_failing_program_is_named(self):
        self.program("haast", "#!/bin/sh\nexit 3\n")
        result = self.compare("--no-peer")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("ended with 3", result.stderr)

    def test_a_missing_model_is_named(self):
        (self.root / "m.gguf").unlink()
        result = self.compare("--no-peer")
        self.assertIn("m.gguf does not exist", result.stderr)


if __name__ == "__main__":
    unittest.main()
