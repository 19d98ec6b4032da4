# The tests that run on Windows or Wine; WINDOWS.md lists the others. Included by CMakeLists.txt.
find_package(hwy REQUIRED CONFIG)
find_package(SQLite3 REQUIRED)
find_package(OpenMP REQUIRED)
function(in_folder folder list)
  list(TRANSFORM ${list} PREPEND ${folder}/)
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()

set(kernels attention_test.cc backend_test.cc centroid_scores_test.cc convert_test.cc glu_test.cc
  hadamard_test.cc matmul_test.cc packed_matmul_test.cc packed_planes_test.cc packed_rows_test.cc
  quant_blocks_test.cc rms_norm_test.cc rope_test.cc sign_logits_test.cc softcap_test.cc types_test.cc)
in_folder(kernels kernels)
lectern_test(NAME kernels_test SOURCES ${kernels} LIBS lectern_kernels hwy::hwy OPTIMIZED)
target_compile_definitions(kernels_test PRIVATE HWY_WANT_AVX3_DL)  # as lectern_kernels
lectern_test(NAME kernels_thread_pool_test SOURCES kernels/thread_pool_test.cc LIBS lectern_kernels)

set(store bundle_test.cc crc32c_test.cc env_windows_test.cc format_test.cc message_test.cc
  shard_reader_test.cc shard_writer_test.cc status_test.cc store_directory_test.cc)
in_folder(store store)
lectern_test(NAME store_test SOURCES ${store} LIBS lectern_store)
add_library(simulated_disk STATIC store/simulated_disk.cc)
target_link_libraries(simulated_disk PUBLIC lectern_store SQLite::SQLite3)
lectern_test(NAME store_damage_test SOURCES store/damage_test.cc LIBS simulated_disk)
lectern_test(NAME store_catalog_test SOURCES store/catalog_names_test.cc
  LIBS lectern_store SQLite::SQLite3)
lectern_test(NAME store_system_calls_test
  SOURCES store/failing_calls_windows.cc store/system_calls_test.cc LIBS lectern_store)
lectern_test(NAME store_processes_test
  SOURCES store/processes_test.cc store/worker_processes_windows.cc LIBS lectern_store)

set(index assign_plan_test.cc budget_plan_test.cc build_test.cc calibrate_test.cc kmeans_test.cc
  policies_test.cc query_metric_test.cc retention_test.cc row_codes_test.cc window_attention_test.cc)
in_folder(index index)
lectern_test(NAME index_test SOURCES ${index} LIBS lectern_index OpenMP::OpenMP_CXX)

add_subdirectory(engine)
set(lookup head_index_test.cc lookup_formula_test.cc lookup_rules_test.cc lookup_test.cc
  shared_lookup_test.cc)
in_folder(index lookup)
lectern_test(NAME index_lookup_test SOURCES ${lookup} LIBS engine_test_support OPTIMIZED)

set(ingest html_text_test.cc ingest_test.cc limited_child_windows_test.cc)
in_folder(tools ingest)
lectern_test(NAME ingest_test SOURCES ${ingest} LIBS lectern_ingest)
add_executable(limited_child_program tools/limited_child_program.cc)
add_dependencies(ingest_test limited_child_program)
set(extract extract_mail_test.cc extract_markup_test.cc extract_office_test.cc extract_test.cc
  extract_text_test.cc)
in_folder(tools extract)
lectern_test(NAME extract_test SOURCES ${extract} LIBS lectern_extraction PkgConfig::LIBARCHIVE)
target_compile_definitions(extract_test PRIVATE LECTERN_EXTRACT="$<TARGET_FILE:lectern-extract>")
add_dependencies(extract_test lectern-extract)
set(server access_rules_test.cc chunked_body_test.cc fetched_documents_test.cc request_head_test.cc)
in_folder(tools server)
lectern_test(NAME request_head_test SOURCES ${server} LIBS lectern_server)
lectern_test(NAME messages_test SOURCES tools/messages_test.cc LIBS lectern_server)
lectern_test(NAME options_test SOURCES tools/options_test.cc LIBS lectern_server)
lectern_test(NAME file_kind_test SOURCES tools/file_kind_test.cc LIBS lectern_ingest)
find_library(iconv_library iconv REQUIRED)  # that of dependencies.sh, by Windows' tables
find_path(iconv_headers iconv.h REQUIRED)
lectern_test(NAME text_encoding_test SOURCES tools/text_encoding_test.cc LIBS lectern_ingest ${iconv_library})
target_include_directories(text_encoding_test PRIVATE ${iconv_headers})
lectern_test(NAME pdf_layout_test SOURCES tools/pdf_layout_test.cc tools/pdf_sections_test.cc LIBS lectern_ingest)
target_compile_definitions(pdf_layout_test PRIVATE
  PDF_BOXES="${CMAKE_CURRENT_SOURCE_DIR}/tools/pdf_boxes")

# Prints a file's text, to compare many files with the same program on Linux.
add_executable(ingested_text evaluation/ingested_text.cc)
target_link_libraries(ingested_text PRIVATE lectern_ingest)
set_target_properties(ingested_text PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tools)
add_dependencies(ingested_text lectern-extract lectern-pdf-structure)

# index-document as it is, but for the calls that fail.
add_executable(failing_index_document $<TARGET_OBJECTS:index-document> store/failing_calls_windows.cc)
target_link_libraries(failing_index_document PRIVATE lectern_tools lectern_ingest)
lectern_test(NAME index_system_calls_test
  SOURCES tools/index_system_calls_test.cc tools/planned_program_windows.cc store/failing_calls_windows.cc
  LIBS lectern_store)
target_compile_definitions(index_system_calls_test PRIVATE
  LECTERN_FAILING_PROGRAM="$<TARGET_FILE:failing_index_document>")
add_dependencies(index_system_calls_test failing_index_document)
