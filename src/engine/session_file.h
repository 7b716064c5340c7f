// A saved request as bytes: "HAASTSES", version, size, fields, checksum. The file holds everything the request needs to go on;
// what it must not be mixed with (build, models, KV type) is named in it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "haast/event.h"
#include "haast/request.h"
#include "haast/result.h"
#include "spec/depth_policy.h"

namespace haast::engine {

// What the KV of a session was computed with. Another one gives other bits.
struct SessionOrigin {
  std::string build;            // base::BuildId()
  std::string backend;          // "cpu", whose instruction sets have the same bits, or "ref"
  std::string kv_dtype;         // "F16"
  uint64_t model = 0;           // io::Fingerprint
  uint64_t drafter = 0;         // of the head or draft model of the request's algorithm; 0: none
  std::string drafter_weights;  // draft_quantisation, where there is a drafter
};

// Of the file's format: another one is refused.
inline constexpr uint32_t kSessionVersion = 2;

struct Session {
  SessionOrigin origin;
  Request request;                 // without its constraint
  bool constrained = false;        // it had one
  int64_t most_tokens = 0;         // prompt and answer at their longest, the context's limit included
  std::vector<int32_t> generated;  // tokens emitted so far
  SpeculationStats stats;
  spec::AcceptanceEstimate::Counts acceptance;  // what automatic speculation knows of the request
  int32_t planned_depth = 0;
  int64_t cached_prompt_tokens = 0;
  double age = 0.0;           // seconds since it was submitted
  double since_start = -1.0;  // since its first launch, and its first token; negative: not yet
  double since_first_token = -1.0;
  std::vector<uint8_t> kv_state;  // kv_state.h; empty: computed again
  std::string note;               // the front door's
};

std::vector<uint8_t> EncodeSession(const Session& session);

// Every size is checked; nothing is believed that the bytes do not hold. `path` is for messages. kInvalidFile: not such a file,
// another version, cut off or damaged.
Result<Session> DecodeSession(std::span<const uint8_t> bytes, const std::string& path);

// kInvalidFile with the first difference and both values.
Status CheckOrigin(const SessionOrigin& saved, const SessionOrigin& here, const std::string& path);

}  // namespace haast::engine
