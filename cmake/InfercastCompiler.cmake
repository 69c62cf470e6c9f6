# Compiler options that hold for every target of the project.
#
# Forecasts are reproducible to the last bit only when the compiler may not fuse multiply and add, hence
# -ffp-contract=off. -O3 is avoided because GCC 12 reports false -Wrestrict errors with it.

add_compile_options(-Wall -Wextra -ffp-contract=off)
if(INFERCAST_WERROR)
  add_compile_options(-Werror)
endif()

if(INFERCAST_SANITIZE)
  add_compile_options(-fsanitize=${INFERCAST_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${INFERCAST_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Sanitizer instrumentation makes GCC 12 see uninitialised reads in std::variant that are not there.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
endif()
if(INFERCAST_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "INFERCAST_FUZZ needs Clang (preset fuzz); the compiler is ${CMAKE_CXX_COMPILER_ID}")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# ccache when it is there; paths relative to the source root, so that several clones share one cache.
if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(INFERCAST_CCACHE ccache)
  if(INFERCAST_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_BASEDIR=${CMAKE_SOURCE_DIR};CCACHE_NOHASHDIR=1;${INFERCAST_CCACHE}")
  endif()
endif()
