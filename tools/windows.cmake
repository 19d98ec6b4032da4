# index-document and the server for Windows, which read text and Markdown. Included by CMakeLists.txt. The
# other readers, lectern-doctor and lectern-evaluate are not built there
# (tools/packaging/windows/README.md says why).
pkg_check_modules(GUMBO REQUIRED IMPORTED_TARGET gumbo)
pkg_check_modules(FRIBIDI REQUIRED IMPORTED_TARGET fribidi)
pkg_check_modules(UCHARDET REQUIRED IMPORTED_TARGET uchardet)
add_library(lectern_ingest STATIC
  find_program_windows.cc
  ingest/charset_conversion.cc
  ingest/charset_converter_windows.cc
  ingest/alt_text.cc
  ingest/bbox_text.cc
  ingest/column_order.cc
  ingest/document_text.cc
  ingest/encoding_guess.cc
  ingest/file_kind.cc
  ingest/html.cc
  ingest/html_charset.cc
  ingest/html_elements.cc
  ingest/html_math.cc
  ingest/html_text.cc
  ingest/hyphens.cc
  ingest/ingest.cc
  ingest/letter_forms.cc
  ingest/limited_child_windows.cc
  ingest/line_markers.cc
  ingest/linear_math.cc
  ingest/list_numbers.cc
  ingest/monospaced_text.cc
  ingest/outline_headings.cc
  ingest/package_format.cc
  ingest/page_layout.cc
  ingest/pdf.cc
  ingest/pdf_note.cc
  ingest/pdf_structure.cc
  ingest/readers_windows.cc
  ingest/recurring_lines.cc
  ingest/table_columns.cc
  ingest/table_layout.cc
  ingest/table_rows.cc
  ingest/text_encoding.cc
  ingest/text_plausibility.cc
  ingest/visual_order.cc)
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
