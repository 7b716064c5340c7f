"""Each limit of size_report.py is tripped once, and near misses are not."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))
import size_report


def notes(text, name="src/kv/a.cc"):
    return list(size_report.report_functions(name, text))


class Functions(unittest.TestCase):
    def test_long_function_and_kernel(self):
        text = "namespace n {\nint F(int a) {\n" + "  ++a;\n" * 100 + "  return a;\n}\n}  // namespace n\n"
        self.assertEqual(notes(text), ["src/kv/a.cc:2: F has 103 lines (look again over 80)"])
        self.assertEqual(notes(text, "src/kernels/cpu/a.cc"), [])

    def test_parameters(self):
        seven = "void Pool::Put(int a, std::map<int, int> b, int c, int d, int e, int f, std::function<void(int, int)> g) const {\n}\n"
        self.assertEqual(notes(seven), ["src/kv/a.cc:1: Pool::Put has 7 parameters (look again over 6)"])
        self.assertEqual(notes(seven.replace("int f, ", "")), [])

    def test_constructor_initialisers_are_no_parameters(self):
        self.assertEqual(notes("Pool::Pool(int a) : b_(a, 1, 2, 3, 4, 5, 6, 7), c_{a} {\n}\n"), [])

    def test_nesting(self):
        text = "void F() {\n  for (;;) {\n    if (a) {\n      while (b) {\n        if (c) {\n        }\n      }\n    }\n  }\n}\n"
        self.assertEqual(notes(text), ["src/kv/a.cc:1: F nests 4 deep (look again over 3)"])

    def test_braces_in_strings_and_comments(self):
        self.assertEqual(notes('void F() {\n  Put("{{{");  // {{{\n}\n'), [])


class Files(unittest.TestCase):
    def run_on(self, lines):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "a.cc").write_text("int x;\n" * lines)
            return subprocess.run([sys.executable, SCRIPTS / "size_report.py", "--root", folder], capture_output=True, text=True)

    def test_file_over_600_fails(self):
        result = self.run_on(601)
        self.assertEqual(result.returncode, 1)
        self.assertIn("a.cc:1: 601 lines (at most 600)", result.stdout)

    def test_file_over_400_is_reported(self):
        result = self.run_on(401)
        self.assertEqual(result.returncode, 0)
        self.assertIn("a.cc:1: 401 lines (look again over 400)", result.stdout)


if __name__ == "__main__":
    unittest.main()
