#include "engine/loaded_models.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/format.h"
#include "base/printable.h"
#include "engine/check_range.h"
#include "exec/ops_choice.h"
#include "kv/kv_cache.h"
#include "model/eagle1.h"
#include "model/eagle3.h"
#include "spec/draft_tree.h"

namespace haast::engine {
namespace {

constexpr int64_t kSmallestPool = 8192;  // tokens

// Pages of the pool, with the one that is never given out.
int64_t PoolPages(const EngineOptions& options) { return kv::PagesFor(options.kv_tokens, options.page_size) + 1; }

DType KvTypeOf(const EngineOptions& options) { return options.kv_dtype == KvDtype::kF16 ? DType::kF16 : DType::kF32; }

// Said before weights are loaded, which may take long.
Status CheckPool(const io::ModelConfig& config, const EngineOptions& options) {
  return kv::KvCache::Check(config.num_layers, PoolPages(options) * options.page_size, config.num_kv_heads, config.head_dim,
                            KvTypeOf(options));
}

Status ResolveOptions(const io::ModelConfig& config, EngineOptions* options) {
  HAAST_RETURN_IF_ERROR(CheckRange("threads", options->threads, 0, kMaxThreads));
  HAAST_RETURN_IF_ERROR(CheckRange("page_size", options->page_size, 1, kMaxPageSize));
  HAAST_RETURN_IF_ERROR(CheckRange("max_batch", options->max_batch, 1, kMaxBatch));
  HAAST_RETURN_IF_ERROR(CheckRange("prefill_chunk", options->prefill_chunk, 1, kMaxPrefillChunk));
  HAAST_RETURN_IF_ERROR(CheckRange<int64_t>("max_context", options->max_context, 0, config.max_context));
  HAAST_RETURN_IF_ERROR(CheckRange<int64_t>("swap_bytes", options->swap_bytes, 0, std::numeric_limits<int64_t>::max()));
  HAAST_RETURN_IF_ERROR(CheckRange<int64_t>("kv_tokens", options->kv_tokens, 0, kMaxKvTokens));
  HAAST_RETURN_IF_ERROR(CheckRange("acceptance_floor", options->acceptance_floor, 0.0, 1.0));
  if (options->threads == 0) options->threads = base::UsableCpus();
  if (options->max_context == 0) options->max_context = config.max_context;
  if (options->kv_tokens == 0) options->kv_tokens = std::max(options->max_context, kSmallestPool);
  HAAST_CHECK(PoolPages(*options) * options->page_size < (int64_t{1} << 31)) << "kv_tokens = " << options->kv_tokens;
  return {};
}

// The block formats of the head's body and of its vocabulary matrix. The matrix is the largest part of a draft step, and a
// draft's argmax forgives rounding, so it gets the smaller one.
Result<std::pair<std::optional<DType>, std::optional<DType>>> DraftFormats(const EngineOptions& options) {
  using Formats = std::pair<std::optional<DType>, std::optional<DType>>;
  const std::string& name = options.draft_quantisation;
  if (name == "none" || options.backend == "ref") return Formats{};
  if (name == "auto") return Formats{DType::kQ8_0, DType::kQ4_1};
  if (name == "q8_0") return Formats{DType::kQ8_0, DType::kQ8_0};
  if (name == "q4_1") return Formats{DType::kQ4_1, DType::kQ4_1};
  return Err(ErrorCode::kInvalidArgument, "draft_quantisation '{}' is unknown; use auto, q8_0, q4_1 or none", name);
}

Status LoadDraft(const EngineOptions& options, LoadedModels* models) {
  HAAST_ASSIGN_OR_RETURN(auto formats, DraftFormats(options));
  const model::LoadContext body{*models->ops, *models->pool, formats.first};
  const model::LoadContext lm_head{*models->ops, *models->pool, formats.second};
  const io::ModelFile& file = *models->draft_file;
  if (file.config().eagle3) {
    HAAST_ASSIGN_OR_RETURN(models->draft, model::Eagle3Head::Load(file, *models->target, options.max_context, body, lm_head));
  } else {
    HAAST_ASSIGN_OR_RETURN(models->draft, model::Eagle1Head::Load(file, *models->target, options.max_context, body));
  }
  models->draft_info = DescribeModel(file);
  return {};
}

// A draft names tokens of the target, so the two must mean the same by an id.
Status CheckDraftModelFits(const io::ModelFile& draft, const io::ModelFile& target) {
  const int64_t expected = target.config().vocab_size;
  if (draft.config().vocab_size != expected) {
    return Err(ErrorCode::kUnsupported, "{}: the draft model does not fit the model: vocabulary size: the model has {}, the draft model {}",
               draft.path(), expected, draft.config().vocab_size);
  }
  const std::vector<std::string>& ours = target.text().gguf.tokens;
  const std::vector<std::string>& theirs = draft.text().gguf.tokens;
  for (size_t id = 0; id < std::min(ours.size(), theirs.size()); ++id) {
    if (ours[id] != theirs[id]) {
      return Err(ErrorCode::kUnsupported,
                 "{}: the draft model does not fit the model: token {} is '{}' in the model, '{}' in the draft model", draft.path(), id,
                 base::Label(ours[id]), base::Label(theirs[id]));
    }
  }
  return {};
}

Status OpenDraftModel(const EngineOptions& options, LoadedModels* models) {
  HAAST_ASSIGN_OR_RETURN(io::ModelFile file, io::ModelFile::Open(options.draft_model));
  models->draft_model_file = std::make_unique<io::ModelFile>(std::move(file));
  HAAST_RETURN_IF_ERROR(CheckDraftModelFits(*models->draft_model_file, *models->target_file));
  return CheckPool(models->draft_model_file->config(), options);
}

Status LoadDraftModel(const EngineOptions& options, LoadedModels* models) {
  model::LlamaOptions llama;
  llama.max_context = options.max_context;
  HAAST_ASSIGN_OR_RETURN(models->draft_model,
                         model::Llama::Load(*models->draft_model_file, llama, {*models->ops, *models->pool, std::nullopt}));
  return {};
}

}  // namespace

Status CheckHeadFits(const io::ModelFile& head, const io::ModelConfig& target) {
  if (!head.config().eagle3 && head.config().architecture != "eagle") {
    return Err(ErrorCode::kUnsupported,
               "{}: expected an EAGLE head, got a whole model ('{}'): to draft with it give it as options.draft_model, with "
               "speculation.algorithm draft_model",
               head.path(), head.config().architecture);
  }
  return head.config().architecture == "eagle" ? model::Eagle1Head::CheckFits(head, target) : model::Eagle3Head::CheckFits(head, target);
}

std::vector<int> TapsFor(const io::ModelFile& head, const io::ModelConfig& target) {
  if (head.config().eagle3) return model::TapLayers(*head.config().eagle3, target.num_layers);
  return {target.num_layers + 1};
}

Result<LoadedModels> LoadModels(EngineOptions* options, std::vector<int> tap_layers) {
  LoadedModels models;
  if (!options->trace_metadata.empty()) {
    HAAST_ASSIGN_OR_RETURN(models.trace, attention::LaunchTrace::Open(options->trace_metadata));
  }
  HAAST_ASSIGN_OR_RETURN(models.ops, exec::ChooseOps(options->backend));
  HAAST_ASSIGN_OR_RETURN(io::ModelFile target_file, io::ModelFile::Open(options->model));
  models.target_file = std::make_unique<io::ModelFile>(std::move(target_file));
  const io::ModelConfig& config = models.target_file->config();
  HAAST_RETURN_IF_ERROR(ResolveOptions(config, options));
  HAAST_RETURN_IF_ERROR(CheckPool(config, *options));
  HAAST_ASSIGN_OR_RETURN(models.pool, base::ThreadPool::Create(options->threads));

  model::LlamaOptions llama;
  llama.max_context = options->max_context;
  llama.tap_layers = std::move(tap_layers);
  if (!options->draft.empty()) {
    HAAST_ASSIGN_OR_RETURN(io::ModelFile draft_file, io::ModelFile::Open(options->draft));
    models.draft_file = std::make_unique<io::ModelFile>(std::move(draft_file));
    HAAST_RETURN_IF_ERROR(CheckHeadFits(*models.draft_file, config));
    HAAST_RETURN_IF_ERROR(CheckPool(models.draft_file->config(), *options));
    llama.tap_layers = TapsFor(*models.draft_file, config);
  }
  if (!options->draft_model.empty()) HAAST_RETURN_IF_ERROR(OpenDraftModel(*options, &models));
  HAAST_ASSIGN_OR_RETURN(models.target, model::Llama::Load(*models.target_file, llama, {*models.ops, *models.pool, std::nullopt}));
  models.target_info = DescribeModel(*models.target_file);
  if (models.draft_file) {
    HAAST_RETURN_IF_ERROR(LoadDraft(*options, &models));
  }
  if (!options->draft_model.empty()) HAAST_RETURN_IF_ERROR(LoadDraftModel(*options, &models));

  models.pages = std::make_unique<kv::PagePool>(static_cast<int>(PoolPages(*options)), options->page_size);
  exec::RunnerOptions runner;
  runner.max_logit_rows = static_cast<int64_t>(options->max_batch) * spec::kMaxTreeRows;
  runner.max_rows = runner.max_logit_rows + options->prefill_chunk;
  runner.max_context = options->max_context;
  runner.trace = models.trace.get();
  runner.trace_name = "target";
  runner.kv_dtype = KvTypeOf(*options);
  HAAST_ASSIGN_OR_RETURN(models.target_runner, exec::Runner::Create(*models.target, *models.ops, *models.pool, *models.pages, runner));
  if (models.draft) {
    runner.trace_name = "draft";
    HAAST_ASSIGN_OR_RETURN(models.draft_runner, exec::Runner::Create(*models.draft, *models.ops, *models.pool, *models.pages, runner));
  }
  if (models.draft_model) {
    runner.trace_name = "draft_model";
    runner.max_logit_rows = options->max_batch;
    HAAST_ASSIGN_OR_RETURN(models.draft_model_runner,
                           exec::Runner::Create(*models.draft_model, *models.ops, *models.pool, *models.pages, runner));
  }
  if (options->swap_bytes == 0) {
    int64_t slot_bytes = 0;
    for (const auto* each : {&models.target_runner, &models.draft_runner, &models.draft_model_runner}) {
      if (*each) slot_bytes += (*each)->cache().bytes_per_slot();
    }
    options->swap_bytes = models.pages->num_slots() * slot_bytes;
  }
  return models;
}

}  // namespace haast::engine
