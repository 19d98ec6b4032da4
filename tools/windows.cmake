# index-document and the server for Windows, which read text, web pages and PDFs. Included by CMakeLists.txt.
# The other readers, lectern-doctor and lectern-evaluate are not built there
# (tools/packaging/windows/README.md says why).
pkg_check_modules(GUMBO REQUIRED IMPORTED_TARGET gumbo)
pkg_check_modules(FRIBIDI REQUIRED IMPORTED_TARGET fribidi)
pkg_check_modules(UCHARDET REQUIRED IMPORTED_TARGET uchardet)
add_library(lectern_ingest STATIC
  ${ingest_files}
  find_program_windows.cc
  ingest/charset_converter_windows.cc
  ingest/limited_child_windows.cc
  ingest/readers_windows.cc)
target_link_libraries(lectern_ingest PUBLIC lectern_model PRIVATE PkgConfig::FRIBIDI PkgConfig::GUMBO PkgConfig::UCHARDET
  PkgConfig::UTF8PROC)
add_executable(index-document
  collection_batch.cc
  file_list.cc
  file_state_windows.cc
  folder_names.cc
  folder_watch_windows.cc
  index_document.cc
  index_folder.cc
  index_report.cc)
target_link_libraries(index-document PRIVATE lectern_ingest lectern_tools)
target_compile_options(index-document PRIVATE $<$<CONFIG:Release>:-O1>)

add_subdirectory(server)
