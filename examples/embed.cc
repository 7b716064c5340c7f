// Embeds the engine: tokens in, tokens out, with nothing but the public headers.
//
//   embed MODEL HEAD ID...     answers the prompt of these token ids, speculating with the head ("-": none)
//
// Several requests could run at once: submit them all, and tell their events apart by Event::request.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "haast/engine.h"

namespace {

int Fail(const haast::Error& error) {
  std::fprintf(stderr, "embed: %s\n", error.message.c_str());
  return 1;
}

int Answer(haast::Engine& engine, haast::Request request) {
  const auto id = engine.Submit(std::move(request));
  if (!id) return Fail(id.error());
  while (!engine.idle()) {
    for (const haast::Event& event : engine.Step()) {
      for (const haast::TokenOutput& output : event.tokens) std::printf("%d%s ", output.token, output.from_draft ? "*" : "");
      std::fflush(stdout);
      if (event.finish == haast::FinishReason::kNone) continue;
      if (event.finish == haast::FinishReason::kError) return Fail({haast::ErrorCode::kOutOfMemory, event.error});
      std::printf("\n%s after %lld tokens (* drafted), %.2f tokens a round\n", haast::FinishReasonName(event.finish),
                  static_cast<long long>(event.timings.generated_tokens), event.speculation.tau());
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: embed MODEL HEAD ID...  (HEAD -: plain decoding)\n");
    return 2;
  }
  const std::string head = argv[2];
  haast::EngineOptions options;
  options.model = argv[1];
  options.draft = head == "-" ? "" : head;
  auto engine = haast::Engine::Create(options);
  if (!engine) return Fail(engine.error());

  haast::Request request;
  for (int i = 3; i < argc; ++i) request.prompt.push_back(static_cast<int32_t>(std::strtol(argv[i], nullptr, 10)));
  request.max_tokens = 32;
  if (!options.draft.empty()) request.speculation = {haast::SpeculativeAlgorithm::kEagle3, 4};
  return Answer(**engine, std::move(request));
}
