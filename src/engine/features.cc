#include "haast/features.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/build_id.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/file_bytes.h"
#include "base/format.h"
#include "base/printable.h"
#include "engine/loaded_models.h"
#include "engine/token_file.h"
#include "exec/ops_choice.h"
#include "io/fingerprint.h"
#include "io/safetensors_writer.h"
#include "kv/kv_seq.h"

namespace haast {
namespace engine {
namespace {

using Sequences = std::span<const std::vector<int32_t>>;

constexpr size_t kMostSequences = 64;  // of one launch
constexpr int64_t kMaxManifest = 1 << 20;
constexpr const char* kManifestName = "features.json";
constexpr const char* kLockName = "features.lock";  // of who writes into the folder

DType TypeOf(FeatureDtype dtype) { return dtype == FeatureDtype::kF32 ? DType::kF32 : DType::kBF16; }

int64_t TokensOf(Sequences sequences) {
  int64_t tokens = 0;
  for (const std::vector<int32_t>& ids : sequences) tokens += static_cast<int64_t>(ids.size());
  return tokens;
}

Status CheckLayers(const std::vector<int>& layers, int num_layers) {
  int below = 0;
  for (const int layer : layers) {
    if (layer < below || layer > num_layers + 1) {
      return Err(ErrorCode::kInvalidArgument,
                 "features.layers = {}: expected ascending layers, 0 to {} ({}: what leaves the last one; {}: that after the final norm)",
                 fmt::join(layers, ","), num_layers + 1, num_layers, num_layers + 1);
    }
    below = layer;
  }
  return {};
}

Result<std::vector<int>> LayersOf(const EngineOptions& engine, const FeatureOptions& options, const io::ModelConfig& config) {
  std::vector<int> layers = options.layers;
  if (layers.empty()) {
    if (engine.draft.empty()) {
      return Err(ErrorCode::kInvalidArgument, "features need features.layers, or a head that reads some: options.draft");
    }
    HAAST_ASSIGN_OR_RETURN(const io::ModelFile head, io::ModelFile::Open(engine.draft));
    HAAST_RETURN_IF_ERROR(CheckHeadFits(head, config));
    layers = TapsFor(head, config);
  }
  HAAST_RETURN_IF_ERROR(CheckLayers(layers, config.num_layers));
  return layers;
}

// Runs sequences through the target, several in one launch, long ones over several launches.
class Extractor {
 public:
  // The last of the tapped layers is the one after the final norm; `width` floats of the first ones are the taps.
  Extractor(LoadedModels models, int64_t width, DType dtype, int64_t chunk)
      : models_(std::move(models)), width_(width), dtype_(dtype), chunk_(chunk) {}

  // Fills the rows of all tokens. taps: [R, width], hidden: [R, H]. `on_rows` hears how many more are there.
  Status Run(Sequences sequences, uint8_t* taps, uint8_t* hidden, const std::function<void(int64_t)>& on_rows) {
    std::vector<kv::KvSeq> kv;
    for (size_t i = 0; i < sequences.size(); ++i) kv.emplace_back(static_cast<int32_t>(i));
    int64_t written = 0;
    for (size_t next = 0; next < sequences.size();) {
      const int64_t rows = Collect(sequences, next, &kv);
      const exec::Batch batch{attention::ForwardMode::kExtend, rows_, owners_, ids_, nullptr, false, {}, /*want_taps=*/true};
      HAAST_RETURN_IF_ERROR(models_.target_runner->Run(batch));
      Store(written, taps, hidden);
      written += rows;
      for (size_t i = 0; i < rows_.size(); ++i) {
        kv::KvSeq& sequence = kv[next + i];
        sequence.Commit(rows_[i].kv_before + rows_[i].num_rows, models_.pages->page_size());
      }
      while (next < sequences.size() && kv[next].length() == static_cast<int64_t>(sequences[next].size())) {
        kv[next++].Release(models_.pages.get());
      }
      if (on_rows) on_rows(rows);
    }
    return {};
  }

 private:
  // The next launch: what is left of sequence `next` and those after it, as far as a chunk goes. Gives its rows.
  int64_t Collect(Sequences sequences, size_t next, std::vector<kv::KvSeq>* kv) {
    rows_.clear();
    owners_.clear();
    ids_.clear();
    const size_t end = std::min(sequences.size(), next + kMostSequences);
    for (size_t i = next; i < end && static_cast<int64_t>(ids_.size()) < chunk_; ++i) {
      kv::KvSeq& sequence = (*kv)[i];
      const int64_t before = sequence.length();
      const int64_t count = std::min(static_cast<int64_t>(sequences[i].size()) - before, chunk_ - static_cast<int64_t>(ids_.size()));
      const bool reserved = sequence.Reserve(before + count, models_.pages.get());
      HAAST_CHECK(reserved) << before + count << " tokens, " << models_.pages->num_free() << " free pages";
      const auto first = sequences[i].begin() + before;
      ids_.insert(ids_.end(), first, first + count);
      rows_.push_back({sequence.pages(), before, count, {}});
      owners_.push_back(sequence.owner());
    }
    return static_cast<int64_t>(ids_.size());
  }

  void Convert(const float* from, int64_t count, uint8_t* to) const {
    if (dtype_ == DType::kF32) {
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    }
    auto* out = reinterpret_cast<uint16_t*>(to);
    for (int64_t i = 0; i < count; ++i) out[i] = FloatToBf16(from[i]);
  }

  void Store(int64_t first_row, uint8_t* taps, uint8_t* hidden) const {
    const model::Model& target = models_.target_runner->model();
    const int64_t hidden_size = target.config().hidden_size;
    for (int64_t r = 0; r < static_cast<int64_t>(ids_.size()); ++r) {
      const float* row = models_.target_runner->taps(r);
      Convert(row, width_, taps + BytesOf(dtype_, (first_row + r) * width_));
      Convert(row + target.tap_width() - hidden_size, hidden_size, hidden + BytesOf(dtype_, (first_row + r) * hidden_size));
    }
  }

  LoadedModels models_;
  const int64_t width_;
  const DType dtype_;
  const int64_t chunk_;
  std::vector<attention::SequenceRows> rows_;
  std::vector<int32_t> owners_;
  std::vector<int32_t> ids_;
};

// What there is to write, and where.
struct Plan {
  std::vector<std::vector<int32_t>> sequences;
  int64_t piece_tokens = 0;  // at most, but for a longer sequence
  std::vector<size_t> ends;  // of each piece: the sequence after its last
  std::vector<int> layers;
  int64_t hidden_size = 0;
  DType dtype = DType::kBF16;
  std::string folder;

  int64_t width() const { return static_cast<int64_t>(layers.size()) * hidden_size; }
  Sequences Piece(size_t piece) const {
    const size_t begin = piece == 0 ? 0 : ends[piece - 1];
    return Sequences(sequences).subspan(begin, ends[piece] - begin);
  }
  std::string Path(size_t piece) const { return fmt::format("{}/features-{:05}.safetensors", folder, piece); }
  // Of `rows` tokens in `count` sequences.
  std::vector<io::TensorSlot> Slots(int64_t count, int64_t rows) const {
    return {{"offsets", DType::kI64, {count + 1}},
            {"token_ids", DType::kI32, {rows}},
            {"taps", dtype, {rows, width()}},
            {"hidden", dtype, {rows, hidden_size}}};
  }
  // A whole file: what was cut off counts as missing.
  bool Has(size_t piece) const {
    std::error_code error;
    const Sequences sequences = Piece(piece);
    const int64_t size = io::SafetensorsSize(Slots(static_cast<int64_t>(sequences.size()), TokensOf(sequences)));
    return std::filesystem::is_regular_file(Path(piece), error) &&
           static_cast<int64_t>(std::filesystem::file_size(Path(piece), error)) == size;
  }
};

std::vector<size_t> CutPieces(Sequences sequences, int64_t tokens_of_piece) {
  std::vector<size_t> ends;
  int64_t tokens = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto count = static_cast<int64_t>(sequences[i].size());
    if (tokens > 0 && tokens + count > tokens_of_piece) {
      ends.push_back(i);
      tokens = 0;
    }
    tokens += count;
  }
  ends.push_back(sequences.size());
  return ends;
}

// features.json, a line a field.
std::string Manifest(const Plan& plan, const EngineOptions& engine, const io::ModelFile& model, const std::string& kernels) {
  uint64_t input = 0;
  for (const std::vector<int32_t>& ids : plan.sequences) {
    input = base::Checksum({reinterpret_cast<const uint8_t*>(ids.data()), ids.size() * sizeof(int32_t)}, input);
  }
  return fmt::format(
      "{{\n\"model\": \"{:016x}\",\n\"input\": \"{:016x}\",\n\"layers\": [{}],\n\"hidden_size\": {},\n\"dtype\": \"{}\",\n"
      "\"kv_dtype\": \"{}\",\n\"kernels\": \"{}\",\n\"build\": \"{}\",\n\"sequences\": {},\n\"tokens\": {},\n\"piece_tokens\": "
      "{},\n\"pieces\": {}\n}}\n",
      io::Fingerprint(model), input, fmt::join(plan.layers, ", "), plan.hidden_size, Info(plan.dtype).name,
      engine.kv_dtype == KvDtype::kF32 ? "F32" : "F16", kernels, base::BuildId(), plan.sequences.size(), TokensOf(plan.sequences),
      plan.piece_tokens, plan.ends.size());
}

// Nothing where both texts are equal, else their first lines that differ.
Status CompareManifests(std::string_view expected, std::string_view found, const std::string& path) {
  const auto [ours, theirs] = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
  if (ours == expected.end() && theirs == found.end()) return {};
  const auto line = [](std::string_view text, size_t at) {
    const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    return std::string(text.substr(begin, text.find('\n', begin) - begin));
  };
  const auto at = static_cast<size_t>(ours - expected.begin());
  return Err(ErrorCode::kInvalidFile, "{}: the folder holds the features of something else: expected '{}', got '{}': give another folder",
             path, line(expected, at), base::Label(line(found, at)));
}

// Only what this command writes, be it in part: what a killed one left is gone on with.
Status CheckEntries(const Plan& plan) {
  std::error_code error;
  std::set<std::string> known = {kManifestName, kLockName};
  for (size_t piece = 0; piece < plan.ends.size(); ++piece) known.insert(std::filesystem::path(plan.Path(piece)).filename());
  const bool begun = std::filesystem::exists(fmt::format("{}/{}", plan.folder, kManifestName), error);
  for (const auto& entry : std::filesystem::directory_iterator(plan.folder, error)) {
    std::string name = entry.path().filename();
    const bool part = name.ends_with(base::kPartSuffix);
    if (part) name.resize(name.size() - std::string_view(base::kPartSuffix).size());
    const bool regular = std::filesystem::is_regular_file(entry.symlink_status(error));
    if (regular && known.contains(name) && (begun || name == kManifestName || name == kLockName)) continue;
    return Err(ErrorCode::kInvalidFile,
               "{}: expected a new or an empty folder, or one of these features, got {} in it: give another folder", plan.folder,
               base::Label(entry.path().filename().string()));
  }
  if (error) return Err(ErrorCode::kIo, "{}: cannot be read: {}: expected a folder: give another path", plan.folder, error.message());
  return {};
}

// Makes the folder with its features.json, or finds the same one there. Nobody else may while the lock lives.
Result<base::FileLock> PrepareFolder(const Plan& plan, const std::string& manifest) {
  const std::string& folder = plan.folder;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Err(ErrorCode::kIo, "{}: cannot be made: {}: expected a folder that can be written: give another path", folder, error.message());
  }
  Result<base::FileLock> lock = base::FileLock::Take(fmt::format("{}/{}", folder, kLockName));
  if (!lock) {
    return Err(lock.error().code, "{}: another run is writing features there: wait until it has ended, or give another folder", folder);
  }
  const std::string path = fmt::format("{}/{}", folder, kManifestName);
  if (std::filesystem::exists(path, error)) {
    HAAST_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, base::ReadFileBytes(path, kMaxManifest));
    HAAST_RETURN_IF_ERROR(CompareManifests(manifest, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path));
    HAAST_RETURN_IF_ERROR(CheckEntries(plan));
    return lock;
  }
  HAAST_RETURN_IF_ERROR(CheckEntries(plan));
  HAAST_RETURN_IF_ERROR(base::WriteFileAtomically(path, {reinterpret_cast<const uint8_t*>(manifest.data()), manifest.size()}));
  return lock;
}

Status WritePiece(const Plan& plan, size_t piece, Extractor* extractor, const std::function<void(int64_t)>& on_rows) {
  const Sequences sequences = plan.Piece(piece);
  const int64_t rows = TokensOf(sequences);
  HAAST_ASSIGN_OR_RETURN(io::SafetensorsImage image,
                         io::SafetensorsImage::Create(plan.Slots(static_cast<int64_t>(sequences.size()), rows)));
  auto* offsets = reinterpret_cast<int64_t*>(image.data(0));
  auto* ids = reinterpret_cast<int32_t*>(image.data(1));
  for (size_t i = 0; i < sequences.size(); ++i) {
    std::copy(sequences[i].begin(), sequences[i].end(), ids + offsets[i]);
    offsets[i + 1] = offsets[i] + static_cast<int64_t>(sequences[i].size());
  }
  HAAST_RETURN_IF_ERROR(extractor->Run(sequences, image.data(2), image.data(3), on_rows));
  return base::WriteFileAtomically(plan.Path(piece), image.bytes());
}

Result<Plan> MakePlan(const EngineOptions& engine, const FeatureOptions& options, const io::ModelFile& model) {
  const io::ModelConfig& config = model.config();
  Plan plan;
  plan.hidden_size = config.hidden_size;
  plan.dtype = TypeOf(options.dtype);
  plan.folder = options.output;
  HAAST_ASSIGN_OR_RETURN(plan.layers, LayersOf(engine, options, config));
  HAAST_ASSIGN_OR_RETURN(plan.sequences, ReadTokenFile(options.input, {config.vocab_size, config.max_context}));
  plan.piece_tokens = options.piece_bytes / BytesOf(plan.dtype, plan.width() + plan.hidden_size);
  plan.ends = CutPieces(plan.sequences, plan.piece_tokens);
  return plan;
}

Result<Extractor> LoadExtractor(const EngineOptions& engine, const Plan& plan, const io::ModelConfig& config) {
  EngineOptions resolved;
  resolved.model = engine.model;
  resolved.backend = engine.backend;
  resolved.threads = engine.threads;
  resolved.kv_dtype = engine.kv_dtype;
  resolved.prefill_chunk = engine.prefill_chunk;
  resolved.max_batch = 1;  // of requests, of which there are none
  for (const std::vector<int32_t>& ids : plan.sequences) {
    resolved.max_context = std::max(resolved.max_context, static_cast<int64_t>(ids.size()));
  }
  // The pages of one sequence that goes on from launch to launch, of a chunk of others, and the unused ends of their last pages.
  resolved.kv_tokens = resolved.max_context + resolved.prefill_chunk + static_cast<int64_t>(kMostSequences) * resolved.page_size;
  std::vector<int> taps = plan.layers;
  if (taps.back() != config.num_layers + 1) taps.push_back(config.num_layers + 1);
  HAAST_ASSIGN_OR_RETURN(LoadedModels models, LoadModels(&resolved, std::move(taps)));
  return Extractor(std::move(models), plan.width(), plan.dtype, resolved.prefill_chunk);
}

std::string ProgressText(const FeatureReport& report, int64_t done) {
  const double rate = static_cast<double>(report.computed_tokens) / std::max(report.seconds, 1e-9);
  return fmt::format("{} of {} tokens, {:.0f} tokens/s, {:.0f} s left", done, report.tokens, rate,
                     static_cast<double>(report.tokens - done) / std::max(rate, 1e-9));
}

Status WritePieces(const Plan& plan, Extractor* extractor, FeatureReport* report, const std::function<void(const std::string&)>& progress) {
  const double start = base::NowSeconds();
  int64_t done = 0;
  for (size_t piece = 0; piece < plan.ends.size(); ++piece) {
    if (plan.Has(piece)) {
      done += TokensOf(plan.Piece(piece));
      continue;
    }
    HAAST_RETURN_IF_ERROR(WritePiece(plan, piece, extractor, [&](int64_t rows) {
      done += rows;
      report->computed_tokens += rows;
      report->seconds = base::NowSeconds() - start;
      if (progress) progress(ProgressText(*report, done));
    }));
    report->seconds = base::NowSeconds() - start;
  }
  return {};
}

}  // namespace
}  // namespace engine

Result<FeatureReport> WriteFeatures(const EngineOptions& engine, const FeatureOptions& options,
                                    const std::function<void(const std::string&)>& progress) {
  HAAST_ASSIGN_OR_RETURN(const io::ModelFile model, io::ModelFile::Open(engine.model));
  HAAST_ASSIGN_OR_RETURN(const kernels::Ops* ops, exec::ChooseOps(engine.backend));
  if (progress) progress("reading " + options.input);
  HAAST_ASSIGN_OR_RETURN(const engine::Plan plan, engine::MakePlan(engine, options, model));
  HAAST_ASSIGN_OR_RETURN(const base::FileLock lock, engine::PrepareFolder(plan, engine::Manifest(plan, engine, model, ops->name)));
  FeatureReport report;
  report.layers = plan.layers;
  report.sequences = static_cast<int64_t>(plan.sequences.size());
  report.tokens = engine::TokensOf(plan.sequences);
  report.pieces = static_cast<int64_t>(plan.ends.size());
  for (size_t piece = 0; piece < plan.ends.size(); ++piece) report.pieces_kept += plan.Has(piece) ? 1 : 0;
  if (report.pieces_kept == report.pieces) return report;
  if (progress) progress("loading " + engine.model);
  HAAST_ASSIGN_OR_RETURN(engine::Extractor extractor, engine::LoadExtractor(engine, plan, model.config()));
  HAAST_RETURN_IF_ERROR(engine::WritePieces(plan, &extractor, &report, progress));
  return report;
}

}  // namespace haast
