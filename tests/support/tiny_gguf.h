// A tiny Llama as a GGUF writer, for tests that change it before it is written.
#pragma once

#include "support/gguf_writer.h"
#include "support/tiny_models.h"

namespace haast::testing {

// One file, whatever `model.shards` says.
GgufWriter MakeTinyGguf(const TinyLlama& model);

}  // namespace haast::testing
