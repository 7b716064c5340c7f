// Any bytes as a safetensors file. What is accepted must be readable to its last byte.
#include <cstddef>
#include <cstdint>

#include "io/safetensors.h"
#include "touch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tensors = haast::io::ReadSafetensors({data, size}, "fuzz.safetensors");
  if (tensors) haast::testing::Touch(*tensors);
  return 0;
}
