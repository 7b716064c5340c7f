"""The bugs that mutation_check.py puts into the code, one at a time: kinds that engines like this one had, each where it would sit here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    name: str
    kind: str  # what a reader of a bug report would call it
    file: str
    old: str  # occurs exactly once in the file
    new: str
    tests: tuple  # likely to notice, the likeliest first
    compiles: bool = True  # False: the compiler is what catches it


BUILDER = "src/attention/metadata_builder.cc"
ENGINE = "src/engine/engine_impl.cc"
PAGING = "src/engine/paging.cc"
EAGLE = "src/spec/eagle_drafter.cc"
LAYER = "src/model/decoder_layer.cc"

MUTATIONS = (
    Mutation(
        "stale-indptr", "draft extend launches on the indptr of another phase", BUILDER,
        "    qo_indptr[b + 1] = static_cast<int32_t>(row + sequence.num_rows);\n",
        "    if (out->mode != ForwardMode::kDraftExtend) qo_indptr[b + 1] = static_cast<int32_t>(row + sequence.num_rows);\n",
        ("attention_test", "engine_test")),
    Mutation(
        "stale-after-refusal", "a refused build leaves the last launch's arrays", BUILDER,
        "  out->Clear();\n  HAAST_ASSIGN_OR_RETURN(const Totals totals, CheckAll(mode", "  HAAST_ASSIGN_OR_RETURN(const Totals totals, CheckAll(mode",
        ("attention_test",)),
    Mutation(
        "stale-plan", "attention runs on the plan before a refused one", "src/attention/host_backend.cc",
        "  metadata_ = nullptr;\n#ifdef HAAST_CHECKED", "#ifdef HAAST_CHECKED",
        ("attention_test",)),
    Mutation(
        "kv-before-plus-1", "the context before the launch is one too long", ENGINE,
        "sequence_rows_.push_back({sequence.kv.pages(), sequence.kv.length(), ",
        "sequence_rows_.push_back({sequence.kv.pages(), sequence.kv.length() + 1, ",
        ("engine_test", "paging_test")),
    Mutation(
        "position-plus-1", "rows stand one position too far", BUILDER,
        "      positions[row] = before + static_cast<int32_t>(row);\n", "      positions[row] = before + static_cast<int32_t>(row) + 1;\n",
        ("attention_test",)),
    Mutation(
        "tree-position-by-row", "a tree row's position is its row, not its depth", BUILDER,
        "positions[row] = before + std::popcount(masks[row]) - 1;", "positions[row] = before + static_cast<int32_t>(sequence.tree_cached + row);",
        ("attention_test",)),
    Mutation(
        "sibling-mask", "a tree row sees its siblings", BUILDER,
        "seen[row] = (parent < 0 ? 0 : seen[static_cast<size_t>(parent)]) | uint64_t{1} << row;",
        "seen[row] = (parent < 0 ? 0 : seen[row - 1]) | uint64_t{1} << row;",
        ("attention_test",)),
    Mutation(
        "slot-by-depth", "siblings of a tree write one slot", BUILDER,
        "    FillRows(sequence, positions + row, tree_mask + row);\n  }",
        "    FillRows(sequence, positions + row, tree_mask + row);\n"
        "    for (int64_t i = row; i < qo_indptr[b + 1]; ++i) out_slots[i] = kv_indices[entry + positions[i]];\n  }",
        ("attention_test",)),
    Mutation(
        "dummies-on-page-1", "padding writes to a request's page", BUILDER,
        "page_size)), kReservedPage);", "page_size)), kReservedPage + 1);",
        ("attention_test", "runner_test")),
    Mutation(
        "padded-rows-as-real", "padding counts as real rows", "src/exec/runner.cc",
        "  shape.real_rows = static_cast<int64_t>(batch.ids.size());", "  shape.real_rows = rows;",
        ("runner_test",)),
    Mutation(
        "unwanted-rows-uncached", "rows whose output nobody wants leave no K and V", LAYER,
        "    context.attention.Store(qkv.k,", "    if (rows < 0) context.attention.Store(qkv.k,",
        ("runner_test",)),
    Mutation(
        "first-rows-for-wanted", "the attention of the first rows goes to the wanted ones", LAYER,
        "    KeepRows(wanted, QueryWidth(placed.config), attended);\n", "",
        ("runner_test", "engine_test")),
    Mutation(
        "sharing-unchecked", "page owners and slots written twice are not checked", "src/attention/check_structure.cc",
        "if (!findings->done() && level == CheckLevel::kFull) CheckSharing", "if (findings->done() && level == CheckLevel::kFull) CheckSharing",
        ("attention_test", "dump_checker_test")),
    Mutation(
        "missing-draft-extend", "accepted tokens are never shown to the head", ENGINE,
        "    const int64_t count = share.rows + std::max<int64_t>(0, static_cast<int64_t>(share.kept.size()) - 1);",
        "    const int64_t count = share.rows;",
        ("engine_test", "paging_test")),
    Mutation(
        "draft-extend-by-row", "draft extend reads the features of the first rows, not of the accepted branch", ENGINE,
        "j < share.rows ? j : share.rows - 1 + share.kept[static_cast<size_t>(j - share.rows + 1)];", "j;",
        ("property_test", "exactness_test")),
    Mutation(
        "unshifted-ids", "the head reads a token beside its own feature, not beside that of the one before", EAGLE,
        "item.tokens.subspan(static_cast<size_t>(item.first_position) + 1,", "item.tokens.subspan(static_cast<size_t>(item.first_position),",
        ("engine_test", "golden_test")),
    Mutation(
        "draft-extend-position", "draft extend rotates as the next token", EAGLE,
        "sequences_.push_back({item->kv->pages(), item->kv->draft_length(), count, {}});",
        "sequences_.push_back({item->kv->pages(), item->kv->draft_length() + 1, count, {}});",
        ("property_test", "golden_test")),
    Mutation(
        "draft-decode-position", "draft decode skips one position", EAGLE,
        "sequences_.push_back({item.kv->pages(), item.kv->length(), static_cast<int64_t>(growth.level.size()),",
        "sequences_.push_back({item.kv->pages(), item.kv->length() + 1, static_cast<int64_t>(growth.level.size()),",
        ("engine_test", "golden_test")),
    Mutation(
        "draft-key", "drafts are drawn with the key of the position before", EAGLE,
        "const int64_t position = item.kv->length() + 1 + depth;", "const int64_t position = item.kv->length() + depth;",
        ("engine_test", "golden_test")),
    Mutation(
        "wrong-parent-feature", "a tree's node reads the feature of the root's round", EAGLE,
        "parent < 0 ? item.state->carried : growth.carried[static_cast<size_t>(parent)];",
        "parent < 0 || parent > 0 ? item.state->carried : growth.carried[static_cast<size_t>(parent)];",
        ("engine_test", "golden_test")),
    Mutation(
        "d2t-dropped", "a draft id is taken for a target id", "src/model/eagle3.cc",
        "draft_to_target_.push_back(static_cast<int32_t>(i + offset));", "draft_to_target_.push_back(static_cast<int32_t>(i));",
        ("eagle3_test", "engine_test")),
    Mutation(
        "tap-off-by-one", "features come from the layer after the one named", "src/model/llama.cc",
        "if (tap_layers_[t] != layer) continue;", "if (tap_layers_[t] != std::max(layer - 1, 0)) continue;",
        ("engine_test", "golden_test")),
    Mutation(
        "leak-on-cancel", "a cancelled request keeps its pages", ENGINE,
        "  sequence->kv.Release(models_.pages.get());\n  sequence->swapped.reset();",
        "  if (reason != FinishReason::kCancelled) sequence->kv.Release(models_.pages.get());\n  sequence->swapped.reset();",
        ("engine_test", "paging_test")),
    Mutation(
        "leak-on-rollback", "pages of rejected drafts are forgotten, not freed", "src/kv/kv_seq.cc",
        "  pool->Free(std::span<const int32_t>(pages_).subspan(static_cast<size_t>(kept)), owner_);\n", "  static_cast<void>(pool);\n",
        ("kv_test",)),
    Mutation(
        "key-of-the-round", "all tokens of a round are drawn with one key", ENGINE,
        "const int64_t position = static_cast<int64_t>(sequence.tokens.size());",
        "const int64_t position = sequence.kv.length() + share->rows;",
        ("engine_test", "exactness_test")),
    Mutation(
        "key-by-batch-row", "the place in the batch is part of the key", ENGINE,
        "const int64_t position = static_cast<int64_t>(sequence.tokens.size());",
        "const int64_t position = static_cast<int64_t>(sequence.tokens.size()) + share->first_row;",
        ("engine_test", "exactness_test")),
    Mutation(
        "bonus-from-wrong-row", "the bonus token comes from the row before", ENGINE,
        "LogitsToDraw(sequence, share->first_logit + row);", "LogitsToDraw(sequence, share->first_logit + std::max(row - 1, 0));",
        ("engine_test", "exactness_test")),
    Mutation(
        "row-by-depth", "an accepted branch is read as if it were the first", ENGINE,
        "  auto draw = [&](int row, int) {\n", "  auto draw = [&](int, int row) {\n",
        ("exactness_test", "property_test")),
    Mutation(
        "logprob-of-the-root", "every token of a round reports the logprob of its first row", ENGINE,
        "return Emit(&sequence, share->first_logit + newest, token,", "return Emit(&sequence, share->first_logit + 0 * newest, token,",
        ("engine_test", "exactness_test")),
    Mutation(
        "run-past-the-end", "a draft run goes on after an end token", "src/sampling/accept.cc",
        "    if (result.finished) break;\n", "",
        ("sampling_test",)),
    Mutation(
        "constraint-sees-bonus-only", "stop strings look at the last token of a round only", ENGINE,
        "  if (request.constraint) request.constraint->Advance(token);", "  if (request.constraint && !from_draft) request.constraint->Advance(token);",
        ("engine_test", "property_test")),
    Mutation(
        "text-after-stop", "text after a stop string inside a piece is printed", "src/text/stop_matcher.cc",
        "      text = text.substr(0, i + 1);\n", "",
        ("text_test",)),
    Mutation(
        "penalties-of-bonus-only", "penalties and min tokens count one token a round", ENGINE,
        "  sequence->edits.Advance(token);\n", "  if (!from_draft) sequence->edits.Advance(token);\n",
        ("engine_test", "exactness_test")),
    Mutation(
        "min-tokens-off-by-one", "an end token may come one token early", "src/sampling/logit_edits.cc",
        "if (generated_ >= min_tokens_) return;", "if (generated_ + 1 >= min_tokens_) return;",
        ("sampling_test",)),
    Mutation(
        "logprob-after-edits", "logprobs are those after penalties and masks", ENGINE,
        "sampling::FillLogprobs(models_.target_runner->logits(logit), request.logprobs,",
        "sampling::FillLogprobs(LogitsToDraw(*sequence, logit), request.logprobs,",
        ("engine_test", "exactness_test")),
    Mutation(
        "temperature-twice", "logits are divided by the temperature twice", "src/sampling/sampler.cc",
        "  row.scale = 1.0f / params.temperature;\n", "  row.scale = 1.0f / (params.temperature * params.temperature);\n",
        ("sampling_test",)),
    Mutation(
        "tie-to-the-later", "of equal logits the later token comes first", "src/sampling/row_search.cc",
        "return other.logprob < values[id]; });", "return other.logprob <= values[id]; });",
        ("sampling_test",)),
    Mutation(
        "bonus-counted-as-accepted", "the bonus token counts as an accepted draft", ENGINE,
        "  round.accepted = num_accepted;\n", "  round.accepted = num_accepted + 1;\n",
        ("engine_test",)),
    Mutation(
        "chunk-one-short", "the first token is drawn one prompt token early", ENGINE,
        "    if (rows[i] == sequence.pending()) {\n", "    if (rows[i] >= sequence.pending() - 1) {\n",
        ("engine_test", "exactness_test")),
    Mutation(
        "chunk-one-over", "a chunk takes one row more than is left", "src/engine/scheduler.cc",
        "const int64_t chunk = std::min(count, prefill_rows);", "const int64_t chunk = std::min(count, prefill_rows + 1);",
        ("scheduler_test",)),
    Mutation(
        "commit-copies-in-place", "tree commit copies row by row over rows that are still to be read", "src/kv/kv_cache.cc",
        "  for (size_t i = 0; i < src.size(); ++i) std::memcpy(staging + i * bytes, buffer.data() + src[i] * row_bytes, bytes);\n"
        "  for (size_t i = 0; i < dst.size(); ++i) std::memcpy(buffer.data() + dst[i] * row_bytes, staging + i * bytes, bytes);\n",
        "  static_cast<void>(staging);\n"
        "  for (size_t i = 0; i < src.size(); ++i) std::memmove(buffer.data() + dst[i] * row_bytes, buffer.data() + src[i] * row_bytes, bytes);\n",
        ("kv_test",)),
    Mutation(
        "commit-keeps-first-rows", "the KV of an accepted branch is not moved", ENGINE,
        "  if (!from.empty()) models_.target_runner->cache().Move(from, to);\n", "",
        ("exactness_test", "property_test")),
    Mutation(
        "narrow-move", "a byte offset of the KV cache is an int32", "src/kv/kv_cache.cc",
        "buffer.data() + src[i] * row_bytes, bytes);", "buffer.data() + static_cast<int32_t>(src[i] * row_bytes), bytes);",
        ("kv_test",)),
    Mutation(
        "narrow-slot", "slot times heads times head size is an int32", "src/kernels/cpu/rope.cc",
        "(static_cast<int64_t>(args.out_slots[r]) * args.num_kv_heads + g) * dim;",
        "static_cast<int32_t>((static_cast<int64_t>(args.out_slots[r]) * args.num_kv_heads + g) * dim);",
        ("kernels_test",)),
    Mutation(
        "narrow-image", "a slot of a saved page is an uint16", "src/kv/kv_image.cc",
        "const int64_t slot = int64_t{pages[t / page_size]} * page_size + offset;",
        "const int64_t slot = static_cast<uint16_t>(pages[t / page_size] * page_size + offset);",
        ("kv_test",)),
    Mutation(
        "ancestors-reversed", "a tree row adds up its ancestors in another order than plain decoding", "src/kernels/cpu/attention.cc",
        "  PackQuery(s, row, 1, g, scratch.q);\n", "  std::reverse(slots, slots + count);\n  PackQuery(s, row, 1, g, scratch.q);\n",
        ("kernels_test", "exactness_test")),
    Mutation(
        "items-go-on", "the items of a run are numbered on from those of the run before", "src/base/thread_pool.cc",
        "    CursorOf(thread, 1).store(0, std::memory_order_relaxed);\n", "",
        ("base_test", "kernels_linear_test")),
    Mutation(
        "chunk-left-over", "the last chunk of a thread's share of a matrix is left to nobody", "src/kernels/cpu/linear.cc",
        "item < passes * chunks; item", "item + 1 < passes * chunks; item",
        ("kernels_linear_test",)),
    Mutation(
        "drafter-off-by-one", "drafters are made by the line of their neighbour", "src/engine/drafters.cc",
        "drafters[i] = kAlgorithms[i].make(parts);", "drafters[i] = kAlgorithms[std::min(i + 1, drafters.size() - 1)].make(parts);",
        ("exactness_test",)),
    Mutation(
        "order-by-rows", "few rows join their splits in another order than many", "src/kernels/cpu/attention.cc",
        "  for (int64_t split = 1; split < SplitsOf(s.Length(row)); ++split) {\n", "  for (int64_t split = SplitsOf(s.Length(row)) - 1; split >= 1; --split) {\n",
        ("kernels_test", "exactness_test")),
    Mutation(
        "key-without-next-token", "a cached draft entry is used with another next token", "src/kv/prefix_cache.cc",
        "tokens.subspan(static_cast<size_t>(page_index) * page_size, page_size + 1)};",
        "tokens.subspan(static_cast<size_t>(page_index) * page_size, page_size)};",
        ("kv_test", "property_test")),
    Mutation(
        "evicts-held-pages", "a page that a request holds is given out again", "src/kv/page_pool.cc",
        "  listed_[page] = false;\n  if (holders_[page] > 0) return;\n", "  listed_[page] = false;\n  if (holders_[page] > 1) return;\n",
        ("kv_test",)),
    Mutation(
        "evicts-the-used", "a use of a cached prefix is not noticed", "src/kv/prefix_cache.cc",
        "void PrefixCache::Touch(Tree::value_type* node) {\n", "void PrefixCache::Touch(Tree::value_type* node) {\n  if (clock_ > 0) return;\n",
        ("kv_test",)),
    Mutation(
        "drafter-of-cached-pages", "a page without draft entries serves a request that drafts", "src/kv/prefix_cache.cc",
        "(drafter != 0 && found->second.drafter != drafter)", "(drafter != 0 && found->second.drafter > drafter)",
        ("kv_test", "paging_test")),
    Mutation(
        "swap-beyond-state", "a swapped request adopts cached pages beyond its drafter's state", PAGING,
        "    if (sequence->swapped) pages.resize(", "    if (sequence->swapped && pages.empty()) pages.resize(",
        ("paging_test", "property_test")),
    Mutation(
        "draft-state-survives", "the drafter's state of a preempted request stays", PAGING,
        "  sequence->draft = {};\n", "",
        ("paging_test", "property_test")),
    Mutation(
        "carried-dropped", "the carried feature is not in a saved request", "src/engine/kv_state.cc",
        "  archive(first, first_q_tokens, first_q_weights, carried, waiting_taps, waiting_ids);",
        "  static_cast<void>(carried);\n  archive(first, first_q_tokens, first_q_weights, waiting_taps, waiting_ids);",
        ("session_test", "paging_test")),
    Mutation(
        "draft-kv-dropped", "the draft KV of a swapped request is not written back", "src/engine/kv_state.cc",
        "  kv::WriteKvImage(packed.draft_kv.data(), seq.draft_length(), packed.draft_length, seq.pages(), page_size, caches.draft);\n", "",
        ("property_test", "session_test")),
    Mutation(
        "checksum-unread", "a damaged session file is believed", "src/engine/session_file.cc",
        "  if (actual != expected) {\n", "  if (actual != expected && bytes.empty()) {\n",
        ("session_test",)),
    Mutation(
        "swap-file-unchecked", "a changed swap file is believed", "src/engine/swap_space.cc",
        "  if (base::Checksum(bytes) != checksum_) {\n", "  if (bytes.empty() && base::Checksum(bytes) != checksum_) {\n",
        ("swap_space_test",)),
    Mutation(
        "rejected-drafts-stay", "a draft model keeps the entries of rejected drafts", "src/spec/model_drafter.cc",
        "item.kv->CommitDraft(std::min(item.kv->draft_length(), item.first_position + item.count), runner_.page_size());",
        "item.kv->CommitDraft(item.kv->draft_length(), runner_.page_size());",
        ("paging_test", "property_test")),
    Mutation(
        "tree-not-closed", "a reranked tree takes a child without its parent", "src/spec/draft_tree.cc",
        "  nodes_.push_back({candidate.token, parent, above + own, depth});", "  nodes_.push_back({candidate.token, parent, above > 0.0f ? above : own, depth});",
        ("spec_test",)),
    Mutation(
        "replacement-from-p", "the replacement of a rejected draft is drawn from p, not from what p has more than q", "src/sampling/rejection.cc",
        "std::max(0.0, p.weights[i] / p_total - drafted[static_cast<size_t>(p.tokens[i])] / q_total));",
        "(p.weights[i] / p_total + 0.0 * drafted[static_cast<size_t>(p.tokens[i])] / q_total));",
        ("sampling_test", "rejection_test")),
    Mutation(
        "coin-shared-with-draft", "a sampled draft shares the target's noise", "src/sampling/draft.cc",
        "Race race(Noise::ForDrafts(params.seed, position), 1);", "Race race(Noise(params.seed, position), 1);",
        ("sampling_test", "rejection_test")),
    Mutation(
        "q-of-the-next-draft", "a draft is judged by the distribution of another one", ENGINE,
        "tree.q.Row(row), request.sampling", "tree.q.Row(tree.q.size() - 1 - row), request.sampling",
        ("rejection_test",)),
    Mutation(
        "fewer-sampled-drafts", "a request whose answer depends on its drafts drafts less where pages are missing", PAGING,
        "(drafts ? DraftRows(WantedShape(sequence)) : 0);", "(drafts ? 0 * DraftRows(WantedShape(sequence)) : 0);",
        ("rejection_test", "property_test")),
    Mutation(
        "newest-not-held-back", "a recomputed request goes on without the drafts of its next round", ENGINE,
        "(sequence->holds_newest_back() ? 1 : 0)", "(sequence->holds_newest_back() ? 0 : 0)",
        ("rejection_test", "property_test")),
)
