#include "exec/launch_profile.h"

#include <algorithm>

namespace haast::exec {
namespace {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

LaunchProfile::Op& LaunchProfile::Find(const std::string& name) {
  const auto it = std::find_if(ops_.begin(), ops_.end(), [&](const Op& op) { return op.name == name; });
  return it != ops_.end() ? *it : ops_.emplace_back(Op{.name = name});
}

void LaunchProfile::Add(std::span<const kernels::OpCall> calls, double seconds) {
  double inside = 0.0;
  operations_ = 0;
  for (Op& op : ops_) {
    op.calls = op.bytes = 0;
    op.seconds = 0.0;
  }
  for (const kernels::OpCall& call : calls) {
    Op& op = Find(kernels::OpName(call));
    ++op.calls;
    op.bytes += call.bytes;
    op.seconds += call.seconds;
    operations_ += call.operations;
    inside += call.seconds;
  }
  for (Op& op : ops_) op.launches.push_back(op.seconds);
  rest_.push_back(std::max(seconds - inside, 0.0));
  whole_.push_back(seconds);
}

StepProfile LaunchProfile::Report(const std::string& step, int64_t rows) const {
  StepProfile profile{.step = step, .rows = rows, .milliseconds = Median(whole_) * 1e3, .operations = operations_};
  for (const Op& op : ops_) {
    profile.ops.push_back({op.name, op.calls, Median(op.launches) * 1e6, op.bytes});
    profile.bytes += op.bytes;
  }
  profile.ops.push_back({"the rest", 0, Median(rest_) * 1e6, 0});
  return profile;
}

}  // namespace haast::exec
