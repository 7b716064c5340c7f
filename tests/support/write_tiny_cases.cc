// write_tiny_cases DIR: the folders of TinyLlamaCases() under DIR, each with ids.txt, for scripts/make_tiny_goldens.py.
#include <cstdio>
#include <fstream>

#include "support/tiny_cases.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_tiny_cases DIR\n");
    return 2;
  }
  for (const haast::testing::TinyCase& tiny : haast::testing::TinyLlamaCases()) {
    const std::string folder = haast::testing::WriteTinyFolder(tiny.llama, std::string(argv[1]) + "/" + tiny.name);
    std::ofstream ids(folder + "/ids.txt");
    for (int32_t id : haast::testing::TinyCaseIds(tiny.llama)) ids << id << '\n';
    std::printf("%s\n", folder.c_str());
  }
  // An EAGLE-1 head of two layers beside its target.
  const haast::testing::TinyCase tiny = haast::testing::TinyLlamaCases().front();
  std::printf("%s\n", WriteTinyEagle1(tiny.llama, 2, /*echo=*/false, std::string(argv[1]) + "/eagle1_head").c_str());
  return 0;
}
