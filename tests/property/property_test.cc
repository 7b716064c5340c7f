// Everything at once, at random: tiny models of every shape, all drafters, chains and trees, small pools and pages of every size, arrivals,
// cancels, chunks, preemption, the prefix cache, saved requests (property_case.h). A case follows from its seed; only the lengths that
// automatic speculation chooses depend on time.
//   HAAST_PROPERTY_SEED=N       runs that case alone
//   HAAST_PROPERTY_SECONDS=S    runs new cases for S seconds
//   HAAST_PROPERTY_FIRST=N      begins with that seed
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/clock.h"
#include "property/property_run.h"

namespace haast::testing {
namespace {

constexpr uint64_t kFixedCases = 40;
constexpr double kReportSeconds = 60.0;

// What the program says if a check of its own ends it.
std::array<char, 4096> g_replay{};

void SayReplay(int signal) {
  static_cast<void>(write(STDERR_FILENO, g_replay.data(), std::strlen(g_replay.data())));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::optional<uint64_t> Setting(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 0);
  EXPECT_TRUE(end != text && *end == '\0') << name << "=" << text << ": expected a number";
  return value;
}

// False after a failure, which it names with the command that shows it again.
bool Passes(uint64_t seed, PropertyCounts* counts) {
  const std::string replay = fmt::format("\nseed {} failed; again with: HAAST_PROPERTY_SEED={} {} --gtest_filter=Property.*\n", seed, seed,
                                         std::filesystem::read_symlink("/proc/self/exe").string());
  std::strncpy(g_replay.data(), replay.c_str(), g_replay.size() - 1);
  const PropertyCase property = MakePropertyCase(seed);
  RunPropertyCase(property, counts);
  if (!::testing::Test::HasFailure()) return true;
  ADD_FAILURE() << replay << Describe(property);
  return false;
}

void Print(const PropertyCounts& counts) {
  fmt::print(
      "{} cases, {} steps, {} requests ({} cancelled, {} resumed, {} inspected), {} preemptions, {} swaps, {} tokens found in the cache, "
      "{} pages evicted, {} launches checked, {} rounds accepted another branch, {} rounds of chosen depth, {} of rejection sampling; "
      "accepted drafts:",
      counts.cases, counts.steps, counts.requests, counts.cancelled, counts.resumed, counts.inspected, counts.preemptions, counts.swaps,
      counts.prefix_hit_tokens, counts.prefix_evictions, counts.checked_launches, counts.other_branches, counts.automatic_rounds,
      counts.rejection_rounds);
  for (size_t i = 1; i < counts.accepted.size(); ++i) {
    fmt::print(" {} {}", SpeculativeAlgorithmName(static_cast<SpeculativeAlgorithm>(i)), counts.accepted[i]);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

class Property : public ::testing::Test {
 protected:
  Property() {
    for (const int signal : {SIGABRT, SIGSEGV}) std::signal(signal, SayReplay);
  }
  ~Property() override {
    for (const int signal : {SIGABRT, SIGSEGV}) std::signal(signal, SIG_DFL);
  }
};

// A generator that no longer reaches some kind of event would test nothing of it.
void ExpectEveryKind(const PropertyCounts& counts) {
  const std::pair<const char*, int64_t> kinds[] = {{"cancelled requests", counts.cancelled},
                                                   {"preemptions", counts.preemptions},
                                                   {"swaps", counts.swaps},
                                                   {"prefix hits", counts.prefix_hit_tokens},
                                                   {"evictions", counts.prefix_evictions},
                                                   {"resumed requests", counts.resumed},
                                                   {"inspected requests", counts.inspected},
                                                   {"checked launches", counts.checked_launches},
                                                   {"accepted branches that are not the first", counts.other_branches},
                                                   {"rounds of chosen depth", counts.automatic_rounds},
                                                   {"rounds of rejection sampling", counts.rejection_rounds}};
  for (const auto& [name, count] : kinds) EXPECT_GT(count, 0) << name;
  for (size_t i = 1; i < counts.accepted.size(); ++i) {
    EXPECT_GT(counts.accepted[i], 0) << "accepted drafts of " << SpeculativeAlgorithmName(static_cast<SpeculativeAlgorithm>(i));
  }
}

TEST_F(Property, EveryAnswerIsThatOfALonePlainRun) {
  PropertyCounts counts;
  if (const auto seed = Setting("HAAST_PROPERTY_SEED")) {
    fmt::print("{}", Describe(MakePropertyCase(*seed)));
    Passes(*seed, &counts);
    return Print(counts);
  }
  const double seconds = static_cast<double>(Setting("HAAST_PROPERTY_SECONDS").value_or(0));
  uint64_t seed = Setting("HAAST_PROPERTY_FIRST").value_or(1);
  const uint64_t fixed_end = seed + kFixedCases;
  const double start = base::NowSeconds();
  double next_report = start + kReportSeconds;
  while (seconds > 0.0 ? base::NowSeconds() - start < seconds : seed < fixed_end) {
    if (!Passes(seed++, &counts)) return;
    if (base::NowSeconds() < next_report) continue;
    Print(counts);
    next_report += kReportSeconds;
  }
  Print(counts);
  ExpectEveryKind(counts);
}

}  // namespace
}  // namespace haast::testing
