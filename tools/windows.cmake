# index-document for Windows, which reads text and Markdown. Included by CMakeLists.txt. The server, the
# other readers, lectern-doctor and lectern-evaluate are not built there
# (tools/packaging/windows/README.md says why).
pkg_check_modules(UCHARDET REQUIRED IMPORTED_TARGET uchardet)
add_library(lectern_ingest STATIC
  ingest/charset_conversion.cc
  ingest/charset_converter_windows.cc
  ingest/encoding_guess.cc
  ingest/file_kind.cc
  ingest/ingest.cc
  ingest/package_format.cc
  ingest/pdf_note.cc
  ingest/readers_windows.cc
  ingest/text_encoding.cc
  ingest/text_plausibility.cc)
target_link_libraries(lectern_ingest PUBLIC lectern_model PRIVATE PkgConfig::UCHARDET
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
