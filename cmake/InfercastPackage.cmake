# libinfercast.so, and what `cmake --install` puts where: headers, library, CMake package, program.
#
# The library exports nothing but the public interface. Where Arrow comes from a pyarrow wheel, the copies that FindArrowWheel
# makes go beside it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(TARGET Infercast::Arrow AND NOT ArrowWheel_BUNDLED)
  return() # FindArrowWheel has said why
endif()
if(INFERCAST_SANITIZE)
  return() # sanitizers are for programs of this tree
endif()

set(infercast_bundled ${ArrowWheel_BUNDLED})
set(infercast_exports "${CMAKE_CURRENT_LIST_DIR}/libinfercast.map")
add_library(infercast_shared SHARED $<TARGET_OBJECTS:infercast_api>)
add_library(infercast::infercast ALIAS infercast_shared)
target_link_libraries(infercast_shared PRIVATE infercast_api)
target_include_directories(infercast_shared INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(infercast_shared INTERFACE cxx_std_23)
target_link_options(infercast_shared PRIVATE "LINKER:--version-script=${infercast_exports}" "LINKER:--no-undefined")
set_target_properties(infercast_shared PROPERTIES
  OUTPUT_NAME infercast EXPORT_NAME infercast VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib" LINK_DEPENDS "${infercast_exports}"
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
set_target_properties(infercast PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

install(TARGETS infercast_shared EXPORT infercast-targets COMPONENT library)
install(TARGETS infercast COMPONENT program)
install(FILES ${infercast_bundled} DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT library)
set(infercast_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/infercast")
install(EXPORT infercast-targets NAMESPACE infercast:: DESTINATION "${infercast_package_dir}" COMPONENT library)
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/infercast-config.cmake.in"
  "${PROJECT_BINARY_DIR}/infercast-config.cmake"
  INSTALL_DESTINATION "${infercast_package_dir}" PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/infercast-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/infercast-config.cmake" "${PROJECT_BINARY_DIR}/infercast-config-version.cmake"
  DESTINATION "${infercast_package_dir}" COMPONENT library)
