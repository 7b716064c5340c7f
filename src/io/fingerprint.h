// Tells models apart that must not be mixed up.
#pragma once

#include <cstdint>

#include "io/model_file.h"

namespace haast::io {

// A checksum of every tensor's name, type, shape and data and of the settings that enter the arithmetic; not of names for
// people, or of how the file is laid out. Of tensors above a megabyte 16 evenly spread blocks of 4 KiB are read.
uint64_t Fingerprint(const ModelFile& file);

}  // namespace haast::io
