#if defined(__aarch64__)
#define HAAST_VEC_NEON
#include "kernels/cpu/linear_dot_bytes.h"
#include "kernels/cpu/linear_rows.h"
#include "kernels/cpu/linear_tiles.h"

namespace haast::kernels {

const IsaKernels& NeonDotLinear() {
  static const IsaKernels kernels = MakeKernels<8>("neon-dotprod");
  return kernels;
}

}  // namespace haast::kernels
#endif
