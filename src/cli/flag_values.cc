#include "cli/flag_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/format.h"

namespace haast::cli {
namespace {

// The whole of `text` as a T; false where a part of it is not.
template <typename T>
bool ParseAll(const std::string& text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// As fp32 without falling below its least number.
bool HoldsAsFloat(double value) { return value == 0.0 || std::abs(value) >= double{std::numeric_limits<float>::min()}; }

CLI::Validator Named(std::string name, std::function<std::string(std::string&)> check) {
  return CLI::Validator(std::move(check), std::move(name));
}

}  // namespace

CLI::Validator WholeNumber(int64_t min, int64_t max) {
  return Named(fmt::format("{}..{}", min, max), [min, max](std::string& text) -> std::string {
    int64_t value = 0;
    if (!ParseAll(text, &value) || value < min || value > max) {
      return fmt::format("expected a whole number from {} to {}, got '{}'", min, max, text);
    }
    text = std::to_string(value);  // "007" would otherwise be read as octal
    return {};
  });
}

CLI::Validator Seed() {
  return Named("0..2^64-1", [](std::string& text) -> std::string {
    uint64_t value = 0;
    if (!ParseAll(text, &value)) return fmt::format("expected a whole number from 0 to {}, got '{}'", UINT64_MAX, text);
    text = std::to_string(value);
    return {};
  });
}

CLI::Validator Real(double min, double max, bool above) {
  return Named(fmt::format("{}{}..{}", above ? ">" : "", min, max), [min, max, above](std::string& text) -> std::string {
    double value = 0.0;
    const bool ok = ParseAll(text, &value) && std::isfinite(value) && value <= max && (above ? value > min : value >= min);
    if (ok && HoldsAsFloat(value)) return {};
    return fmt::format("expected a number {} {} and at most {}, got '{}'{}", above ? "above" : "from", min, max, text,
                       ok ? ", too close to 0: the least beside it is 1.2e-38" : "");
  });
}

std::optional<TokenBias> ParseTokenBias(const std::string& text) {
  const size_t equals = text.find('=');
  int32_t token = 0;
  double bias = 0.0;
  if (equals == std::string::npos || !ParseAll(text.substr(0, equals), &token) || !ParseAll(text.substr(equals + 1), &bias)) {
    return std::nullopt;
  }
  if (token < 0 || !(std::abs(bias) <= 100.0) || !HoldsAsFloat(bias)) return std::nullopt;
  return TokenBias{token, static_cast<float>(bias)};
}

CLI::Validator TokenBiasText() {
  return Named("ID=BIAS", [](std::string& text) -> std::string {
    if (ParseTokenBias(text)) return {};
    return fmt::format("expected a token id, = and a number from -100 to 100 (0, or at least 1.2e-38 beside it), got '{}'", text);
  });
}

std::optional<std::vector<int>> ParseAscendingNumbers(const std::string& text) {
  std::vector<int> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int number = 0;
    if (!ParseAll(text.substr(begin, end - begin), &number) || number < 0 || (!numbers.empty() && number < numbers.back())) {
      return std::nullopt;
    }
    numbers.push_back(number);
    begin = end + 1;
  }
  return numbers;
}

CLI::Validator AscendingNumbers() {
  return Named("N,N,...", [](std::string& text) -> std::string {
    if (ParseAscendingNumbers(text)) return {};
    return fmt::format("expected whole numbers from 0 with a comma between two, none below the one before it, got '{}'", text);
  });
}

CLI::Validator NotEmpty() {
  return Named("", [](std::string& text) -> std::string { return text.empty() ? "expected a path, got ''" : ""; });
}

CLI::Validator OneOf(std::vector<std::string> words) {
  return Named(fmt::format("{}", fmt::join(words, "|")), [words](std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return {};
    return fmt::format("expected one of {}, got '{}'", fmt::join(words, ", "), text);
  });
}

}  // namespace haast::cli
