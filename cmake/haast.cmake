# Compiler settings and the two functions every folder uses: haast_library and haast_test.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(HAAST_WERROR "Treat warnings as errors" ON)
option(HAAST_CHECKED "Poison reusable buffers and check page ownership at every launch" OFF)
set(HAAST_SANITIZE "" CACHE STRING "Sanitizers, for example 'address,undefined' or 'thread'")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(tl-expected REQUIRED)

add_library(haast_options INTERFACE)
target_include_directories(haast_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
# Exactness: a product and a sum are fused only where an intrinsic says so (docs/exactness.md).
target_compile_options(haast_options INTERFACE -Wall -Wextra -ffp-contract=off)
if(HAAST_WERROR)
  target_compile_options(haast_options INTERFACE -Werror)
endif()
if(HAAST_CHECKED)
  target_compile_definitions(haast_options INTERFACE HAAST_CHECKED=1)
endif()
if(HAAST_SANITIZE)
  target_compile_options(haast_options INTERFACE -fsanitize=${HAAST_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(haast_options INTERFACE -fsanitize=${HAAST_SANITIZE})
endif()
target_link_libraries(haast_options INTERFACE fmt::fmt-header-only tl::expected Threads::Threads)

# haast_library(NAME SOURCES a.cc b.cc DEPS haast_base ...): one static library a folder of src.
function(haast_library NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${NAME} STATIC ${ARG_SOURCES})
  target_link_libraries(${NAME} PUBLIC haast_options ${ARG_DEPS})
endfunction()

enable_testing()
find_package(GTest REQUIRED)

# haast_test(NAME SOURCES a_test.cc DEPS haast_core ... [LABELS slow]): one test binary, run by ctest.
function(haast_test NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE haast_options ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${NAME} COMMAND ${NAME} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(ARG_LABELS)
    set_tests_properties(${NAME} PROPERTIES LABELS "${ARG_LABELS}")
  endif()
endfunction()
