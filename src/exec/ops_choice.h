// Which kernels a run uses.
#pragma once

#include <string>

#include "kernels/ops.h"

namespace haast::exec {

// "ref": the naive fp32 reference. "cpu": the best kernels this processor supports, or those of the HAAST_ISA knob; an
// instruction set it lacks is an error that names the supported ones.
Result<const kernels::Ops*> ChooseOps(const std::string& backend);

}  // namespace haast::exec
