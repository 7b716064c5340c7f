"""Which files run_clang_tidy.py takes and in which order, on small repositories made here."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))
import run_clang_tidy


class Repository(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()

    def git(self, *arguments):
        settings = ["-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *settings, "-C", self.root, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, **files):
        for name, text in files.items():
            path = self.root / name.replace("__", "/").replace("_h", ".h").replace("_cc", ".cc")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "m")
        return self.git("rev-parse", "HEAD")

    def base(self):
        return run_clang_tidy.base_commit(self.root)

    def test_base_is_none_without_history(self):
        self.assertIsNone(self.base())
        self.git("init", "-q")
        self.assertIsNone(self.base())
        self.commit(a_cc="")
        self.assertIsNone(self.base())

    def test_base_is_the_commit_before_or_where_the_branch_left(self):
        self.git("init", "-q")
        first = self.commit(a_cc="1")
        second = self.commit(a_cc="2")
        self.assertEqual(self.base(), first)
        self.git("update-ref", "refs/remotes/origin/main", second)
        self.assertEqual(self.base(), first)  # on origin/main itself
        self.commit(a_cc="3")
        self.commit(a_cc="4")
        self.assertEqual(self.base(), second)

    def test_changed_files_and_those_that_include_a_changed_header(self):
        self.git("init", "-q")
        first = self.commit(src__kv__a_h="1", src__a_cc='#include "kv/a.h"\n', src__b_cc="1", src__c_cc='#include "kv/b.h"\n',
                            tests__support__t_h="1", tests__d_cc='#include "support/t.h"\n')
        self.commit(src__kv__a_h="2", src__b_cc="2", tests__support__t_h="2")
        files = sorted(self.root.rglob("*.cc"))
        changed = run_clang_tidy.changed_since(first, files, self.root)
        self.assertEqual([f.name for f in changed], ["a.cc", "b.cc", "d.cc"])
        with self.assertRaisesRegex(SystemExit, "no commit nowhere"):
            run_clang_tidy.changed_since("nowhere", files, self.root)


class Order(unittest.TestCase):
    def test_changed_files_then_the_rotation(self):
        self.assertEqual(run_clang_tidy.ordered(["a", "b", "c", "d"], ["c"], 1), ["c", "b", "d", "a"])
        self.assertEqual(run_clang_tidy.ordered(["a", "b", "c", "d"], ["a", "c"], 1), ["c", "a", "b", "d"])
        self.assertEqual(run_clang_tidy.ordered(["a", "b", "c"], [], 4), ["b", "c", "a"])
        self.assertEqual(run_clang_tidy.ordered([], [], 4), [])

    def test_findings_in_other_files_fail_only_without_changed_first(self):
        self.assertEqual(run_clang_tidy.verdict(["a"], [], False), 1)
        self.assertEqual(run_clang_tidy.verdict([], [], False), 0)
        self.assertEqual(run_clang_tidy.verdict(["a"], ["b"], True), 0)
        self.assertEqual(run_clang_tidy.verdict(["a", "b"], ["b"], True), 1)


if __name__ == "__main__":
    unittest.main()
