#include "exec/ops_choice.h"

#include <vector>

#include "base/format.h"
#include "base/knobs.h"

namespace haast::exec {

Result<const kernels::Ops*> ChooseOps(const std::string& backend) {
  if (backend == "ref") return &kernels::RefOps();
  if (backend != "cpu") return Err(ErrorCode::kInvalidArgument, "backend '{}' is unknown; use cpu or ref", backend);
  const auto wanted = base::KnobIsa();
  if (!wanted) return &kernels::CpuOps(base::BestIsa());
  std::vector<const char*> supported;
  for (const base::Isa isa : base::SupportedIsas()) {
    if (*wanted == base::IsaName(isa)) return &kernels::CpuOps(isa);
    supported.push_back(base::IsaName(isa));
  }
  return Err(ErrorCode::kUnsupported, "HAAST_ISA={}: this processor runs {}", *wanted, fmt::join(supported, ", "));
}

}  // namespace haast::exec
