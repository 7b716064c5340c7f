#include "sampling/race.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "sampling/row_search.h"

namespace haast::sampling {
namespace {

double Exponential(double uniform) { return -std::log1p(-uniform); }

bool Before(const Arrival& a, const Arrival& b) { return a.time != b.time ? a.time < b.time : a.token < b.token; }

// Above what rounding may add to a time that is compared with a bound computed in another way.
constexpr double kSlack = 1.0 + 1e-12;

}  // namespace

Noise::Block Noise::BlockOf(int32_t id) const {
  const uint32_t index = static_cast<uint32_t>(id) / kBlock;
  const auto words = RandomWords(seed_, position_, block_time_, index);
  return {.first_id = static_cast<int32_t>(index * kBlock + words[2] % kBlock), .time = Exponential(OpenUniform(PairOf(words))) / kBlock};
}

void Noise::AtLeast(std::span<const uint32_t> blocks, std::span<double> times) const {
  std::array<uint64_t, 64> pairs;
  for (size_t begin = 0; begin < blocks.size(); begin += pairs.size()) {
    const auto part = blocks.subspan(begin, std::min(pairs.size(), blocks.size() - begin));
    RandomPairs(seed_, position_, block_time_, part, std::span(pairs).first(part.size()));
    // -log(1 - v) >= v
    for (size_t i = 0; i < part.size(); ++i) times[begin + i] = OpenUniform(pairs[i]) / (kBlock * kSlack);
  }
}

double Noise::Time(const Block& block, int32_t id, double latest) const {
  if (id == block.first_id) return block.time;
  const double uniform = OpenUniform(PairOf(RandomWords(seed_, position_, token_time_, static_cast<uint32_t>(id))));
  if (block.time + uniform > latest) return kNever;
  return block.time + Exponential(uniform);
}

void Race::SetLimit(double time) {
  limit_ = time;
  reach_ = time * kSlack;
}

void Race::Expect(int32_t token, float weight) {
  if (weight <= 0.0f) return;
  slowest_expected_ = std::max(slowest_expected_, noise_.Time(noise_.BlockOf(token), token) / weight);
  if (++expected_ == count_) SetLimit(slowest_expected_);
}

void Race::Insert(const Arrival& arrival) {
  arrivals_.insert(std::upper_bound(arrivals_.begin(), arrivals_.end(), arrival, Before), arrival);
  if (arrivals_.size() > count_) arrivals_.pop_back();
  if (arrivals_.size() == count_) SetLimit(arrivals_.back().time);
}

// Every token of `group` that may arrive in time.
void Race::Run(const Group& group, float threshold) {
  const Noise::Block block = noise_.BlockOf(group.first_token);
  for (size_t i = 0; i < group.weights.size(); ++i) {
    const float weight = group.weights[i];
    if (weight <= 0.0f || weight < threshold || block.time > reach_ * weight) continue;
    const int32_t token = group.tokens != nullptr ? group.tokens[i] : group.first_token + static_cast<int32_t>(i);
    const double time = noise_.Time(block, token, reach_ * weight) / weight;
    if (time <= limit_) Insert({token, weight, time});
  }
}

void Race::Flush(float threshold) {
  std::array<double, kGroups> times;
  noise_.AtLeast(std::span(blocks_).first(waiting_), times);
  for (size_t i = 0; i < waiting_; ++i) {
    if (times[i] <= reach_ * heaviest_[i]) Run(groups_[i], threshold);
  }
  waiting_ = 0;
}

void Race::Offer(const Group& group, float threshold) {
  const float heaviest = BlockMaximum(group.weights.data(), static_cast<int64_t>(group.weights.size()));
  if (heaviest <= 0.0f || heaviest < threshold) return;
  groups_[waiting_] = group;
  heaviest_[waiting_] = heaviest;
  blocks_[waiting_] = static_cast<uint32_t>(group.first_token) / Noise::kBlock;
  if (++waiting_ == kGroups) Flush(threshold);
}

void Race::OfferRow(std::span<const float> weights, float threshold) {
  for (size_t begin = 0; begin < weights.size(); begin += Noise::kBlock) {
    const size_t count = std::min<size_t>(Noise::kBlock, weights.size() - begin);
    Offer({static_cast<int32_t>(begin), nullptr, weights.subspan(begin, count)}, threshold);
  }
  Flush(threshold);
}

void Race::OfferTokens(std::span<const int32_t> tokens, std::span<const float> weights) {
  HAAST_CHECK(tokens.size() == weights.size()) << tokens.size() << " tokens, " << weights.size() << " weights";
  for (size_t begin = 0, end = 0; begin < tokens.size(); begin = end) {
    const uint32_t first = static_cast<uint32_t>(tokens[begin]) / Noise::kBlock * Noise::kBlock;
    while (end < tokens.size() && static_cast<uint32_t>(tokens[end]) - first < Noise::kBlock) ++end;
    Offer({tokens[begin], &tokens[begin], weights.subspan(begin, end - begin)}, 0.0f);
  }
  Flush(0.0f);
}

}  // namespace haast::sampling
