#include "base/format.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/error_words.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/json_forms.h"
#include "cli/model_paths.h"
#include "cli/options.h"
#include "haast/model_info.h"

namespace haast::cli {
namespace {

bool IsHead(const ModelInfo& info) { return info.target_hidden_size > 0 || info.draft_vocab_size > 0; }

std::string SizeText(int64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

std::string TextLine(const TextAssets& assets) {
  const std::string vocabulary = assets.tokenizer_json.empty()
                                     ? fmt::format("{} ({})", base::Label(assets.gguf.model), base::Label(assets.gguf.pre))
                                     : "tokenizer.json";
  return fmt::format("text          {}; end tokens {}; {}\n", vocabulary, fmt::join(assets.eos_ids, ", "),
                     assets.chat_template.empty() ? "no chat template" : "chat template");
}

std::string InfoText(const ModelInfo& info) {
  std::string text = fmt::format(
      "path          {}\nformat        {}, {}, {:.1f} M parameters\nname          {}\narchitecture  {}, {} layers, hidden {}, "
      "intermediate {}\nattention     {} query heads, {} KV heads, head_dim {}\nvocabulary    {}{}\ncontext       {}\ntensors       {}\n",
      info.path, info.format, SizeText(info.file_bytes), static_cast<double>(info.parameters) / 1e6,
      info.name.empty() ? "-" : base::Label(info.name), info.architecture, info.num_layers, info.hidden_size, info.intermediate_size,
      info.num_heads, info.num_kv_heads, info.head_dim, info.vocab_size, info.tied_embeddings ? ", tied embeddings" : "", info.max_context,
      fmt::join(info.dtypes, ", "));
  if (IsHead(info)) {
    text +=
        fmt::format("draft         vocabulary {}, target hidden {}, taps {}, options {}\n", info.draft_vocab_size, info.target_hidden_size,
                    info.tap_layers.empty() ? "by default" : fmt::format("{}", fmt::join(info.tap_layers, " ")),
                    info.head_options.empty() ? "none" : fmt::format("{}", fmt::join(info.head_options, " ")));
  }
  return text;
}

Json TextJson(const TextAssets& assets) {
  return {{"tokenizer", assets.tokenizer_json.empty() ? assets.gguf.model : "tokenizer.json"},
          {"pre_tokenizer", assets.gguf.pre},
          {"eos_ids", assets.eos_ids},
          {"chat_template", !assets.chat_template.empty()}};
}

// The answer to one `haast info`.
struct Report {
  ModelInfo model;
  Result<TextAssets> text;
  bool has_draft = false;
  ModelInfo draft;
  Status fits;
};

Result<Report> Inspect(const ModelPaths& paths) {
  Report report;
  HAAST_ASSIGN_OR_RETURN(report.model, InspectModel(paths.model));
  if (!IsHead(report.model)) report.text = LoadTextAssets(paths.model);
  if (!paths.draft.empty()) {
    report.has_draft = true;
    HAAST_ASSIGN_OR_RETURN(report.draft, InspectModel(paths.draft));
    report.fits = CheckHeadFits(paths.model, paths.draft);
  }
  return report;
}

std::string ReportText(const Report& report) {
  std::string text = InfoText(report.model);
  if (!IsHead(report.model)) {
    text += report.text ? TextLine(*report.text) : fmt::format("text          none: {}\n", report.text.error().message);
  }
  if (!report.has_draft) return text;
  text += "\n" + InfoText(report.draft);
  return text + (report.fits ? "fits          yes\n" : fmt::format("fits          no: {}\n", WithFlagNames(report.fits.error().message)));
}

Json ReportJson(const Report& report) {
  Json json = ModelJson(report.model);
  json["text"] = IsHead(report.model) || !report.text ? Json(nullptr) : TextJson(*report.text);
  if (report.has_draft) {
    json["draft"] = ModelJson(report.draft);
    json["draft"]["fits"] = report.fits.has_value();
    json["draft"]["why_not"] = report.fits ? Json(nullptr) : Json(WithFlagNames(report.fits.error().message));
  }
  return json;
}

}  // namespace

int RunInfo(const Args& args, Streams& streams) {
  CLI::App app("What a model file or head folder is, and whether a draft head fits it.", "haast info");
  ModelFlags flags;
  bool json = false;
  AddPath(app, "MODEL", flags.model, "GGUF file, Hugging Face folder or head folder; default: the default model and its head");
  AddPath(app, "--draft", flags.draft, "EAGLE head folder to check against MODEL");
  app.add_flag("--json", json, "print one JSON object");
  app.footer("Exit codes: 0 done (and the head fits), 2 wrong flags, 3 a file cannot be used or the head does not fit.");
  if (const auto code = Parse(app, args, streams.out, streams.err)) return *code;

  const Result<ModelPaths> paths = ResolveModel(flags, SystemPlaces(), /*want_head=*/true);
  if (!paths) return Fail(streams, app, paths.error());
  const Result<Report> report = Inspect(*paths);
  if (!report) return Fail(streams, app, report.error());
  if (json) {
    streams.out.Write(Dump(ReportJson(*report)));
  } else {
    streams.out.WriteText(ReportText(*report));
  }
  return FinishOutput(streams, "info", report->fits ? kExitOk : kExitFile);
}

}  // namespace haast::cli
