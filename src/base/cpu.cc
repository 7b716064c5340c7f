#include "base/cpu.h"

#include <sched.h>

#include <fstream>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace haast::base {

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kPortable: return "portable";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx512Vnni: return "avx512-vnni";
    case Isa::kNeonDot: return "neon-dotprod";
    case Isa::kNeonI8mm: return "neon-i8mm";
  }
  return "unknown";
}

std::span<const Isa> ArchitectureIsas() {
#if defined(__x86_64__)
  static constexpr Isa kIsas[] = {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni};
#elif defined(__aarch64__)
  static constexpr Isa kIsas[] = {Isa::kPortable, Isa::kNeonDot, Isa::kNeonI8mm};
#else
  static constexpr Isa kIsas[] = {Isa::kPortable};
#endif
  return kIsas;
}

bool IsaSupported(Isa isa) {
  if (isa == Isa::kPortable) return true;
#if defined(__x86_64__)
  // __builtin_cpu_supports also asks the operating system (XGETBV) whether it saves the wide registers.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (isa == Isa::kAvx2) return avx2;
  if (isa == Isa::kAvx512) return avx512;
  if (isa == Isa::kAvx512Vnni) return avx512 && __builtin_cpu_supports("avx512vnni");
#elif defined(__aarch64__)
  const bool dot = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  if (isa == Isa::kNeonDot) return dot;
  if (isa == Isa::kNeonI8mm) return dot && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
#endif
  return false;
}

std::vector<Isa> SupportedIsas() {
  std::vector<Isa> supported;
  for (const Isa isa : ArchitectureIsas()) {
    if (IsaSupported(isa)) supported.push_back(isa);
  }
  return supported;
}

Isa BestIsa() { return SupportedIsas().back(); }

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
#elif defined(__aarch64__)
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return static_cast<uint32_t>(control);
#else
  return 0;
#endif
}

void SetFloatControl([[maybe_unused]] uint32_t control) {
#if defined(__x86_64__)
  _mm_setcsr(control);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(static_cast<uint64_t>(control)));
#endif
}

}  // namespace haast::base
