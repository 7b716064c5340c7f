#include "exec/ops_choice.h"

#include "base/format.h"
#include "base/knobs.h"

namespace haast::exec {

Result<const kernels::Ops*> ChooseOps(const std::string& backend) {
  if (backend == "ref") return &kernels::RefOps();
  if (backend != "cpu") return Err(ErrorCode::kInvalidArgument, "backend '{}' is unknown; use cpu or ref", backend);
  HAAST_ASSIGN_OR_RETURN(const base::Isa isa, base::KnobIsa());
  return &kernels::CpuOps(isa);
}

}  // namespace haast::exec
