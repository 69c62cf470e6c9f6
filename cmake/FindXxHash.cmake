# Finds xxHash as the target Infercast::XxHash (Debian ships it without CMake files).
include(FindPackageHandleStandardArgs)
find_path(XxHash_INCLUDE_DIR xxhash.h)
find_library(XxHash_LIBRARY xxhash)
find_package_handle_standard_args(XxHash REQUIRED_VARS XxHash_LIBRARY XxHash_INCLUDE_DIR)
if(XxHash_FOUND AND NOT TARGET Infercast::XxHash)
  add_library(Infercast::XxHash UNKNOWN IMPORTED)
  set_target_properties(Infercast::XxHash PROPERTIES IMPORTED_LOCATION "${XxHash_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${XxHash_INCLUDE_DIR}")
endif()
