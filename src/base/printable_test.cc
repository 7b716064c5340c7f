#include "base/printable.h"

#include <gtest/gtest.h>

namespace haast::base {
namespace {

TEST(PrintableTest, ControlCharactersAreReplaced) {
  EXPECT_EQ(WithoutControls("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(WithoutControls("\x1b[2J\x07\x7f\r"), "\xEF\xBF\xBD[2J\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(WithoutControls("\xc2\x9bx\xc2\xa0y"), "\xEF\xBF\xBDx\xc2\xa0y");  // U+009B is a control, U+00A0 a space
  EXPECT_EQ(WithoutControls("é€"), "é€");
}

TEST(PrintableTest, LabelsAreOneShortLine) {
  EXPECT_EQ(Label("model.layers.0"), "model.layers.0");
  EXPECT_EQ(Label("a\nhaast: fits yes\t\x1b[31m"), "a\xEF\xBF\xBDhaast: fits yes\xEF\xBF\xBD\xEF\xBF\xBD[31m");
  EXPECT_EQ(Label(std::string(80, 'x')), std::string(80, 'x'));
  EXPECT_EQ(Label(std::string(81, 'x')), std::string(80, 'x') + "…");
  std::string accents, most;
  for (int i = 0; i < 200; ++i) accents += "é";
  for (int i = 0; i < 80; ++i) most += "é";
  EXPECT_EQ(Label(accents), most + "…") << "characters count, and none is cut";
  EXPECT_LT(Label(std::string(100000, '\x80')).size(), 400u);
}

TEST(PrintableTest, AByteOrderMarkIsNoText) {
  EXPECT_EQ(WithoutByteOrderMark("\xEF\xBB\xBF{}"), "{}");
  EXPECT_EQ(WithoutByteOrderMark("\xEF\xBB"), "\xEF\xBB");
  EXPECT_EQ(WithoutByteOrderMark("{}"), "{}");
}

}  // namespace
}  // namespace haast::base
