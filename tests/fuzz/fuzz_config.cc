// Any bytes as the text files of a model folder, separated by byte 0x1e: config.json, generation_config.json,
// tokenizer.json, tokenizer_config.json, chat_template.jinja.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "io/hf_config.h"
#include "io/hf_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::array<std::string, 5> parts;
  size_t part = 0;
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == 0x1e && part + 1 < parts.size()) {
      ++part;
    } else {
      parts[part] += static_cast<char>(data[i]);
    }
  }
  const auto config = haast::io::ParseHfConfig(parts[0], "config.json");
  HAAST_CHECK(!config || config->num_heads % config->num_kv_heads == 0) << config->num_heads;
  const auto text = haast::io::ParseHfText({"fuzz", parts[0], parts[1], parts[2], parts[3], parts[4]});
  HAAST_CHECK(!text || text->eos_ids.empty() || text->eos_ids[0] >= 0) << text->eos_ids[0];
  return 0;
}
