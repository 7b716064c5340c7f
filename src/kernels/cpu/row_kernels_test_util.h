// The row kernels that can run here, for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "kernels/cpu/row_kernels.h"

namespace haast::kernels {

#ifdef HAAST_EMULATED_AVX512
const RowKernels& EmulatedAvx512RowKernels();
#endif

// Portable first: the others must give its bits.
inline std::vector<std::pair<std::string, const RowKernels*>> RunnableRowKernels() {
  std::vector<std::pair<std::string, const RowKernels*>> kernels;
  for (const base::Isa isa : base::SupportedIsas()) kernels.emplace_back(base::IsaName(isa), &RowKernelsFor(isa));
#ifdef HAAST_EMULATED_AVX512
  if (base::IsaSupported(base::Isa::kAvx2)) kernels.emplace_back("emulated avx512", &EmulatedAvx512RowKernels());
#endif
  return kernels;
}

}  // namespace haast::kernels
