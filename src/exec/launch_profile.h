// Launches of one kind, each recorded op by op (kernels/op_trace.h), as one table.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "haast/bench.h"
#include "kernels/op_trace.h"

namespace haast::exec {

class LaunchProfile {
 public:
  // One launch: its calls, and the seconds that it took in all.
  void Add(std::span<const kernels::OpCall> calls, double seconds);

  // Medians over the launches; at least one.
  StepProfile Report(const std::string& step, int64_t rows) const;

 private:
  // All calls of one name.
  struct Op {
    std::string name;
    int64_t calls = 0;  // of the last launch
    int64_t bytes = 0;
    double seconds = 0.0;
    std::vector<double> launches;  // seconds of each
  };
  Op& Find(const std::string& name);

  std::vector<Op> ops_;  // in order of their first call
  std::vector<double> rest_;
  std::vector<double> whole_;
  int64_t operations_ = 0;
};

}  // namespace haast::exec
