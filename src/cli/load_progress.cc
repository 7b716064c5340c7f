#include "cli/load_progress.h"

#include <chrono>
#include <system_error>

#include "base/format.h"

namespace haast::cli {

LoadProgress::LoadProgress(Output& err, std::string what) : err_(err), what_(std::move(what)) {
  if (!err_.is_terminal()) return;
  try {
    thread_ = std::thread([this] { Loop(); });
  } catch (const std::system_error&) {
    thread_ = std::thread();  // none to spare: no line
  }
}

LoadProgress::~LoadProgress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void LoadProgress::Loop() {
  constexpr auto kQuiet = std::chrono::seconds(2);
  constexpr auto kEvery = std::chrono::seconds(1);
  std::unique_lock lock(mutex_);
  if (wake_.wait_for(lock, kQuiet, [this] { return done_; })) return;
  int seconds = 2;
  do {
    err_.Write(fmt::format("\r\x1b[K{} ... {} s", what_, seconds++));
  } while (!wake_.wait_for(lock, kEvery, [this] { return done_; }));
  err_.Write("\r\x1b[K");
}

std::function<void(const std::string&)> ProgressOn(Output& err) {
  if (!err.is_terminal()) return nullptr;
  return [&err](const std::string& line) { err.Write("\r\x1b[K" + line); };
}

void EndProgress(Output& err) {
  if (err.is_terminal()) err.Write("\r\x1b[K");
}

}  // namespace haast::cli
