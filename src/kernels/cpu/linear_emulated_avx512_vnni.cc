// The AVX-512 VNNI kernels, from the same source, through SIMDe. For tests.
#define HAAST_VEC_AVX512
#define HAAST_VEC_SIMDE
#define HAAST_VEC_VNNI
#include "kernels/cpu/linear_dot_bytes.h"
#include "kernels/cpu/linear_rows.h"
#include "kernels/cpu/linear_tiles.h"

namespace haast::kernels {

const IsaKernels& EmulatedAvx512VnniLinear() {
  static const IsaKernels kernels = MakeKernels<8>("emulated avx512-vnni", true);
  return kernels;
}

}  // namespace haast::kernels
