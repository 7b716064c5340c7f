// Target and draft head as loaded for one engine.
#pragma once

#include <memory>
#include <optional>

#include "exec/runner.h"
#include "haast/engine.h"
#include "io/model_file.h"
#include "model/draft_head.h"
#include "model/llama.h"

namespace haast::engine {

struct LoadedModels {
  std::unique_ptr<base::ThreadPool> pool;
  const kernels::Ops* ops = nullptr;
  std::unique_ptr<io::ModelFile> target_file;  // the models read embedding rows from the mapped files
  std::unique_ptr<io::ModelFile> draft_file;
  std::unique_ptr<io::ModelFile> draft_model_file;
  std::unique_ptr<model::Llama> target;
  std::unique_ptr<model::DraftHead> draft;    // null: no head
  std::unique_ptr<model::Llama> draft_model;  // null: none
  std::unique_ptr<kv::PagePool> pages;
  std::unique_ptr<attention::LaunchTrace> trace;  // null: launches are not traced
  std::unique_ptr<exec::Runner> target_runner;
  std::unique_ptr<exec::Runner> draft_runner;        // null without a head
  std::unique_ptr<exec::Runner> draft_model_runner;  // null without a draft model
  ModelInfo target_info;
  ModelInfo draft_info;
};

// Checks the options, fills in what they leave open (`*options` then holds what is used) and loads. Without a head the target taps
// `tap_layers` (LlamaOptions), else what the head reads.
Result<LoadedModels> LoadModels(EngineOptions* options, std::vector<int> tap_layers = {});

// The target layers whose output `head` reads (LlamaOptions::tap_layers).
std::vector<int> TapsFor(const io::ModelFile& head, const io::ModelConfig& target);

// Whether `head`, an EAGLE head of any kind, fits `target`.
Status CheckHeadFits(const io::ModelFile& head, const io::ModelConfig& target);

ModelInfo DescribeModel(const io::ModelFile& file);

}  // namespace haast::engine
