#include "cli/cost_file.h"

#include <array>
#include <filesystem>
#include <utility>

#include "base/file_bytes.h"
#include "base/format.h"
#include "cli/json_forms.h"
#include "haast/limits.h"
#include "io/json.h"

namespace haast::cli {
namespace {

constexpr std::array<std::pair<const char*, LaunchCosts StepCosts::*>, 4> kLaunches = {{{"target", &StepCosts::target},
                                                                                        {"head_step", &StepCosts::head_step},
                                                                                        {"head_extend", &StepCosts::head_extend},
                                                                                        {"draft_model", &StepCosts::draft_model}}};

Json CurveJson(const CostCurve& curve) { return {{"rows", curve.rows}, {"seconds", curve.seconds}}; }

constexpr int64_t kMostFileBytes = int64_t{16} << 20;

// What is missing or of another kind is remembered by `json`.
CostCurve CurveOf(const io::JsonObject& json, const char* key) {
  json.Require(key);
  const auto curve = json.Object(key);
  if (!curve) return {};
  for (const char* each : {"rows", "seconds"}) curve->Require(each);
  return {curve->Integers("rows", 1, kMaxContext), curve->Numbers("seconds")};
}

LaunchCosts LaunchCostsOf(const io::JsonObject& json, const char* key) {
  json.Require(key);
  const auto launch = json.Object(key);
  if (!launch) return {};
  for (const char* each : {"seconds_per_kv_entry", "seconds_per_row_entry"}) launch->Require(each);
  return {CurveOf(*launch, "all_logits"), CurveOf(*launch, "one_logit"), CurveOf(*launch, "no_logits"),
          launch->Number("seconds_per_kv_entry", 0.0), launch->Number("seconds_per_row_entry", 0.0)};
}

Result<StepCosts> ParseStepCosts(std::string_view text, const std::string& path) {
  HAAST_ASSIGN_OR_RETURN(const io::JsonDocument document, io::JsonDocument::Parse(text, path));
  const io::JsonObject root = document.root();
  StepCosts costs;
  for (const auto& [name, member] : kLaunches) costs.*member = LaunchCostsOf(root, name);
  HAAST_RETURN_IF_ERROR(root.status());
  if (const Status status = CheckStepCosts(costs); !status) return Err(ErrorCode::kInvalidFile, "{}: {}", path, status.error().message);
  return costs;
}

}  // namespace

Status WriteStepCosts(const std::string& path, const StepCosts& costs, const EngineOptions& measured) {
  Json json = {{"model", std::filesystem::path(measured.model).filename().string()}, {"threads", measured.threads}};
  for (const auto& [name, member] : kLaunches) {
    const LaunchCosts& launch = costs.*member;
    json[name] = {{"all_logits", CurveJson(launch.all_logits)},
                  {"one_logit", CurveJson(launch.one_logit)},
                  {"no_logits", CurveJson(launch.no_logits)},
                  {"seconds_per_kv_entry", launch.seconds_per_kv_entry},
                  {"seconds_per_row_entry", launch.seconds_per_row_entry}};
  }
  const std::string text = Dump(json);
  return base::WriteFileAtomically(path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

Result<StepCosts> ReadStepCosts(const std::string& path) {
  Result<StepCosts> costs = base::ReadFileBytes(path, kMostFileBytes).and_then([&](const std::vector<uint8_t>& bytes) {
    return ParseStepCosts({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  });
  if (!costs) return Err(costs.error().code, "{}: `haast bench --costs-out FILE` writes such a file", costs.error().message);
  return costs;
}

}  // namespace haast::cli
