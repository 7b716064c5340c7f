#include "cli/flag_rules.h"

#include "base/cpu.h"
#include "base/format.h"

namespace haast::cli {

std::vector<FlagRule> ModelFlagRules(const ModelFlags& flags, bool resumed) {
  const bool off = SpeculationOff(flags);
  const std::optional<DraftSource> source = AskedSource(flags);
  return {
      {Verdict::kRefused, flags.preemption != "swap", {"--swap-directory"}, "is for swapped KV: give --preemption swap"},
      {Verdict::kRefused,
       !off && !resumed && source != DraftSource::kDraftModel,
       {"--draft-model"},
       "is used by --speculative-algorithm draft_model only: give that too"},
      {Verdict::kRefused,
       !off && flags.draft_top_k == 1 && flags.draft_depth > 0,
       {"--draft-depth"},
       "counts the levels of a tree: give --draft-top-k above 1, or --num-draft-tokens for the length of a chain"},
      {Verdict::kNoted,
       off,
       {"--draft", "--draft-model", "--num-draft-tokens", "--draft-top-k", "--draft-depth", "--speculative-sampling",
        "--draft-quantisation"},
       "not used without speculation"},
      {Verdict::kNoted,
       !off && source && !IsHead(*source),
       {"--draft", "--draft-quantisation"},
       fmt::format("not used by --speculative-algorithm {}", flags.algorithm)},
      {Verdict::kNoted,
       !off && source && !DraftsTrees(*SpeculativeAlgorithmOf(flags.algorithm)),
       {"--draft-top-k", "--draft-depth"},
       fmt::format("not used by --speculative-algorithm {}, which drafts chains", flags.algorithm)},
      {Verdict::kNoted,
       !off && flags.backend == "ref",
       {"--draft-quantisation"},
       "not used by --backend ref, which keeps weights as they are"},
      {Verdict::kNoted,
       flags.threads > base::UsableCpus(),
       {"--threads"},
       fmt::format("{} are more than the processors that this process may use ({}): slower than 0, which takes them all", flags.threads,
                   base::UsableCpus())},
  };
}

std::vector<FlagRule> SamplingFlagRules(const SamplingFlags& flags) {
  return {
      {Verdict::kRefused,
       flags.min_tokens > flags.max_tokens,
       {"--min-tokens"},
       fmt::format("{} is more than --max-tokens {}: lower it, or raise --max-tokens", flags.min_tokens, flags.max_tokens)},
      {Verdict::kNoted,
       flags.temperature == 0.0f,
       {"--top-k", "--top-p", "--min-p", "--seed"},
       "not used at --temperature 0, which always takes the most likely token"},
      {Verdict::kNoted, flags.ignore_eos, {"--min-tokens"}, "not used with --ignore-eos: no end token ends the answer"},
  };
}

Status CheckFlagRules(const CLI::App& app, const std::vector<FlagRule>& rules, Output& err) {
  std::string notes;
  for (const FlagRule& rule : rules) {
    std::vector<const char*> given;
    for (const char* flag : rule.flags) {
      if (rule.broken && app.count(flag) > 0) given.push_back(flag);
    }
    if (given.empty()) continue;
    const std::string line = fmt::format("{} {}", fmt::join(given, ", "), rule.why);
    if (rule.verdict == Verdict::kRefused) return MakeError(ErrorCode::kInvalidArgument, line);
    notes += fmt::format("{}: note: {}\n", app.get_name(), line);
  }
  err.WriteText(notes);
  return {};
}

}  // namespace haast::cli
