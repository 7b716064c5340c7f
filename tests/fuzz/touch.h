// Reads the first and the last byte of tensors, so that a sanitizer sees a view that leaves its file.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "io/raw_tensor.h"

namespace haast::testing {

inline void Touch(const std::vector<io::RawTensor>& tensors) {
  for (const io::RawTensor& tensor : tensors) {
    const int64_t bytes = tensor.view.bytes();
    HAAST_CHECK(bytes > 0) << tensor.name;
    const auto* data = static_cast<const volatile uint8_t*>(tensor.view.data);
    (void)data[0];
    (void)data[bytes - 1];
  }
}

}  // namespace haast::testing
