#include "cli/cost_file.h"

#include <array>
#include <filesystem>
#include <utility>

#include "base/file_bytes.h"
#include "base/format.h"
#include "cli/json_forms.h"
#include "cli/prompt_input.h"

namespace haast::cli {
namespace {

constexpr std::array<std::pair<const char*, LaunchCosts StepCosts::*>, 4> kLaunches = {{{"target", &StepCosts::target},
                                                                                        {"head_step", &StepCosts::head_step},
                                                                                        {"head_extend", &StepCosts::head_extend},
                                                                                        {"draft_model", &StepCosts::draft_model}}};

Json CurveJson(const CostCurve& curve) { return {{"rows", curve.rows}, {"seconds", curve.seconds}}; }

// Throws what nlohmann::json throws, with the field's name.
CostCurve ToCurve(const Json& json) {
  const Json& rows = json.at("rows");
  for (const Json& row : rows) {
    if (!row.is_number_integer()) throw Json::type_error::create(302, "rows: " + row.dump() + " is not a whole number", &rows);
  }
  return {rows.get<std::vector<int64_t>>(), json.at("seconds").get<std::vector<double>>()};
}

LaunchCosts ToLaunchCosts(const Json& json) {
  return {ToCurve(json.at("all_logits")), ToCurve(json.at("one_logit")), ToCurve(json.at("no_logits")),
          json.at("seconds_per_kv_entry").get<double>(), json.at("seconds_per_row_entry").get<double>()};
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
  HAAST_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  StepCosts costs;
  try {
    const Json json = Json::parse(text);
    for (const auto& [name, member] : kLaunches) costs.*member = ToLaunchCosts(json.at(name));
  } catch (const Json::exception& error) {
    return Err(ErrorCode::kInvalidFile, "{}: expected the step costs that `haast bench --costs-out FILE` writes: {}", path, error.what());
  }
  if (const Status status = CheckStepCosts(costs); !status) return Err(ErrorCode::kInvalidFile, "{}: {}", path, status.error().message);
  return costs;
}

}  // namespace haast::cli
