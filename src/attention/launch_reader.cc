// Reads what other programs wrote: every value is checked before it is used as a size or an index.
#include <algorithm>
#include <array>
#include <limits>

#include "attention/launch_dump.h"
#include "base/printable.h"
#include "io/json.h"

namespace haast::attention {
namespace {

namespace dom = simdjson::dom;

constexpr int64_t kMaxNumber = int64_t{1} << 53;  // whole numbers that every JSON library keeps

constexpr const char* kFields[] = {
    "format",         "model",           "step",         "mode",        "page_size", "pool_slots",         "reserved_page",
    "unused_page",    "skip_slot",       "q_shape",      "k_shape",     "v_shape",   "out_shape",          "real_sequences",
    "real_rows",      "max_q_len",       "max_kv_len",   "qo_indptr",   "kv_indptr", "kv_indices",         "block_table",
    "kv_len",         "out_slots",       "positions",    "tree_flags",  "tree_mask", "page_owner",         "sequence_owner",
    "plan_max_q_len", "plan_max_kv_len", "layer_window", "tree_cached", "window",    "block_table_stride",
};

std::optional<int64_t> Number(const io::JsonObject& object, const char* key) {
  if (!object.Has(key)) return std::nullopt;
  return object.Integer(key, 0, -kMaxNumber, kMaxNumber);
}

// Rows of a tensor: the first of its shape.
std::optional<int64_t> Rows(const io::JsonObject& object, const char* key) {
  if (!object.Has(key)) return std::nullopt;
  const std::vector<int64_t> shape = object.OneOrMoreIntegers(key, 0, kMaxNumber);
  if (shape.empty()) {
    object.Fail(key, "a shape, its first number the rows", "an empty list");
    return std::nullopt;
  }
  return shape[0];
}

// A value as an array of T holds it. One that does not fit is reported and wrapped, as a kernel of that type reads it.
template <typename T>
T Narrow(int64_t value, const char* key, int64_t index, Findings* narrowed) {
  const T held = static_cast<T>(value);
  if (static_cast<int64_t>(held) != value) {
    narrowed->Add({Invariant::kIntegerRange, key, index, -1, value, static_cast<int64_t>(held)},
                  "{}[{}] is {}, outside {} bits: a kernel reads {}", key, index, value, 8 * sizeof(T), +held);
  }
  return held;
}

template <typename T>
bool AppendNumbers(const io::JsonObject& object, const char* key, dom::array list, std::vector<T>* out, Findings* narrowed) {
  for (const dom::element item : list) {
    int64_t value = 0;
    uint64_t word = 0;
    if (item.get(value) == simdjson::SUCCESS) {
      const int64_t index = static_cast<int64_t>(out->size());
      out->push_back(std::is_same_v<T, uint64_t> ? static_cast<T>(value) : Narrow<T>(value, key, index, narrowed));
    } else if (std::is_same_v<T, uint64_t> && item.get(word) == simdjson::SUCCESS) {
      out->push_back(static_cast<T>(word));
    } else {
      object.Fail(key, "a list of whole numbers", "one that holds " + io::Describe(item));
      return false;
    }
  }
  return true;
}

template <typename T>
MaybeArray<T> Array(const io::JsonObject& object, const char* key, std::vector<T>* out, Findings* narrowed) {
  const auto value = object.Find(key);
  if (!value) return {};
  dom::array list;
  if (value->get(list) != simdjson::SUCCESS) {
    object.Fail(key, "a list of whole numbers", io::DescribeType(*value));
    return {};
  }
  AppendNumbers(object, key, list, out, narrowed);
  return MaybeArray<T>(*out);
}

// [B, P] as a list of rows of one length, or flat with its stride (by default the cells over the sequences).
void BlockTable(const io::JsonObject& object, LaunchDump* dump) {
  const auto value = object.Find("block_table");
  dom::array rows;
  const bool nested = value && value->get(rows) == simdjson::SUCCESS && rows.begin() != rows.end() && (*rows.begin()).is_array();
  if (!nested) {
    dump->view.block_table = Array(object, "block_table", &dump->block_table, &dump->narrowed);
    const int64_t cells = static_cast<int64_t>(dump->block_table.size());
    dump->view.block_table_stride = Number(object, "block_table_stride").value_or(dump->view.batch > 0 ? cells / dump->view.batch : 0);
    return;
  }
  for (const dom::element item : rows) {
    dom::array row;
    const size_t before = dump->block_table.size();
    if (item.get(row) != simdjson::SUCCESS) return object.Fail("block_table", "a list of rows", "one that holds " + io::Describe(item));
    if (!AppendNumbers(object, "block_table", row, &dump->block_table, &dump->narrowed)) return;
    const size_t cells = dump->block_table.size() - before;
    if (before == 0) dump->view.block_table_stride = static_cast<int64_t>(cells);
    if (static_cast<int64_t>(cells) == dump->view.block_table_stride) continue;
    return object.Fail("block_table", fmt::format("rows of {} cells like the first", dump->view.block_table_stride),
                       fmt::format("one of {}", cells));
  }
  dump->view.block_table = dump->block_table;
}

void ReadLengths(const io::JsonObject& object, LaunchDump* dump) {
  LaunchView& view = dump->view;
  view.qo_indptr = Array(object, "qo_indptr", &dump->qo_indptr, &dump->narrowed);
  view.kv_indptr = Array(object, "kv_indptr", &dump->kv_indptr, &dump->narrowed);
  view.kv_len = Array(object, "kv_len", &dump->kv_len, &dump->narrowed);
  // No sum or difference of lengths may overflow.
  const auto beyond = std::find_if(dump->kv_len.begin(), dump->kv_len.end(), [](int64_t n) { return n < -kMaxNumber || n > kMaxNumber; });
  if (beyond != dump->kv_len.end()) {
    object.Fail("kv_len", fmt::format("whole numbers of at most {}", kMaxNumber),
                fmt::format("{} at index {}", *beyond, beyond - dump->kv_len.begin()));
  }
  if (view.kv_len.present()) {
    view.batch = view.kv_len.size();
  } else {
    view.batch = std::max<int64_t>((view.kv_indptr.present() ? view.kv_indptr.size() : view.qo_indptr.size()) - 1, 0);
  }
  if (view.qo_indptr.present()) return;
  // Decode kernels have no such array: one row a sequence.
  for (int64_t b = 0; b <= view.batch; ++b) dump->qo_indptr.push_back(static_cast<int32_t>(b));
  view.qo_indptr = dump->qo_indptr;
}

void ReadNumbers(const io::JsonObject& object, LaunchView* view) {
  view->page_size = object.Integer("page_size", 1, -(int64_t{1} << 31), int64_t{1} << 31);
  view->pool_slots = Number(object, "pool_slots");
  view->reserved_page = Number(object, "reserved_page").value_or(kReservedPage);
  view->unused_page = Number(object, "unused_page");
  view->skip_slot = Number(object, "skip_slot");
  view->q_rows = Rows(object, "q_shape");
  view->k_rows = Rows(object, "k_shape");
  view->v_rows = Rows(object, "v_shape");
  view->out_rows = Rows(object, "out_shape");
  view->padded_sequences = view->batch - Number(object, "real_sequences").value_or(view->batch);
  view->real_rows = Number(object, "real_rows");
  view->max_q_len = Number(object, "max_q_len");
  view->max_kv_len = Number(object, "max_kv_len");
  view->plan_max_q_len = Number(object, "plan_max_q_len");
  view->plan_max_kv_len = Number(object, "plan_max_kv_len");
  view->window = Number(object, "window");
  view->layer_window = Number(object, "layer_window");
}

}  // namespace

Status ReadLaunch(std::string_view line, const std::string& where, LaunchDump* dump) {
  HAAST_ASSIGN_OR_RETURN(const io::JsonDocument document, io::JsonDocument::Parse(line, where));
  const io::JsonObject object = document.root();
  if (!object.Has("qo_indptr") && !object.Has("kv_indptr") && !object.Has("kv_len")) {
    return Err(ErrorCode::kInvalidFile,
               "{}: expected the metadata of a launch, got an object without qo_indptr, kv_indptr and kv_len (null is "
               "none)",
               where);
  }
  object.Integer("format", 1, 1, 1);
  dump->model = base::Label(object.Text("model", ""));
  dump->mode = base::Label(object.Text("mode", "launch"));
  dump->view.mode = dump->mode.c_str();
  ReadLengths(object, dump);
  ReadNumbers(object, &dump->view);
  BlockTable(object, dump);
  LaunchView& view = dump->view;
  const auto read = [&](const char* key, auto& seen, auto& values) {
    if (!seen.present() && values.empty()) seen = Array(object, key, &values, &dump->narrowed);
  };
  ForEachArray(read, view, *dump);
  view.page_owner = Array(object, "page_owner", &dump->page_owner, &dump->narrowed);
  view.sequence_owner = Array(object, "sequence_owner", &dump->sequence_owner, &dump->narrowed);
  for (const auto& member : object.members()) {
    const auto known = [&](const char* field) { return member.key == field; };
    if (std::none_of(std::begin(kFields), std::end(kFields), known)) dump->unknown_fields.push_back(base::Label(member.key));
  }
  return object.status();
}

}  // namespace haast::attention
