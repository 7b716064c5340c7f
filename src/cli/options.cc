#include "cli/options.h"

#include <unistd.h>

#include <algorithm>

#include "base/cpu.h"
#include "base/file_bytes.h"
#include "base/format.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/output.h"

namespace haast::cli {
namespace {

constexpr int kAutomaticDrafts = 8;  // the longest chain that the engine may choose
constexpr int kRejectionDrafts = 3;  // of a chain whose length is left open, but must be fixed
constexpr int kTreeDrafts = 15;      // of a tree whose size is left open: with the root 16 rows

std::vector<SpeculativeAlgorithm> Algorithms() {  // drafters first
  std::vector<SpeculativeAlgorithm> algorithms;
  for (int i = 1; i < kNumSpeculativeAlgorithms; ++i) algorithms.push_back(static_cast<SpeculativeAlgorithm>(i));
  algorithms.push_back(SpeculativeAlgorithm::kNone);
  return algorithms;
}

std::vector<std::string> AlgorithmNames() {
  std::vector<std::string> names;
  for (const SpeculativeAlgorithm algorithm : Algorithms()) names.emplace_back(SpeculativeAlgorithmName(algorithm));
  return names;
}

// Each name, with the flag that gives it its model.
std::vector<std::string> DescribeAlgorithms() {
  std::vector<std::string> names = AlgorithmNames();
  for (size_t i = 0; i < names.size(); ++i) {
    const DraftSource source = DraftSourceOf(Algorithms()[i]);
    if (IsHead(source)) names[i] += " (--draft)";
    if (source == DraftSource::kDraftModel) names[i] += " (--draft-model)";
  }
  return names;
}

// Arguments that the command does not have, in their order.
std::string ExtrasText(const CLI::App& app) {
  std::vector<std::string> flags;
  std::vector<std::string> rest;
  for (const std::string& argument : app.remaining()) {
    if (argument != "--") (argument.starts_with("-") ? flags : rest).push_back(argument);
  }
  if (!flags.empty()) return fmt::format("unknown flag {}", fmt::join(flags, ", "));
  const bool prompt = app.get_option_no_throw("PROMPT") != nullptr;
  return fmt::format("unexpected argument '{}'{}", fmt::join(rest, "', '"), prompt ? ": put a prompt of several words in quotes" : "");
}

// A flag that takes no value and was given one: CLI11 would count --json=3 as --json, and --json=false as nothing.
std::string ValueOfAFlag(const CLI::App& app, const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg == "--") return "";
    const size_t equals = arg.find('=');
    if (!arg.starts_with("--") || equals == std::string::npos) continue;
    const CLI::Option* option = app.get_option_no_throw(arg.substr(0, equals));
    if (option != nullptr && option->get_items_expected_max() == 0) {
      return fmt::format("{}: expected no value, got '{}': leave it out", arg.substr(0, equals), arg.substr(equals + 1));
    }
  }
  return "";
}

}  // namespace

void AddModelFlags(CLI::App& app, ModelFlags& flags) {
  const std::string model = "Model";
  const std::string speculation = "Speculation";
  app.option_defaults()->always_capture_default();
  AddPath(app, "--model", flags.model, "GGUF file or Hugging Face folder; default: the model that `make model` keeps in the cache folder")
      ->group(model);
  app.add_option("--threads", flags.threads, "threads; 0: every processor this process may use; at most 16, or 4 for each of them")
      ->transform(WholeNumber(0, kMaxThreads))
      ->group(model);
  app.add_option("--backend", flags.backend, "cpu, or ref: the naive fp32 definition of correct (slow)")
      ->transform(OneOf({"cpu", "ref"}))
      ->group(model);
  app.add_option("--kv-dtype", flags.kv_dtype, "how keys and values are kept")->transform(OneOf({"f16", "f32"}))->group(model);
  app.add_option("--context", flags.context, "longest sequence in tokens, at most the model's own limit; 0: that limit")
      ->transform(WholeNumber(0, kMaxContext))
      ->group(model);
  app.add_option("--kv-tokens", flags.kv_tokens, "tokens in the KV pool, all requests together; 0: one full context, at least 8192")
      ->transform(WholeNumber(0, kMaxKvTokens))
      ->group(model);
  app.add_option("--prefill-chunk", flags.prefill_chunk, "prompt tokens a step may take")
      ->transform(WholeNumber(1, kMaxPrefillChunk))
      ->group(model);
  app.add_flag("--no-prefix-cache", flags.no_prefix_cache, "compute every prompt anew (bench and --compare always do)")->group(model);
  app.add_option("--preemption", flags.preemption,
                 "when the KV pool is full the latest request waits (bench --concurrency); recompute: its KV is computed again, swap: it "
                 "is kept elsewhere")
      ->transform(OneOf({"recompute", "swap"}))
      ->group(model);
  AddPath(app, "--swap-directory", flags.swap_directory, "with --preemption swap: a folder for swapped KV; default: host memory")
      ->group(model);
  AddPath(app, "--trace-metadata", flags.trace_metadata,
          "write the metadata of every launch to this file, for `haast check` (bench: of the runs over --prompts)")
      ->group(model);
  AddPath(app, "--draft", flags.draft,
          "EAGLE head folder (EAGLE-1, 2, 3 or 3.1); default: the shipped head with the default model, else none")
      ->group(speculation);
  AddPath(app, "--draft-model", flags.draft_model, "GGUF file or folder of a smaller model of the same vocabulary, for draft_model")
      ->group(speculation);
  app.add_option("--speculative-algorithm", flags.algorithm,
                 fmt::format("what drafts: {}; default: that of the head", fmt::join(DescribeAlgorithms(), ", ")))
      ->transform(OneOf(AlgorithmNames()))
      ->group(speculation);
  app.add_option("--num-draft-tokens", flags.num_draft_tokens,
                 "drafts of a round, the root excluded; 0: round by round 0 to 8, what pays on this machine at this load (15 in a tree, 3 "
                 "with rejection)")
      ->transform(WholeNumber(0, kMaxDraftTokens))
      ->group(speculation);
  app.add_option("--draft-top-k", flags.draft_top_k, "children of a drafted token; 1: a chain, more: a tree")
      ->transform(WholeNumber(1, kMaxDraftTopK))
      ->group(speculation);
  app.add_option("--draft-depth", flags.draft_depth,
                 "levels of a draft tree (--draft-top-k above 1), of which K * (N - 1) is at most 64; 0: at most 5")
      ->transform(WholeNumber(0, kMaxTreeDepth))
      ->group(speculation);
  app.add_option("--speculative-sampling", flags.speculative_sampling,
                 "above temperature 0; coupled: the tokens of plain decoding, rejection: others of the same distribution (chains only)")
      ->transform(OneOf({"coupled", "rejection"}))
      ->group(speculation);
  app.add_flag("--no-speculation", flags.no_speculation, "plain decoding: short for --speculative-algorithm none")->group(speculation);
  app.add_option("--draft-quantisation,--draft-quantization", flags.draft_quantisation,
                 "head weights at load; auto: q8_0, and q4_1 for its lm_head")
      ->transform(OneOf({"auto", "q8_0", "q4_1", "none"}))
      ->group(speculation);
  app.option_defaults()->always_capture_default(false);
}

void AddSamplingFlags(CLI::App& app, SamplingFlags& flags) {
  const std::string group = "Sampling";
  app.option_defaults()->always_capture_default();
  app.add_option("--temperature", flags.temperature, "0: always the most likely token")->transform(Real(0.0, 100.0))->group(group);
  app.add_option("--top-k", flags.top_k, "keep the k most likely tokens; 0: off")->transform(WholeNumber(0, INT32_MAX))->group(group);
  app.add_option("--top-p", flags.top_p, "keep the most likely tokens of this total probability; 1: off")
      ->transform(Real(0.0, 1.0, /*above=*/true))
      ->group(group);
  app.add_option("--min-p", flags.min_p, "keep tokens at least this likely relative to the likeliest; 0: off")
      ->transform(Real(0.0, 1.0))
      ->group(group);
  app.add_option("--repetition-penalty", flags.repetition_penalty, "above 1: less of every token of prompt and answer; 1: off")
      ->transform(Real(0.0, 100.0, /*above=*/true))
      ->group(group);
  app.add_option("--frequency-penalty", flags.frequency_penalty, "above 0: less of a token for each time the answer has it")
      ->transform(Real(-2.0, 2.0))
      ->group(group);
  app.add_option("--presence-penalty", flags.presence_penalty, "above 0: less of the tokens that the answer has")
      ->transform(Real(-2.0, 2.0))
      ->group(group);
  app.add_option("--seed", flags.seed, "the same seed gives the same answer, with speculation on or off (but see --speculative-sampling)")
      ->transform(Seed())
      ->group(group);
  app.add_option("--max-tokens", flags.max_tokens, "longest answer in tokens, cut to what the context leaves")
      ->transform(WholeNumber(1, kMaxContext))
      ->group(group);
  app.add_option("--min-tokens", flags.min_tokens, "no end-of-answer token before so many tokens")
      ->transform(WholeNumber(0, kMaxContext))
      ->group(group);
  app.add_flag("--ignore-eos", flags.ignore_eos, "go on after an end-of-answer token")->group(group);
  app.option_defaults()->always_capture_default(false);
  app.add_option("--logit-bias", flags.logit_bias, "ID=BIAS: added to the logit of token ID, -100 to 100; may be given several times")
      ->transform(TokenBiasText())
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false)
      ->group(group);
}

bool SpeculationOff(const ModelFlags& flags) { return flags.no_speculation || flags.algorithm == "none"; }

Status CheckModelFlags(const ModelFlags& flags) {
  if (flags.no_speculation && !flags.algorithm.empty() && flags.algorithm != "none") {
    return Err(ErrorCode::kInvalidArgument, "--no-speculation and --speculative-algorithm {} contradict each other: give one of them",
               flags.algorithm);
  }
  if (flags.algorithm == "draft_model" && flags.draft_model.empty()) {
    return Err(ErrorCode::kInvalidArgument, "--speculative-algorithm draft_model needs a model: give --draft-model PATH");
  }
  if (flags.speculative_sampling == "rejection" && flags.draft_top_k > 1) {
    return Err(ErrorCode::kInvalidArgument, "--speculative-sampling rejection drafts chains: leave out --draft-top-k {}",
               flags.draft_top_k);
  }
  // The engine would go on without it, and compute everything again.
  if (!flags.swap_directory.empty()) {
    HAAST_ASSIGN_OR_RETURN(const int file, base::OpenNamelessFile(flags.swap_directory));
    close(file);
  }
  // A few more threads than processors are slow; a thousand that wait for each other do not come back.
  const int most = std::max(16, 4 * base::UsableCpus());
  if (flags.threads > most) {
    return Err(ErrorCode::kInvalidArgument,
               "--threads {}: this process may use {} processors: expected at most {} threads, or 0 for all of them", flags.threads,
               base::UsableCpus(), most);
  }
  return {};
}

EngineOptions ToEngineOptions(const ModelFlags& flags, const std::string& model, const std::string& draft) {
  EngineOptions options;
  options.model = model;
  options.draft = draft;
  if (!SpeculationOff(flags)) options.draft_model = flags.draft_model;
  options.backend = flags.backend;
  options.draft_quantisation = flags.draft_quantisation;
  options.threads = flags.threads;
  options.kv_dtype = flags.kv_dtype == "f32" ? KvDtype::kF32 : KvDtype::kF16;
  options.kv_tokens = flags.kv_tokens;
  options.max_context = flags.context;
  options.prefill_chunk = flags.prefill_chunk;
  options.prefix_cache = !flags.no_prefix_cache;
  options.preemption = flags.preemption == "swap" ? Preemption::kSwap : Preemption::kRecompute;
  options.swap_directory = flags.swap_directory;
  options.trace_metadata = flags.trace_metadata;
  return options;
}

std::optional<DraftSource> AskedSource(const ModelFlags& flags) {
  if (flags.algorithm.empty()) return std::nullopt;
  const auto algorithm = SpeculativeAlgorithmOf(flags.algorithm);
  return algorithm ? std::optional(DraftSourceOf(*algorithm)) : std::nullopt;
}

SpeculationParams ToSpeculation(const ModelFlags& flags, const ModelInfo* head) {
  SpeculationParams params;
  const std::string name = !flags.algorithm.empty() ? flags.algorithm : head != nullptr ? head->architecture : "none";
  if (!SpeculationOff(flags)) params.algorithm = SpeculativeAlgorithmOf(name).value_or(SpeculativeAlgorithm::kNone);
  const bool chain = flags.draft_top_k == 1;
  const bool rejection = flags.speculative_sampling == "rejection";
  if (rejection) params.sampling = SpeculativeSampling::kRejection;
  params.automatic = flags.num_draft_tokens == 0 && chain && !rejection;
  params.num_draft_tokens = flags.num_draft_tokens > 0 ? flags.num_draft_tokens
                            : params.automatic         ? kAutomaticDrafts
                            : chain                    ? kRejectionDrafts
                                                       : kTreeDrafts;
  params.top_k = flags.draft_top_k;
  params.depth = flags.draft_depth;
  return params;
}

SamplingParams ToSampling(const SamplingFlags& flags) {
  SamplingParams params{.temperature = flags.temperature,
                        .top_k = flags.top_k,
                        .top_p = flags.top_p,
                        .min_p = flags.min_p,
                        .repetition_penalty = flags.repetition_penalty,
                        .frequency_penalty = flags.frequency_penalty,
                        .presence_penalty = flags.presence_penalty,
                        .seed = flags.seed};
  for (const std::string& entry : flags.logit_bias) params.logit_bias.push_back(ParseTokenBias(entry).value());
  return params;
}

std::optional<int> Parse(CLI::App& app, const std::vector<std::string>& args, Output& out, Output& err) {
  std::vector<const char*> argv = {"haast"};
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  const auto refuse = [&](const std::string& why) {
    err.WriteText(fmt::format("{}: {}\nSee `{} --help`.\n", app.get_name(), why, app.get_name()));
    return kExitUsage;
  };
  if (const std::string why = ValueOfAFlag(app, args); !why.empty()) return refuse(why);
  try {
    app.parse(static_cast<int>(argv.size()), argv.data());
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    out.Write(app.help());
    return out.ok() ? kExitOk : kExitRuntime;
  } catch (const CLI::ParseError& error) {
    const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    return refuse(extras ? ExtrasText(app) : error.what());
  }
}

}  // namespace haast::cli
