# Finds libzip as the target Infercast::Zip. Its own CMake files also demand the zipcmp, zipmerge and ziptool programs,
# which Debian packages apart and nobody here needs; so the header and the library are looked up directly.
include(FindPackageHandleStandardArgs)
find_path(LibZip_INCLUDE_DIR zip.h)
find_library(LibZip_LIBRARY zip)
find_package_handle_standard_args(LibZip REQUIRED_VARS LibZip_LIBRARY LibZip_INCLUDE_DIR)
if(LibZip_FOUND AND NOT TARGET Infercast::Zip)
  add_library(Infercast::Zip UNKNOWN IMPORTED)
  set_target_properties(Infercast::Zip PROPERTIES IMPORTED_LOCATION "${LibZip_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${LibZip_INCLUDE_DIR}")
endif()
