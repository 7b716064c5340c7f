// The default model and the head that ships with the repository, for tests of real weights.
#pragma once

#include <string>

namespace haast::testing {

// Path of the default model's GGUF in the cache. Where it is missing the test fails with the remedy (`make test` fetches it).
std::string DefaultModelPath();

// The shipped head, seen from the repository's root, where tests run.
inline constexpr const char* kDefaultHead = "models/smollm2-135m-eagle3.1";

}  // namespace haast::testing
