// The default model and the head that ships with the repository, for tests of real weights.
#pragma once

#include <string>

namespace haast::testing {

// Path of the default model's GGUF in the cache. Where it is missing the test fails with the remedy (`make test` fetches it).
std::string DefaultModelPath();

// Sanitizers make the default model up to a hundred times slower: its tests then run a part of their cases. Every path of code is still
// run, and by tiny models in full.
#ifdef HAAST_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The shipped head, seen from the repository's root, where tests run.
inline constexpr const char* kDefaultHead = "models/smollm2-135m-eagle3.1";

}  // namespace haast::testing
