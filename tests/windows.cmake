# The tests that run on Windows or Wine; WINDOWS.md lists the others. Included by CMakeLists.txt.
find_package(hwy REQUIRED CONFIG)
find_package(SQLite3 REQUIRED)
find_package(OpenMP REQUIRED)
function(in_folder folder list)
  list(TRANSFORM ${list} PREPEND ${folder}/)
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()

set(kernels attention_test.cc centroid_scores_test.cc convert_test.cc glu_test.cc
  hadamard_test.cc matmul_test.cc packed_matmul_test.cc packed_planes_test.cc packed_rows_test.cc
  quant_blocks_test.cc rms_norm_test.cc rope_test.cc sign_logits_test.cc softcap_test.cc types_test.cc)
in_folder(kernels kernels)
lectern_test(NAME kernels_test SOURCES ${kernels} LIBS lectern_kernels hwy::hwy OPTIMIZED)
target_compile_definitions(kernels_test PRIVATE HWY_WANT_AVX3_DL)  # as lectern_kernels

set(store bundle_test.cc crc32c_test.cc env_windows_test.cc format_test.cc message_test.cc
  shard_writer_test.cc)
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

set(model model/tokenizer/added_tokens_test.cc model/tokenizer/bpe_tokenizer_test.cc
  model/template/chat_template_test.cc model/weights/config_test.cc
  model/tokenizer/control_tokens_test.cc model/formats/gguf_test.cc model/template/jinja_test.cc
  model/formats/json_test.cc model/tokenizer/pre_tokenizer_test.cc model/formats/safetensors_test.cc
  model/template/sampled_tokens_test.cc forward/output_head_test.cc forward/sampler_test.cc
  model/tokenizer/text_rules_test.cc model/formats/text_test.cc model/tokenizer/tokenizer_test.cc
  model/weights/weights_test.cc)
in_folder(engine model)
lectern_test(NAME model_test SOURCES ${model} LIBS lectern_model)

lectern_test(NAME ingest_test SOURCES tools/html_text_test.cc tools/limited_child_windows_test.cc
  LIBS lectern_ingest)
add_executable(limited_child_program tools/limited_child_program.cc)
add_dependencies(ingest_test limited_child_program)
lectern_test(NAME file_kind_test SOURCES tools/file_kind_test.cc LIBS lectern_ingest)
lectern_test(NAME pdf_layout_test SOURCES tools/pdf_layout_test.cc LIBS lectern_ingest)
target_compile_definitions(pdf_layout_test PRIVATE
  PDF_BOXES="${CMAKE_CURRENT_SOURCE_DIR}/tools/pdf_boxes")
