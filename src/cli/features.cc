#include "haast/features.h"

#include "base/format.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/json_forms.h"
#include "cli/load_progress.h"
#include "cli/model_paths.h"
#include "cli/options.h"
#include "haast/limits.h"

namespace haast::cli {
namespace {

struct FeatureFlags {
  ModelFlags model;
  FeatureOptions features;
  std::string layers;
  std::string dtype = "bf16";
  int64_t piece_mb = 128;
  bool json = false;
};

void AddFlags(CLI::App& app, FeatureFlags& flags) {
  AddPath(app, "INPUT", flags.features.input, "JSON Lines of {\"token_ids\": [1, 2, ...]}, a sequence each")->required();
  AddPath(app, "OUTPUT", flags.features.output,
          "folder for features.json and features-00000.safetensors, ...; new, empty, or that of the same command, which then goes on")
      ->required();
  AddPath(app, "--model", flags.model.model, "GGUF file or Hugging Face folder; default: the default model");
  AddPath(app, "--draft", flags.model.draft, "EAGLE head folder whose layers are taken; default: the shipped head with the default model");
  app.add_option("--layers", flags.layers, "2,15,27: instead of a head's, the layers whose input is taken, ascending")
      ->type_name("LAYERS")
      ->check(AscendingNumbers());
  app.option_defaults()->always_capture_default();
  app.add_option("--dtype", flags.dtype, "of the features")->transform(OneOf({"bf16", "f32"}));
  app.add_option("--piece-mb", flags.piece_mb, "megabytes of features in a file; a longer sequence has a file of its own")
      ->transform(WholeNumber(1, 1 << 20));
  app.add_option("--threads", flags.model.threads, "threads; 0: every processor this process may use")
      ->transform(WholeNumber(0, kMaxThreads));
  app.add_option("--backend", flags.model.backend, "cpu, or ref: the naive fp32 definition of correct (slow)")
      ->transform(OneOf({"cpu", "ref"}));
  app.add_option("--kv-dtype", flags.model.kv_dtype, "how keys and values are kept")->transform(OneOf({"f16", "f32"}));
  app.add_option("--prefill-chunk", flags.model.prefill_chunk, "tokens of a launch; never changes a feature")
      ->transform(WholeNumber(1, kMaxPrefillChunk));
  app.option_defaults()->always_capture_default(false);
  app.add_flag("--json", flags.json, "print one JSON object");
  app.footer("Exit codes: 0 done, 1 the run failed, 2 wrong flags, 3 a file or folder cannot be used or written.");
}

Result<FeatureReport> Write(FeatureFlags& flags, Streams& streams) {
  const bool layers = !flags.layers.empty();
  if (layers) flags.features.layers = ParseAscendingNumbers(flags.layers).value();
  if (layers && !flags.model.draft.empty()) {
    return Err(ErrorCode::kInvalidArgument, "--layers and --draft both say what is read: give one of them");
  }
  HAAST_RETURN_IF_ERROR(CheckModelFlags(flags.model));
  HAAST_ASSIGN_OR_RETURN(const ModelPaths paths, ResolveModel(flags.model, SystemPlaces(), /*want_head=*/!layers));
  flags.features.dtype = flags.dtype == "f32" ? FeatureDtype::kF32 : FeatureDtype::kBF16;
  flags.features.piece_bytes = flags.piece_mb * 1'000'000;
  const Result<FeatureReport> report =
      WriteFeatures(ToEngineOptions(flags.model, paths.model, paths.draft), flags.features, ProgressOn(streams.err));
  EndProgress(streams.err);
  return report;
}

std::string ReportText(const FeatureReport& report, const std::string& folder) {
  std::string text = fmt::format("{}: {} sequences, {} tokens in {} files; layers {}", folder, report.sequences, report.tokens,
                                 report.pieces, fmt::join(report.layers, ","));
  if (report.pieces_kept > 0) text += fmt::format("; {} files were there", report.pieces_kept);
  if (report.computed_tokens > 0) {
    text += fmt::format("; {:.1f} s, {:.0f} tokens/s", report.seconds, static_cast<double>(report.computed_tokens) / report.seconds);
  }
  return text + "\n";
}

}  // namespace

int RunFeatures(const Args& args, Streams& streams) {
  CLI::App app("What a draft head reads of the model, token by token, written to files for training one (docs/training.md).",
               "haast features");
  FeatureFlags flags;
  AddFlags(app, flags);
  if (const auto code = Parse(app, args, streams.out, streams.err)) return *code;
  const Result<FeatureReport> report = Write(flags, streams);
  if (!report) return Fail(streams, app, report.error());
  if (flags.json) {
    streams.out.Write(Dump({{"layers", report->layers},
                            {"sequences", report->sequences},
                            {"tokens", report->tokens},
                            {"pieces", report->pieces},
                            {"pieces_kept", report->pieces_kept},
                            {"computed_tokens", report->computed_tokens},
                            {"seconds", report->seconds}}));
  } else {
    streams.out.WriteText(ReportText(*report, flags.features.output));
  }
  return FinishOutput(streams, "features", kExitOk);
}

}  // namespace haast::cli
