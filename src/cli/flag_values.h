// Flag values that cannot be misread: whole ranges, no silent wrap-around, no NaN, one wording for what was expected.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "haast/request.h"

namespace haast::cli {

// Decimal digits from `min` to `max`.
CLI::Validator WholeNumber(int64_t min, int64_t max);
// Decimal digits, 0 to 2^64 - 1.
CLI::Validator Seed();
// A finite number from `min` to `max`; with `above`, greater than `min`. Flags hold it as fp32: what would become 0 or lose digits there
// (beside 0 the least is 1.2e-38) is refused.
CLI::Validator Real(double min, double max, bool above = false);
// "ID=BIAS": a token id and such a number from -100 to 100.
CLI::Validator TokenBiasText();
// The value of such a text; nothing where it is none.
std::optional<TokenBias> ParseTokenBias(const std::string& text);
// One of these words.
CLI::Validator OneOf(std::vector<std::string> words);
// Whole numbers from 0 with a comma between two, "2,15,27": none is below the one before it.
CLI::Validator AscendingNumbers();
// The values of such a text; nothing where it is none.
std::optional<std::vector<int>> ParseAscendingNumbers(const std::string& text);
// Anything but nothing, which a script's unset variable would give.
CLI::Validator NotEmpty();

// A flag or argument that names a file or folder. `value`: a string, or a vector of them.
template <typename Value>
CLI::Option* AddPath(CLI::App& app, const char* name, Value& value, const char* help) {
  return app.add_option(name, value, help)->type_name("PATH")->check(NotEmpty());
}

}  // namespace haast::cli
