// A line on the terminal while something takes long.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "cli/output.h"

namespace haast::cli {

// After two seconds writes "what ... 3 s" to `err` and keeps it current; removes the line at the end. Nothing where `err`
// is not a terminal. `err` must not be used by others while this lives.
class LoadProgress {
 public:
  LoadProgress(Output& err, std::string what);
  ~LoadProgress();
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;

 private:
  void Loop();

  Output& err_;
  const std::string what_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

// Writes lines to `err`, each over the one before; null where it is no terminal.
std::function<void(const std::string&)> ProgressOn(Output& err);
// Removes the last of them.
void EndProgress(Output& err);

}  // namespace haast::cli
