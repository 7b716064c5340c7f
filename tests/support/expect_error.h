// EXPECT_ERROR(result, code, "part", ...): a Result that failed with that code and a message that holds every part.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "haast/result.h"

namespace haast::testing {

template <typename T>
::testing::AssertionResult FailsWith(const tl::expected<T, Error>& result, ErrorCode code, std::initializer_list<std::string> parts) {
  if (result) return ::testing::AssertionFailure() << "expected an error, got a value";
  const Error& error = result.error();
  if (error.code != code) return ::testing::AssertionFailure() << "code " << static_cast<int>(error.code) << ": " << error.message;
  for (const std::string& part : parts) {
    if (error.message.find(part) == std::string::npos)
      return ::testing::AssertionFailure() << "no \"" << part << "\" in: " << error.message;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace haast::testing

#define EXPECT_ERROR(result, code, ...) EXPECT_TRUE(::haast::testing::FailsWith(result, code, {__VA_ARGS__}))
