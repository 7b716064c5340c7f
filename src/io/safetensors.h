// The safetensors format (github.com/huggingface/safetensors, README "Format"): 64-bit length, JSON header, data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "haast/result.h"
#include "io/raw_tensor.h"

namespace haast::io {

// All tensors of one file's bytes, in the order of the header; views point into `bytes`. As the format demands, the
// tensors cover the data section without gaps or overlaps. A scalar becomes a tensor of shape [1]. Element types that
// haast cannot hold are kUnsupported and named with their tensor.
Result<std::vector<RawTensor>> ReadSafetensors(std::span<const uint8_t> bytes, const std::string& path);

}  // namespace haast::io
