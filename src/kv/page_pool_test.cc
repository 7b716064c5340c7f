#include "kv/page_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "kv/kv_seq.h"

namespace haast::kv {

class PagePoolTestPeer {
 public:
  static std::vector<int32_t>& FreeList(PagePool& pool) { return pool.free_; }
  static std::vector<int32_t>& Owners(PagePool& pool) { return pool.owner_; }
  static std::vector<int32_t>& Holders(PagePool& pool) { return pool.holders_; }
  static int& NumCached(PagePool& pool) { return pool.num_cached_; }
};

namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PagePool, FirstPagesAndReservedPage) {
  PagePool pool(5, 16);
  EXPECT_EQ(pool.num_pages(), 5);
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_EQ(pool.num_slots(), 80);
  EXPECT_THAT(pool.owners(), ElementsAre(-2, -1, -1, -1, -1));
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.Allocate(4, 9, &pages));
  EXPECT_THAT(pages, ElementsAre(1, 2, 3, 4)) << "page 0 is never given";
  EXPECT_THAT(pool.owners(), ElementsAre(-2, 9, 9, 9, 9));
  EXPECT_FALSE(pool.Allocate(1, 9, &pages));
  EXPECT_TRUE(pool.Allocate(0, 9, &pages));
  EXPECT_EQ(pages.size(), 4u);
}

TEST(PagePool, AllOrNothing) {
  PagePool pool(4, 1);
  std::vector<int32_t> pages = {77};
  EXPECT_FALSE(pool.Allocate(4, 0, &pages));
  EXPECT_THAT(pages, ElementsAre(77));
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_TRUE(pool.Allocate(3, 0, &pages));
  EXPECT_EQ(pages.size(), 4u) << "pages are appended";
}

TEST(PagePool, WarmPagesFirst) {
  PagePool pool(6, 1);
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.Allocate(3, 0, &pages));
  const int32_t freed[] = {2};
  pool.Free(freed, 0);
  std::vector<int32_t> again;
  ASSERT_TRUE(pool.Allocate(1, 1, &again));
  EXPECT_THAT(again, ElementsAre(2));
}

TEST(PagePool, OnlyTheReservedPage) {
  PagePool pool(1, 16);
  std::vector<int32_t> pages;
  EXPECT_FALSE(pool.Allocate(1, 0, &pages));
  EXPECT_TRUE(pool.CheckAccounting());
}

TEST(PagePool, NumSlotsIs64Bit) { EXPECT_EQ(PagePool(1 << 16, 1 << 20).num_slots(), int64_t{1} << 36); }

TEST(PagePoolDeathTest, BugsOfTheCaller) {
  PagePool pool(4, 1);
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.Allocate(2, 5, &pages));
  EXPECT_DEATH(pool.Free(pages, 6), "page 1 belongs to 5, freed by 6");
  const int32_t never[] = {3}, reserved[] = {0}, beyond[] = {4}, negative[] = {-1};
  EXPECT_DEATH(pool.Free(never, 5), "page 3 belongs to -1, freed by 5");
  EXPECT_DEATH(pool.Free(never, -1), "freed by -1");
  EXPECT_DEATH(pool.Free(reserved, -2), "freed by -2");
  EXPECT_DEATH(pool.Free(beyond, 5), "page 4 of 4");
  EXPECT_DEATH(pool.Free(negative, 5), "page -1 of 4");
  const int32_t twice[] = {1, 1};
  EXPECT_DEATH(pool.Free(twice, 5), "page 1 belongs to -1, freed by 5");
  EXPECT_DEATH(pool.Allocate(-1, 5, &pages), "-1 pages for owner 5");
  EXPECT_DEATH(pool.Allocate(1, -1, &pages), "1 pages for owner -1");
  EXPECT_DEATH(PagePool(0, 1), "0 pages of 1");
  EXPECT_DEATH(PagePool(1, 0), "1 pages of 0");
}

std::string AccountingError(const std::function<void(std::vector<int32_t>& free, std::vector<int32_t>& owners)>& damage) {
  PagePool pool(5, 4);
  std::vector<int32_t> pages;
  EXPECT_TRUE(pool.Allocate(2, 3, &pages));
  EXPECT_TRUE(pool.CheckAccounting());
  damage(PagePoolTestPeer::FreeList(pool), PagePoolTestPeer::Owners(pool));
  const Status status = pool.CheckAccounting();
  return status ? "" : status.error().message;
}

TEST(PagePool, AccountingNoticesDamage) {
  EXPECT_THAT(AccountingError([](auto& free, auto&) { free.pop_back(); }),
              HasSubstr("1 pages on the free list and 0 counted as cached, but 2 free + 0 cached + 2 held + 1 reserved of 5"));
  EXPECT_THAT(AccountingError([](auto& free, auto&) { free.back() = free.front(); }), HasSubstr("page 4 is on the free list twice"));
  EXPECT_THAT(AccountingError([](auto& free, auto&) { free.back() = 1; }), HasSubstr("page 1 is on the free list but belongs to 3"));
  EXPECT_THAT(AccountingError([](auto& free, auto&) { free.back() = 0; }), HasSubstr("page 0 on the free list of a pool of 5"));
  EXPECT_THAT(AccountingError([](auto& free, auto&) { free.back() = 5; }), HasSubstr("page 5 on the free list of a pool of 5"));
  EXPECT_THAT(AccountingError([](auto&, auto& owners) { owners[0] = -1; }),
              HasSubstr("page 0 has owner -1 and 0 pages are reserved; expected -2 and 1"));
  EXPECT_THAT(AccountingError([](auto&, auto& owners) { owners[2] = -2; }), HasSubstr("page 2 belongs to -2 but has 1 holders"));
  EXPECT_THAT(AccountingError([](auto&, auto& owners) { owners[2] = -1; }),
              HasSubstr("page 2 belongs to -1 but has 1 holders and is not listed"));
  EXPECT_THAT(AccountingError([](auto&, auto& owners) { owners[3] = -2; }), HasSubstr("2 pages are reserved; expected -2 and 1"));
}

TEST(PagePool, AccountingNoticesDamagedSharing) {
  const auto error = [](const std::function<void(PagePool & pool)>& damage) {
    PagePool pool(5, 4);
    std::vector<int32_t> pages;
    EXPECT_TRUE(pool.Allocate(2, 3, &pages));
    pool.List(pages[0], 3);
    pool.List(pages[1], 3);
    pool.Free(std::span(pages).first(1), 3);
    EXPECT_TRUE(pool.CheckAccounting());
    damage(pool);
    const Status status = pool.CheckAccounting();
    return status ? "" : status.error().message;
  };
  EXPECT_THAT(error([](PagePool& pool) { PagePoolTestPeer::Holders(pool)[2] = -1; }), HasSubstr("page 2 belongs to -3 but has -1 holders"));
  EXPECT_THAT(error([](PagePool& pool) { PagePoolTestPeer::Owners(pool)[2] = 3; }),
              HasSubstr("page 2 belongs to 3 but has 1 holders and is listed"));
  EXPECT_THAT(error([](PagePool& pool) { PagePoolTestPeer::NumCached(pool) = 2; }),
              HasSubstr("2 pages on the free list and 2 counted as cached, but 2 free + 1 cached + 1 held"));
}

TEST(PagePool, SharedPagesAreFreeWhenNobodyHoldsOrListsThem) {
  PagePool pool(4, 16);
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.Allocate(1, 7, &pages));
  const int32_t page = pages[0];
  pool.List(page, 7);
  EXPECT_EQ(pool.owners()[page], kSharedPage);
  pool.Hold(page);
  EXPECT_EQ(pool.holders(page), 2);
  pool.Free(pages, 7);
  pool.Free(pages, 8);
  EXPECT_EQ(pool.num_cached(), 1);
  EXPECT_EQ(pool.num_held(), 0);
  EXPECT_EQ(pool.num_free(), 2);
  pool.Hold(page);
  EXPECT_EQ(pool.num_cached(), 0);
  pool.Unlist(page);
  EXPECT_EQ(pool.num_free(), 2) << "who holds it keeps it";
  pool.Free(pages, 9);
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_TRUE(pool.CheckAccounting());
}

TEST(PagePoolDeathTest, BugsWithSharedPages) {
  PagePool pool(4, 16);
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.Allocate(2, 7, &pages));
  EXPECT_DEATH(pool.Hold(1), "page 1 of 4 is not shared");
  EXPECT_DEATH(pool.Unlist(1), "page 1 of 4 is not shared");
  EXPECT_DEATH(pool.List(3, 7), "page 3 belongs to -1, listed by 7");
  EXPECT_DEATH(pool.List(1, 8), "page 1 belongs to 7, listed by 8");
  pool.List(1, 7);
  EXPECT_DEATH(pool.List(1, 7), "listed twice");
  pool.Free(std::span(pages).first(1), 7);
  EXPECT_DEATH(pool.Free(std::span(pages).first(1), 7), "page 1 belongs to -3, freed by 7");
}

// Random allocations and frees against a map from page to owner.
TEST(PagePool, RandomUseKeepsEveryPage) {
  std::mt19937 random(3);
  PagePool pool(40, 16);
  std::map<int32_t, std::vector<int32_t>> held;
  for (int step = 0; step < 20000; ++step) {
    const int32_t owner = static_cast<int32_t>(random() % 6);
    std::vector<int32_t>& pages = held[owner];
    if (random() % 2 == 0) {
      const int count = static_cast<int>(random() % 9);
      const int before = pool.num_free();
      const bool given = pool.Allocate(count, owner, &pages);
      ASSERT_EQ(given, count <= before);
      ASSERT_EQ(pool.num_free(), given ? before - count : before);
    } else {
      const size_t kept = pages.empty() ? 0 : random() % pages.size();
      pool.Free(std::span<const int32_t>(pages).subspan(kept), owner);
      pages.resize(kept);
    }
    size_t total = 0;
    for (const auto& [who, list] : held) {
      total += list.size();
      for (const int32_t page : list) ASSERT_EQ(pool.owners()[page], who);
    }
    ASSERT_EQ(total + pool.num_free() + 1, 40u);
    const Status accounting = pool.CheckAccounting();
    ASSERT_TRUE(accounting) << accounting.error().message;
  }
  for (const auto& [owner, pages] : held) pool.Free(pages, owner);
  EXPECT_EQ(pool.num_free(), 39) << "zero drift";
  EXPECT_THAT(pool.owners().subspan(1), Each(-1));
}

TEST(KvSeq, ReservesWholePages) {
  PagePool pool(6, 16);
  KvSeq seq(4);
  EXPECT_EQ(seq.owner(), 4);
  ASSERT_TRUE(seq.Reserve(0, &pool));
  EXPECT_TRUE(seq.pages().empty());
  ASSERT_TRUE(seq.Reserve(16, &pool));
  EXPECT_EQ(seq.pages().size(), 1u);
  ASSERT_TRUE(seq.Reserve(17, &pool));
  EXPECT_EQ(seq.pages().size(), 2u);
  ASSERT_TRUE(seq.Reserve(3, &pool));
  EXPECT_EQ(seq.pages().size(), 2u) << "a reservation never shrinks";
  EXPECT_FALSE(seq.Reserve(81, &pool)) << "6 pages, 5 in the pool";
  EXPECT_FALSE(seq.Reserve(int64_t{1} << 40, &pool));
  EXPECT_EQ(seq.pages().size(), 2u);
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_TRUE(seq.Reserve(80, &pool));
  EXPECT_EQ(pool.num_free(), 0);
}

TEST(KvSeq, RollbackIsALength) {
  PagePool pool(6, 16);
  KvSeq seq(0);
  ASSERT_TRUE(seq.Reserve(60, &pool));
  const std::vector<int32_t> pages = seq.pages();
  seq.Commit(50, 16);
  seq.CommitDraft(50, 16);
  seq.Commit(53, 16);
  EXPECT_EQ(seq.draft_length(), 50) << "growth leaves the draft entries as they are";
  seq.Commit(40, 16);
  EXPECT_EQ(seq.length(), 40);
  EXPECT_EQ(seq.draft_length(), 40) << "no draft entry outlives its token";
  EXPECT_EQ(seq.pages(), pages) << "nothing is freed or copied";
  seq.Commit(64, 16);
  EXPECT_EQ(seq.length(), 64) << "to the end of the last page";
}

TEST(KvSeqDeathTest, CommitBeyondTheReservation) {
  PagePool pool(6, 16);
  KvSeq seq(0);
  ASSERT_TRUE(seq.Reserve(17, &pool));
  EXPECT_DEATH(seq.Commit(33, 16), "commit of 33 tokens, 32 reserved");
  EXPECT_DEATH(seq.Commit(-1, 16), "commit of -1 tokens");
  EXPECT_DEATH(seq.CommitDraft(33, 16), "commit of 33 draft entries, 32 reserved");
}

TEST(KvSeq, ReleaseSurplusKeepsWhatIsCommitted) {
  PagePool pool(10, 16);
  KvSeq seq(1);
  ASSERT_TRUE(seq.Reserve(100, &pool));
  seq.Commit(33, 16);
  seq.ReleaseSurplus(0, &pool);
  EXPECT_EQ(seq.pages().size(), 3u);
  EXPECT_EQ(pool.num_free(), 6);
  seq.ReleaseSurplus(0, &pool);
  EXPECT_EQ(pool.num_free(), 6);
  ASSERT_TRUE(seq.Reserve(100, &pool));
  seq.ReleaseSurplus(50, &pool);
  EXPECT_EQ(seq.pages().size(), 4u) << "pages for 50 tokens";
  seq.ReleaseSurplus(200, &pool);
  EXPECT_EQ(seq.pages().size(), 4u);
  seq.Commit(0, 16);
  seq.ReleaseSurplus(0, &pool);
  EXPECT_EQ(pool.num_free(), 9);
}

TEST(KvSeq, BeginsWithSharedPages) {
  PagePool pool(6, 16);
  KvSeq first(1);
  ASSERT_TRUE(first.Reserve(48, &pool));
  for (const int32_t page : {first.pages()[0], first.pages()[1]}) pool.List(page, 1);
  KvSeq second(2), plain(3);
  second.Adopt(std::span(first.pages()).first(2), true, &pool);
  plain.Adopt(std::span(first.pages()).first(1), false, &pool);
  EXPECT_EQ(second.length(), 32);
  EXPECT_EQ(second.draft_length(), 32);
  EXPECT_EQ(plain.length(), 16);
  EXPECT_EQ(plain.draft_length(), 0);
  ASSERT_TRUE(plain.Reserve(33, &pool));
  EXPECT_EQ(pool.num_free(), 0);
  plain.Replace(1, first.pages()[1], &pool);
  EXPECT_EQ(plain.pages()[1], first.pages()[1]);
  EXPECT_EQ(pool.num_free(), 1);
  for (KvSeq* seq : {&first, &second, &plain}) seq->Release(&pool);
  EXPECT_EQ(pool.num_free() + pool.num_cached(), 5);
  EXPECT_EQ(pool.num_cached(), 2);
  EXPECT_TRUE(pool.CheckAccounting());
}

// The over-allocated tail of a round goes back too, and a second release gives nothing twice. Page 64 is the size at
// which other engines lost slots with every request.
TEST(KvSeq, RequestsLeaveNoDrift) {
  PagePool pool(9, 64);
  for (int request = 0; request < 200; ++request) {
    KvSeq seq(request);
    ASSERT_TRUE(seq.Reserve(70, &pool));
    seq.Commit(70, 64);
    for (int64_t length = 70; length < 300; length += 3) {
      ASSERT_TRUE(seq.Reserve(length + 8, &pool)) << "committed tokens and a whole round";
      seq.Commit(length + 3, 64);
      seq.CommitDraft(length + 3, 64);
    }
    seq.Release(&pool);
    EXPECT_EQ(seq.length(), 0);
    EXPECT_EQ(seq.draft_length(), 0);
    seq.Release(&pool);
    ASSERT_EQ(pool.num_free(), 8);
  }
  EXPECT_TRUE(pool.CheckAccounting());
}

TEST(KvSeq, RandomSequencesKeepTheInvariants) {
  std::mt19937 random(11);
  constexpr int kPage = 4;
  PagePool pool(50, kPage);
  std::vector<KvSeq> sequences;
  for (int32_t owner = 0; owner < 8; ++owner) sequences.emplace_back(owner);
  for (int step = 0; step < 20000; ++step) {
    KvSeq& seq = sequences[random() % sequences.size()];
    const int64_t reserved = static_cast<int64_t>(seq.pages().size()) * kPage;
    switch (random() % 5) {
      case 0: {
        const int64_t tokens = random() % 60;
        const auto before = seq.pages();
        const bool fits = PagesFor(tokens, kPage) - static_cast<int64_t>(before.size()) <= pool.num_free();
        ASSERT_EQ(seq.Reserve(tokens, &pool), fits);
        ASSERT_TRUE(std::equal(before.begin(), before.end(), seq.pages().begin())) << "pages in use never move";
        break;
      }
      case 1: seq.Commit(static_cast<int64_t>(random() % (reserved + 1)), kPage); break;
      case 2: seq.CommitDraft(static_cast<int64_t>(random() % (seq.length() + 1)), kPage); break;
      case 3: seq.ReleaseSurplus(0, &pool); break;
      default:
        if (random() % 4 == 0) seq.Release(&pool);
        break;
    }
    int64_t held = 0;
    for (const KvSeq& each : sequences) {
      held += static_cast<int64_t>(each.pages().size());
      ASSERT_LE(each.length(), static_cast<int64_t>(each.pages().size()) * kPage);
      ASSERT_LE(each.draft_length(), each.length());
      for (const int32_t page : each.pages()) ASSERT_EQ(pool.owners()[page], each.owner());
    }
    ASSERT_EQ(held + pool.num_free() + 1, pool.num_pages());
    ASSERT_TRUE(pool.CheckAccounting());
  }
  for (KvSeq& seq : sequences) seq.Release(&pool);
  EXPECT_EQ(pool.num_free(), 49);
}

TEST(PagesFor, Rounds) {
  EXPECT_EQ(PagesFor(0, 16), 0);
  EXPECT_EQ(PagesFor(1, 16), 1);
  EXPECT_EQ(PagesFor(16, 16), 1);
  EXPECT_EQ(PagesFor(17, 16), 2);
  EXPECT_EQ(PagesFor(int64_t{1} << 40, 1), int64_t{1} << 40);
}

}  // namespace
}  // namespace haast::kv
