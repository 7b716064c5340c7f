#include "base/file_bytes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/build_id.h"
#include "base/checksum.h"
#include "base/mapped_file.h"

namespace haast::base {
namespace {

using ::testing::HasSubstr;

class FileBytes : public ::testing::Test {
 protected:
  FileBytes() { std::filesystem::create_directories(folder_); }
  ~FileBytes() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = std::filesystem::temp_directory_path().string() + "/haast-file-bytes-" + std::to_string(getpid());
  const std::string path_ = folder_ + "/file";
};

TEST_F(FileBytes, ReplacesTheWholeFileAndLeavesNothingBeside) {
  for (const size_t size : {size_t{0}, size_t{5}, size_t{300000}, size_t{3}}) {
    const std::vector<uint8_t> bytes(size, static_cast<uint8_t>(size));
    const Status written = WriteFileAtomically(path_, bytes);
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(*ReadFileBytes(path_, 1 << 20), bytes);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(FileBytes, FailuresNameThePathAndLeaveTheOldFile) {
  ASSERT_TRUE(WriteFileAtomically(path_, std::vector<uint8_t>{1, 2, 3}));
  const auto too_large = ReadFileBytes(path_, 2);
  ASSERT_FALSE(too_large);
  EXPECT_THAT(too_large.error().message, HasSubstr(path_ + ": has 3 bytes, expected at most 2"));
  EXPECT_EQ(ReadFileBytes(folder_ + "/none", 10).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(ReadFileBytes(folder_, 10).error().message, HasSubstr("regular file"));
  const Status no_folder = WriteFileAtomically(folder_ + "/no/file", std::vector<uint8_t>{1});
  ASSERT_FALSE(no_folder);
  EXPECT_THAT(no_folder.error().message, HasSubstr("/no/file"));
  // A folder cannot be replaced by a file: what was written beside it goes.
  std::filesystem::create_directories(folder_ + "/folder/inner");
  EXPECT_FALSE(WriteFileAtomically(folder_ + "/folder", std::vector<uint8_t>{1}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
  EXPECT_EQ(ReadFileBytes(path_, 10)->size(), 3u);
}

TEST_F(FileBytes, OnlyRegularFilesAreReplaced) {
  ASSERT_EQ(mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
  ASSERT_EQ(symlink("elsewhere", (folder_ + "/link").c_str()), 0);
  for (const char* name : {"/fifo", "/link", ""}) {
    const Status written = WriteFileAtomically(folder_ + name, std::vector<uint8_t>{1});
    ASSERT_FALSE(written) << name;
    EXPECT_THAT(written.error().message, HasSubstr("expected a regular file or a new one"));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(folder_ + "/fifo"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ + "/link"));
}

TEST_F(FileBytes, AKilledWritersPartIsTakenOver) {
  const std::string part = path_ + ".haast-part";
  std::ofstream(part) << "much longer than what is written next";
  ASSERT_TRUE(WriteFileAtomically(path_, std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(ReadFileBytes(path_, 10)->size(), 3u);
  std::ofstream(part) << "again";
  std::ofstream(path_ + "2.haast-part") << "not ours";
  ASSERT_TRUE(CheckReplaceable(path_));
  EXPECT_FALSE(std::filesystem::exists(part));
  EXPECT_TRUE(std::filesystem::exists(path_ + "2.haast-part"));
  EXPECT_EQ(ReadFileBytes(path_, 10)->size(), 3u) << "a check changes nothing";
}

TEST_F(FileBytes, WritersOfOnePathWaitForEachOther) {
  std::vector<std::thread> writers;
  std::atomic<int> failures = 0;
  for (uint8_t t = 0; t < 4; ++t) {
    writers.emplace_back([&, t] {
      const std::vector<uint8_t> bytes(1000 * (t + 1), t);
      for (int i = 0; i < 20; ++i) failures += WriteFileAtomically(path_, bytes) && CheckReplaceable(path_) ? 0 : 1;
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failures, 0);
  const std::vector<uint8_t> last = *ReadFileBytes(path_, 1 << 20);
  EXPECT_EQ(last, std::vector<uint8_t>(1000 * (last[0] + 1), last[0]));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(FileBytes, APathThatCannotBeWrittenSaysWhatToDo) {
  const Status no_folder = CheckReplaceable(folder_ + "/no/file");
  ASSERT_FALSE(no_folder);
  EXPECT_EQ(no_folder.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(no_folder.error().message, HasSubstr(folder_ + "/no/file: cannot be written: No such file or directory"));
  EXPECT_THAT(no_folder.error().message, HasSubstr("create the folder, or give another path"));
  EXPECT_THAT(CheckReplaceable(folder_).error().message, HasSubstr("expected a regular file or a new one, got a folder: give another"));
  EXPECT_THAT(CheckReplaceable("").error().message, HasSubstr("got an empty path"));
}

TEST_F(FileBytes, WhatIsReadIsARegularFile) {
  const std::string fifo = folder_ + "/fifo", link = folder_ + "/link";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/null", link);
  for (const auto& [path, kind] : {std::pair(folder_, "a folder"), {fifo, "a FIFO"}, {link, "a device"}}) {
    const std::string why = path + ": expected a regular file, got " + kind;
    EXPECT_EQ(ReadFileBytes(path, 10).error().message, why);
    EXPECT_EQ(MappedFile::Open(path).error().message, why);
  }
  EXPECT_THAT(CheckReplaceable(link).error().message, HasSubstr("got a link"));
}

TEST_F(FileBytes, ANamelessFileIsInNoFolder) {
  const Result<int> file = OpenNamelessFile(folder_);
  ASSERT_TRUE(file) << file.error().message;
  const std::vector<uint8_t> bytes = {1, 2, 3};
  EXPECT_TRUE(WriteAll(*file, bytes, "nameless"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  close(*file);
  const Result<int> nowhere = OpenNamelessFile(folder_ + "/none");
  EXPECT_EQ(nowhere.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(nowhere.error().message, folder_ +
                                         "/none: cannot be written: No such file or directory: expected a folder that can be written: "
                                         "create the folder, or give another path");
}

TEST(ChecksumTest, KnownValuesAndSeeds) {
  EXPECT_EQ(Checksum({}), 0x2d06800538d394c2u) << "XXH3_64bits of nothing";
  const std::vector<uint8_t> bytes = {1, 2, 3};
  EXPECT_NE(Checksum(bytes), Checksum(bytes, 1));
  EXPECT_EQ(Checksum(bytes), Checksum(bytes));
}

TEST(BuildIdTest, IsTheSameEveryTime) {
  EXPECT_GE(BuildId().size(), 16u);
  EXPECT_EQ(BuildId(), BuildId());
}

TEST_F(FileBytes, ALockIsOfOneAndGoesWithIt) {
  {
    const Result<FileLock> first = FileLock::Take(path_);
    ASSERT_TRUE(first) << first.error().message;
    const Result<FileLock> second = FileLock::Take(path_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kIo);
    EXPECT_EQ(second.error().message, path_ + ": is locked by another process");
    EXPECT_TRUE(std::filesystem::exists(path_)) << "the first one's";
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_TRUE(FileLock::Take(path_));
  EXPECT_TRUE(FileLock::Take(folder_ + "/none/lock")) << "what cannot be made locks nothing";
  ASSERT_EQ(symlink("elsewhere", path_.c_str()), 0);
  EXPECT_TRUE(FileLock::Take(path_));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/elsewhere"));
}

TEST_F(FileBytes, ALockLeavesWhatSomebodyKeepsUnderItsName) {
  ASSERT_TRUE(WriteFileAtomically(path_, std::vector<uint8_t>{1, 2, 3}));
  EXPECT_TRUE(FileLock::Take(path_));
  EXPECT_EQ(std::filesystem::file_size(path_), 3u);
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_TRUE(FileLock::Take(path_));
  EXPECT_TRUE(std::filesystem::exists(path_));
  close(reader);
}

TEST_F(FileBytes, ALockEndsWithAKilledProcess) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const Result<FileLock> lock = FileLock::Take(path_);
    const char taken = lock ? 'y' : 'n';
    if (write(ready[1], &taken, 1) == 1) pause();
    _exit(1);
  }
  char taken = 'n';
  EXPECT_EQ(read(ready[0], &taken, 1), 1);
  EXPECT_EQ(taken, 'y');
  EXPECT_FALSE(FileLock::Take(path_));
  EXPECT_EQ(kill(child, SIGKILL), 0);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  for (const int end : ready) close(end);
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(FileLock::Take(path_)) << "what is left hinders nobody";
}

}  // namespace
}  // namespace haast::base
