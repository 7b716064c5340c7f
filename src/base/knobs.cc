#include "base/knobs.h"

#include <cstdlib>

namespace haast::base {
namespace {

std::optional<std::string> Get(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace

std::optional<std::string> KnobIsa() { return Get("HAAST_ISA"); }

std::string KnobCacheHome() {
  if (auto cache = Get("XDG_CACHE_HOME")) return *cache;
  return Get("HOME").value_or(".") + "/.cache";
}

bool KnobNoColor() { return Get("NO_COLOR").has_value(); }

}  // namespace haast::base
