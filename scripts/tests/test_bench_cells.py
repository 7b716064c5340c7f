"""bench/acceptance.py and bench/auto_sweep.py against a stand-in for haast that prints known figures and counts its runs."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

HAAST = """#!{python}
import json, sys
from pathlib import Path
args = sys.argv
facts = json.loads(Path({facts!r}).read_text())
with open({runs!r}, "a") as runs:
    runs.write(" ".join(args[1:]) + "\\n")
algorithm = args[args.index("--speculative-algorithm") + 1]
drafts = args[args.index("--num-draft-tokens") + 1] if "--num-draft-tokens" in args else "0"
name = "off" if algorithm == "none" else "auto" if drafts == "0" else drafts
tps = facts["tps"].get(name, 100.0)
print(json.dumps({{"speculation": {{"tau": 1.0 + int(drafts), "answers_checksum": facts["checksum"].get(name, "00ab"),
      "speculative_tps": {{"median": tps}}, "speculative_priced": {{"tps": tps, "decode_tps": 2 * tps}}}}}}))
"""


class Cells(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.runs = self.root / "runs.txt"
        haast = self.root / "haast"
        haast.write_text(HAAST.format(python=sys.executable, facts=str(self.root / "facts.json"), runs=str(self.runs)))
        haast.chmod(0o755)
        self.say({"off": 100.0, "1": 120.0, "3": 150.0, "5": 130.0, "auto": 149.0})

    def say(self, tps, checksum=None):
        (self.root / "facts.json").write_text(json.dumps({"tps": tps, "checksum": checksum or {}}))

    def script(self, name, *more):
        command = [sys.executable, ROOT / "bench" / name, "--haast", self.root / "haast", "--out", self.root / "cells", "--prompts", "a/one.jsonl",
                   "--prompts", "two.jsonl", *more]
        return subprocess.run(command, capture_output=True, text=True)

    def num_runs(self):
        return len(self.runs.read_text().splitlines())

    def test_acceptance_prints_tau_and_speed(self):
        result = self.script("acceptance.py", "--costs", "costs.json", "--algorithms", "eagle3,ngram", "--shapes", "chain3,tree60")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| drafter | shape | T | one | two |", result.stdout)
        self.assertIn("| eagle3 | chain3 | 0 | 4.00, 1.50x | 4.00, 1.50x |", result.stdout)
        self.assertIn("| eagle3 | tree60 | 1 | 61.00, 1.00x | 61.00, 1.00x |", result.stdout)
        self.assertNotIn("ngram | tree60", result.stdout)
        self.assertEqual(self.num_runs(), 4 * 4)  # plain, two eagle3, one ngram
        self.assertIn("--draft-top-k 8 --draft-depth 6 --costs costs.json", self.runs.read_text())

    def test_a_stopped_run_goes_on(self):
        self.script("acceptance.py", "--temperatures", "0")
        before = self.num_runs()
        (self.root / "cells" / "one.eagle3.chain5.T0.c1.0x256.json").unlink()
        result = self.script("acceptance.py", "--temperatures", "0")
        self.assertIn("| eagle3 | chain5 | 0 | 6.00 | 6.00 |", result.stdout)
        self.assertEqual(self.num_runs(), before + 1)

    def test_acceptance_fails_where_an_answer_differs(self):
        self.say({}, {"5": "00ff"})
        result = self.script("acceptance.py")
        self.assertEqual(result.returncode, 1)
        self.assertIn("two.eagle3.chain5.T1.c1.0x256: answers DIFFER", result.stderr)
        self.assertNotIn("chain3.T1.c1.0x256: answers DIFFER", result.stderr)

    def test_acceptance_compares_with_an_evaluation(self):
        for value, code in ((4.1, 0), (4.5, 1)):
            (self.root / "evaluation.json").write_text(json.dumps({"one/T0": {"tau_chain_3": value}}))
            result = self.script("acceptance.py", "--temperatures", "0", "--shapes", "chain3", "--compare", self.root / "evaluation.json")
            self.assertEqual(result.returncode, code, result.stdout)

    def sweep(self, *more):
        return self.script("auto_sweep.py", "--costs", "costs.json", "--concurrency", "1,4", "--temperatures", "0", "--deepest", "3", *more)

    def test_sweep_prints_the_points(self):
        result = self.sweep()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| one | 0 | 4 | 100 | chain3, 150 | 0.993 | 1.490 |", result.stdout)
        self.assertEqual(self.num_runs(), 2 * 2 * 5)
        self.assertIn("auto / best fixed: least 0.993, median 0.993", result.stderr)

    def test_sweep_fails_below_the_best_fixed_chain_and_below_off(self):
        self.say({"off": 100.0, "3": 150.0, "auto": 146.0})
        result = self.sweep()
        self.assertEqual(result.returncode, 1)
        self.assertIn("0.973 BAD", result.stdout)
        self.say({"off": 200.0, "3": 150.0, "auto": 193.0})
        (self.root / "cells").rename(self.root / "old")
        result = self.sweep()
        self.assertIn("| off, 200 | 0.965 BAD | 0.965 |", result.stdout)
        self.assertEqual(result.returncode, 1)

    def test_sweep_confirms_by_the_clock_without_the_costs(self):
        result = self.sweep("--confirm", "2", "--turns", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("| chain3 | 0.993 | 1.490 |"), 2)
        timed = [run for run in self.runs.read_text().splitlines() if "--costs" not in run]
        self.assertEqual(len(timed), 2 * 2 * 3)


if __name__ == "__main__":
    unittest.main()
