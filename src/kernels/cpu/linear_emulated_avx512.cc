// The AVX-512 kernels, from the same source, through SIMDe. For tests.
#define HAAST_VEC_AVX512
#define HAAST_VEC_SIMDE
#include "kernels/cpu/linear_dot_bytes.h"
#include "kernels/cpu/linear_rows.h"
#include "kernels/cpu/linear_tiles.h"

namespace haast::kernels {

const IsaKernels& EmulatedAvx512Linear() {
  static const IsaKernels kernels = MakeKernels<8>("emulated avx512", true);
  return kernels;
}

}  // namespace haast::kernels
