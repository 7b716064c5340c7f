#include "io/json.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/printable.h"
#include "io/config_check.h"

namespace haast::io {

namespace dom = simdjson::dom;

namespace {
constexpr size_t kMaxNesting = 64;
}  // namespace

std::string Describe(dom::element value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return base::Label(std::string(simdjson::minify(value)));
}

std::string DescribeType(dom::element value) {
  const char* type = value.is_number() ? "the number " : value.is_string() ? "the text " : "";
  return type + Describe(value);
}

Result<JsonDocument> JsonDocument::Parse(std::string_view text, const std::string& path) {
  JsonDocument result;
  result.document_ = std::make_unique<JsonObject::Document>();
  result.document_->path = path;
  text = base::WithoutByteOrderMark(text);
  dom::parser& parser = result.document_->parser;
  if (const auto error = parser.allocate(std::max(text.size(), size_t{1}), kMaxNesting)) {
    return Err(ErrorCode::kOutOfMemory, "{}: no memory to parse {} bytes of JSON: {}", path, text.size(), simdjson::error_message(error));
  }
  dom::element root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root)) {
    // Python's writers do not keep to the format.
    const bool python = text.find("NaN") != text.npos || text.find("Infinity") != text.npos;
    return Err(ErrorCode::kInvalidFile, "{}: expected a JSON object of at most {} levels, got {} bytes that are not: {}{}", path,
               kMaxNesting, text.size(), simdjson::error_message(error), python ? "; JSON has no NaN and no Infinity" : "");
  }
  if (!root.is_object()) return Err(ErrorCode::kInvalidFile, "{}: expected a JSON object, got {}", path, DescribeType(root));
  return result;
}

JsonObject JsonDocument::root() const { return {document_.get(), dom::object(document_->parser.doc.root()), ""}; }

void JsonObject::Fail(const char* key, const std::string& expected, const std::string& got, ErrorCode code) const {
  if (document_->status) document_->status = Err(code, "{}: {}{}: expected {}, got {}", path(), where_, key, expected, got);
}

Status JsonObject::status() const { return document_->status; }

std::optional<dom::element> JsonObject::Find(const char* key) const {
  std::optional<dom::element> found;
  for (const auto& member : object_) {
    if (member.key == key) found = member.value;
  }
  if (found && found->is_null()) return std::nullopt;
  return found;
}

void JsonObject::Require(const char* key) const {
  if (Has(key)) return;
  const bool is_null = std::any_of(object_.begin(), object_.end(), [&](const auto& member) { return member.key == key; });
  Fail(key, "a value", is_null ? "null" : "no such key");
}

bool JsonObject::InRange(const char* key, dom::element value, int64_t low, int64_t high, int64_t* out) const {
  int64_t whole = 0;
  double real = 0;
  bool ok = value.get(whole) == simdjson::SUCCESS;
  if (!ok && value.is_double() && value.get(real) == simdjson::SUCCESS && std::fabs(real) < 9e15 && real == std::floor(real)) {
    whole = static_cast<int64_t>(real);
    ok = true;
  }
  if (!ok || whole < low || whole > high) {
    Fail(key, fmt::format("a whole number from {} to {}", low, high), Describe(value));
    return false;
  }
  *out = whole;
  return true;
}

int64_t JsonObject::Integer(const char* key, int64_t absent, int64_t low, int64_t high) const {
  const auto value = Find(key);
  int64_t result = absent;
  if (value) InRange(key, *value, low, high, &result);
  return result;
}

float JsonObject::Positive(const char* key, float absent) const {
  const double number = Number(key, absent);
  if (IsPositiveFloat(number)) return static_cast<float>(number);
  if (const auto value = Find(key)) Fail(key, kPositiveFloat, Describe(*value));
  return absent;
}

double JsonObject::Number(const char* key, double absent) const {
  const auto value = Find(key);
  if (!value) return absent;
  double result = 0;
  if (value->get(result) == simdjson::SUCCESS) return result;
  Fail(key, "a number", Describe(*value));
  return absent;
}

bool JsonObject::Boolean(const char* key, bool absent) const {
  const auto value = Find(key);
  if (!value) return absent;
  bool result = false;
  if (value->get(result) == simdjson::SUCCESS) return result;
  Fail(key, "true or false", Describe(*value));
  return absent;
}

std::string JsonObject::Text(const char* key, std::string absent) const {
  const auto value = Find(key);
  if (!value) return absent;
  std::string_view result;
  if (value->get(result) == simdjson::SUCCESS) return std::string(result);
  Fail(key, "a string", Describe(*value));
  return absent;
}

std::vector<int64_t> JsonObject::Integers(const char* key, int64_t low, int64_t high) const {
  const auto value = Find(key);
  std::vector<int64_t> result;
  if (!value) return result;
  dom::array list;
  if (value->get(list) != simdjson::SUCCESS) {
    Fail(key, "a list of whole numbers", DescribeType(*value));
    return result;
  }
  for (dom::element item : list) {
    int64_t number = 0;
    if (!InRange(key, item, low, high, &number)) break;
    result.push_back(number);
  }
  return result;
}

std::vector<int64_t> JsonObject::OneOrMoreIntegers(const char* key, int64_t low, int64_t high) const {
  const auto value = Find(key);
  if (value && value->is_number()) return {Integer(key, low, low, high)};
  return Integers(key, low, high);
}

template <typename Item, typename Read>
std::vector<Item> JsonObject::List(const char* key, const char* expected) const {
  const auto value = Find(key);
  std::vector<Item> result;
  if (!value) return result;
  dom::array list;
  if (value->get(list) != simdjson::SUCCESS) {
    Fail(key, expected, DescribeType(*value));
    return result;
  }
  for (dom::element item : list) {
    Read read{};
    if (item.get(read) != simdjson::SUCCESS) {
      Fail(key, expected, "one that holds " + Describe(item));
      break;
    }
    result.emplace_back(read);
  }
  return result;
}

std::vector<double> JsonObject::Numbers(const char* key) const { return List<double, double>(key, "a list of numbers"); }

std::vector<std::string> JsonObject::Texts(const char* key) const { return List<std::string, std::string_view>(key, "a list of strings"); }

std::optional<JsonObject> JsonObject::Object(const char* key) const {
  const auto value = Find(key);
  if (!value) return std::nullopt;
  dom::object object;
  if (value->get(object) == simdjson::SUCCESS) return JsonObject(document_, object, where_ + key + ".");
  Fail(key, "an object", DescribeType(*value));
  return std::nullopt;
}

}  // namespace haast::io
