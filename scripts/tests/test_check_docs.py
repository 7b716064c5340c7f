"""Each rule of check_docs.py is tripped once."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import check_docs


class CheckDocs(unittest.TestCase):
    def check(self, page, **files):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "Makefile").write_text("run: build\nbuild:\n")
            (root / "src").mkdir()
            (root / "src" / "a.cc").write_text(files.get("source", ""))
            (root / "src" / "engine_test.cc").write_text("TEST_F(Engine, Runs) {}\n")
            (root / "README.md").write_text(page)
            return list(check_docs.check(root))

    def test_good_page(self):
        page = "See [a](src/a.cc#L1), [web](https://example.org/x), `src/a.cc`; do `make run`, then make sure.\n```\n./run build\n```\n"
        self.assertEqual(self.check(page), [])

    def test_broken_link(self):
        self.assertEqual(self.check("\n[a](src/b.cc)"), ["README.md:2: link to src/b.cc, which does not exist"])

    def test_missing_path(self):
        self.assertEqual(self.check("`src/b.cc`"), ["README.md:1: names src/b.cc, which does not exist"])

    def test_missing_test(self):
        self.assertEqual(self.check("`Engine.Runs` and `Engine.Flies`"), ["README.md:1: names the test Engine.Flies, which does not exist"])

    def test_missing_target(self):
        self.assertEqual(self.check("a\n```\nmake fly\n```\n"), ["README.md:3: make has no target fly"])

    def test_unfinished(self):
        word = "TO" + "DO"
        self.assertEqual(self.check("", source=f"// {word}: later\n"), [f"src/a.cc:1: unfinished: // {word}: later"])


if __name__ == "__main__":
    unittest.main()
