// config.json of a Hugging Face folder: Llama targets and EAGLE-3 heads in the spellings of SafeAILab, SpecForge and
// speculators.
#pragma once

#include <string>
#include <string_view>

#include "haast/result.h"
#include "io/json.h"
#include "io/model_config.h"

namespace haast::io {

// `json` is the file's text, `path` its name for messages. Architectures and settings that haast does not serve are
// kUnsupported and say what is served.
Result<ModelConfig> ParseHfConfig(std::string_view json, const std::string& path);

// The settings of an EAGLE-3 head, from the top level of its config.json and from a nested eagle_config.
//
// Tapped layers have three readings in the field: `eagle_config.eagle_aux_hidden_state_layer_ids` counts layer *outputs*
// (SGLang, SpecForge: entered = id + 1), a top-level `eagle_aux_hidden_state_layer_ids` the layers *entered* (vLLM,
// speculators), and without either the default [2, n/2, n - 3] holds. Both lists must agree where both are present.
Eagle3Config ReadEagle3(const JsonObject& root, int64_t hidden_size);

}  // namespace haast::io
