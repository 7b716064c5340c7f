#include "cli/json_forms.h"

#include "base/format.h"

namespace haast::cli {
namespace {

Json TimingJson(const Timing& timing) { return {{"min", timing.min}, {"median", timing.median}, {"max", timing.max}}; }

Json TokenJson(const TokenLogprob& entry, const TokenText& token_text) {
  return {{"token_id", entry.token}, {"token", token_text(entry.token)}, {"logprob", entry.logprob}};
}

}  // namespace

Json SpeculationJson(const SpeculationStats& stats, const SpeculationParams& params) {
  const bool on = params.algorithm != SpeculativeAlgorithm::kNone;
  return {{"algorithm", SpeculativeAlgorithmName(params.algorithm)},
          {"num_draft_tokens", on ? params.num_draft_tokens : 0},
          {"automatic", params.automatic},
          {"sampling", SpeculativeSamplingName(params.sampling)},
          {"rounds", stats.rounds},
          {"drafted", stats.drafted},
          {"accepted", stats.accepted},
          {"tau", stats.tau()},
          {"position_acceptance", PositionAcceptance(stats)}};
}

Json TimingsJson(const RequestTimings& timings, double load_seconds) {
  return {{"load_seconds", load_seconds},
          {"queue_seconds", timings.queue_seconds},
          {"prefill_seconds", timings.prefill_seconds},
          {"decode_seconds", timings.decode_seconds},
          {"prompt_tokens", timings.prompt_tokens},
          {"cached_prompt_tokens", timings.cached_prompt_tokens},
          {"generated_tokens", timings.generated_tokens},
          {"prefill_tokens_per_second", PrefillTokensPerSecond(timings)},
          {"tokens_per_second", DecodeTokensPerSecond(timings)}};
}

Json LogprobsJson(std::span<const TokenOutput> tokens, const TokenText& token_text) {
  Json entries = Json::array();
  for (const TokenOutput& output : tokens) {
    Json entry = TokenJson({output.token, output.logprob}, token_text);
    Json top = Json::array();
    for (const TokenLogprob& candidate : output.top) top.push_back(TokenJson(candidate, token_text));
    entry["top"] = std::move(top);
    entries.push_back(std::move(entry));
  }
  return entries;
}

Json SpreadJson(const Spread& spread) { return {{"min", spread.min}, {"median", spread.median}, {"max", spread.max}}; }

Json ModelJson(const ModelInfo& info) {
  Json json = {{"path", info.path},
               {"format", info.format},
               {"name", info.name},
               {"architecture", info.architecture},
               {"file_bytes", info.file_bytes},
               {"parameters", info.parameters},
               {"num_layers", info.num_layers},
               {"hidden_size", info.hidden_size},
               {"intermediate_size", info.intermediate_size},
               {"num_heads", info.num_heads},
               {"num_kv_heads", info.num_kv_heads},
               {"head_dim", info.head_dim},
               {"vocab_size", info.vocab_size},
               {"max_context", info.max_context},
               {"tied_embeddings", info.tied_embeddings},
               {"dtypes", info.dtypes}};
  if (info.target_hidden_size > 0 || info.draft_vocab_size > 0) {
    json["draft_vocab_size"] = info.draft_vocab_size;
    json["target_hidden_size"] = info.target_hidden_size;
    json["tap_layers"] = info.tap_layers;
    json["head_options"] = info.head_options;
  }
  return json;
}

// An op's share of its step and of the read bandwidth.
Json OpJson(const OpProfile& op, const StepProfile& step, double read_gb_per_s) {
  const double gb_per_s = op.microseconds > 0.0 ? static_cast<double>(op.bytes) / op.microseconds * 1e-3 : 0.0;
  return {{"op", op.op},
          {"calls", op.calls},
          {"microseconds", op.microseconds},
          {"share", step.milliseconds > 0.0 ? op.microseconds * 1e-3 / step.milliseconds : 0.0},
          {"bytes", op.bytes},
          {"gb_per_s", gb_per_s},
          {"bandwidth_fraction", read_gb_per_s > 0.0 ? gb_per_s / read_gb_per_s : 0.0}};
}

Json ProfileJson(const BenchReport& report) {
  if (report.profile.empty()) return nullptr;
  Json steps = Json::array();
  for (const StepProfile& step : report.profile) {
    Json ops = Json::array();
    for (const OpProfile& op : step.ops) ops.push_back(OpJson(op, step, report.read_gb_per_s));
    steps.push_back({{"step", step.step},
                     {"rows", step.rows},
                     {"milliseconds", step.milliseconds},
                     {"bytes", step.bytes},
                     {"operations", step.operations},
                     {"ops", std::move(ops)}});
  }
  return steps;
}

Json BenchJson(const BenchReport& report) {
  Json verify = Json::object();
  Json verify_spread = Json::object();
  Json rooflines = {{"prefill", report.prefill_roofline}, {"verify", Json::object()}};
  for (const VerifyTiming& timing : report.verify) {
    rooflines["verify"][std::to_string(timing.rows)] = timing.roofline;
    verify[std::to_string(timing.rows)] = timing.milliseconds.median;
    verify_spread[std::to_string(timing.rows)] = TimingJson(timing.milliseconds);
  }
  rooflines["draft_step"] = report.draft_step_roofline;
  rooflines["draft_extend"] = report.draft_extend_roofline;
  return {{"decode_tps", report.decode_tps.median},
          {"prefill_tps", report.prefill_tps.median},
          {"verify_ms", std::move(verify)},
          {"draft_step_ms", report.draft_step_ms.median},
          {"draft_extend_ms", report.draft_extend_ms.median},
          {"roofline", report.decode_roofline},
          {"rooflines", std::move(rooflines)},
          {"read_gb_per_s", report.read_gb_per_s},
          {"int8_tops", report.int8_tops},
          {"bytes_per_pass", report.bytes_per_pass},
          {"draft_bytes_per_pass", report.draft_bytes_per_pass},
          {"spread",
           {{"decode_tps", TimingJson(report.decode_tps)},
            {"prefill_tps", TimingJson(report.prefill_tps)},
            {"verify_ms", std::move(verify_spread)},
            {"draft_step_ms", TimingJson(report.draft_step_ms)},
            {"draft_extend_ms", TimingJson(report.draft_extend_ms)}}},
          {"profile", ProfileJson(report)}};
}

// nlohmann's writer escapes what JSON demands; DEL and the controls from U+0080 on would reach a terminal as they are.
std::string Dump(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::string escaped;
  escaped.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool c1 = text[i] == '\xC2' && next < 0xA0;
    if (c1 || text[i] == '\x7F') {
      escaped += fmt::format("\\u{:04x}", c1 ? next : 0x7F);
      i += c1 ? 1 : 0;
    } else {
      escaped += text[i];
    }
  }
  return escaped;
}

}  // namespace haast::cli
