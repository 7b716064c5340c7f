// Text assets of a Hugging Face folder: the bytes of tokenizer.json, the chat template, the ids that begin and end.
#pragma once

#include <string>
#include <string_view>

#include "haast/result.h"
#include "haast/text_assets.h"

namespace haast::io {

// The files of a folder that say something about text; empty where the folder lacks them.
struct HfTextFiles {
  std::string folder;  // for messages
  std::string config_json;
  std::string generation_config_json;
  std::string tokenizer_json;
  std::string tokenizer_config_json;
  std::string chat_template_jinja;
};

// Without tokenizer.json (a draft head) the result is empty. eos_ids: those of config.json and generation_config.json and
// the eos_token of tokenizer_config.json. A chat_template.jinja goes before the template in tokenizer_config.json; of
// several named ones "default" is taken, else the first. Negative ids mean "none".
Result<TextAssets> ParseHfText(HfTextFiles files);

}  // namespace haast::io
