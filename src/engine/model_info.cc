// The functions of include/haast/model_info.h.
#include "haast/model_info.h"

#include <map>

#include "base/format.h"
#include "engine/loaded_models.h"

namespace haast {
namespace engine {

ModelInfo DescribeModel(const io::ModelFile& file) {
  const io::ModelConfig& config = file.config();
  ModelInfo info;
  info.path = file.path();
  info.format = file.format();
  info.name = config.name;
  info.architecture = config.architecture;
  info.file_bytes = file.file_bytes();
  info.num_layers = config.num_layers;
  info.hidden_size = config.hidden_size;
  info.intermediate_size = config.intermediate_size;
  info.num_heads = config.num_heads;
  info.num_kv_heads = config.num_kv_heads;
  info.head_dim = config.head_dim;
  info.vocab_size = config.vocab_size;
  info.max_context = config.max_context;
  info.tied_embeddings = config.tied_embeddings;
  std::map<std::string, int> dtypes;
  for (const io::NamedTensor& tensor : file.tensors()) {
    ++dtypes[Info(tensor.view.dtype).name];
    if (tensor.view.dtype != DType::kI64 && tensor.view.dtype != DType::kBool) info.parameters += tensor.view.elements();
  }
  for (const auto& [name, count] : dtypes) info.dtypes.push_back(fmt::format("{} x {}", name, count));
  if (config.architecture == "eagle") {
    info.draft_vocab_size = config.vocab_size;
    info.target_hidden_size = config.hidden_size;
  }
  if (config.eagle3) {
    const io::Eagle3Config& eagle = *config.eagle3;
    info.draft_vocab_size = eagle.draft_vocab_size > 0 ? eagle.draft_vocab_size : config.vocab_size;
    info.target_hidden_size = eagle.target_hidden_size;
    info.tap_layers = eagle.tap_layers;
    if (eagle.fc_norm) info.head_options.push_back("fc_norm");
    if (eagle.norm_before_fc) info.head_options.push_back("norm_before_fc");
    if (eagle.norm_output) info.head_options.push_back("norm_output");
    if (eagle.norm_before_residual) info.head_options.push_back("norm_before_residual");
  }
  return info;
}

}  // namespace engine

Result<ModelInfo> InspectModel(const std::string& path) {
  HAAST_ASSIGN_OR_RETURN(io::ModelFile file, io::ModelFile::Open(path));
  return engine::DescribeModel(file);
}

Result<TextAssets> LoadTextAssets(const std::string& path) {
  HAAST_ASSIGN_OR_RETURN(io::ModelFile file, io::ModelFile::Open(path));
  return file.text();
}

Status CheckHeadFits(const std::string& model, const std::string& head) {
  HAAST_ASSIGN_OR_RETURN(io::ModelFile model_file, io::ModelFile::Open(model));
  HAAST_ASSIGN_OR_RETURN(io::ModelFile head_file, io::ModelFile::Open(head));
  return engine::CheckHeadFits(head_file, model_file.config());
}

}  // namespace haast
