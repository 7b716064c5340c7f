#include "support/default_model.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/knobs.h"

namespace haast::testing {

std::string DefaultModelPath() {
  const std::string path = base::KnobCacheHome() + "/haast/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) {
    ADD_FAILURE() << path << " is missing; run `make test`, or `make model` once, which fetch it";
  }
  return path;
}

}  // namespace haast::testing
