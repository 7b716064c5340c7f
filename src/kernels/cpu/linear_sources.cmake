# Products of the cpu backends, for src/kernels/CMakeLists.txt:
#   include(cpu/linear_sources.cmake)   before haast_library(haast_kernels ... ${HAAST_LINEAR_SOURCES})
#   include(cpu/linear_tests.cmake)     after it
# Each instruction set is one file with its own flags; nothing else may be compiled with them.
set(HAAST_LINEAR_SOURCES
  workspace.cc
  cpu/linear.cc
  cpu/linear_portable.cc
  cpu/linear_avx2.cc
  cpu/linear_avx512.cc
  cpu/linear_avx512_vnni.cc
  cpu/pack.cc)

set(HAAST_AVX512_FLAGS -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c -mprefer-vector-width=512)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(cpu/linear_avx2.cc PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
  set_source_files_properties(cpu/linear_avx512.cc PROPERTIES COMPILE_OPTIONS "${HAAST_AVX512_FLAGS}")
  set_source_files_properties(cpu/linear_avx512_vnni.cc PROPERTIES COMPILE_OPTIONS "${HAAST_AVX512_FLAGS};-mavx512vnni")
endif()
