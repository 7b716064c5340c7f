#if defined(__aarch64__)
#define HAAST_VEC_NEON
#include "kernels/cpu/row_kernels_body.h"

namespace haast::kernels {

const RowKernels& NeonRowKernels() { return kRowKernels; }

}  // namespace haast::kernels
#endif
