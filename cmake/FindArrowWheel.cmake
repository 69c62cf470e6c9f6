# Finds Apache Arrow C++ and Parquet and offers them as the target Infercast::Parquet.
#
# An Arrow with CMake files of its own is taken first. Otherwise the headers and shared libraries inside an unpacked
# pyarrow wheel serve: the wheel carries the whole C++ library but no CMake files. Its folder is INFERCAST_PYARROW_ROOT, or
# pyarrow in the private environment that tools/bootstrap.sh makes in the user's cache directory.
#
# Of a wheel's libraries copies are linked, under names of their own: another version of pyarrow in a process that has loaded
# Infercast then cannot be taken for ours. The OpenSSL, libcurl, simdjson and so on inside them are hidden in the copies, so
# that neither the linker nor the dynamic linker takes them for those of the system. ArrowWheel_BUNDLED lists the copies.

include(FindPackageHandleStandardArgs)

if(TARGET Infercast::Parquet)
  set(ArrowWheel_FOUND TRUE)
  return()
endif()

if(NOT INFERCAST_PYARROW_ROOT)
  find_package(Arrow QUIET CONFIG)
  if(Arrow_FOUND)
    find_package(Parquet QUIET CONFIG)
  endif()
  if(Arrow_FOUND AND Parquet_FOUND)
    add_library(Infercast::Parquet INTERFACE IMPORTED)
    if(TARGET Parquet::parquet_shared)
      target_link_libraries(Infercast::Parquet INTERFACE Parquet::parquet_shared Arrow::arrow_shared)
    else()
      target_link_libraries(Infercast::Parquet INTERFACE Parquet::parquet_static Arrow::arrow_static)
    endif()
    find_package_handle_standard_args(ArrowWheel REQUIRED_VARS Arrow_DIR VERSION_VAR Arrow_VERSION)
    return()
  endif()
endif()

set(_arrow_root "${INFERCAST_PYARROW_ROOT}")
if(NOT _arrow_root)
  if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(_arrow_cache "$ENV{XDG_CACHE_HOME}")
  else()
    set(_arrow_cache "$ENV{HOME}/.cache")
  endif()
  file(GLOB _arrow_candidates "${_arrow_cache}/infercast/venv/lib/python3*/site-packages/pyarrow")
  if(_arrow_candidates)
    list(GET _arrow_candidates 0 _arrow_root)
  endif()
endif()

set(ArrowWheel_INCLUDE_DIR "")
set(ArrowWheel_LIBRARY "")
set(ArrowWheel_PARQUET_LIBRARY "")
if(_arrow_root)
  if(EXISTS "${_arrow_root}/include/parquet/arrow/reader.h")
    set(ArrowWheel_INCLUDE_DIR "${_arrow_root}/include")
  endif()
  # The wheel names its libraries with the version only: libarrow.so.2600, no plain libarrow.so.
  file(GLOB _arrow_lib "${_arrow_root}/libarrow.so.[0-9]*")
  file(GLOB _parquet_lib "${_arrow_root}/libparquet.so.[0-9]*")
  if(_arrow_lib AND _parquet_lib)
    list(GET _arrow_lib 0 ArrowWheel_LIBRARY)
    list(GET _parquet_lib 0 ArrowWheel_PARQUET_LIBRARY)
  endif()
endif()

find_package_handle_standard_args(ArrowWheel
  REQUIRED_VARS ArrowWheel_LIBRARY ArrowWheel_PARQUET_LIBRARY ArrowWheel_INCLUDE_DIR
  REASON_FAILURE_MESSAGE
  "Apache Arrow is needed: run ./infercast once (it makes a private environment), or give -DINFERCAST_PYARROW_ROOT=<folder of pyarrow>")

set(ArrowWheel_BUNDLED "")
if(ArrowWheel_FOUND)
  find_program(INFERCAST_PATCHELF patchelf)
  find_package(Python3 COMPONENTS Interpreter QUIET)
  if(INFERCAST_PATCHELF AND Python3_FOUND)
    set(_arrow_tool "${CMAKE_CURRENT_LIST_DIR}/../tools/isolate_library.py")
    cmake_path(GET ArrowWheel_LIBRARY FILENAME _arrow)
    cmake_path(GET ArrowWheel_PARQUET_LIBRARY FILENAME _parquet)
    string(REPLACE "libarrow" "libinfercast_arrow" _own_arrow "${_arrow}")
    string(REPLACE "libparquet" "libinfercast_parquet" _own_parquet "${_parquet}")
    # One change a call: patchelf 0.14 leaves a broken file when it makes several at once.
    function(_arrow_copy original own)
      set(copy "${PROJECT_BINARY_DIR}/lib/${own}")
      if(NOT EXISTS "${copy}" OR "${original}" IS_NEWER_THAN "${copy}" OR "${_arrow_tool}" IS_NEWER_THAN "${copy}"
         OR "${CMAKE_CURRENT_FUNCTION_LIST_FILE}" IS_NEWER_THAN "${copy}")
        message(STATUS "Making ${own} of ${original}")
        file(COPY_FILE "${original}" "${copy}.new")
        file(CHMOD "${copy}.new" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
        foreach(change IN ITEMS "--replace-needed;${_arrow};${_own_arrow}" "--set-soname;${own}" "--set-rpath;$ORIGIN")
          execute_process(COMMAND "${INFERCAST_PATCHELF}" ${change} "${copy}.new" COMMAND_ERROR_IS_FATAL ANY)
        endforeach()
        execute_process(COMMAND "${Python3_EXECUTABLE}" "${_arrow_tool}" "${copy}.new"
          --keep "^_Z.*(5arrow|7parquet)" --needed-by "${ArrowWheel_PARQUET_LIBRARY}" COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
        file(RENAME "${copy}.new" "${copy}")
      endif()
    endfunction()
    file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
    _arrow_copy("${ArrowWheel_LIBRARY}" "${_own_arrow}")
    _arrow_copy("${ArrowWheel_PARQUET_LIBRARY}" "${_own_parquet}")
    set(ArrowWheel_LIBRARY "${PROJECT_BINARY_DIR}/lib/${_own_arrow}")
    set(ArrowWheel_PARQUET_LIBRARY "${PROJECT_BINARY_DIR}/lib/${_own_parquet}")
    set(ArrowWheel_BUNDLED "${ArrowWheel_LIBRARY}" "${ArrowWheel_PARQUET_LIBRARY}")
  else()
    message(STATUS "patchelf or python3 is not there: the original Arrow libraries are linked, nothing can be installed")
  endif()
  add_library(Infercast::Arrow SHARED IMPORTED)
  set_target_properties(Infercast::Arrow PROPERTIES IMPORTED_LOCATION "${ArrowWheel_LIBRARY}")
  target_include_directories(Infercast::Arrow SYSTEM INTERFACE "${ArrowWheel_INCLUDE_DIR}")
  add_library(Infercast::Parquet SHARED IMPORTED)
  set_target_properties(Infercast::Parquet PROPERTIES IMPORTED_LOCATION "${ArrowWheel_PARQUET_LIBRARY}")
  target_include_directories(Infercast::Parquet SYSTEM INTERFACE "${ArrowWheel_INCLUDE_DIR}")
  target_link_libraries(Infercast::Parquet INTERFACE Infercast::Arrow)
endif()
