# Tests and the benchmark of the products; see linear_sources.cmake.
