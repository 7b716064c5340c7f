// Draws by an exponential race: token i of weight w_i arrives at E_i / w_i, where the E_i are independent exponential numbers
// of mean 1, and the first to arrive is token i with probability w_i / sum of w. (The Gumbel-max trick, Maddison et al. 2014:
// -log(E_i / w_i) = log w_i + Gumbel noise.) The E_i of a position depend on (seed, position, token id) alone, so that two
// models that race at one position draw the same token wherever their weights agree well enough.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sampling/philox.h"

namespace haast::sampling {

// The E_i of one position, in blocks of 64 ids. The first of 64 of them comes at an exponential time of mean 1/64, at any of
// the 64 with equal chance, and from then on the others wait for exponential times of mean 1 again: so the blocks' first times,
// one random number each, tell which few tokens need theirs.
//
// Resolution: a first time is -log(1 - v) / 64 with v an odd multiple of 2^-53, so that a token of any probability p above about
// 2^-58 is drawn with the probability p, and none is drawn that has weight 0.
class Noise {
 public:
  static constexpr uint32_t kBlock = 64;

  Noise(uint64_t seed, int64_t position) : seed_(seed), position_(position) {}
  // Noise of the same position, independent of the above: for drafts that must say nothing about what the target draws.
  static Noise ForDrafts(uint64_t seed, int64_t position) {
    Noise noise(seed, position);
    noise.block_time_ = Stream::kDraftBlockTime;
    noise.token_time_ = Stream::kDraftTokenTime;
    return noise;
  }

  struct Block {
    int32_t first_id;  // of its 64, the one that comes first
    double time;       // of first_id
  };
  Block BlockOf(int32_t id) const;
  // Times before which no token of the blocks comes, a little below Block::time: all that most blocks need. [n]
  void AtLeast(std::span<const uint32_t> blocks, std::span<double> times) const;
  // E of `id`, an id of `block`; or infinity, where that is later than `latest`.
  double Time(const Block& block, int32_t id, double latest = kNever) const;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

 private:
  uint64_t seed_;
  int64_t position_;
  Stream block_time_ = Stream::kBlockTime;
  Stream token_time_ = Stream::kTokenTime;
};

struct Arrival {
  int32_t token;
  float weight;
  double time;
};

// Finds the first tokens to arrive. Tokens that cannot be among them cost next to nothing.
class Race {
 public:
  // `count` (at least 1) arrivals are wanted.
  Race(const Noise& noise, int count) : noise_(noise), count_(static_cast<size_t>(count)) {}

  // A token that is going to be offered. `count` different ones, best the heaviest, tell early what later ones must beat.
  void Expect(int32_t token, float weight);

  // Token i has weights[i]. Weights are finite and not negative; those of 0 or below `threshold` do not take part.
  void OfferRow(std::span<const float> weights, float threshold = 0.0f);
  // tokens[i] has weights[i]. Any order; fast where ids of one block stand together.
  void OfferTokens(std::span<const int32_t> tokens, std::span<const float> weights);

  // The first `count` (fewer where fewer took part), ties by lower id.
  const std::vector<Arrival>& arrivals() const { return arrivals_; }

 private:
  // Tokens of one block: tokens[i], or first_token + i without `tokens`.
  struct Group {
    int32_t first_token;
    const int32_t* tokens;
    std::span<const float> weights;
  };
  void Offer(const Group& group, float threshold);
  void Flush(float threshold);
  void Run(const Group& group, float threshold);
  void Insert(const Arrival& arrival);
  void SetLimit(double time);

  static constexpr size_t kGroups = 16;  // looked at together

  Noise noise_;
  size_t count_;
  std::vector<Arrival> arrivals_;
  size_t expected_ = 0;
  double slowest_expected_ = 0.0;
  double limit_ = Noise::kNever;  // who arrives later is not wanted
  double reach_ = Noise::kNever;  // limit_ with room for rounding, for times that are not known yet
  // Groups that wait for their first times.
  size_t waiting_ = 0;
  std::array<Group, kGroups> groups_;
  std::array<float, kGroups> heaviest_;
  std::array<uint32_t, kGroups> blocks_;
};

}  // namespace haast::sampling
