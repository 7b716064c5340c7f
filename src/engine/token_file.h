// Sequences of token ids from a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "haast/result.h"

namespace haast::engine {

struct TokenLimits {
  int64_t vocab_size = 0;  // ids are below it
  int64_t longest = 0;     // tokens of a sequence
};

// The "token_ids" of each line of a JSON Lines file; other keys and blank lines are ignored. kInvalidFile names file, line, what was
// expected and found: also of a file without sequences.
Result<std::vector<std::vector<int32_t>>> ReadTokenFile(const std::string& path, const TokenLimits& limits);

}  // namespace haast::engine
