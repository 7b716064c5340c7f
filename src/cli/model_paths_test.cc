#include "cli/model_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/tiny_models.h"

namespace haast::cli {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class ModelPathsTest : public ::testing::Test {
 protected:
  ModelPathsTest() {
    places_.cache_folder = dir_.Join("cache/haast");
    places_.working_folder = dir_.Join("work/deep/er");
    places_.executable_folder = dir_.Join("install/bin");
  }

  void AddModel() {
    fs::create_directories(places_.cache_folder);
    std::ofstream(places_.cache_folder + "/" + kDefaultModelFile) << "x";
  }
  std::string AddHead(const std::string& models) {
    const std::string head = dir_.Join(models) + "/" + kDefaultHeadFolder;
    fs::create_directories(head);
    return head;
  }
  // The head that is found; the test fails where none is.
  std::string FoundHead() {
    const Result<ModelPaths> paths = ResolveModel(flags_, places_, true);
    EXPECT_TRUE(paths.has_value()) << paths.error().message;
    return paths ? paths->draft : "";
  }

  testing::TempDir dir_;
  Places places_;
  ModelFlags flags_;
};

TEST_F(ModelPathsTest, MissingDefaultModelNamesPathAndRemedy) {
  AddHead("work/models");
  const Result<ModelPaths> paths = ResolveModel(flags_, places_, true);
  ASSERT_FALSE(paths.has_value());
  EXPECT_EQ(paths.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(paths.error().message, HasSubstr(places_.cache_folder + "/" + kDefaultModelFile));
  EXPECT_THAT(paths.error().message, HasSubstr("make model"));
}

TEST_F(ModelPathsTest, MissingHeadNamesPlacesAndRemedies) {
  AddModel();
  const Result<ModelPaths> paths = ResolveModel(flags_, places_, true);
  ASSERT_FALSE(paths.has_value());
  EXPECT_THAT(paths.error().message, HasSubstr(dir_.Join("install/share/haast/models")));
  EXPECT_THAT(paths.error().message, HasSubstr("--draft HEAD"));
  EXPECT_THAT(paths.error().message, HasSubstr("--no-speculation"));
}

TEST_F(ModelPathsTest, HeadIsFoundAroundTheWorkingFolderAndTheExecutable) {
  AddModel();
  const std::string above_executable = AddHead("models");
  EXPECT_EQ(FoundHead(), above_executable);
  const std::string beside_executable = AddHead("install/models");
  places_.working_folder = "/";
  EXPECT_EQ(FoundHead(), beside_executable);
  places_.working_folder = dir_.Join("work/deep/er");
  const std::string above_work = AddHead("work/models");
  EXPECT_EQ(FoundHead(), above_work);
  const std::string at_work = AddHead("work/deep/er/models");
  EXPECT_EQ(FoundHead(), at_work);
  const std::string installed = AddHead("install/share/haast/models");
  EXPECT_EQ(FoundHead(), installed);
}

TEST_F(ModelPathsTest, SpeculationOffNeedsNoHead) {
  AddModel();
  flags_.no_speculation = true;
  EXPECT_EQ(FoundHead(), "");
  flags_ = {};
  flags_.draft = "given";
  flags_.algorithm = "none";
  EXPECT_EQ(FoundHead(), "");
}

TEST_F(ModelPathsTest, GivenModelHasNoHeadUnlessGivenOrTheDefaultOne) {
  const std::string head = AddHead("work/models");
  flags_.model = "other.gguf";
  EXPECT_EQ(FoundHead(), "");
  flags_.model = std::string("copy/") + kDefaultModelFile;
  EXPECT_EQ(FoundHead(), head);
  flags_.draft = "mine";
  EXPECT_EQ(FoundHead(), "mine");
}

TEST_F(ModelPathsTest, AskedForSpeculationWithoutHeadIsRefused) {
  flags_.model = "other.gguf";
  flags_.algorithm = "eagle3";
  const Result<ModelPaths> paths = ResolveModel(flags_, places_, true);
  ASSERT_FALSE(paths.has_value());
  EXPECT_EQ(paths.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(paths.error().message, HasSubstr("needs a head for other.gguf"));
}

TEST(SystemPlacesTest, AreAbsolute) {
  const Places places = SystemPlaces();
  EXPECT_TRUE(fs::path(places.working_folder).is_absolute());
  EXPECT_TRUE(fs::path(places.executable_folder).is_absolute());
  EXPECT_TRUE(places.cache_folder.ends_with("/haast"));
}

}  // namespace
}  // namespace haast::cli
