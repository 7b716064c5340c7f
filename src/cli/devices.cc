#include <unistd.h>

#include "base/cpu.h"
#include "base/format.h"
#include "base/knobs.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/json_forms.h"
#include "cli/options.h"

namespace haast::cli {
namespace {

// Bytes; 0 where the system does not say.
int64_t SystemBytes(int name, int64_t unit) {
  const long value = sysconf(name);
  return value < 0 ? 0 : static_cast<int64_t>(value) * unit;
}

Json DevicesJson(base::Isa used) {
  const int64_t page = SystemBytes(_SC_PAGESIZE, 1);
  Json isas = Json::array();
  for (const base::Isa isa : base::ArchitectureIsas()) {
    isas.push_back({{"name", base::IsaName(isa)}, {"supported", base::IsaSupported(isa)}, {"used", isa == used}});
  }
  return {{"processor", base::CpuModelName()},
          {"threads", base::UsableCpus()},
          {"isa", base::IsaName(used)},
          {"isas", std::move(isas)},
          {"l2_bytes", SystemBytes(_SC_LEVEL2_CACHE_SIZE, 1)},
          {"l3_bytes", SystemBytes(_SC_LEVEL3_CACHE_SIZE, 1)},
          {"memory_bytes", SystemBytes(_SC_PHYS_PAGES, page)},
          {"free_memory_bytes", SystemBytes(_SC_AVPHYS_PAGES, page)},
          {"backends", {"cpu", "ref"}}};
}

std::string DevicesText(const Json& devices) {
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  constexpr double kMiB = 1024.0 * 1024.0;
  std::string isas;
  for (const Json& isa : devices["isas"]) {
    const bool used = isa["used"];
    const bool supported = isa["supported"];
    isas += fmt::format(" {}{}", isa["name"].get<std::string>(), used ? " (used)" : supported ? "" : " (not supported)");
    if (&isa != &devices["isas"].back()) isas += ",";
  }
  return fmt::format(
      "processor     {}\nthreads       {}\ninstructions {}\ncaches        L2 {:.1f} MiB, L3 {:.1f} MiB\n"
      "memory        {:.1f} GiB, {:.1f} GiB free\nbackends      cpu, ref\n",
      devices["processor"].get<std::string>(), devices["threads"].get<int>(), isas, devices["l2_bytes"].get<double>() / kMiB,
      devices["l3_bytes"].get<double>() / kMiB, devices["memory_bytes"].get<double>() / kGiB,
      devices["free_memory_bytes"].get<double>() / kGiB);
}

}  // namespace

int RunDevices(const Args& args, Streams& streams) {
  CLI::App app("What this machine offers and what of it is used. HAAST_ISA=NAME makes every command use another instruction set.",
               "haast devices");
  bool json = false;
  app.add_flag("--json", json, "print one JSON object");
  app.footer("Exit codes: 0 done, 2 wrong flags or HAAST_ISA.");
  if (const auto code = Parse(app, args, streams.out, streams.err)) return *code;
  const Result<base::Isa> isa = base::KnobIsa();
  if (!isa) return Fail(streams, app, isa.error());
  const Json devices = DevicesJson(*isa);
  streams.out.Write(json ? Dump(devices) : DevicesText(devices));
  return FinishOutput(streams, "devices", kExitOk);
}

}  // namespace haast::cli
