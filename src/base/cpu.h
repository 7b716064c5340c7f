// What this processor can do, and the few instructions that have no portable name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace haast::base {

// Instruction sets of the product kernels, in rising order of preference within an architecture.
enum class Isa { kPortable, kAvx2, kAvx512, kAvx512Vnni, kNeonDot, kNeonI8mm };

const char* IsaName(Isa isa);

// Those of the architecture that this build is for, in rising order of preference; the portable one first.
std::span<const Isa> ArchitectureIsas();

// True where the processor *and* the operating system support every instruction that the kernels of `isa` use.
bool IsaSupported(Isa isa);

// Those of ArchitectureIsas() that are supported.
std::vector<Isa> SupportedIsas();

// The best supported one.
Isa BestIsa();

// Model name as the system reports it, for example "AMD EPYC 7B13"; "unknown processor" where it does not.
std::string CpuModelName();

// Processors this process may run on (affinity mask), at least 1.
int UsableCpus();

// The floating-point control word (rounding, denormals) of the calling thread; 0 where there is none.
uint32_t GetFloatControl();
void SetFloatControl(uint32_t control);

inline void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace haast::base
