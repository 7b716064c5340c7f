#include "base/knobs.h"

#include <cstdlib>
#include <optional>

#include "base/format.h"

namespace haast::base {
namespace {

std::optional<std::string> Get(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace

Result<Isa> KnobIsa() {
  const auto wanted = Get("HAAST_ISA");
  if (!wanted) return BestIsa();
  std::string known, supported;
  for (const Isa isa : ArchitectureIsas()) {
    if (IsaSupported(isa) && *wanted == IsaName(isa)) return isa;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", IsaName(isa));
    if (IsaSupported(isa)) supported += fmt::format("{}{}", supported.empty() ? "" : ", ", IsaName(isa));
  }
  return Err(ErrorCode::kInvalidArgument,
             "environment variable HAAST_ISA is '{}': expected one of {}, of which this processor has {}: unset it for the best of them",
             *wanted, known, supported);
}

std::string KnobCacheHome() {
  if (auto cache = Get("XDG_CACHE_HOME")) return *cache;
  return Get("HOME").value_or(".") + "/.cache";
}

bool KnobNoColor() { return Get("NO_COLOR").has_value(); }

}  // namespace haast::base
