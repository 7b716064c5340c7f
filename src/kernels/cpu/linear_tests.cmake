# Tests and the benchmark of the products; see linear_sources.cmake.
haast_test(kernels_linear_test SOURCES cpu/linear_test.cc DEPS haast_kernels)

add_executable(bench_linear cpu/linear_bench.cc)
target_link_libraries(bench_linear PRIVATE haast_kernels)
