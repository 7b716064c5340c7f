#include "model/weights.h"

#include <algorithm>

#include "base/format.h"
#include "base/printable.h"

namespace haast::model {
namespace {

// "q_proj" of "model.layers.3.self_attn.q_proj.weight".
std::string ShortName(const std::string& name) {
  const size_t end = name.rfind('.');
  const size_t dot = end == std::string::npos || end == 0 ? std::string::npos : name.rfind('.', end - 1);
  const size_t begin = dot == std::string::npos ? 0 : dot + 1;
  return name.substr(begin, end == std::string::npos ? end : end - begin);
}

}  // namespace

Result<TensorView> WeightBinder::Require(const std::string& name, std::initializer_list<int64_t> shape) {
  const TensorView* view = file_.Find(name);
  if (view == nullptr) {
    return Err(ErrorCode::kNotFound, "{}: tensor {} is missing, expected shape {}; the file is incomplete or of another architecture",
               file_.path(), name, ShapeToString(shape));
  }
  if (!view->HasShape(shape)) {
    return Err(ErrorCode::kInvalidFile,
               "{}: tensor {}: expected shape {}, got {}; the configuration and the weights do not belong together", file_.path(), name,
               ShapeToString(shape), view->ToString());
  }
  used_.insert(name);
  return *view;
}

Result<std::optional<TensorView>> WeightBinder::Optional(const std::string& name, std::initializer_list<int64_t> shape) {
  if (!Has(name)) return std::optional<TensorView>();
  HAAST_ASSIGN_OR_RETURN(TensorView view, Require(name, shape));
  return std::optional<TensorView>(view);
}

Result<TensorView> WeightBinder::Table(const std::vector<std::string>& names, int64_t n, int64_t k) {
  const auto held = std::find_if(names.begin(), names.end(), [&](const std::string& name) { return Has(name); });
  const std::string& name = held != names.end() ? *held : names.front();
  HAAST_ASSIGN_OR_RETURN(TensorView view, Require(name, {n, k}));
  if (!IsFloat(view.dtype) && !IsQuantised(view.dtype)) {
    return Err(ErrorCode::kUnsupported, "{}: tensor {}: expected a float or block format, got {}", file_.path(), name, view.ToString());
  }
  return view;
}

LoadContext CheckOnly() {
  static base::ThreadPool none(1);
  static const kernels::Ops ops = [] {
    kernels::Ops checking = kernels::RefOps();
    checking.pack = [](const TensorView&, const DType*, base::ThreadPool&) -> Result<kernels::PackedWeight> {
      return kernels::PackedWeight();
    };
    return checking;
  }();
  return {ops, none, std::nullopt};
}

Result<kernels::PackedWeight> PackMatrix(const TensorView& view, std::string name, const io::ModelFile& file, const LoadContext& load) {
  const bool quantise = load.quantise_to && IsFloat(view.dtype);
  HAAST_ASSIGN_OR_RETURN(kernels::PackedWeight packed, load.ops.pack(view, quantise ? &*load.quantise_to : nullptr, load.pool));
  packed.name = std::move(name);
  if (packed.data.size() > 0) file.DropPages(view);
  return packed;
}

Result<kernels::PackedWeight> WeightBinder::Matrix(const std::string& name, int64_t n, int64_t k, const LoadContext& load) {
  HAAST_ASSIGN_OR_RETURN(TensorView view, Table({name}, n, k));
  return PackMatrix(view, ShortName(name), file_, load);
}

Result<std::vector<float>> WeightBinder::Vector(const std::string& name, int64_t n) {
  HAAST_ASSIGN_OR_RETURN(TensorView view, Require(name, {n}));
  if (!IsFloat(view.dtype)) {
    return Err(ErrorCode::kUnsupported, "{}: tensor {}: expected F32, F16 or BF16, got {}", file_.path(), name, view.ToString());
  }
  return ToFloats(view);
}

Result<std::vector<float>> WeightBinder::OptionalVector(const std::string& name, int64_t n) {
  if (!Has(name)) return std::vector<float>();
  return Vector(name, n);
}

Status WeightBinder::CheckAllUsed() const {
  for (const io::NamedTensor& tensor : file_.tensors()) {
    if (used_.count(tensor.name) > 0) continue;
    return Err(ErrorCode::kUnsupported,
               "{}: tensor {} {} is not part of a {} model; the file is of another architecture or needs a newer build", file_.path(),
               base::Label(tensor.name), tensor.view.ToString(), file_.config().architecture);
  }
  return {};
}

std::vector<float> ToFloats(const TensorView& view) {
  std::vector<float> values(static_cast<size_t>(view.elements()));
  for (int64_t row = 0; row < view.rows(); ++row) {
    kernels::DequantiseRow(view, row, values.data() + row * view.cols());
  }
  return values;
}

}  // namespace haast::model
