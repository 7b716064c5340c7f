// The AVX-512 row kernels, from the same source, through SIMDe. For tests.
#define HAAST_VEC_AVX512
#define HAAST_VEC_SIMDE
#include "kernels/cpu/row_kernels_body.h"

namespace haast::kernels {

const RowKernels& EmulatedAvx512RowKernels() { return kRowKernels; }

}  // namespace haast::kernels
