"""Each rule of check_layers.py is tripped once, by a small tree that breaks it."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import check_layers


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        self.write("include/haast/engine.h", '#include <vector>\n#include <tl/expected.hpp>\n#include "haast/result.h"\n')
        self.write("src/kv/pool.cc", '#include "kv/pool.h"\n#include "core/dtype.h"\n#include "base/check.h"\n#include "haast/result.h"\n')

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def violations(self):
        return list(check_layers.check(self.root))

    def assert_one(self, start):
        found = self.violations()
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(start), found[0])

    def test_what_the_table_allows_passes(self):
        self.write("src/engine/step.cc", '#include "spec/drafter.h"\n#include "io/model_file.h"\n#include <fmt/format.h>\n')
        self.write("src/text/stop.cc", '#include "haast/constraint.h"\n')
        self.write("src/kv/pool_test.cc", '#include "support/encode.h"\n')
        self.assertEqual(self.violations(), [])

    def test_upward_include(self):
        self.write("src/model/llama.cc", '#include <cmath>\n\n#include "kv/page_pool.h"\n')
        self.assert_one('src/model/llama.cc:3: may not include "kv/page_pool.h"')

    def test_low_layers_see_less(self):
        self.write("src/base/clock.h", '#include "core/dtype.h"\n')
        self.assert_one("src/base/clock.h:1:")

    def test_one_header_of_a_folder(self):
        self.write("src/text/stop.cc", '#include "sampling/sampler.h"\n')
        self.assert_one("src/text/stop.cc:1:")

    def test_front_door_sees_no_engine(self):
        self.write("src/cli/main.cc", '#include "engine/engine.h"\n')
        self.assert_one("src/cli/main.cc:1:")

    def test_front_door_may_link_the_engine(self):
        self.write("src/cli/CMakeLists.txt", "haast_library(haast_cli SOURCES a.cc DEPS haast_engine haast_text)\n")
        self.assertEqual(self.violations(), [])

    def test_include_without_a_folder(self):
        self.write("src/kv/seq.cc", '#include "pool.h"\n')
        self.assert_one("src/kv/seq.cc:1:")

    def test_support_is_for_tests(self):
        self.write("src/kv/seq.cc", '#include "support/encode.h"\n')
        self.assert_one("src/kv/seq.cc:1:")

    def test_unknown_folder(self):
        self.write("src/misc/a.cc", "")
        self.assert_one("src/misc:1:")

    def test_public_header_includes_src(self):
        self.write("include/haast/bench.h", '#include "engine/engine.h"\n')
        self.assert_one("include/haast/bench.h:1:")

    def test_public_header_includes_a_library(self):
        self.write("include/haast/bench.h", "#include <string>\n#include <fmt/format.h>\n")
        self.assert_one("include/haast/bench.h:2:")

    def test_link_beyond_the_table(self):
        self.write("src/kv/CMakeLists.txt", "haast_library(haast_kv\n  SOURCES a.cc\n  DEPS haast_core haast_model)\n")
        self.assert_one("src/kv/CMakeLists.txt:3: may not link haast_model")

    def test_environment(self):
        self.write("src/base/knobs.cc", 'auto a = std::getenv("A");\n')
        self.write("src/kv/seq.cc", 'auto a = std::getenv("A");\n')
        self.assert_one("src/kv/seq.cc:1: reads the environment")


if __name__ == "__main__":
    unittest.main()
