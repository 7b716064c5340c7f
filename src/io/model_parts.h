// What opening a path gives, before it becomes a ModelFile: the mapped files and what was read from them.
#pragma once

#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "core/buffer.h"
#include "haast/result.h"
#include "haast/text_assets.h"
#include "io/model_config.h"
#include "io/raw_tensor.h"

namespace haast::io {

struct ModelParts {
  std::string format;
  ModelConfig config;
  TextAssets text;
  std::vector<RawTensor> tensors;  // of all files; views point into `files` or `copies`
  std::vector<base::MappedFile> files;
  std::vector<Buffer> copies;  // tensors whose bytes do not lie at a multiple of their element's size
};

// `path`: a GGUF, or the first of a split set ("name-00001-of-00003.gguf"; the others lie beside it). `file` is `path`, mapped.
Result<ModelParts> OpenGguf(base::MappedFile file);

// A folder with config.json and model.safetensors or a sharded index.
Result<ModelParts> OpenFolder(const std::string& folder);

// One .safetensors file with config.json beside it.
Result<ModelParts> OpenSafetensors(const std::string& path);

}  // namespace haast::io
