#if defined(__aarch64__)
#define HAAST_VEC_NEON
#define HAAST_VEC_I8MM
#include "kernels/cpu/linear_dot_bytes.h"
#include "kernels/cpu/linear_rows.h"
#include "kernels/cpu/linear_tiles.h"

namespace haast::kernels {

const IsaKernels& NeonI8mmLinear() {
  static const IsaKernels kernels = MakeKernels<8>("neon-i8mm");
  return kernels;
}

}  // namespace haast::kernels
#endif
