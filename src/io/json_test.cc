#include "io/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"

namespace haast::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What reading {"key": VALUE} says is wrong; empty where nothing is.
std::string Complaint(const std::string& value, const std::function<void(const JsonObject&)>& read) {
  const auto document = JsonDocument::Parse(fmt::format("{{\"key\": {}}}", value), "a.json");
  if (!document) return document.error().message;
  read(document->root());
  const Status status = document->root().status();
  return status ? "" : status.error().message;
}

TEST(JsonObject, AListIsNoNumberAndANumberNoList) {
  const auto integers = [](const JsonObject& object) { object.Integers("key", 0, 9); };
  EXPECT_EQ(Complaint("[1, 2.0]", integers), "");
  EXPECT_EQ(Complaint("5", integers), "a.json: key: expected a list of whole numbers, got the number 5");
  EXPECT_EQ(Complaint("\"5\"", integers), "a.json: key: expected a list of whole numbers, got the text \"5\"");
  EXPECT_EQ(Complaint("true", integers), "a.json: key: expected a list of whole numbers, got true");
  EXPECT_EQ(Complaint("{}", integers), "a.json: key: expected a list of whole numbers, got an object");
  EXPECT_EQ(Complaint("[10]", integers), "a.json: key: expected a whole number from 0 to 9, got 10");
  EXPECT_EQ(Complaint("[[1]]", integers), "a.json: key: expected a whole number from 0 to 9, got a list");
  const auto numbers = [](const JsonObject& object) { object.Numbers("key"); };
  EXPECT_EQ(Complaint("0.5", numbers), "a.json: key: expected a list of numbers, got the number 0.5");
  const auto texts = [](const JsonObject& object) { object.Texts("key"); };
  EXPECT_EQ(Complaint("\"a\"", texts), "a.json: key: expected a list of strings, got the text \"a\"");
  const auto integer = [](const JsonObject& object) { object.Integer("key", 0, 0, 9); };
  EXPECT_EQ(Complaint("[1]", integer), "a.json: key: expected a whole number from 0 to 9, got a list");
  const auto object = [](const JsonObject& outer) { outer.Object("key"); };
  EXPECT_EQ(Complaint("5", object), "a.json: key: expected an object, got the number 5");
}

TEST(JsonObject, OneOrMoreIntegersMayBeOne) {
  const auto document = JsonDocument::Parse(R"({"one": 5, "more": [5, 6], "none": null, "text": "5", "large": 50})", "a.json");
  const JsonObject object = document->root();
  EXPECT_THAT(object.OneOrMoreIntegers("one", 0, 9), ElementsAre(5));
  EXPECT_THAT(object.OneOrMoreIntegers("more", 0, 9), ElementsAre(5, 6));
  EXPECT_THAT(object.OneOrMoreIntegers("none", 0, 9), IsEmpty());
  ASSERT_TRUE(object.status());
  object.OneOrMoreIntegers("large", 0, 9);
  EXPECT_THAT(object.status().error().message, HasSubstr("large: expected a whole number from 0 to 9, got 50"));
}

TEST(JsonObject, NullIsSaidToBeNull) {
  const auto require = [](const JsonObject& object) { object.Require("key"); };
  EXPECT_EQ(Complaint("0", require), "");
  EXPECT_EQ(Complaint("null", require), "a.json: key: expected a value, got null");
  EXPECT_EQ(Complaint("1", [](const JsonObject& object) { object.Require("other"); }), "a.json: other: expected a value, got no such key");
}

TEST(JsonDocument, OtherThanAnObjectIsNamed) {
  const auto message = [](const char* text) { return JsonDocument::Parse(text, "a.json").error().message; };
  EXPECT_EQ(message("[1]"), "a.json: expected a JSON object, got a list");
  EXPECT_EQ(message("5"), "a.json: expected a JSON object, got the number 5");
  EXPECT_EQ(message("null"), "a.json: expected a JSON object, got null");
  EXPECT_THAT(message("{\"a\": NaN}"), HasSubstr("JSON has no NaN"));
}

}  // namespace
}  // namespace haast::io
