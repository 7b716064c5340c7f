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
  cpu/linear_neon_dot.cc
  cpu/linear_neon_i8mm.cc
  cpu/pack.cc)

# UBSan takes minutes on these files, whose every function is inlined into every kernel; address and thread checks stay on.
set(HAAST_LINEAR_SANITIZE)
if(HAAST_SANITIZE MATCHES "undefined")
  set(HAAST_LINEAR_SANITIZE ";-fno-sanitize=undefined")
endif()

set(HAAST_AVX512_FLAGS -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c -mprefer-vector-width=512)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(cpu/linear_avx2.cc PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c${HAAST_LINEAR_SANITIZE}")
  set_source_files_properties(cpu/linear_avx512.cc PROPERTIES COMPILE_OPTIONS "${HAAST_AVX512_FLAGS}${HAAST_LINEAR_SANITIZE}")
  set_source_files_properties(cpu/linear_avx512_vnni.cc PROPERTIES COMPILE_OPTIONS "${HAAST_AVX512_FLAGS};-mavx512vnni${HAAST_LINEAR_SANITIZE}")
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
  set_source_files_properties(cpu/linear_neon_dot.cc PROPERTIES COMPILE_OPTIONS "-march=armv8.2-a+dotprod${HAAST_LINEAR_SANITIZE}")
  set_source_files_properties(cpu/linear_neon_i8mm.cc PROPERTIES COMPILE_OPTIONS "-march=armv8.2-a+dotprod+i8mm${HAAST_LINEAR_SANITIZE}")
endif()
