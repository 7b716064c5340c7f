#include "kv/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <random>

namespace haast::kv {

class PrefixCacheTestPeer {
 public:
  static auto& Nodes(PrefixCache& cache) { return cache.nodes_; }
  static auto& Leaves(PrefixCache& cache) { return cache.leaves_; }
};

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kPage = 4;

std::vector<int32_t> Ids(int count, int first = 0) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

class PrefixCacheTest : public ::testing::Test {
 protected:
  // A request that computed all of `tokens` but the newest one.
  KvSeq Computed(const std::vector<int32_t>& tokens, int drafter) {
    KvSeq seq(next_owner_++);
    const int64_t length = static_cast<int64_t>(tokens.size()) - 1;
    EXPECT_TRUE(seq.Reserve(length, &pool_));
    seq.Commit(length, kPage);
    if (drafter != 0) seq.CommitDraft(length, kPage);
    return seq;
  }
  // The same, listed and gone.
  std::vector<int32_t> Leave(const std::vector<int32_t>& tokens, int drafter = 0) {
    KvSeq seq = Computed(tokens, drafter);
    cache_.Insert(tokens, drafter, &seq);
    std::vector<int32_t> pages = seq.pages();
    seq.Release(&pool_);
    return pages;
  }
  void TearDown() override {
    const Status pool = pool_.CheckAccounting();
    EXPECT_TRUE(pool) << pool.error().message;
    const Status cache = cache_.Check();
    EXPECT_TRUE(cache) << cache.error().message;
  }

  PagePool pool_{20, kPage};
  PrefixCache cache_{&pool_};
  int32_t next_owner_ = 0;
};

TEST_F(PrefixCacheTest, AMatchNeedsTheTokenAfterThePageToo) {
  const auto pages = Leave(Ids(10));
  EXPECT_EQ(pool_.num_cached(), 2);
  EXPECT_EQ(pool_.num_free(), 17);
  EXPECT_THAT(cache_.Match(Ids(10), 0), ElementsAre(pages[0], pages[1]));
  EXPECT_THAT(cache_.Match(Ids(9), 0), ElementsAre(pages[0], pages[1])) << "one token is left to compute";
  EXPECT_THAT(cache_.Match(Ids(8), 0), ElementsAre(pages[0])) << "the token after the second page is missing";
  EXPECT_THAT(cache_.Match(Ids(4), 0), IsEmpty());
  EXPECT_THAT(cache_.Match(Ids(1), 0), IsEmpty());
  auto other = Ids(10);
  other[8] = 77;
  EXPECT_THAT(cache_.Match(other, 0), ElementsAre(pages[0])) << "another token after the page";
  other = Ids(10);
  other[4] = 77;
  EXPECT_THAT(cache_.Match(other, 0), IsEmpty());
  EXPECT_THAT(cache_.Match(Ids(10, 1), 0), IsEmpty());
}

TEST_F(PrefixCacheTest, OnlyFullCommittedPagesAreListed) {
  Leave(Ids(5));
  EXPECT_EQ(cache_.size(), 1);
  Leave(Ids(8, 100));
  EXPECT_EQ(cache_.size(), 2) << "the eighth token has no KV";
  KvSeq seq = Computed(Ids(20, 200), 1);
  seq.CommitDraft(7, kPage);
  cache_.Insert(Ids(20, 200), 1, &seq);
  EXPECT_EQ(cache_.size(), 3) << "the second page lacks draft entries";
  seq.Release(&pool_);
  EXPECT_EQ(pool_.num_free() + pool_.num_cached(), 19);
}

TEST_F(PrefixCacheTest, PagesOfOneDrafterAreNotForAnother) {
  const auto plain = Leave(Ids(9), 0);
  EXPECT_THAT(cache_.Match(Ids(9), 1), IsEmpty());
  EXPECT_THAT(cache_.Match(Ids(9), 0), ElementsAre(plain[0], plain[1]));
  const auto drafted = Leave(Ids(9), 1);
  EXPECT_THAT(cache_.Match(Ids(9), 1), ElementsAre(drafted[0], drafted[1])) << "they took the place of those without draft entries";
  EXPECT_THAT(cache_.Match(Ids(9), 0), ElementsAre(drafted[0], drafted[1])) << "whoever does not draft reads any";
  EXPECT_THAT(cache_.Match(Ids(9), 2), IsEmpty());
  EXPECT_EQ(pool_.num_cached(), 2);
  const auto again = Leave(Ids(9), 0);
  EXPECT_THAT(cache_.Match(Ids(9), 1), ElementsAre(drafted[0], drafted[1])) << "and a plain request does not take it back";
  EXPECT_EQ(again, drafted);
}

TEST_F(PrefixCacheTest, EqualPagesAreKeptOnce) {
  KvSeq first = Computed(Ids(14), 1), second = Computed(Ids(14), 1);
  cache_.Insert(Ids(14), 1, &first);
  EXPECT_EQ(pool_.num_free(), 11);
  cache_.Insert(Ids(14), 1, &second);
  EXPECT_EQ(pool_.num_free(), 14);
  EXPECT_EQ(std::vector<int32_t>(second.pages().begin(), second.pages().begin() + 3),
            std::vector<int32_t>(first.pages().begin(), first.pages().begin() + 3));
  EXPECT_NE(second.pages()[3], first.pages()[3]) << "a page that is not full is its own";
  cache_.Insert(Ids(14), 1, &second);
  EXPECT_EQ(pool_.num_free(), 14) << "listing again changes nothing";
  first.Release(&pool_);
  EXPECT_EQ(pool_.num_cached(), 0) << "held by the second";
  second.Release(&pool_);
  EXPECT_EQ(pool_.num_cached(), 3);
}

TEST_F(PrefixCacheTest, TheLeastRecentlyUsedLeafGoesFirst) {
  Leave(Ids(9));       // two pages
  Leave(Ids(9, 100));  // two pages
  auto branch = Ids(9);
  branch[6] = 77;
  branch[7] = 78;
  const auto other = Leave(branch);  // a second page below the first one
  EXPECT_EQ(cache_.size(), 5);
  cache_.Match(Ids(9), 0);
  EXPECT_TRUE(cache_.MakeRoom(15));
  EXPECT_EQ(cache_.Match(Ids(9, 100), 0).size(), 1u) << "the tail of the oldest";
  EXPECT_TRUE(cache_.MakeRoom(16));
  EXPECT_EQ(cache_.Match(branch, 0).size(), 1u) << "then the branch: the root's second use does not count for it";
  EXPECT_EQ(cache_.Match(Ids(9), 0).size(), 2u);
  EXPECT_TRUE(cache_.MakeRoom(19));
  EXPECT_EQ(cache_.size(), 0);
  EXPECT_EQ(cache_.num_evictions(), 5);
  EXPECT_FALSE(cache_.MakeRoom(20));
}

TEST_F(PrefixCacheTest, HeldPagesAreNotEvicted) {
  Leave(Ids(9));
  KvSeq seq(99);
  seq.Adopt(cache_.Match(Ids(9), 0), false, &pool_);
  EXPECT_FALSE(cache_.MakeRoom(18));
  EXPECT_EQ(cache_.size(), 2);
  EXPECT_TRUE(cache_.MakeRoom(17));
  seq.Release(&pool_);
  EXPECT_TRUE(cache_.MakeRoom(19));
}

// A request without draft entries holds the old page of a prefix and lists the leaf; the listed page above it is nobody's and
// must still be found when pages run out.
TEST_F(PrefixCacheTest, AHeldLeafDoesNotProtectPagesThatNobodyHolds) {
  KvSeq plain = Computed(Ids(9), 0);
  cache_.Insert(Ids(5), 0, &plain);  // its first page
  Leave(Ids(5), 1);                  // the page that takes its place
  cache_.Insert(Ids(9), 0, &plain);
  // Listing again made the plain request take the page with draft entries; a third one takes its place again.
  Leave(Ids(5), 2);
  EXPECT_EQ(cache_.size(), 2);
  EXPECT_EQ(pool_.num_cached(), 1);
  EXPECT_TRUE(cache_.MakeRoom(pool_.num_free() + 1));
  EXPECT_EQ(cache_.size(), 0);
  EXPECT_EQ(pool_.num_held(), 2);
  EXPECT_TRUE(pool_.CheckAccounting());
  cache_.Insert(Ids(9), 0, &plain);
  EXPECT_EQ(cache_.size(), 2) << "and what was forgotten while held can be listed again";
  plain.Release(&pool_);
}

// Against a map from path to page: random requests over few prefixes.
TEST_F(PrefixCacheTest, RandomRequestsFindWhatWasListed) {
  std::mt19937 random(5);
  struct Running {
    std::vector<int32_t> tokens;
    int drafter;
    KvSeq seq;
  };
  std::vector<Running> running;
  std::map<int32_t, std::pair<std::vector<int32_t>, int>> contents;  // page -> tokens up to the one after it, drafter
  const auto note = [&](Running& r, int64_t from, int64_t to) {
    for (int64_t i = from / kPage; i < to / kPage; ++i) {
      contents[r.seq.pages()[i]] = {{r.tokens.begin(), r.tokens.begin() + (i + 1) * kPage + 1}, r.drafter};
    }
  };
  int hits = 0;
  for (int step = 0; step < 20000; ++step) {
    if (running.size() < 4 && random() % 2 == 0) {
      Running r;
      const int count = 1 + static_cast<int>(random() % 18);
      for (int i = 0; i < count; ++i) r.tokens.push_back(static_cast<int32_t>(random() % 2));
      r.drafter = static_cast<int>(random() % 3);
      r.seq = KvSeq(next_owner_++);
      const auto pages = cache_.Match(r.tokens, r.drafter);
      for (size_t i = 0; i < pages.size(); ++i) {
        const auto& [tokens, drafter] = contents.at(pages[i]);
        ASSERT_TRUE(std::equal(tokens.begin(), tokens.end(), r.tokens.begin()) && tokens.size() == (i + 1) * kPage + 1);
        ASSERT_TRUE(r.drafter == 0 || drafter == r.drafter);
      }
      hits += !pages.empty();
      r.seq.Adopt(pages, r.drafter != 0, &pool_);
      const int64_t missing = PagesFor(count, kPage) - static_cast<int64_t>(pages.size());
      if (!cache_.MakeRoom(missing)) {
        r.seq.Release(&pool_);
        continue;
      }
      ASSERT_TRUE(r.seq.Reserve(count, &pool_));
      const int64_t shared = r.seq.length();
      r.seq.Commit(count - 1, kPage);
      if (r.drafter != 0) r.seq.CommitDraft(count - 1, kPage);
      note(r, shared, count - 1);
      if (random() % 2 == 0) cache_.Insert(r.tokens, r.drafter, &r.seq);
      running.push_back(std::move(r));
    } else if (!running.empty()) {
      const size_t i = random() % running.size();
      cache_.Insert(running[i].tokens, running[i].drafter, &running[i].seq);
      running[i].seq.Release(&pool_);
      running.erase(running.begin() + static_cast<int64_t>(i));
    }
    const Status pool = pool_.CheckAccounting(), cache = cache_.Check();
    ASSERT_TRUE(pool) << pool.error().message;
    ASSERT_TRUE(cache) << cache.error().message;
  }
  EXPECT_GT(hits, 500);
  EXPECT_GT(cache_.num_evictions(), 1000);
  for (Running& r : running) r.seq.Release(&pool_);
  EXPECT_EQ(pool_.num_held(), 0);
}

TEST_F(PrefixCacheTest, LongPathsNeedNoStack) {
  PagePool pool(70000, 1);
  PrefixCache cache(&pool);
  KvSeq seq(1);
  ASSERT_TRUE(seq.Reserve(60000, &pool));
  seq.Commit(60000, 1);
  cache.Insert(Ids(60001), 0, &seq);
  EXPECT_EQ(cache.Match(Ids(60001), 0).size(), 60000u);
  seq.Release(&pool);
}

TEST(PrefixCacheCheck, NoticesDamage) {
  const auto error = [](const std::function<void(PagePool & pool, PrefixCache & cache)>& damage) {
    PagePool pool(8, kPage);
    PrefixCache cache(&pool);
    KvSeq seq(1);
    EXPECT_TRUE(seq.Reserve(12, &pool));
    seq.Commit(12, kPage);
    cache.Insert(Ids(9), 0, &seq);
    EXPECT_TRUE(cache.Check());
    damage(pool, cache);
    const Status status = cache.Check();
    return status ? "" : status.error().message;
  };
  EXPECT_THAT(error([](auto&, auto& cache) { PrefixCacheTestPeer::Nodes(cache).begin()->second.page = 3; }),
              HasSubstr("page 3 of node 1 is not listed"));
  EXPECT_THAT(error([](auto&, auto& cache) { PrefixCacheTestPeer::Nodes(cache).begin()->second.page = 2; }), HasSubstr("in two nodes"));
  EXPECT_THAT(error([](auto&, auto& cache) { PrefixCacheTestPeer::Nodes(cache).rbegin()->second.parent = nullptr; }),
              HasSubstr("by its key only"));
  EXPECT_THAT(error([](auto& pool, auto&) { pool.List(3, 1); }), HasSubstr("2 nodes for 3 listed pages"));
  EXPECT_THAT(error([](auto&, auto& cache) { PrefixCacheTestPeer::Leaves(cache).clear(); }), HasSubstr("1 leaves of which 0"));
  EXPECT_THAT(error([](auto&, auto& cache) { PrefixCacheTestPeer::Nodes(cache).rbegin()->second.last_use = 9; }),
              HasSubstr("listed as a leaf of use"));
}

}  // namespace
}  // namespace haast::kv
