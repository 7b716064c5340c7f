#if defined(__x86_64__)
#define HAAST_VEC_AVX2
#include "kernels/cpu/linear_dot_bytes.h"
#include "kernels/cpu/linear_rows.h"
#include "kernels/cpu/linear_tiles.h"

namespace haast::kernels {

const IsaKernels& Avx2Linear() {
  static const IsaKernels kernels = MakeKernels<8>("avx2");
  return kernels;
}

}  // namespace haast::kernels
#endif
