# One ctest entry for each golden file that accountable.txt lists.
#
# The files are read from INFERCAST_SHARED_GOLDEN where it exists (it holds more than the repository keeps), else from
# tests/golden. A listed file that is in neither is left out: the repository does not keep all of them.
set(INFERCAST_SHARED_GOLDEN "$ENV{INFERCAST_SHARED_GOLDEN}" CACHE PATH
  "Folder with golden cases; empty: ../shared/golden beside the source, else tests/golden")
set(golden_root "${PROJECT_SOURCE_DIR}/tests/golden")
foreach(candidate "${INFERCAST_SHARED_GOLDEN}" "${PROJECT_SOURCE_DIR}/../shared/golden"
    "${PROJECT_SOURCE_DIR}/../../shared/golden")
  if(candidate AND IS_DIRECTORY "${candidate}/ops")
    cmake_path(ABSOLUTE_PATH candidate NORMALIZE OUTPUT_VARIABLE golden_root)
    break()
  endif()
endforeach()

set(golden_list "${CMAKE_CURRENT_LIST_DIR}/accountable.txt")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${golden_list}")
file(STRINGS "${golden_list}" golden_lines REGEX "^[^#]")
foreach(line IN LISTS golden_lines)
  string(STRIP "${line}" file)
  if(NOT file)
    continue()
  endif()
  set(path "${golden_root}/${file}")
  if(NOT EXISTS "${path}")
    set(path "${PROJECT_SOURCE_DIR}/tests/golden/${file}")
  endif()
  if(EXISTS "${path}")
    string(REGEX REPLACE "\\.(jsonl?)(\\.gz)?$" "" name "${file}")
    add_test(NAME "golden/${name}" COMMAND golden_check "${path}" WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  endif()
endforeach()
