#include "cli/session_note.h"

#include <bit>

#include "base/format.h"
#include "base/printable.h"
#include "cli/json_forms.h"

namespace haast::cli {
namespace {

// Logprobs are kept as their bits: no decimal form in between.
uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

Json OutputJson(const TokenOutput& output) {
  Json top = Json::array();
  for (const TokenLogprob& entry : output.top) top.push_back({entry.token, Bits(entry.logprob)});
  return {output.token, output.from_draft, Bits(output.logprob), std::move(top)};
}

TokenOutput OutputOf(const Json& json) {
  TokenOutput output{.token = json.at(0).get<int32_t>(),
                     .from_draft = json.at(1).get<bool>(),
                     .logprob = std::bit_cast<float>(json.at(2).get<uint32_t>())};
  for (const Json& entry : json.at(3)) {
    output.top.push_back({entry.at(0).get<int32_t>(), std::bit_cast<float>(entry.at(1).get<uint32_t>())});
  }
  return output;
}

Json OutputsJson(const std::vector<TokenOutput>& outputs) {
  Json list = Json::array();
  for (const TokenOutput& output : outputs) list.push_back(OutputJson(output));
  return list;
}

std::vector<TokenOutput> OutputsOf(const Json& list) {
  std::vector<TokenOutput> outputs;
  for (const Json& output : list) outputs.push_back(OutputOf(output));
  return outputs;
}

}  // namespace

std::string WriteNote(const SessionNote& note) {
  return Json{{"stops", note.stops}, {"prompt", OutputsJson(note.prompt)}, {"outputs", OutputsJson(note.outputs)}}.dump();
}

Result<SessionNote> ReadNote(const std::string& text, const std::string& path) {
  try {
    const Json json = Json::parse(text);
    SessionNote note;
    note.stops = json.at("stops").get<std::vector<std::string>>();
    note.prompt = OutputsOf(json.at("prompt"));
    note.outputs = OutputsOf(json.at("outputs"));
    return note;
  } catch (const Json::exception&) {
    return Err(ErrorCode::kInvalidFile, "{}: expected a session that `haast generate --save FILE` wrote, got one with {}", path,
               text.empty() ? "no note of it" : "the note " + base::Label(text));
  }
}

}  // namespace haast::cli
