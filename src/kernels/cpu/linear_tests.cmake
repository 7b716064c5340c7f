# Tests and the benchmark of the products; see linear_sources.cmake.
haast_test(kernels_linear_test SOURCES cpu/linear_test.cc DEPS haast_kernels)

# The AVX-512 kernels from the same source through SIMDe, so that their bits are tested on every processor. Emulation is
# slow at any level; -O1 compiles in a third of the time.
find_path(HAAST_SIMDE_INCLUDE simde/x86/avx512.h)
if(HAAST_SIMDE_INCLUDE AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_sources(kernels_linear_test PRIVATE cpu/linear_emulated_avx512.cc cpu/linear_emulated_avx512_vnni.cc)
  target_compile_definitions(kernels_linear_test PRIVATE HAAST_TEST_SIMDE=1)
  set_source_files_properties(cpu/linear_emulated_avx512.cc cpu/linear_emulated_avx512_vnni.cc PROPERTIES COMPILE_OPTIONS
    "-O1;-mavx2;-mfma;-mf16c;-Wno-psabi")
endif()

add_executable(bench_linear cpu/linear_bench.cc)
target_link_libraries(bench_linear PRIVATE haast_kernels)
