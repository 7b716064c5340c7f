// Any bytes as a GGUF: container, names, configuration, vocabulary. What is accepted must be readable to its last byte.
#include <cstddef>
#include <cstdint>

#include "io/gguf_model.h"
#include "touch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto file = haast::io::ReadGguf({data, size}, "fuzz.gguf");
  if (!file) return 0;
  haast::testing::Touch(file->tensors);
  (void)haast::io::Interpret(&*file);
  return 0;
}
