#include "model/weights.h"

#include "base/format.h"

namespace haast::model {

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

Result<TensorView> WeightBinder::RequireAny(const std::vector<std::string>& names, std::initializer_list<int64_t> shape) {
  for (const std::string& name : names) {
    if (Has(name)) return Require(name, shape);
  }
  return Require(names.front(), shape);
}

Result<kernels::PackedWeight> PackMatrix(const TensorView& view, const io::ModelFile& file, const LoadContext& load) {
  const bool quantise = load.quantise_to && IsFloat(view.dtype);
  HAAST_ASSIGN_OR_RETURN(kernels::PackedWeight packed, load.ops.pack(view, quantise ? &*load.quantise_to : nullptr, load.pool));
  if (packed.data.size() > 0) file.DropPages(view);
  return packed;
}

Result<kernels::PackedWeight> WeightBinder::Matrix(const std::string& name, int64_t n, int64_t k, const LoadContext& load) {
  HAAST_ASSIGN_OR_RETURN(TensorView view, Require(name, {n, k}));
  return PackMatrix(view, file_, load);
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
               tensor.name, tensor.view.ToString(), file_.config().architecture);
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
