# Compiler options that hold for every target of the project.
#
# Forecasts are reproducible to the last bit only when the compiler may not fuse multiply and add, hence
# -ffp-contract=off.

add_compile_options(-Wall -Wextra -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of overlapping copies in std::string that cannot happen.
  add_compile_options(-Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # std::stable_sort of GCC 12's library calls a function of its own that it marks as deprecated.
  add_compile_options(-Wno-deprecated-declarations)
endif()
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
    message(FATAL_ERROR "INFERCAST_FUZZ needs Clang (preset asan); the compiler is ${CMAKE_CXX_COMPILER_ID}")
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

# Libraries that a program turns out not to call are not loaded with it: it starts sooner.
add_link_options(-Wl,--as-needed)
