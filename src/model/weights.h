// Weights asked for by name and shape. What a file lacks, holds in excess or in another shape is an error that names it.
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "haast/result.h"
#include "io/model_file.h"
#include "kernels/ops.h"

namespace haast::model {

// How weights are prepared: the backend's ops, its threads, and the block format to which float matrices are rounded.
struct LoadContext {
  const kernels::Ops& ops;
  base::ThreadPool& pool;
  std::optional<DType> quantise_to;  // none: float weights stay as they are
};

class WeightBinder {
 public:
  explicit WeightBinder(const io::ModelFile& file) : file_(file) {}

  // The tensor of that name; kNotFound without it, kInvalidFile with another shape.
  Result<TensorView> Require(const std::string& name, std::initializer_list<int64_t> shape);
  // The same, or nothing where the file lacks it.
  Result<std::optional<TensorView>> Optional(const std::string& name, std::initializer_list<int64_t> shape);
  // A matrix whose rows are read in place, under the first of `names` that the file holds; kUnsupported where it holds no numbers.
  Result<TensorView> Table(const std::vector<std::string>& names, int64_t n, int64_t k);
  // Training leftovers that may be present and are not read.
  void Ignore(const std::string& name) { used_.insert(name); }
  bool Has(const std::string& name) const { return file_.Find(name) != nullptr; }

  // A matrix prepared for products; its mapped pages are dropped where the numbers were copied.
  Result<kernels::PackedWeight> Matrix(const std::string& name, int64_t n, int64_t k, const LoadContext& load);
  // A float vector of any float dtype as fp32.
  Result<std::vector<float>> Vector(const std::string& name, int64_t n);
  // Empty where the file lacks it.
  Result<std::vector<float>> OptionalVector(const std::string& name, int64_t n);

  // Every tensor of the file was asked for or ignored.
  Status CheckAllUsed() const;
  const io::ModelFile& file() const { return file_; }

 private:
  const io::ModelFile& file_;
  std::set<std::string> used_;
};

// Any [rows, cols] view as fp32 values.
std::vector<float> ToFloats(const TensorView& view);

// For a file that is checked and not loaded: names, shapes and element types count, every prepared matrix is empty.
LoadContext CheckOnly();

// `name`: PackedWeight::name.
Result<kernels::PackedWeight> PackMatrix(const TensorView& view, std::string name, const io::ModelFile& file, const LoadContext& load);

}  // namespace haast::model
