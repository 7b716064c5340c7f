#include "property/property_case.h"

#include <fmt/format.h>
#include <algorithm>
#include <limits>

#include "support/engine_harness.h"
#include "support/random.h"

namespace haast::testing {
namespace {

class Chooser {
 public:
  explicit Chooser(uint64_t seed) : random_(seed, "property") {}

  int Between(int low, int high) { return low + static_cast<int>(random_.Below(static_cast<uint64_t>(int64_t{high} - low + 1))); }
  bool OneIn(int count) { return random_.Below(static_cast<uint64_t>(count)) == 0; }
  uint64_t Seed() { return random_.Next(); }
  template <typename T>
  T Of(std::initializer_list<T> values) {
    return values.begin()[random_.Below(values.size())];
  }

 private:
  Random random_;
};

void ChooseHeads(Chooser& choose, TinyLlama* llama) {
  constexpr int kWidest = 1024;  // of all query heads: keeps a case quick
  llama->head_dim = choose.OneIn(2) ? choose.Of({32, 64, 96, 128}) : 2 * choose.Between(16, 128);
  llama->kv_heads = choose.Between(1, 3);
  const int most = std::clamp(kWidest / (llama->head_dim * llama->kv_heads), 1, 16);
  llama->heads = llama->kv_heads * choose.Between(1, most);
}

TinyLlama ChooseLlama(Chooser& choose, int vocab) {
  TinyLlama llama;
  llama.layers = choose.Between(1, 4);
  llama.hidden = 32 * choose.Between(1, 3);
  llama.intermediate = 32 * choose.Between(1, 4);
  ChooseHeads(choose, &llama);
  llama.vocab = vocab;
  llama.max_context = choose.Of({128, 256, 300});
  llama.llama3_rope = choose.OneIn(4);
  llama.tied = !choose.OneIn(3);
  llama.attention_bias = choose.OneIn(4);
  llama.layer_scale = choose.Of({0.05f, 0.2f, 0.4f, 1.0f});
  llama.seed = choose.Seed();
  const bool blocks = llama.heads * llama.head_dim % 32 == 0;
  llama.dtype = blocks ? choose.Of({DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_1}) : DType::kF32;
  return llama;
}

TinyEagle3 ChooseEagle3(Chooser& choose, const TinyLlama& llama) {
  TinyEagle3 head;
  head.target = llama;
  head.echo = !choose.OneIn(3);
  head.spelling = choose.Of({HeadSpelling::kSafeAiLab, HeadSpelling::kSpecForge, HeadSpelling::kSpeculators});
  head.draft_vocab = choose.OneIn(2) ? 0 : choose.Between(1, llama.vocab);
  head.own_embeddings = choose.OneIn(3);
  head.hidden = llama.hidden;
  if (!head.echo && head.own_embeddings && head.draft_vocab > 0) head.hidden = 32 * choose.Between(1, 3);
  TinyLlama shape;
  ChooseHeads(choose, &shape);
  head.heads = shape.heads;
  head.kv_heads = shape.kv_heads;
  head.head_dim = shape.head_dim;
  for (int layer = 0; layer < llama.layers; ++layer) {
    if (choose.OneIn(2)) head.taps.push_back(layer);
  }
  head.taps.push_back(llama.layers);
  head.fc_norm = choose.OneIn(3);
  head.norm_before_fc = !head.fc_norm && choose.OneIn(3);
  head.norm_output = choose.OneIn(2);
  head.norm_before_residual = choose.OneIn(2);
  head.seed = choose.Seed();
  return head;
}

SpeculationParams ChooseSpeculation(Chooser& choose, const PropertyCase& property) {
  std::vector<SpeculativeAlgorithm> algorithms = {SpeculativeAlgorithm::kNone, SpeculativeAlgorithm::kNgram, SpeculativeAlgorithm::kSuffix};
  if (property.has_draft_model) algorithms.insert(algorithms.end(), 2, SpeculativeAlgorithm::kDraftModel);
  const auto head = property.head == Head::kEagle3 ? SpeculativeAlgorithm::kEagle3 : SpeculativeAlgorithm::kEagle;
  if (property.head != Head::kNone) algorithms.insert(algorithms.end(), 5, head);
  SpeculationParams params;
  params.algorithm = algorithms[static_cast<size_t>(choose.Between(0, static_cast<int>(algorithms.size()) - 1))];
  params.num_draft_tokens = choose.OneIn(4) ? choose.Between(1, kMaxDraftTokens) : choose.Between(1, 8);
  const bool trees = params.algorithm == head || params.algorithm == SpeculativeAlgorithm::kSuffix;
  if (trees && choose.OneIn(2)) {
    params.top_k = choose.Between(2, 8);
    params.depth = choose.OneIn(2) ? 0 : choose.Between(1, 8);
  } else if (choose.OneIn(6)) {
    params.automatic = true;
    params.num_draft_tokens = choose.Between(1, 16);
  } else if (choose.OneIn(4)) {
    params.sampling = SpeculativeSampling::kRejection;
  }
  return params;
}

void ChooseSampling(Chooser& choose, int vocab, Request* request) {
  SamplingParams& sampling = request->sampling;
  sampling.temperature = choose.OneIn(2) ? 0.0f : choose.Of({0.3f, 1.0f, 2.0f});
  sampling.seed = choose.Seed();
  if (choose.OneIn(3)) sampling.top_k = choose.Between(1, 20);
  if (choose.OneIn(3)) sampling.top_p = choose.Of({0.3f, 0.9f});
  if (choose.OneIn(4)) sampling.min_p = 0.05f;
  if (choose.OneIn(4)) sampling.repetition_penalty = choose.Of({0.8f, 1.3f});
  if (choose.OneIn(4)) sampling.frequency_penalty = choose.Of({-0.5f, 0.7f});
  if (choose.OneIn(4)) sampling.presence_penalty = choose.Of({-0.5f, 0.7f});
  for (int i = choose.OneIn(4) ? choose.Between(1, 5) : 0; i > 0; --i) {
    sampling.logit_bias.push_back({choose.Between(0, vocab - 1), choose.Of({-100.0f, -2.0f, 2.0f})});
  }
  for (int i = choose.OneIn(3) ? vocab / 16 : 0; i > 0; --i) request->eos_ids.push_back(choose.Between(0, vocab - 1));
  if (choose.OneIn(2)) request->min_tokens = choose.Between(0, static_cast<int>(request->max_tokens));
  request->logprobs = choose.Of({0, 0, 0, 3, 20});
  if (choose.OneIn(5)) request->prompt_logprobs = choose.Of({0, 2});
}

// Requests that start in few pages and then need many: they preempt each other.
bool LongAnswers(const PropertyCase& property) { return property.seed % 4 == 0; }

// Few prefixes, and now and then few ids: pages are shared, n-grams occur again.
std::vector<int32_t> ChoosePrompt(Chooser& choose, const PropertyCase& property) {
  const int vocab = property.llama.vocab;
  const int ids = property.seed % 3 == 0 ? std::min(vocab, 6) : vocab;
  std::vector<int32_t> prompt = RandomIds(choose.Between(1, LongAnswers(property) ? 24 : 90), ids, property.seed + choose.Seed() % 2);
  if (choose.OneIn(3)) {
    const std::vector<int32_t> tail = RandomIds(choose.Between(1, 20), ids, choose.Seed());
    prompt.insert(prompt.end(), tail.begin(), tail.end());
  }
  return prompt;
}

PlannedRequest ChooseRequest(Chooser& choose, const PropertyCase& property) {
  PlannedRequest planned;
  Request& request = planned.request;
  request.prompt = ChoosePrompt(choose, property);
  request.max_tokens = choose.OneIn(8) ? 1 : choose.Between(2, LongAnswers(property) ? 60 : 28);
  ChooseSampling(choose, property.llama.vocab, &request);
  request.speculation = ChooseSpeculation(choose, property);
  planned.constrained = choose.OneIn(5);
  planned.arrives = choose.OneIn(3) ? choose.Between(0, 20) : 0;
  if (choose.OneIn(8)) planned.cancelled = planned.arrives + choose.Between(1, 15);
  return planned;
}

void ChooseOptions(Chooser& choose, PropertyCase* property) {
  EngineOptions& options = property->options;
  options.threads = choose.OneIn(20) ? 2 : 1;  // seldom: on a busy machine two threads wait for each other most of the time
  options.kv_dtype = choose.OneIn(3) ? KvDtype::kF32 : KvDtype::kF16;
  options.page_size = choose.OneIn(2) ? choose.Of({1, 2, 4, 8, 16, 32, 64}) : choose.Between(1, 64);
  options.max_batch = choose.OneIn(4) ? choose.Between(1, 3) : choose.Between(4, 8);
  options.prefill_chunk = choose.OneIn(2) ? choose.Between(1, 20) : choose.Between(1, 200);
  options.prefix_cache = !choose.OneIn(3);
  options.preemption = choose.OneIn(2) ? Preemption::kSwap : Preemption::kRecompute;
  options.draft_quantisation = choose.Of<std::string>({"auto", "none"});
  options.acceptance_floor = 0.0;
  if (choose.OneIn(4)) options.swap_bytes = choose.Between(1, 200000);
  property->swap_to_file = choose.OneIn(4);
  property->traced = choose.OneIn(8);
  for (int step = 0; choose.OneIn(5);) {
    property->restarts.push_back(step += choose.Between(1, 20));
    property->page_sizes.push_back(choose.Between(1, 64));
  }
  for (int step = 0; choose.OneIn(2);) property->inspections.push_back(step += choose.Between(2, 12));
}

}  // namespace

PropertyCase MakePropertyCase(uint64_t seed) {
  Chooser choose(seed);
  PropertyCase property;
  property.seed = seed;
  property.llama = ChooseLlama(choose, choose.Of({17, 64, 320, 500, 1000}));
  property.head = choose.Of({Head::kNone, Head::kEagle1, Head::kEagle1, Head::kEagle3, Head::kEagle3, Head::kEagle3, Head::kEagle3});
  property.eagle3 = ChooseEagle3(choose, property.llama);
  property.eagle1_layers = choose.Between(1, 2);
  property.eagle1_echo = !choose.OneIn(3);
  property.has_draft_model = choose.OneIn(2);
  property.draft_model = choose.OneIn(2) ? property.llama : ChooseLlama(choose, property.llama.vocab);
  property.draft_model.max_context = property.llama.max_context;
  ChooseOptions(choose, &property);
  const int count = property.options.threads > 1 ? 2 : choose.Between(1, 8);
  for (int i = 0; i < count; ++i) property.requests.push_back(ChooseRequest(choose, property));
  // From the smallest pool to one with room for all.
  const int64_t smallest = SmallestPool(property, property.options.page_size);
  property.options.kv_tokens =
      smallest + (choose.OneIn(2) ? 0 : choose.Between(0, static_cast<int>(smallest) * (1 + choose.Between(0, 3))));
  return property;
}

int64_t SmallestPool(const PropertyCase& property, int page_size) {
  int64_t most = 0;
  for (const PlannedRequest& planned : property.requests) {
    const int64_t tokens = static_cast<int64_t>(planned.request.prompt.size()) + planned.request.max_tokens;
    most = std::max(most, std::min<int64_t>(tokens, property.llama.max_context));
  }
  return (most + page_size - 1) / page_size * page_size;
}

std::string Describe(const PropertyCase& property) {
  const TinyLlama& llama = property.llama;
  const EngineOptions& options = property.options;
  std::string text = fmt::format("{} layers, hidden {}, {}/{} heads of {}, vocabulary {}, context {}, head {}, draft model {}\n",
                                 llama.layers, llama.hidden, llama.heads, llama.kv_heads, llama.head_dim, llama.vocab, llama.max_context,
                                 static_cast<int>(property.head), property.has_draft_model);
  text += fmt::format("threads {}, page {}, pool {}, batch {}, chunk {}, prefix cache {}, swap {}, restarts {}\n", options.threads,
                      options.page_size, options.kv_tokens, options.max_batch, options.prefill_chunk, options.prefix_cache,
                      options.preemption == Preemption::kSwap, property.restarts.size());
  for (const PlannedRequest& planned : property.requests) {
    const Request& request = planned.request;
    const SpeculationParams& speculation = request.speculation;
    text += fmt::format("  prompt {}, max {}, min {}, {} {} drafts, top_k {}, depth {}{}, {}, temperature {}{}, step {}, cancelled {}\n",
                        request.prompt.size(), request.max_tokens, request.min_tokens, SpeculativeAlgorithmName(speculation.algorithm),
                        speculation.num_draft_tokens, speculation.top_k, speculation.depth, speculation.automatic ? ", automatic" : "",
                        SpeculativeSamplingName(speculation.sampling), request.sampling.temperature,
                        planned.constrained ? ", constrained" : "", planned.arrives, planned.cancelled);
  }
  return text;
}

void PairStop::Mask(std::span<float> logits) {
  for (size_t id = static_cast<size_t>(tokens_.back()) % 4 / 2; id < logits.size(); id += 2) {
    logits[id] = -std::numeric_limits<float>::infinity();
  }
}

bool PairStop::finished() const {
  const size_t count = tokens_.size();
  return count >= 2 && (tokens_[count - 1] + tokens_[count - 2]) % 11 == 0;
}

}  // namespace haast::testing
