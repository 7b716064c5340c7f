// JSON files, read with simdjson and checked field by field.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <simdjson.h>

#include "haast/result.h"

namespace haast::io {

// One object of a document. Readers give the value or the given default, and remember the first thing that is wrong in
// the document: read all fields, then ask `status()` once. A null counts as absent; of equal keys the last one counts.
class JsonObject {
 public:
  bool Has(const char* key) const { return Find(key).has_value(); }
  // Whole numbers within [low, high]. 8192.0 is whole.
  int64_t Integer(const char* key, int64_t absent, int64_t low, int64_t high) const;
  double Number(const char* key, double absent) const;
  float Positive(const char* key, float absent) const;  // above 0, and fp32 holds it
  bool Boolean(const char* key, bool absent) const;
  std::string Text(const char* key, std::string absent) const;
  // A list of whole numbers; empty where absent.
  std::vector<int64_t> Integers(const char* key, int64_t low, int64_t high) const;
  // The same where the format allows a single number too, as a list of one.
  std::vector<int64_t> OneOrMoreIntegers(const char* key, int64_t low, int64_t high) const;
  // A list of numbers; empty where absent.
  std::vector<double> Numbers(const char* key) const;
  // A list of strings; empty where absent.
  std::vector<std::string> Texts(const char* key) const;
  std::optional<JsonObject> Object(const char* key) const;
  std::optional<simdjson::dom::element> Find(const char* key) const;
  // All members in the order of the file.
  simdjson::dom::object members() const { return object_; }
  // Remembers an error where the key is absent or null.
  void Require(const char* key) const;

  // Remembers a complaint about `key`; the first one stays.
  void Fail(const char* key, const std::string& expected, const std::string& got, ErrorCode code = ErrorCode::kInvalidFile) const;
  Status status() const;
  const std::string& path() const { return document_->path; }

 private:
  friend class JsonDocument;
  struct Document {
    simdjson::dom::parser parser;
    std::string path;
    Status status;
  };
  JsonObject(Document* document, simdjson::dom::object object, std::string where)
      : document_(document), object_(object), where_(std::move(where)) {}
  // Of items that simdjson reads as `Read`.
  template <typename Item, typename Read>
  std::vector<Item> List(const char* key, const char* expected) const;
  bool InRange(const char* key, simdjson::dom::element value, int64_t low, int64_t high, int64_t* out) const;

  Document* document_;
  simdjson::dom::object object_;
  std::string where_;  // "rope_scaling.", for messages
};

// A parsed file whose top level is an object. JsonObjects point into it.
class JsonDocument {
 public:
  // Copies `text`. Nesting is bounded (64); the text must be valid UTF-8.
  static Result<JsonDocument> Parse(std::string_view text, const std::string& path);
  JsonObject root() const;

 private:
  std::unique_ptr<JsonObject::Document> document_;
};

// What an element is, for messages: its text, shortened.
std::string Describe(simdjson::dom::element value);
// The same where the type is what is wrong: "the number 5", "the text "a"", "null".
std::string DescribeType(simdjson::dom::element value);

}  // namespace haast::io
