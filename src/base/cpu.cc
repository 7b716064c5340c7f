#include "base/cpu.h"

#include <sched.h>

#include <fstream>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace haast::base {

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kPortable: return "portable";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx512Vnni: return "avx512-vnni";
  }
  return "unknown";
}

bool IsaSupported(Isa isa) {
  if (isa == Isa::kPortable) return true;
#if defined(__x86_64__)
  // __builtin_cpu_supports also asks the operating system (XGETBV) whether it saves the wide registers.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  switch (isa) {
    case Isa::kPortable: return true;
    case Isa::kAvx2: return avx2;
    case Isa::kAvx512: return avx512;
    case Isa::kAvx512Vnni: return avx512 && __builtin_cpu_supports("avx512vnni");
  }
#endif
  return false;
}

Isa BestIsa() {
  for (Isa isa : {Isa::kAvx512Vnni, Isa::kAvx512, Isa::kAvx2}) {
    if (IsaSupported(isa)) return isa;
  }
  return Isa::kPortable;
}

std::string CpuModelName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return "unknown processor";
}

int UsableCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count < 1 ? 1 : count;
}

uint32_t GetFloatControl() {
#if defined(__x86_64__)
  return _mm_getcsr();
#else
  return 0;
#endif
}

void SetFloatControl([[maybe_unused]] uint32_t control) {
#if defined(__x86_64__)
  _mm_setcsr(control);
#endif
}

}  // namespace haast::base
