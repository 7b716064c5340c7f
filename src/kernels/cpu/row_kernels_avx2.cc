#if defined(__x86_64__)
#define HAAST_VEC_AVX2
#include "kernels/cpu/row_kernels_body.h"

namespace haast::kernels {

const RowKernels& Avx2RowKernels() { return kRowKernels; }

}  // namespace haast::kernels
#endif
