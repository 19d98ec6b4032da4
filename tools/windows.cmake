# index-document and the server for Windows, and the programs that read documents for them. Included by
# CMakeLists.txt. Mails, lectern-doctor and lectern-evaluate are missing (tools/packaging/windows/README.md
# says why).
pkg_check_modules(GUMBO REQUIRED IMPORTED_TARGET gumbo)
pkg_check_modules(FRIBIDI REQUIRED IMPORTED_TARGET fribidi)
pkg_check_modules(UCHARDET REQUIRED IMPORTED_TARGET uchardet)
add_library(lectern_ingest STATIC
  ${ingest_files}
  find_program_windows.cc
  ingest/charset_converter_windows.cc
  ingest/limited_child_windows.cc)
target_link_libraries(lectern_ingest PUBLIC lectern_model PRIVATE PkgConfig::FRIBIDI PkgConfig::GUMBO PkgConfig::UCHARDET
  PkgConfig::UTF8PROC)

# They lie beside the programs that start them. Poppler's own classes stand for poppler-glib.
pkg_check_modules(LIBARCHIVE REQUIRED IMPORTED_TARGET GLOBAL libarchive)
pkg_check_modules(LIBXML2 REQUIRED IMPORTED_TARGET libxml-2.0)
pkg_check_modules(GMIME REQUIRED IMPORTED_TARGET gmime-3.0)
pkg_check_modules(POPPLER REQUIRED IMPORTED_TARGET poppler)
find_package(nlohmann_json REQUIRED)
add_library(lectern_extraction STATIC ${extraction_files} ingest/extract/mail.cc)
target_link_libraries(lectern_extraction PUBLIC lectern_ingest PRIVATE PkgConfig::GMIME PkgConfig::LIBARCHIVE
  PkgConfig::LIBXML2 nlohmann_json::nlohmann_json)
target_compile_options(lectern_extraction PRIVATE $<$<CONFIG:Release>:-O2>)
add_executable(lectern-extract ingest/extract/lectern_extract.cc system_start_windows.cc)
target_link_libraries(lectern-extract PRIVATE lectern_extraction)
add_executable(lectern-pdf-structure ingest/extract/lectern_pdf_structure_core.cc system_start_windows.cc)
target_link_libraries(lectern-pdf-structure PRIVATE lectern_ingest PkgConfig::POPPLER)

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
add_dependencies(index-document lectern-extract lectern-pdf-structure)  # runs them
target_compile_options(index-document PRIVATE $<$<CONFIG:Release>:-O1>)

add_subdirectory(server)
