"""mutation_check.py: what it refuses, counts as caught, remembers and restores; and that its table fits this very tree."""

import argparse
import contextlib
import dataclasses
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))
import mutation_check
from mutations import MUTATIONS, Mutation

BUG = Mutation("minus", "a sign", "src/a.cc", "a + b", "a - b", ("a_test",))


class Table(unittest.TestCase):
    def test_fits_the_code(self):
        mutation_check.check_entries(MUTATIONS, SCRIPTS.parent)

    def test_is_long_enough_and_says_what_it_is_about(self):
        self.assertGreaterEqual(len(MUTATIONS), 25)
        for mutation in MUTATIONS:
            self.assertTrue(mutation.kind and mutation.tests, mutation.name)


class FakeWorkplace:
    """Tests fail, or the build does, where the applied text says so."""

    def __init__(self, copy, failing=(), broken=False):
        self.copy, self.failing, self.broken = copy, failing, broken
        self.prepared, self.ran, self.sound = 0, [], set()

    def text(self):
        return (self.copy / BUG.file).read_text()

    def prepare(self, root):
        self.prepared += 1
        mutation_check.copy_if_changed(root / BUG.file, self.copy / BUG.file)

    def build(self, _targets):
        return "error: no" if self.broken and BUG.new in self.text() else ""

    def failure(self, test):
        self.ran.append(test)
        return "Suite.Case" if test in self.failing and BUG.new in self.text() else None


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "root"
        self.copy = Path(folder.name) / "copy"
        self.results = Path(folder.name) / "results.json"
        (self.root / "src").mkdir(parents=True)
        self.write("int F(int a, int b) { return a + b; }\n")

    def write(self, text):
        (self.root / BUG.file).write_text(text)

    def run_all(self, workplace, mutation=BUG, fresh=False, named=False):
        options = argparse.Namespace(fresh=fresh, named=named)
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
            code = mutation_check.run([mutation], workplace, self.results, options, self.root)
        return code, out.getvalue()

    def test_caught_by_the_named_test(self):
        workplace = FakeWorkplace(self.copy, failing=("a_test",))
        code, out = self.run_all(workplace)
        self.assertEqual(code, 0)
        self.assertIn("a_test: Suite.Case", out)
        self.assertEqual(workplace.ran[-1], "a_test", "the others are not run")
        self.assertIn("a + b", workplace.text(), "restored")

    def test_caught_by_another_fast_test(self):
        code, out = self.run_all(FakeWorkplace(self.copy, failing=("kv_test",)))
        self.assertEqual(code, 0)
        self.assertIn("kv_test: Suite.Case", out)

    def test_named_tests_alone(self):
        self.assertEqual(self.run_all(FakeWorkplace(self.copy, failing=("kv_test",)), named=True)[0], 1)

    def test_another_test_must_pass_without_the_bug_too(self):
        workplace = FakeWorkplace(self.copy)
        workplace.failure = lambda test: "Suite.Case" if test == "kv_test" else None
        with self.assertRaisesRegex(mutation_check.Refused, "fails kv_test"):
            self.run_all(workplace)
        self.assertIn("a + b", workplace.text(), "restored")

    def test_a_survivor_fails(self):
        code, out = self.run_all(FakeWorkplace(self.copy))
        self.assertEqual(code, 1)
        self.assertIn("0 of 1 caught; not: minus", out)

    def test_what_does_not_compile_is_not_caught(self):
        code, out = self.run_all(FakeWorkplace(self.copy, broken=True))
        self.assertEqual(code, 1)
        self.assertIn("DOES NOT COMPILE", out)

    def test_unless_the_compiler_is_to_catch_it(self):
        by_compiler = dataclasses.replace(BUG, compiles=False)
        self.assertEqual(self.run_all(FakeWorkplace(self.copy, broken=True), by_compiler)[0], 0)
        self.assertEqual(self.run_all(FakeWorkplace(self.copy), by_compiler, fresh=True)[0], 1, "now it compiles")

    def test_code_that_fails_without_a_bug_is_refused(self):
        self.write("int F(int a, int b) { return a + b; }  // a - b\n")
        with self.assertRaisesRegex(mutation_check.Refused, "fails a_test"):
            self.run_all(FakeWorkplace(self.copy, failing=("a_test",)))

    def test_results_are_remembered_while_the_file_is_the_same(self):
        self.run_all(FakeWorkplace(self.copy, failing=("a_test",)))
        again = FakeWorkplace(self.copy)
        self.assertEqual(self.run_all(again)[0], 0)
        self.assertEqual(again.prepared, 0)
        self.write("int F(int a, int b) { return a + b; }  // new\n")
        self.assertEqual(self.run_all(again)[0], 1)
        self.assertEqual(json.loads(self.results.read_text())["minus"]["verdict"], mutation_check.SURVIVED)

    def test_survivors_are_tried_again(self):
        self.run_all(FakeWorkplace(self.copy))
        self.assertEqual(self.run_all(FakeWorkplace(self.copy, failing=("a_test",)))[0], 0)

    def test_text_that_is_not_there_once_is_refused(self):
        for text, message in (("int x;\n", "0 times"), ("a + b; a + b;\n", "2 times")):
            self.write(text)
            with self.assertRaisesRegex(mutation_check.Refused, message):
                self.run_all(FakeWorkplace(self.copy))
        (self.root / BUG.file).unlink()
        with self.assertRaisesRegex(mutation_check.Refused, "is missing"):
            self.run_all(FakeWorkplace(self.copy))

    def test_entries_named_twice_or_without_effect_are_refused(self):
        with self.assertRaisesRegex(mutation_check.Refused, "named twice"):
            mutation_check.check_entries([BUG, BUG], self.root)
        with self.assertRaisesRegex(mutation_check.Refused, "changes nothing"):
            mutation_check.check_entries([dataclasses.replace(BUG, new=BUG.old)], self.root)

    def test_the_copy_follows_the_work_tree(self):
        subprocess.run(["git", "init", "-q", self.root], check=True)
        (self.root / ".gitignore").write_text("build/\n")
        (self.copy / "build").mkdir(parents=True)
        (self.copy / "build" / "kept.o").write_text("")
        (self.copy / "gone.cc").write_text("")
        mutation_check.sync_tree(self.root, self.copy)
        self.assertEqual((self.copy / BUG.file).read_text(), (self.root / BUG.file).read_text())
        self.assertFalse((self.copy / "gone.cc").exists())
        self.assertTrue((self.copy / "build" / "kept.o").exists())
        before = (self.copy / BUG.file).stat().st_mtime_ns
        mutation_check.sync_tree(self.root, self.copy)
        self.assertEqual((self.copy / BUG.file).stat().st_mtime_ns, before, "what is the same is not built again")


class Output(unittest.TestCase):
    def test_the_case_that_failed(self):
        self.assertEqual(mutation_check.failed_case("[ RUN      ] A.B\n[  FAILED  ] A.B (3 ms)\n"), "A.B")
        self.assertEqual(mutation_check.failed_case("[ RUN      ] A.B\n[       OK ] A.B\n[ RUN      ] A.C/0\ncheck failed\n"), "A.C/0")
        self.assertEqual(mutation_check.failed_case("Segmentation fault\n"), "")


if __name__ == "__main__":
    unittest.main()
