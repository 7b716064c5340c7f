#include "engine/swap_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "support/tiny_models.h"

namespace haast::engine {
namespace {

using ::testing::HasSubstr;

TEST(SwapSpace, KeepsBytesInMemoryAndInFilesThatNobodySees) {
  const testing::TempDir dir;
  for (const std::string& directory : {std::string(), dir.path()}) {
    SwapSpace space(directory, 1000);
    const std::vector<uint8_t> bytes = {1, 2, 3, 0, 255};
    auto first = space.Put(bytes);
    ASSERT_TRUE(first) << first.error().message;
    auto second = space.Put(std::vector<uint8_t>(900, 7));
    ASSERT_TRUE(second);
    EXPECT_EQ(space.used(), 905);
    EXPECT_EQ(*(*first)->Read(), bytes);
    EXPECT_EQ(*(*first)->Read(), bytes) << "reading takes nothing away";
    EXPECT_EQ((*second)->Read()->size(), 900u);
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
    const auto third = space.Put(std::vector<uint8_t>(96));
    ASSERT_FALSE(third);
    EXPECT_THAT(third.error().message, HasSubstr("96 bytes beside 905 of 1000"));
    second->reset();
    EXPECT_EQ(space.used(), 5);
    EXPECT_TRUE(space.Put(std::vector<uint8_t>(96)));
    first->reset();
    EXPECT_EQ(space.used(), 0);
  }
}

// The descriptor of the one swap file under `directory`, which has no name there any more; -1: there is none.
int OpenSwapFile(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with(directory + "/haast-")) return std::stoi(entry.path().filename().string());
  }
  return -1;
}

TEST(SwapSpace, AChangedFileIsNotRead) {
  const testing::TempDir dir;
  SwapSpace space(dir.path(), 1000);
  const auto entry = space.Put({1, 2, 3});
  ASSERT_TRUE(entry) << entry.error().message;
  const int file = OpenSwapFile(dir.path());
  ASSERT_GE(file, 0);
  ASSERT_EQ(pwrite(file, "x", 1, 1), 1);
  const auto bytes = (*entry)->Read();
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, ErrorCode::kInvalidFile);
  EXPECT_THAT(bytes.error().message, HasSubstr("its 3 bytes were changed"));
}

TEST(SwapSpace, AFolderThatIsNotThereIsAnError) {
  SwapSpace space("/no/such/folder", 1000);
  const auto entry = space.Put({1, 2, 3});
  ASSERT_FALSE(entry);
  EXPECT_EQ(entry.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(entry.error().message, HasSubstr("/no/such/folder"));
  EXPECT_EQ(space.used(), 0);
}

}  // namespace
}  // namespace haast::engine
