#define HAAST_VEC_PORTABLE
#include "kernels/cpu/row_kernels_body.h"

namespace haast::kernels {

const RowKernels& PortableRowKernels() { return kRowKernels; }

}  // namespace haast::kernels
