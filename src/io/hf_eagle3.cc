#include <optional>

#include "base/format.h"
#include "io/config_check.h"
#include "io/hf_config.h"

namespace haast::io {
namespace {

constexpr char kTaps[] = "eagle_aux_hidden_state_layer_ids";

std::vector<int> Entered(const std::vector<int64_t>& ids, int shift) {
  std::vector<int> layers;
  for (const int64_t id : ids) layers.push_back(static_cast<int>(id) + shift);
  return layers;
}

std::vector<int> ReadTaps(const JsonObject& root, const std::optional<JsonObject>& nested) {
  // -1 as an output is the embedding, which enters layer 0.
  const std::vector<int> outputs = nested ? Entered(nested->Integers(kTaps, -1, kMaxLayers - 1), 1) : std::vector<int>{};
  const std::vector<int> entered = Entered(root.Integers(kTaps, 0, kMaxLayers), 0);
  if (outputs.empty()) return entered;
  if (!entered.empty() && entered != outputs) {
    root.Fail(kTaps, fmt::format("layers entered [{}], which are the outputs in eagle_config plus 1", fmt::join(outputs, ", ")),
              fmt::format("[{}]; remove the wrong list", fmt::join(entered, ", ")));
  }
  return outputs;
}

// A flag at the top level or in eagle_config.
bool ReadFlag(const JsonObject& root, const std::optional<JsonObject>& nested, const char* key) {
  const bool outer = root.Boolean(key, false);
  if (!nested || !nested->Has(key)) return outer;
  const bool inner = nested->Boolean(key, false);
  if (root.Has(key) && inner != outer) {
    root.Fail(key, fmt::format("{} as in eagle_config", inner), fmt::format("{}; remove the wrong one", outer));
  }
  return inner;
}

}  // namespace

Eagle3Config ReadEagle3(const JsonObject& root, int64_t hidden_size) {
  const std::optional<JsonObject> nested = root.Object("eagle_config");
  Eagle3Config head;
  head.draft_vocab_size = root.Integer("draft_vocab_size", 0, 1, kMaxVocabulary);
  head.target_hidden_size = root.Integer("target_hidden_size", hidden_size, 1, kMaxWidth);
  head.tap_layers = ReadTaps(root, nested);
  const int64_t taps = head.tap_layers.empty() ? 3 : static_cast<int64_t>(head.tap_layers.size());
  head.num_aux_hidden_states = static_cast<int>(root.Integer("num_aux_hidden_states", taps, 1, 64));
  head.fc_norm = ReadFlag(root, nested, "fc_norm");
  head.norm_before_fc = ReadFlag(root, nested, "norm_before_fc");
  head.norm_output = ReadFlag(root, nested, "norm_output");
  head.norm_before_residual = ReadFlag(root, nested, "norm_before_residual");
  if (nested && !nested->Boolean("use_aux_hidden_state", true)) {
    nested->Fail("use_aux_hidden_state", "true (features of several layers)", "false", ErrorCode::kUnsupported);
  }
  return head;
}

}  // namespace haast::io
