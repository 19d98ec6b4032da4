/* The C API, compiled as C11: handle misuse, struct sizes, error paths, and one document from
 * indexing to removal. Usage: c_api_test MODEL_FOLDER (a small model that the build can run). */
#define _XOPEN_SOURCE 700 /* mkdtemp, realpath */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/lectern_c.h"

static int num_failures = 0;

#define CHECK(claim)                                              \
  do {                                                            \
    if (!(claim)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim); \
      ++num_failures;                                             \
    }                                                             \
  } while (0)

/* A failed call: the code, an error with the same code and a message, and no result. */
#define CHECK_FAILS(expected, call, out, error)                                       \
  do {                                                                                \
    (error) = NULL;                                                                   \
    const lectern_code code_ = (call);                                                \
    if (code_ != (expected)) fprintf(stderr, "  got %s\n", lectern_code_name(code_)); \
    CHECK(code_ == (expected));                                                       \
    CHECK((out) == NULL);                                                             \
    CHECK((error) != NULL && lectern_error_code(error) == code_);                     \
    CHECK((error) != NULL && strlen(lectern_error_message(error, NULL)) > 0);         \
    CHECK(lectern_error_free(error) == LECTERN_OK);                                   \
    (error) = NULL;                                                                   \
  } while (0)

/* A call that has to succeed; says why when it does not. */
#define CHECK_OK(call, error)                                                    \
  do {                                                                           \
    if ((call) != LECTERN_OK) {                                                  \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,              \
              (error) ? lectern_error_message(error, NULL) : "no error object"); \
      ++num_failures;                                                            \
      lectern_error_free(error);                                                 \
      (error) = NULL;                                                            \
    }                                                                            \
  } while (0)

/* A pointer to an object of ours, as a handle of any kind. */
static uint64_t not_a_handle = 0x1234567890ABCDEF;

static lectern_engine* CreateEngine(const char* store, const char* model) {
  lectern_engine_options options = {.struct_size = sizeof options};
  options.store = store;
  options.store_len = strlen(store);
  options.model = model;
  options.model_len = model ? strlen(model) : 0;
  lectern_engine* engine = NULL;
  lectern_error* error = NULL;
  CHECK_OK(lectern_engine_create(&options, &engine, &error), error);
  CHECK(engine != NULL && error == NULL);
  return engine;
}

static void TestCodes(void) {
  CHECK(strcmp(lectern_code_name(LECTERN_OK), "ok") == 0);
  CHECK(strcmp(lectern_code_name(LECTERN_MODEL_MISMATCH), "model_mismatch") == 0);
  CHECK(strcmp(lectern_code_name(12345), "internal") == 0);
  CHECK(strcmp(lectern_code_name(-1), "internal") == 0);
  CHECK(lectern_exit_status(LECTERN_OK) == 0);
  CHECK(lectern_exit_status(LECTERN_INVALID_ARGUMENT) == 2);
  CHECK(lectern_exit_status(LECTERN_NOT_FOUND) == 3);
  CHECK(lectern_exit_status(LECTERN_MODEL_MISMATCH) == 4);
  CHECK(lectern_exit_status(LECTERN_NO_SPACE) == 5);
  CHECK(lectern_exit_status(LECTERN_CORRUPT) == 6);
  CHECK(lectern_exit_status(LECTERN_CANCELLED) == 130);
  CHECK(strcmp(lectern_version(), LECTERN_VERSION) == 0);
  CHECK(lectern_abi_version() == LECTERN_ABI_VERSION);
  const char* const build = lectern_build_info();
  CHECK(lectern_build_info() == build); /* static */
  CHECK(strstr(build, "\"version\":\"" LECTERN_VERSION "\"") && strstr(build, "\"commit\":\""));
  CHECK(strstr(build, "\"faiss\":\"1.") && strstr(build, "\"instruction_sets\":[\""));
}

/* Every function that takes a handle, with one that is none. */
static void CheckIsNoHandle(void* handle) {
  lectern_engine* engine = handle;
  lectern_session* session = handle;
  lectern_answer* answer = handle;
  lectern_index_report* report = handle;
  lectern_error* error = NULL;
  lectern_index_estimate estimate = {.struct_size = sizeof estimate};
  lectern_index_numbers numbers = {.struct_size = sizeof numbers};
  lectern_evidence evidence = {.struct_size = sizeof evidence};
  lectern_receipt receipt = {.struct_size = sizeof receipt};
  lectern_counts counts = {.struct_size = sizeof counts, .step_tokens = 7};
  lectern_asked_document asked = {.struct_size = sizeof asked};
  lectern_session* new_session = (void*)&not_a_handle;
  lectern_answer* new_answer = (void*)&not_a_handle;
  lectern_index_report* new_report = (void*)&not_a_handle;
  lectern_text* text = (void*)&not_a_handle;
  const lectern_code expected = LECTERN_INVALID_HANDLE;
  size_t len = 99;

  CHECK_FAILS(expected, lectern_engine_index(engine, "a", 1, NULL, &new_report, &error), new_report,
              error);
  CHECK_FAILS(expected, lectern_engine_estimate(engine, "a", 1, NULL, &estimate, &error), NULL,
              error);
  CHECK_FAILS(expected, lectern_session_open(engine, "a", 1, &new_session, &error), new_session,
              error);
  CHECK_FAILS(expected, lectern_cite(engine, "a", 1, "b", 1, NULL, NULL, NULL, 0, &text, &error),
              text, error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected, lectern_session_ask(session, "a", 1, NULL, &new_answer, &error), new_answer,
              error);
  CHECK_FAILS(expected, lectern_answer_json(answer, LECTERN_OFFSET_UTF8, &text, &error), text,
              error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected, lectern_engine_list(engine, NULL, NULL, &text, &error), text, error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected, lectern_engine_show(engine, "a", 1, NULL, NULL, NULL, &text, &error), text,
              error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected, lectern_engine_verify(engine, "a", 1, 0, NULL, NULL, &text, &error), text,
              error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected, lectern_engine_collect(engine, NULL, &text, &error), text, error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected, lectern_engine_recover(engine, NULL, NULL, NULL, NULL, &text, &error), text,
              error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected,
              lectern_engine_import(engine, "a", 1, NULL, 0, NULL, NULL, NULL, &text, &error), text,
              error);
  CHECK_FAILS(expected, lectern_engine_export(engine, "a", 1, "b", 1, &error), NULL, error);
  CHECK_FAILS(expected, lectern_engine_seal(engine, &error), NULL, error);
  new_session = (void*)&not_a_handle;
  CHECK_FAILS(expected, lectern_open_collection(engine, "a", 1, &new_session, &error), new_session,
              error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected, lectern_list_collections(engine, NULL, NULL, &text, &error), text, error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected, lectern_collection_documents(engine, "a", 1, NULL, NULL, &text, &error),
              text, error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected, lectern_collection_add(engine, "a", 1, NULL, 0, NULL, NULL, &text, &error),
              text, error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected,
              lectern_collection_add_document(engine, "a", 1, "b", 1, NULL, NULL, &text, &error),
              text, error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected,
              lectern_find_mentions(engine, "a", 1, "b", 1, 0, NULL, NULL, NULL, 0, &text, &error),
              text, error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected,
              lectern_index_collection(engine, "a", 1, NULL, NULL, NULL, NULL, &text, &error), text,
              error);
  CHECK_FAILS(expected, lectern_collection_text(engine, "a", 1, "b", 1, &text, &error), text, error);
  CHECK_FAILS(expected, lectern_collection_remove(engine, "a", 1, "b", 1, &error), NULL, error);
  CHECK_FAILS(expected, lectern_collection_rename_document(engine, "a", 1, "b", 1, "c", 1, &error),
              NULL, error);
  CHECK_FAILS(expected, lectern_remove_collection(engine, "a", 1, &error), NULL, error);
  CHECK_FAILS(expected, lectern_rename_collection(engine, "a", 1, "b", 1, &error), NULL, error);
  CHECK_FAILS(expected, lectern_verify_collection(engine, "a", 1, &error), NULL, error);
  CHECK_FAILS(expected, lectern_engine_plan(engine, "a", 1, NULL, &error), NULL, error);
  CHECK_FAILS(expected, lectern_engine_show_plan(engine, "a", 1, NULL, NULL, &error), NULL, error);
  CHECK_FAILS(expected, lectern_engine_remove(engine, "a", 1, &error), NULL, error);
  text = (void*)&not_a_handle;
  CHECK_FAILS(expected, lectern_engine_remove_named(engine, "a", 1, NULL, &text, &error), text,
              error);
  new_report = (void*)&not_a_handle;
  CHECK_FAILS(expected, lectern_engine_index_file(engine, "a", 1, NULL, &new_report, &error),
              new_report, error);

  CHECK(lectern_engine_cancel(engine) == expected);
  CHECK(lectern_engine_counts(engine, &counts) == expected && counts.step_tokens == 7);
  CHECK(lectern_session_cancel(session) == expected);
  CHECK(lectern_index_report_numbers(report, &numbers) == expected && numbers.tokens == 0);
  CHECK(lectern_answer_evidence(answer, 0, &evidence) == expected && evidence.text == NULL);
  CHECK(lectern_answer_receipt(answer, &receipt) == expected);
  CHECK(lectern_answer_asked_document(answer, 0, &asked) == expected && asked.name == NULL);
  CHECK(lectern_answer_evidence_count(answer) == 0);
  CHECK(lectern_error_code(handle) == expected);

  CHECK(lectern_error_message(handle, &len) == NULL && len == 0);
  CHECK(lectern_error_param(handle, NULL) == NULL);
  CHECK(lectern_error_cli_message(handle, NULL) == NULL);
  CHECK(lectern_text_data(handle, &len) == NULL && len == 0);
  CHECK(lectern_index_report_document(report, &len) == NULL);
  CHECK(lectern_index_report_name(report, &len) == NULL);
  CHECK(lectern_index_report_json(report, &len) == NULL);
  CHECK(lectern_index_report_source(report, &len) == NULL);
  CHECK(lectern_index_report_replaced(report, &len) == NULL);
  CHECK(lectern_index_report_note(report, &len) == NULL);
  CHECK(lectern_index_report_cli_note(report, &len) == NULL);
  CHECK(lectern_session_text(session, &len) == NULL && len == 0);
  CHECK(lectern_answer_text(answer, &len) == NULL);
  CHECK(lectern_answer_finish_reason(answer, &len) == NULL);
  CHECK(lectern_answer_note(answer, &len) == NULL);
  CHECK(lectern_answer_cli_note(answer, &len) == NULL);
  CHECK(lectern_answer_reasoning(answer, &len) == NULL);
  CHECK(lectern_answer_stopped_by(answer, &len) == NULL);

  const lectern_code freed = handle ? LECTERN_INVALID_HANDLE : LECTERN_OK;
  CHECK(lectern_engine_free(handle) == freed);
  CHECK(lectern_session_free(handle) == freed);
  CHECK(lectern_answer_free(handle) == freed);
  CHECK(lectern_index_report_free(handle) == freed);
  CHECK(lectern_text_free(handle) == freed);
  CHECK(lectern_error_free(handle) == freed);
}

static void TestHandleMisuse(const char* store) {
  CheckIsNoHandle(NULL);
  CheckIsNoHandle(&not_a_handle);
  for (uintptr_t number = 1; number < 64; ++number) CheckIsNoHandle((void*)number);
  CheckIsNoHandle((void*)UINTPTR_MAX);

  lectern_engine* engine = CreateEngine(store, NULL);
  CHECK(lectern_session_free((lectern_session*)engine) == LECTERN_INVALID_HANDLE);
  CHECK(lectern_session_cancel((lectern_session*)engine) == LECTERN_INVALID_HANDLE);
  CHECK(lectern_error_message((lectern_error*)engine, NULL) == NULL);
  CHECK(lectern_engine_cancel(engine) == LECTERN_OK);
  CHECK(lectern_engine_free(engine) == LECTERN_OK);
  CheckIsNoHandle(engine);

  /* A new handle in the same place is another handle. */
  lectern_engine* next = CreateEngine(store, NULL);
  CHECK(next != engine);
  CHECK(lectern_engine_free(engine) == LECTERN_INVALID_HANDLE);
  CHECK(lectern_engine_free(next) == LECTERN_OK);
}

static void TestStructSizes(const char* store) {
  struct {
    lectern_engine_options known;
    uint64_t added_later;
  } newer;
  memset(&newer, 0, sizeof newer);
  newer.known.store = store;
  newer.known.store_len = strlen(store);
  lectern_engine* engine = NULL;
  lectern_error* error = NULL;

  const size_t bad[] = {0, 4, sizeof(lectern_engine_options) - 1, 1 << 20};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    newer.known.struct_size = bad[i];
    CHECK(lectern_engine_create(&newer.known, &engine, &error) == LECTERN_INVALID_ARGUMENT);
    CHECK(engine == NULL && strcmp(lectern_error_param(error, NULL), "struct_size") == 0);
    CHECK(lectern_error_free(error) == LECTERN_OK);
  }
  /* An older caller, who knows only the store: what follows is not read. */
  newer.known.struct_size = offsetof(lectern_engine_options, model);
  newer.known.model = (const char*)&not_a_handle;
  newer.known.model_len = SIZE_MAX;
  CHECK_OK(lectern_engine_create(&newer.known, &engine, &error), error);
  CHECK(lectern_engine_free(engine) == LECTERN_OK);
  /* A newer caller, who uses nothing new, and one who does. */
  newer.known.model = NULL;
  newer.known.model_len = 0;
  newer.known.struct_size = sizeof newer;
  CHECK_OK(lectern_engine_create(&newer.known, &engine, &error), error);
  CHECK(lectern_engine_free(engine) == LECTERN_OK);
  newer.added_later = 1;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT, lectern_engine_create(&newer.known, &engine, &error),
              engine, error);
}

static void TestBadArguments(const char* store) {
  lectern_engine* engine = NULL;
  lectern_error* error = NULL;
  lectern_engine_options no_store = {.struct_size = sizeof no_store};
  lectern_engine_options null_store = {.struct_size = sizeof null_store, .store_len = 3};
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT, lectern_engine_create(NULL, &engine, &error), engine,
              error);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT, lectern_engine_create(&no_store, &engine, &error), engine,
              error);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT, lectern_engine_create(&null_store, &engine, &error), engine,
              error);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT, lectern_engine_create(&no_store, NULL, &error), NULL,
              error);
  CHECK(lectern_engine_create(NULL, &engine, NULL) == LECTERN_INVALID_ARGUMENT);

  engine = CreateEngine(store, "/no/such/model");
  lectern_session* session = NULL;
  lectern_index_report* report = NULL;
  lectern_text* text = NULL;
  lectern_index_options options = {.struct_size = sizeof options, .kv_type = 77};
  CHECK_FAILS(LECTERN_NOT_FOUND, lectern_session_open(engine, NULL, 0, &session, &error), session,
              error);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT, lectern_session_open(engine, "", 0, NULL, &error), NULL,
              error);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_engine_index(engine, NULL, 5, NULL, &report, &error), report, error);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_engine_index(engine, "text", 4, &options, &report, &error), report, error);
  lectern_index_options no_keys = {.struct_size = sizeof no_keys, .cluster_keys_len = 6};
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_engine_index(engine, "text", 4, &no_keys, &report, &error), report, error);
  options.kv_type = LECTERN_KV_DEFAULT;
  options.retention_len = 4; /* of NULL */
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_engine_index(engine, "text", 4, &options, &report, &error), report, error);
  lectern_index_options no_pages = {.struct_size = sizeof no_pages, .num_pages = 2};
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_engine_index(engine, "text", 4, &no_pages, &report, &error), report, error);
  const lectern_page beyond = {.text_begin = 0, .page = UINT64_C(1) << 32};
  no_pages.pages = &beyond;
  no_pages.num_pages = 1;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_engine_index(engine, "text", 4, &no_pages, &report, &error), report, error);
  CHECK(lectern_engine_index(engine, "text", 4, NULL, &report, &error) != LECTERN_OK);
  CHECK(report == NULL && error != NULL); /* there is no such model */
  CHECK(lectern_error_free(error) == LECTERN_OK);
  lectern_engine* ollama = CreateEngine(store, "gemma3:4b"); /* and nobody said where these are */
  error = NULL;
  CHECK(lectern_engine_index(ollama, "text", 4, NULL, &report, &error) == LECTERN_NOT_FOUND);
  CHECK(strstr(lectern_error_message(error, NULL), "set ollama_models to") != NULL);
  CHECK(strcmp(lectern_error_param(error, NULL), "model") == 0);
  CHECK(lectern_error_free(error) == LECTERN_OK && lectern_engine_free(ollama) == LECTERN_OK);
  CHECK(lectern_engine_list(engine, NULL, NULL, NULL, NULL) == LECTERN_NOT_FOUND);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT, lectern_index_estimate_json(NULL, &text, &error), text,
              error);
  CHECK(lectern_engine_free(engine) == LECTERN_OK);
}

static void TestJson(void) {
  lectern_text* text = NULL;
  lectern_error* error = NULL;
  const char* const json = "{\"question\":\"Wer?\",\"n\":1}";
  size_t len = 0;
  CHECK_OK(lectern_json_get_string(json, strlen(json), "question", 8, &text, &error), error);
  CHECK(strcmp(lectern_text_data(text, &len), "Wer?") == 0 && len == 4);
  CHECK(lectern_text_free(text) == LECTERN_OK);
  CHECK_FAILS(LECTERN_NOT_FOUND, lectern_json_get_string(json, strlen(json), "a", 1, &text, &error),
              text, error);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_json_get_string(json, strlen(json), "n", 1, &text, &error), text, error);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT, lectern_json_get_string("[1]", 3, "n", 1, &text, &error),
              text, error);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT, lectern_json_get_string("{", 1, "n", 1, &text, &error),
              text, error);
  CHECK_OK(lectern_json_set_string("{\"a\":1}", 7, "b", 1, "\"x\"\n", 4, &text, &error), error);
  CHECK(strcmp(lectern_text_data(text, NULL), "{\"a\":1,\"b\":\"\\\"x\\\"\\n\"}") == 0);
  CHECK(lectern_text_free(text) == LECTERN_OK);
  CHECK_OK(lectern_error_json(LECTERN_LOCKED, "busy", 4, NULL, 0, &text, &error), error);
  CHECK(strstr(lectern_text_data(text, NULL), "\"code\":\"locked\"") != NULL);
  CHECK(strstr(lectern_text_data(text, NULL), "\"retryable\":true") != NULL);
  CHECK(lectern_text_free(text) == LECTERN_OK);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT, lectern_error_json(0, "", 0, "", 0, &text, &error), text,
              error);
}

/* Two threads free the same handle while making and freeing their own: one of them wins. */
static void* FreeShared(void* shared) {
  int num_freed = 0;
  for (int i = 0; i < 2000; ++i) {
    lectern_text* own = NULL;
    CHECK(lectern_error_json(LECTERN_LOCKED, "x", 1, "", 0, &own, NULL) == LECTERN_OK);
    CHECK(lectern_text_data(own, NULL) != NULL);
    if (i == 1000) num_freed += lectern_text_free(shared) == LECTERN_OK;
    CHECK(lectern_text_free(own) == LECTERN_OK);
    CHECK(lectern_text_free(own) == LECTERN_INVALID_HANDLE);
  }
  return num_freed ? shared : NULL;
}

static void TestConcurrentFree(void) {
  lectern_text* shared = NULL;
  CHECK(lectern_error_json(LECTERN_LOCKED, "x", 1, "", 0, &shared, NULL) == LECTERN_OK);
  pthread_t thread;
  void* freed_there = NULL;
  CHECK(pthread_create(&thread, NULL, FreeShared, shared) == 0);
  void* const freed_here = FreeShared(shared);
  CHECK(pthread_join(thread, &freed_there) == 0);
  CHECK((freed_here == NULL) != (freed_there == NULL));
}

/* --- with a model ---------------------------------------------------------------------------- */

static char document[40000];
static const lectern_page pages[] = {{0, 1}, {900, 3}, {5000, 4}};

static void MakeDocument(void) {
  size_t len = 0;
  for (int i = 0; len + 200 < 12000; ++i) {
    len += (size_t)sprintf(document + len, "Clause %d. The tenant of flat %d pays %d euro.\n", i,
                           i * 7 % 31, 100 + i);
  }
  strcpy(document + len, "\xC3\x84nderungen: \xE2\x82\xAC und \xF0\x9F\x8F\xA0.\n");
}

static int32_t CancelAtOnce(const lectern_progress* progress, void* user) {
  CHECK(progress->struct_size >= sizeof *progress && strlen(progress->stage) > 0);
  ++*(int*)user;
  return 1;
}

static void TestIndexing(lectern_engine* engine) {
  lectern_index_report* report = NULL;
  lectern_error* error = NULL;
  int num_calls = 0;
  lectern_index_options options = {.struct_size = sizeof options,
                                   .name = "lease",
                                   .name_len = 5,
                                   .cluster_keys = "stored",
                                   .cluster_keys_len = 6,
                                   .pages = pages,
                                   .num_pages = sizeof pages / sizeof *pages,
                                   .page_labels = "i\n\n\n",
                                   .page_labels_len = 4};
  CHECK_FAILS(LECTERN_EMPTY_DOCUMENT, lectern_engine_index(engine, NULL, 0, NULL, &report, &error),
              report, error);
  options.on_progress = CancelAtOnce;
  options.progress_user = &num_calls;
  CHECK_FAILS(LECTERN_CANCELLED,
              lectern_engine_index(engine, document, strlen(document), &options, &report, &error),
              report, error);
  CHECK(num_calls > 0);

  lectern_index_estimate estimate = {.struct_size = sizeof estimate};
  options.on_progress = NULL;
  options.keep = 0.5;
  options.retention = "cone";
  options.retention_len = 4;
  CHECK(lectern_engine_estimate(engine, document, strlen(document), &options, &estimate, &error) ==
        LECTERN_INVALID_ARGUMENT);
  CHECK(strcmp(lectern_error_param(error, NULL), "retention") == 0);
  CHECK(strstr(lectern_error_message(error, NULL), "kv-compress, pyramid") != NULL);
  CHECK(lectern_error_free(error) == LECTERN_OK);
  error = NULL;
  options.keep = 0;
  options.retention = NULL;
  options.retention_len = 0;
  CHECK_OK(lectern_engine_estimate(engine, document, strlen(document), &options, &estimate, &error),
           error);
  CHECK(estimate.tokens > 0 && estimate.existed == 0);
  lectern_text* json = NULL;
  CHECK_OK(lectern_index_estimate_json(&estimate, &json, &error), error);
  CHECK(strstr(lectern_text_data(json, NULL), "\"peak_bytes_on_disk\":") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK);

  uint64_t generation = 0;
  for (int run = 0; run < 3; ++run) { /* index, do nothing, index anew */
    lectern_index_numbers numbers = {.struct_size = sizeof numbers};
    options.again = run == 2;
    CHECK_OK(lectern_engine_index(engine, document, strlen(document), &options, &report, &error),
             error);
    CHECK(lectern_index_report_numbers(report, &numbers) == LECTERN_OK);
    CHECK(numbers.tokens > 0 && numbers.existed == (run == 1));
    CHECK(run == 1 ? numbers.generation == generation : numbers.generation > generation);
    generation = numbers.generation;
    size_t len = 0;
    CHECK(lectern_index_report_document(report, &len) != NULL && len == 32);
    CHECK(strcmp(lectern_index_report_name(report, NULL), "lease") == 0);
    CHECK(strstr(lectern_index_report_note(report, NULL), "as plain text") != NULL);
    CHECK(strstr(lectern_index_report_json(report, NULL), "\"levels\":[") != NULL);
    CHECK(lectern_index_report_free(report) == LECTERN_OK);
    CHECK(lectern_index_report_free(report) == LECTERN_INVALID_HANDLE);
  }
}

/* The argument of the text callback. */
typedef struct {
  lectern_session* session;
  int num_pieces;
  int stop_after; /* 0: never */
} asking;

static int32_t OnText(const char* text, size_t len, void* user) {
  asking* a = user;
  CHECK(text[len] == '\0');
  if (a->num_pieces++ == 0) { /* the session is busy, and says so instead of waiting for itself */
    lectern_answer* answer = NULL;
    CHECK(lectern_session_ask(a->session, "again?", 6, NULL, &answer, NULL) == LECTERN_LOCKED);
    CHECK(answer == NULL);
  }
  return a->num_pieces == a->stop_after;
}

static void CheckAnswer(const lectern_answer* answer) {
  lectern_receipt receipt = {.struct_size = sizeof receipt};
  CHECK(lectern_answer_receipt(answer, &receipt) == LECTERN_OK);
  CHECK(receipt.document_tokens > 0 && receipt.answer_tokens > 0 && receipt.total_ms > 0);
  CHECK(lectern_answer_evidence_count(answer) > 0);
  lectern_evidence evidence = {.struct_size = sizeof evidence};
  CHECK(lectern_answer_evidence(answer, 0, &evidence) == LECTERN_OK);
  CHECK(evidence.end - evidence.begin == evidence.text_len && evidence.text_len > 0);
  CHECK(memcmp(document + evidence.begin, evidence.text, evidence.text_len) == 0);
  CHECK(evidence.mass >= 0 && evidence.mass <= 1);
  CHECK(evidence.score > 0 && evidence.score <= 1 && evidence.num_highlights > 0);
  CHECK(evidence.highlights[0].begin >= evidence.begin &&
        evidence.highlights[0].end <= evidence.end);
  CHECK(evidence.page == (evidence.begin < 900 ? 1U : evidence.begin < 5000 ? 3U : 4U));
  CHECK(evidence.page_label_len == (evidence.page == 1 ? 1U : 0U));
  CHECK(strcmp(evidence.page_label, evidence.page == 1 ? "i" : "") == 0);
  CHECK(lectern_answer_evidence(answer, 1000, &evidence) == LECTERN_INVALID_ARGUMENT);
  /* An older caller gets the fields that it knows, and no byte more. */
  memset(&evidence, 0x5A, sizeof evidence);
  evidence.struct_size = offsetof(lectern_evidence, text);
  CHECK(lectern_answer_evidence(answer, 0, &evidence) == LECTERN_OK);
  CHECK(evidence.struct_size == offsetof(lectern_evidence, text));
  CHECK(evidence.end > evidence.begin && evidence.text_len == 0x5A5A5A5A5A5A5A5A);
  evidence.struct_size = 0;
  CHECK(lectern_answer_evidence(answer, 0, &evidence) == LECTERN_INVALID_ARGUMENT);
}

static void CheckAnswerJson(const lectern_answer* answer) {
  const char* const units[] = {"\"offset_unit\":\"utf8\"", "\"offset_unit\":\"utf16\"",
                               "\"offset_unit\":\"codepoint\""};
  lectern_text* json = NULL;
  lectern_error* error = NULL;
  for (int unit = 0; unit < 3; ++unit) {
    CHECK_OK(lectern_answer_json(answer, unit, &json, &error), error);
    CHECK(strstr(lectern_text_data(json, NULL), units[unit]) != NULL);
    CHECK(lectern_text_free(json) == LECTERN_OK);
  }
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT, lectern_answer_json(answer, 3, &json, &error), json, error);
}

typedef struct citations_seen {
  int calls, without_evidence, supported;
  int is_in_order;
  uint64_t end; /* of the last sentence */
} citations_seen;

static void OnCitation(const lectern_citation* citation, void* user) {
  citations_seen* const seen = user;
  CHECK(citation->struct_size == sizeof *citation && citation->end > citation->begin);
  if (citation->begin < seen->end && citation->end != seen->end) seen->is_in_order = 0;
  ++seen->calls;
  seen->end = citation->end;
  seen->supported += citation->is_supported == 1;
  const lectern_evidence* const evidence = citation->evidence;
  if (!evidence) {
    ++seen->without_evidence;
    return;
  }
  CHECK(evidence->struct_size == sizeof *evidence && evidence->mass == 0 && evidence->score > 0);
  CHECK(memcmp(document + evidence->begin, evidence->text, evidence->text_len) == 0);
}

static void TestCite(lectern_engine* engine) {
  static const char text[] = "The tenant pays the rent. Zeppelins zoom.";
  const lectern_cite_options options = {
      .struct_size = sizeof options, .question = "Who pays?", .question_len = 9, .max_evidence = 2};
  lectern_text* json = NULL;
  lectern_error* error = NULL;
  citations_seen seen = {.is_in_order = 1};
  CHECK_OK(lectern_cite(engine, "", 0, text, strlen(text), &options, OnCitation, &seen,
                        LECTERN_OFFSET_UTF8, &json, &error),
           error);
  /* Zeppelins have passages for the question's words alone, which support nothing. */
  CHECK(seen.calls == 4 && seen.without_evidence == 0 && seen.is_in_order);
  CHECK(seen.supported == 2 && seen.end == strlen(text));
  CHECK(strstr(lectern_text_data(json, NULL), "\"supported\":true") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK);
  seen = (citations_seen){.is_in_order = 1};
  CHECK_OK(lectern_cite(engine, "", 0, text + 26, strlen(text) - 26, NULL, OnCitation, &seen,
                        LECTERN_OFFSET_UTF8, NULL, &error),
           error);
  CHECK(seen.calls == 1 && seen.without_evidence == 1 && seen.supported == 0);
  CHECK_OK(lectern_cite(engine, "", 0, "", 0, NULL, NULL, NULL, LECTERN_OFFSET_UTF8, NULL, &error),
           error);
  json = (void*)&not_a_handle;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_cite(engine, "", 0, "\xFF", 1, NULL, NULL, NULL, 0, &json, &error), json,
              error);
  json = (void*)&not_a_handle;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_cite(engine, "", 0, "x", 1, NULL, NULL, NULL, 3, &json, &error), json, error);
  json = (void*)&not_a_handle;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_cite(engine, "", 0, NULL, 1, NULL, NULL, NULL, 0, &json, &error), json,
              error);
  json = (void*)&not_a_handle;
  CHECK_FAILS(LECTERN_NOT_FOUND,
              lectern_cite(engine, "none", 4, "x", 1, NULL, NULL, NULL, 0, &json, &error), json,
              error);
}

typedef struct tokens_seen {
  int calls;
  size_t count;
  uint64_t end; /* of the last that follows the one before it */
  int32_t least_id;
} tokens_seen;

static void OnTokens(const lectern_token* tokens, size_t count, void* user) {
  tokens_seen* const seen = user;
  ++seen->calls;
  seen->count = count;
  seen->least_id = count > 0 ? tokens[0].id : 0;
  seen->end = 0;
  for (size_t i = 0; i < count; ++i) {
    if (tokens[i].begin != seen->end || tokens[i].end < tokens[i].begin) return;
    seen->end = tokens[i].end;
    if (tokens[i].id < seen->least_id) seen->least_id = tokens[i].id;
  }
}

static void TestTokens(lectern_session* session) {
  static const char text[] = "<s>Who pays the rent?</s>";
  lectern_error* error = NULL;
  tokens_seen seen = {0};
  CHECK_OK(lectern_session_tokenize(session, text, strlen(text), OnTokens, &seen, &error), error);
  CHECK(seen.calls == 1 && seen.count > 3 && seen.end == strlen(text));
  CHECK(seen.least_id > 2); /* neither unknown nor a mark of beginning or end */
  CHECK_OK(lectern_session_tokenize(session, "", 0, OnTokens, &seen, &error), error);
  CHECK(seen.calls == 2 && seen.count == 0);
  void* none = NULL;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_session_tokenize(session, "\xFF", 1, OnTokens, &seen, &error), none, error);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_session_tokenize(session, "x", 1, NULL, NULL, &error), none, error);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_session_tokenize(session, NULL, 1, OnTokens, &seen, &error), none, error);
  CHECK_FAILS(LECTERN_INVALID_HANDLE,
              lectern_session_tokenize(NULL, "x", 1, OnTokens, &seen, &error), none, error);
  CHECK(seen.calls == 2);
}

typedef struct sampled {
  size_t num_tokens, num_bytes;
} sampled;

static void OnToken(const lectern_sampled_token* token, void* user) {
  sampled* s = user;
  CHECK(token->struct_size == sizeof *token && token->num_likeliest == 2);
  CHECK(token->token.logprob <= 0 && token->token.id == token->likeliest[0].id);
  CHECK(token->likeliest[0].logprob == token->token.logprob);
  CHECK(token->likeliest[1].logprob <= token->likeliest[0].logprob);
  ++s->num_tokens;
  s->num_bytes += token->token.bytes_len;
}

/* Tokens of a greedy answer, and a stop text that is none of it. */
static void TestTokensOfAnAnswer(lectern_engine* engine) {
  lectern_session* session = NULL;
  lectern_answer* answer = NULL;
  lectern_error* error = NULL;
  CHECK_OK(lectern_session_open(engine, "lease", 5, &session, &error), error);
  sampled seen = {0, 0};
  lectern_ask_options options = {.struct_size = sizeof options,
                                 .max_tokens = 4,
                                 .on_token = OnToken,
                                 .token_user = &seen,
                                 .top_logprobs = 2};
  options.num_stop_texts = 1;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_session_ask(session, "Who?", 4, &options, &answer, &error), answer, error);
  lectern_string stop = {NULL, 0};
  options.stop_texts = &stop;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_session_ask(session, "Who?", 4, &options, &answer, &error), answer, error);
  options.num_stop_texts = 0;
  options.num_logit_bias = 1;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_session_ask(session, "Who?", 4, &options, &answer, &error), answer, error);
  lectern_logit_bias bias = {-1, 0};
  options.logit_bias = &bias;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_session_ask(session, "Who?", 4, &options, &answer, &error), answer, error);
  options.num_logit_bias = 0;
  CHECK(seen.num_tokens == 0);
  CHECK_OK(lectern_session_ask(session, "Who?", 4, &options, &answer, &error), error);
  lectern_receipt receipt = {.struct_size = sizeof receipt};
  CHECK(lectern_answer_receipt(answer, &receipt) == LECTERN_OK);
  CHECK(seen.num_tokens > 0 && seen.num_tokens <= receipt.answer_tokens);
  size_t len = 0;
  const char* const text = lectern_answer_text(answer, &len);
  CHECK(len > 1 && seen.num_bytes >= len);
  CHECK(lectern_session_free(session) == LECTERN_OK);

  session = NULL;
  lectern_answer* stopped = NULL;
  CHECK_OK(lectern_session_open(engine, "lease", 5, &session, &error), error);
  stop.text = text + len - 1;
  stop.text_len = 1;
  options.num_stop_texts = 1;
  CHECK_OK(lectern_session_ask(session, "Who?", 4, &options, &stopped, &error), error);
  size_t stopped_len = 0;
  CHECK(memcmp(lectern_answer_text(stopped, &stopped_len), text, stopped_len) == 0);
  CHECK(stopped_len < len);
  CHECK(strcmp(lectern_answer_stopped_by(stopped, NULL), "stop_sequence") == 0);
  CHECK(strcmp(lectern_answer_finish_reason(stopped, NULL), "stop") == 0);
  CHECK(lectern_answer_free(answer) == LECTERN_OK);
  CHECK(lectern_answer_free(stopped) == LECTERN_OK);
  CHECK(lectern_session_free(session) == LECTERN_OK);
}

static void TestAsking(lectern_engine* engine) {
  lectern_session* session = NULL;
  lectern_answer* answer = NULL;
  lectern_error* error = NULL;
  CHECK_FAILS(LECTERN_NOT_FOUND, lectern_session_open(engine, "other", 5, &session, &error),
              session, error);
  CHECK_OK(lectern_session_open(engine, "lease", 5, &session, &error), error);
  size_t len = 0;
  const char* const text = lectern_session_text(session, &len);
  CHECK(len == strlen(document) && memcmp(text, document, len) == 0);
  TestTokens(session);
  TestCite(engine);

  asking user = {session, 0, 0};
  lectern_ask_options options = {.struct_size = sizeof options,
                                 .max_tokens = 4,
                                 .kv_budget = 1,
                                 .on_text = OnText,
                                 .text_user = &user};
  options.kv_budget = 1.5f;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_session_ask(session, "Who?", 4, &options, &answer, &error), answer, error);
  options.kv_budget = 1;
  options.fallback = 3;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_session_ask(session, "Who?", 4, &options, &answer, &error), answer, error);
  options.fallback = LECTERN_FALLBACK_DEFAULT;
  options.num_turns = 1;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_session_ask(session, "Who?", 4, &options, &answer, &error), answer, error);
  const lectern_turn turn = {"Who pays?", 9, NULL, 3};
  options.turns = &turn;
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_session_ask(session, "Who?", 4, &options, &answer, &error), answer, error);
  options.turns = NULL;
  options.num_turns = 0;
  options.rule = "best";
  options.rule_len = 4;
  CHECK(lectern_session_ask(session, "Who?", 4, &options, &answer, &error) ==
        LECTERN_INVALID_ARGUMENT);
  CHECK(answer == NULL && strcmp(lectern_error_param(error, NULL), "rule") == 0);
  CHECK(strstr(lectern_error_message(error, NULL), "default, threshold, cap or top-p") != NULL);
  CHECK(lectern_error_free(error) == LECTERN_OK);
  error = NULL;
  options.rule = NULL;
  options.rule_len = 0;
  options.layer_budget = "cone";
  options.layer_budget_len = 4;
  CHECK(lectern_session_ask(session, "Who?", 4, &options, &answer, &error) ==
        LECTERN_INVALID_ARGUMENT);
  CHECK(strcmp(lectern_error_param(error, NULL), "layer_budget") == 0);
  CHECK(strstr(lectern_error_message(error, NULL), "uniform, pyramid") != NULL);
  CHECK(lectern_error_free(error) == LECTERN_OK);
  error = NULL;
  options.layer_budget = "pyramid";
  options.layer_budget_len = 7;
  CHECK_OK(lectern_session_ask(session, "Who pays?", 9, &options, &answer, &error), error);
  CHECK(user.num_pieces > 0 && lectern_session_cancel(session) == LECTERN_OK);
  CheckAnswer(answer);
  CheckAnswerJson(answer);

  lectern_counts counts = {.struct_size = sizeof counts};
  CHECK(lectern_engine_counts(engine, &counts) == LECTERN_OK);
  CHECK(counts.step_tokens > 0 && counts.step_passes == counts.step_tokens); /* it was alone */

  /* The engine and the session go; what came from them stays. */
  lectern_answer* follow_up = NULL;
  CHECK(lectern_engine_free(engine) == LECTERN_OK);
  user.num_pieces = 0;
  user.stop_after = 1;
  CHECK_OK(lectern_session_ask(session, "And then?", 9, &options, &follow_up, &error), error);
  CHECK(strcmp(lectern_answer_finish_reason(follow_up, NULL), "cancelled") == 0);
  CHECK(strcmp(lectern_answer_stopped_by(follow_up, NULL), "cancelled") == 0);
  CHECK(strcmp(lectern_answer_reasoning(follow_up, NULL), "") == 0);
  CHECK(lectern_session_free(session) == LECTERN_OK);
  CheckAnswerJson(answer);
  CHECK(strlen(lectern_answer_text(follow_up, NULL)) > 0);
  CHECK(lectern_answer_note(follow_up, NULL) != NULL);
  CHECK(lectern_answer_cli_note(follow_up, NULL) != NULL);
  CHECK(lectern_answer_free(answer) == LECTERN_OK);
  CHECK(lectern_answer_free(follow_up) == LECTERN_OK);
  CHECK(lectern_answer_text(answer, NULL) == NULL);
}

/* A question about everything: the receipt warns, or the answer is exact and says so. */
static void TestFallback(lectern_engine* engine) {
  for (int fallback = LECTERN_FALLBACK_DEFAULT; fallback <= LECTERN_FALLBACK_EXACT; ++fallback) {
    const int is_exact = fallback == LECTERN_FALLBACK_EXACT;
    lectern_session* session = NULL;
    lectern_answer* answer = NULL;
    lectern_error* error = NULL;
    CHECK_OK(lectern_session_open(engine, NULL, 0, &session, &error), error);
    const lectern_ask_options options = {
        .struct_size = sizeof options, .kv_budget = 0.1f, .max_tokens = 2, .fallback = fallback};
    CHECK_OK(lectern_session_ask(session, "Summarise the document.", 23, &options, &answer, &error),
             error);
    lectern_receipt receipt = {.struct_size = sizeof receipt};
    CHECK(lectern_answer_receipt(answer, &receipt) == LECTERN_OK);
    CHECK(receipt.fallback == (uint64_t)is_exact);
    CHECK(receipt.kv_budget == (is_exact ? 1 : (double)0.1f));
    CHECK((receipt.read_fraction_prefill > 1) == is_exact);
    int warns = 0;
    const size_t count = lectern_answer_warning_count(answer);
    for (size_t i = 0; i < count; ++i) {
      size_t len = 0;
      const char* const name = lectern_answer_warning(answer, i, &len);
      CHECK(name != NULL && strlen(name) == len);
      warns += name != NULL && strcmp(name, "whole_document") == 0;
    }
    CHECK(warns == !is_exact);
    CHECK(lectern_answer_warning(answer, count, NULL) == NULL);
    CHECK(strstr(lectern_answer_note(answer, NULL), "much of the text") != NULL);
    lectern_text* json = NULL;
    CHECK_OK(lectern_answer_json(answer, LECTERN_OFFSET_UTF8, &json, &error), error);
    const char* const expected = is_exact ? "\"fallback\":true" : "\"fallback\":false";
    CHECK(strstr(lectern_text_data(json, NULL), expected) != NULL);
    CHECK(lectern_text_free(json) == LECTERN_OK);
    CHECK(lectern_answer_free(answer) == LECTERN_OK);
    CHECK(lectern_answer_warning_count(answer) == 0);
    CHECK(lectern_session_free(session) == LECTERN_OK);
  }
}

static void* CancelThenFree(void* session) {
  CHECK(lectern_session_cancel(session) == LECTERN_OK);
  CHECK(lectern_session_free(session) == LECTERN_OK);
  return NULL;
}

static int32_t FreeFromAnotherThread(const char* text, size_t len, void* session) {
  pthread_t thread;
  (void)text, (void)len;
  if (pthread_create(&thread, NULL, CancelThenFree, session) == 0) pthread_join(thread, NULL);
  return 0;
}

/* A session that another thread cancels and frees in the middle of an ask. */
static void TestFreeWhileAsking(lectern_engine* engine) {
  lectern_session* session = NULL;
  lectern_answer* answer = NULL;
  lectern_error* error = NULL;
  CHECK_OK(lectern_session_open(engine, NULL, 0, &session, &error), error);
  lectern_ask_options options = {.struct_size = sizeof options,
                                 .max_tokens = 1, /* one piece: the callback frees only once */
                                 .on_text = FreeFromAnotherThread,
                                 .text_user = session,
                                 .kv_budget = 1};
  CHECK_OK(lectern_session_ask(session, "Who pays?", 9, &options, &answer, &error), error);
  CHECK(lectern_session_cancel(session) == LECTERN_INVALID_HANDLE);
  CHECK(lectern_answer_free(answer) == LECTERN_OK);
}

static void OnDocument(const lectern_document* item, void* user) {
  CHECK(item->struct_size >= sizeof *item && item->id_len == 32 && item->fingerprint_len == 64);
  CHECK(item->weights_len == 6 && strcmp(item->weights, "stored") == 0);
  CHECK(strcmp(item->name, "lease") == 0 && strcmp(item->state, "ready") == 0);
  CHECK(item->text_bytes == strlen(document));
  *(int*)user += 1;
}
static void OnShard(const lectern_shard* item, void* user) {
  CHECK(item->file_len > 0 && item->bytes > 0);
  *(int*)user += 100;
}
static void OnPlan(const lectern_document_plan* plan, void* user) {
  CHECK(strcmp(plan->layer_budget, "uniform") == 0 && plan->layer_budget_len == 7);
  CHECK(strcmp(plan->head_budget, "uniform") == 0 && strcmp(plan->stats, "window") == 0);
  CHECK(plan->kv_budget > 0.199 && plan->kv_budget < 0.201 && plan->num_layers == 8);
  double sum = 0;
  for (uint64_t i = 0; i < plan->num_layers; ++i) {
    CHECK(plan->layers[i] > 0 && plan->layers[i] <= 1);
    CHECK(plan->cosine[i] >= -1 && plan->cosine[i] <= 1 && plan->competed[i] > 0);
    sum += plan->layers[i];
    for (uint64_t h = 0; h < plan->num_kv_heads; ++h) {
      CHECK(plan->heads[i * plan->num_kv_heads + h] > 0);
    }
  }
  CHECK(plan->num_kv_heads > 0 && sum > 8 * 0.199 && sum < 8 * 0.201);
  *(int*)user += 1;
}
static void OnDamage(const lectern_damage* item, void* user) {
  CHECK(item->code != LECTERN_OK && item->message_len > 0);
  *(int*)user += 1;
}

static void OnRefused(const lectern_refused* item, void* user) {
  CHECK(strlen(item->directory) == item->directory_len && item->message_len > 0);
  CHECK(item->code == LECTERN_TRUNCATED);
  *(int*)user += 1000;
}

/* A document that leaves, comes back, and is taken up from its files. */
static void TestMaintenance(lectern_engine* engine, const char* store) {
  lectern_text* json = NULL;
  lectern_error* error = NULL;
  char path[5000];
  int count = 0;
  int32_t flag = -1;
  const int len = snprintf(path, sizeof path, "%s/lease.lectern", store);
  CHECK_OK(lectern_engine_export(engine, "lease", 5, path, (size_t)len, &error), error);
  CHECK_OK(lectern_engine_import(engine, path, (size_t)len, NULL, 0, OnDocument, &count, &flag,
                                 &json, &error),
           error);
  CHECK(count == 1 && flag == 1);
  CHECK(strstr(lectern_text_data(json, NULL), "\"existed\":true") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK);
  CHECK_OK(lectern_engine_remove(engine, "lease", 5, &error), error);
  CHECK_OK(
      lectern_engine_import(engine, path, (size_t)len, "lease", 5, NULL, NULL, &flag, NULL, &error),
      error);
  CHECK(flag == 0);
  snprintf(path, sizeof path, "%s/catalog.db", store);
  CHECK(remove(path) == 0);
  lectern_collected collected = {.struct_size = sizeof collected};
  CHECK_OK(lectern_engine_recover(engine, OnDocument, OnRefused, &count, &flag, NULL, &error),
           error);
  CHECK(count == 2 && flag == 0); /* a lost catalog is not a damaged one */
  CHECK_OK(lectern_engine_collect(engine, &collected, &json, &error), error);
  CHECK(collected.generations == 0 && collected.unknown == 0);
  CHECK(strstr(lectern_text_data(json, NULL), "\"unknown\":[]") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK);
}

/* A store with a quota of its own size: nothing more goes in, and the message has all numbers. */
static void TestQuota(const char* store, const char* model) {
  const lectern_engine_options options = {.struct_size = sizeof options,
                                          .store = store,
                                          .store_len = strlen(store),
                                          .model = model,
                                          .model_len = strlen(model),
                                          .quota_bytes = 123456};
  lectern_engine* engine = NULL;
  lectern_index_report* report = NULL;
  lectern_error* error = NULL;
  CHECK_OK(lectern_engine_create(&options, &engine, &error), error);
  CHECK(lectern_engine_index(engine, "Another text.", 13, NULL, &report, &error) ==
        LECTERN_NO_SPACE);
  CHECK(report == NULL && strcmp(lectern_error_param(error, NULL), "quota") == 0);
  CHECK(strstr(lectern_error_message(error, NULL), "quota is 123456 bytes") != NULL);
  CHECK(lectern_error_free(error) == LECTERN_OK);
  CHECK(lectern_engine_free(engine) == LECTERN_OK);
}

/* Files that are read instead of mapped, and a limit on memory. */
static void TestIoAndMemory(const char* store, const char* model) {
  lectern_engine_options options = {.struct_size = sizeof options,
                                    .store = store,
                                    .store_len = strlen(store),
                                    .model = model,
                                    .model_len = strlen(model),
                                    .io = 3};
  lectern_engine* engine = NULL;
  lectern_session* session = NULL;
  lectern_answer* answer = NULL;
  lectern_error* error = NULL;
  CHECK(lectern_engine_create(&options, &engine, &error) == LECTERN_INVALID_ARGUMENT);
  CHECK(strcmp(lectern_error_param(error, NULL), "io") == 0);
  CHECK(lectern_error_free(error) == LECTERN_OK);
  options.io = LECTERN_IO_PREAD;
  options.weights = "int8", options.weights_len = 4;
  CHECK(lectern_engine_create(&options, &engine, &error) == LECTERN_INVALID_ARGUMENT);
  CHECK(strcmp(lectern_error_param(error, NULL), "weights") == 0);
  CHECK(strstr(lectern_error_message(error, NULL), "not \"int8\"") != NULL);
  CHECK(strstr(lectern_error_cli_message(error, NULL), "--weights must be") != NULL);
  CHECK(lectern_error_free(error) == LECTERN_OK);
  options.weights = "q8", options.weights_len = 2;
  CHECK_OK(lectern_engine_create(&options, &engine, &error), error);
  CHECK(lectern_session_open(engine, "lease", 5, &session, &error) == LECTERN_MODEL_MISMATCH);
  CHECK(lectern_error_free(error) == LECTERN_OK && lectern_engine_free(engine) == LECTERN_OK);
  options.weights = NULL, options.weights_len = 0;
  options.model = "nothing:7b", options.model_len = 10; /* a name of Ollama's, in no such folder */
  options.ollama_models = "/nonexistent", options.ollama_models_len = 12;
  CHECK_OK(lectern_engine_create(&options, &engine, &error), error);
  CHECK(lectern_session_open(engine, "lease", 5, &session, &error) == LECTERN_NOT_FOUND);
  CHECK(strstr(lectern_error_message(error, NULL), "/nonexistent/manifests/") != NULL);
  CHECK(lectern_error_free(error) == LECTERN_OK && lectern_engine_free(engine) == LECTERN_OK);
  options.model = NULL, options.model_len = 0;
  options.ollama_models = NULL, options.ollama_models_len = 0;
  options.rehash_model = 1;
  options.max_ram_bytes = 64 << 20;
  CHECK_OK(lectern_engine_create(&options, &engine, &error), error);
  CHECK_OK(lectern_session_open(engine, "lease", 5, &session, &error), error);
  CHECK_OK(lectern_session_ask(session, "What?", 5, NULL, &answer, &error), error);
  CHECK(lectern_answer_free(answer) == LECTERN_OK && lectern_session_free(session) == LECTERN_OK);
  CHECK(lectern_engine_free(engine) == LECTERN_OK);
  options.max_ram_bytes = 1000;
  CHECK_OK(lectern_engine_create(&options, &engine, &error), error);
  CHECK(lectern_session_open(engine, "lease", 5, &session, &error) == LECTERN_OUT_OF_MEMORY);
  CHECK(session == NULL && strcmp(lectern_error_param(error, NULL), "max_ram") == 0);
  CHECK(lectern_error_free(error) == LECTERN_OK);
  CHECK(lectern_engine_free(engine) == LECTERN_OK);
}

static void TestStore(lectern_engine* engine, const char* store) {
  lectern_text* json = NULL;
  lectern_error* error = NULL;
  int count = 0;
  CHECK_OK(lectern_engine_list(engine, OnDocument, &count, &json, &error), error);
  CHECK(count == 1 && strstr(lectern_text_data(json, NULL), "\"name\":\"lease\"") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK);
  count = 0;
  CHECK_OK(lectern_engine_show(engine, "lease", 5, OnDocument, OnShard, &count, &json, &error),
           error);
  CHECK(count > 100 && strstr(lectern_text_data(json, NULL), "\"shards\":[") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK);
  count = 0;
  CHECK_OK(lectern_engine_verify(engine, NULL, 0, 1, OnDamage, &count, &json, &error), error);
  CHECK(count == 0 && strcmp(lectern_text_data(json, NULL), "{\"damaged\":[]}") == 0);
  CHECK(lectern_text_free(json) == LECTERN_OK);
  const lectern_plan_options plan = {.struct_size = sizeof plan,
                                     .head_budget = "uniform",
                                     .head_budget_len = 7,
                                     .kv_budget = 0.2f};
  CHECK_FAILS(LECTERN_NOT_FOUND, lectern_engine_plan(engine, "other", 5, &plan, &error), NULL,
              error);
  CHECK_OK(lectern_engine_plan(engine, "lease", 5, &plan, &error), error);
  CHECK_OK(lectern_engine_show_plan(engine, "lease", 5, OnPlan, &count, &error), error);
  CHECK(count == 1);
  count = 0;
  CHECK_OK(lectern_engine_verify(engine, "lease", 5, 1, OnDamage, &count, NULL, &error), error);
  CHECK(count == 0);
  CHECK_FAILS(LECTERN_NOT_FOUND, lectern_engine_remove(engine, "other", 5, &error), NULL, error);
  TestMaintenance(engine, store);
  CHECK_OK(lectern_engine_remove(engine, "lease", 5, &error), error);
  CHECK_OK(lectern_engine_list(engine, OnDocument, &count, NULL, &error), error);
  CHECK(count == 0);
}

/* --- collections ------------------------------------------------------------------------------ */

static void OnCollection(const lectern_collection* item, void* user) {
  CHECK(item->struct_size == sizeof *item && strcmp(item->name, "papers") == 0);
  *(uint64_t*)user = item->num_documents * 10 + item->num_indexed;
}
static void OnMember(const lectern_collection_document* item, void* user) {
  CHECK(item->struct_size == sizeof *item && item->text_bytes > 0);
  *(int*)user += item->document_len == 0 ? 1 : 100;
}
static void OnAdded(const lectern_added* item, void* user) {
  CHECK(item->struct_size == sizeof *item && item->name_len == strlen(item->name));
  *(int*)user += item->change == LECTERN_CHANGE_NEW       ? 1
                 : item->change == LECTERN_CHANGE_RENEWED ? 10
                                                          : 100;
}
static void OnMention(const lectern_mention* item, void* user) {
  CHECK(item->struct_size == sizeof *item && item->num_passages == 1);
  CHECK(item->passage->document_len == item->name_len);
  CHECK(strcmp(item->passage->document, item->name) == 0);
  CHECK(strstr(item->passage->text, "quinces") != NULL);
  ++*(int*)user;
}
static int32_t OnMemberIndexed(const lectern_collection_progress* item, void* user) {
  CHECK(item->struct_size == sizeof *item && item->document_len == strlen(item->document));
  CHECK(item->number <= item->count && item->progress->done <= item->progress->total);
  ++*(int*)user;
  return 0;
}
static int32_t EndAtOnce(const lectern_collection_progress* item, void* user) {
  (void)item, (void)user;
  return 1;
}

static lectern_text_to_add TextOf(const char* path, const char* bytes) {
  lectern_text_to_add text = {0};
  text.source = path, text.source_len = strlen(path);
  text.bytes = bytes, text.bytes_len = strlen(bytes);
  return text;
}

/* A question to a collection, whose answer says which document it comes from. */
static void TestAskingCollection(lectern_engine* engine) {
  lectern_session* session = NULL;
  lectern_answer* answer = NULL;
  lectern_error* error = NULL;
  lectern_text* json = NULL;
  int indexed = 0;
  const char question[] = "Who dug the harbour of Osk?";
  lectern_ask_options options = {.struct_size = sizeof options,
                                 .max_tokens = 4,
                                 .on_index = EndAtOnce,
                                 .index_user = &indexed};
  CHECK_FAILS(LECTERN_NOT_FOUND, lectern_open_collection(engine, "none", 4, &session, &error),
              session, error);
  CHECK_OK(lectern_open_collection(engine, "papers", 6, &session, &error), error);
  size_t len = 1;
  CHECK(lectern_session_text(session, &len) != NULL && len == 0);
  CHECK_FAILS(LECTERN_CANCELLED,
              lectern_session_ask(session, question, strlen(question), &options, &answer, &error),
              answer, error);
  options.on_index = OnMemberIndexed;
  CHECK_OK(lectern_session_ask(session, question, strlen(question), &options, &answer, &error),
           error);
  CHECK(indexed > 0);
  lectern_receipt receipt = {.struct_size = sizeof receipt};
  CHECK(lectern_answer_receipt(answer, &receipt) == LECTERN_OK);
  CHECK(receipt.num_documents == 3 && receipt.num_asked_documents == 1);
  lectern_asked_document asked = {.struct_size = sizeof asked};
  CHECK(lectern_answer_asked_document(answer, 0, &asked) == LECTERN_OK);
  CHECK(strcmp(asked.name, "harbour.txt") == 0 && asked.document_len == 32);
  CHECK(asked.is_chosen == 1 && asked.is_new == 1 && asked.num_passages == 0);
  CHECK(asked.probability > 0.5 && strcmp(asked.answer, lectern_answer_text(answer, NULL)) == 0);
  CHECK(lectern_answer_asked_document(answer, 1, &asked) == LECTERN_INVALID_ARGUMENT);
  CHECK(lectern_answer_evidence_count(answer) > 0);
  lectern_evidence evidence = {.struct_size = sizeof evidence};
  CHECK(lectern_answer_evidence(answer, 0, &evidence) == LECTERN_OK);
  CHECK(strcmp(evidence.document, "harbour.txt") == 0);
  /* Offsets of another unit are of the document's text, which begins with two bytes for a letter.
   */
  CHECK_OK(lectern_answer_json(answer, LECTERN_OFFSET_CODEPOINT, &json, &error), error);
  char begin[80];
  snprintf(begin, sizeof begin, "\"begin\":%d,\"document\":\"harbour.txt\"",
           (int)evidence.begin - 1);
  CHECK(strstr(lectern_text_data(json, NULL), begin) != NULL);
  CHECK(strstr(lectern_text_data(json, NULL), "\"name\":\"papers\"") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK && lectern_answer_free(answer) == LECTERN_OK);
  CHECK(lectern_session_free(session) == LECTERN_OK);
}

static void TestCollections(const char* store, const char* model) {
  lectern_engine* engine = CreateEngine(store, NULL); /* words need no model */
  lectern_error* error = NULL;
  lectern_text* json = NULL;
  int count = 0;
  uint64_t numbers = 0;
  lectern_text_to_add texts[3] = {
      TextOf("/papers/harbour.txt",
             "\xC3\x84ltere Karten.\n\nThe harbour of Osk was dug by Ada.\n"),
      TextOf("/papers/fruit.txt", "Apples and quinces are sold on Tuesdays alone.\n"),
      TextOf("/papers/empty.txt", " \n")};
  CHECK_FAILS(LECTERN_EMPTY_DOCUMENT,
              lectern_collection_add(engine, "papers", 6, texts, 3, OnAdded, &count, &json, &error),
              json, error);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_collection_add(engine, "papers", 6, NULL, 1, OnAdded, &count, &json, &error),
              json, error);
  CHECK_FAILS(LECTERN_INVALID_ARGUMENT,
              lectern_collection_add(engine, "", 0, texts, 2, OnAdded, &count, &json, &error), json,
              error);
  CHECK(count == 0);
  texts[2] = TextOf("/papers/more.txt", "Zebras graze behind the glassworks.\n");
  CHECK_OK(lectern_collection_add(engine, "papers", 6, texts, 3, OnAdded, &count, &json, &error),
           error);
  CHECK(count == 3 && strstr(lectern_text_data(json, NULL), "\"change\":\"new\"") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK);
  texts[2] = TextOf("/papers/more.txt", "Zebras and quinces.\n");
  CHECK_OK(lectern_collection_add(engine, "papers", 6, texts, 3, OnAdded, &count, NULL, &error),
           error);
  CHECK(count == 213);
  CHECK_OK(lectern_list_collections(engine, OnCollection, &numbers, &json, &error), error);
  CHECK(numbers == 30 && strstr(lectern_text_data(json, NULL), "\"documents\":3") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK);
  uint64_t found = 0;
  count = 0;
  CHECK_OK(lectern_find_mentions(engine, "papers", 6, "quinces", 7, 1, OnMention, &count, &found,
                                 LECTERN_OFFSET_UTF8, &json, &error),
           error);
  CHECK(count == 1 && found == 2 && strstr(lectern_text_data(json, NULL), "\"count\":2") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK);
  CHECK_FAILS(LECTERN_NOT_FOUND,
              lectern_collection_text(engine, "papers", 6, "none", 4, &json, &error), json, error);
  CHECK_OK(lectern_collection_text(engine, "papers", 6, "more.txt", 8, &json, &error), error);
  CHECK(strstr(lectern_text_data(json, NULL), "quinces") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK);
  CHECK_OK(lectern_collection_rename_document(engine, "papers", 6, "more.txt", 8, "zoo", 3, &error),
           error);
  CHECK_FAILS(LECTERN_NOT_FOUND,
              lectern_collection_rename_document(engine, "papers", 6, "none", 4, "a", 1, &error),
              NULL, error);
  CHECK_OK(lectern_verify_collection(engine, "papers", 6, &error), error);
  CHECK(lectern_engine_free(engine) == LECTERN_OK);

  engine = CreateEngine(store, model);
  TestAskingCollection(engine);
  const lectern_index_options named = {.struct_size = sizeof named, .name = "x", .name_len = 1};
  lectern_indexed_collection done = {.struct_size = sizeof done};
  CHECK_FAILS(
      LECTERN_INVALID_ARGUMENT,
      lectern_index_collection(engine, "papers", 6, &named, NULL, NULL, &done, &json, &error), json,
      error);
  CHECK_FAILS(
      LECTERN_CANCELLED,
      lectern_index_collection(engine, "papers", 6, NULL, EndAtOnce, NULL, &done, &json, &error),
      json, error);
  CHECK(done.indexed == 0 && done.existed == 0);
  count = 0;
  CHECK_OK(lectern_index_collection(engine, "papers", 6, NULL, OnMemberIndexed, &count, &done,
                                    &json, &error),
           error);
  CHECK(count > 0 && done.indexed == 2 && done.existed == 1 && done.left == 0);
  CHECK(done.failures == 0 && strstr(lectern_text_data(json, NULL), "\"indexed\":2") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK);
  count = 0;
  CHECK_OK(lectern_collection_documents(engine, "papers", 6, OnMember, &count, &json, &error),
           error);
  CHECK(count == 300 && strstr(lectern_text_data(json, NULL), "\"zoo\"") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK);
  count = 0;
  CHECK_OK(lectern_collection_add_document(engine, "some", 4, "harbour.txt", 11, OnAdded, &count,
                                           NULL, &error),
           error);
  CHECK(count == 1);
  CHECK_OK(lectern_remove_collection(engine, "some", 4, &error), error);
  CHECK_OK(lectern_collection_remove(engine, "papers", 6, "zoo", 3, &error), error);
  CHECK_FAILS(LECTERN_NOT_FOUND, lectern_collection_remove(engine, "papers", 6, "zoo", 3, &error),
              NULL, error);
  CHECK_OK(lectern_rename_collection(engine, "papers", 6, "old", 3, &error), error);
  CHECK_FAILS(LECTERN_NOT_FOUND, lectern_remove_collection(engine, "papers", 6, &error), NULL,
              error);
  CHECK_OK(lectern_engine_verify(engine, NULL, 0, 1, OnDamage, &count, NULL, &error), error);
  CHECK_OK(lectern_remove_collection(engine, "old", 3, &error), error);
  CHECK(count == 1); /* no damage */
  CHECK(lectern_engine_free(engine) == LECTERN_OK);
}

/* --- names and files -------------------------------------------------------------------------- */

static void WriteFile(const char* path, const char* text) {
  FILE* const file = fopen(path, "wb");
  CHECK(file != NULL && fwrite(text, 1, strlen(text), file) == strlen(text));
  CHECK(file != NULL && fclose(file) == 0);
}

/* A file that has no text in it: the code, and words that say which it is. */
static void CheckNoText(lectern_engine* engine, const char* path, lectern_code code,
                        const char* says) {
  lectern_index_report* report = NULL;
  lectern_error* error = NULL;
  CHECK(lectern_engine_index_file(engine, path, strlen(path), NULL, &report, &error) == code);
  CHECK(report == NULL && strcmp(lectern_error_param(error, NULL), "path") == 0);
  CHECK(strstr(lectern_error_message(error, NULL), says) != NULL);
  CHECK(lectern_error_free(error) == LECTERN_OK);
}

typedef struct {
  int num_documents;
  size_t num_names;
  char names[200]; /* "name=source;" of all */
} named;

static void OnNamed(const lectern_document* item, void* user) {
  named* const all = user;
  ++all->num_documents;
  all->num_names += item->num_names;
  CHECK(item->num_names > 0 && strcmp(item->name, item->names[0].name) == 0);
  CHECK(strcmp(item->source, item->names[0].source) == 0);
  for (size_t i = 0; i < item->num_names; ++i) {
    const lectern_name* const name = &item->names[i];
    CHECK(strlen(name->name) == name->name_len && strlen(name->source) == name->source_len);
    strcat(strcat(all->names, strrchr(name->source, '/') + 1), "=");
    strcat(strcat(all->names, name->name), ";");
  }
}

static void TestNames(const char* store, const char* model) {
  char folder[5000], path[5100], other[5100], names_store[5100];
  snprintf(folder, sizeof folder, "%s/texts", store);
  snprintf(names_store, sizeof names_store, "%s/names", store);
  snprintf(path, sizeof path, "%s/texts/lease.txt", store);
  snprintf(other, sizeof other, "%s/texts/copy.txt", store);
  CHECK(mkdir(folder, 0700) == 0);
  lectern_engine* engine = CreateEngine(names_store, model);
  lectern_error* error = NULL;
  CheckNoText(engine, path, LECTERN_NOT_FOUND, "is not there");
  CheckNoText(engine, folder, LECTERN_INVALID_ARGUMENT, "is a folder");
  WriteFile(path, "");
  CheckNoText(engine, path, LECTERN_EMPTY_DOCUMENT, "is empty");
  WriteFile(path, "%PDF-1.7");
  CheckNoText(engine, path, LECTERN_INVALID_ARGUMENT, "is a PDF");
  CheckNoText(engine, "", LECTERN_INVALID_ARGUMENT, "no file");

  char first[33] = "";
  for (int version = 0; version < 2; ++version) {
    lectern_index_report* report = NULL;
    WriteFile(path, version ? "Ada repairs the roof." : "Mara repairs the roof.");
    CHECK_OK(lectern_engine_index_file(engine, path, strlen(path), NULL, &report, &error), error);
    CHECK(strcmp(lectern_index_report_name(report, NULL), "lease.txt") == 0);
    CHECK(strstr(lectern_index_report_source(report, NULL), "/texts/lease.txt") != NULL);
    CHECK(strcmp(lectern_index_report_replaced(report, NULL), first) == 0);
    strcpy(first, lectern_index_report_document(report, NULL));
    CHECK(lectern_index_report_free(report) == LECTERN_OK);
  }
  /* The same bytes from elsewhere; and as another version that is kept beside. */
  lectern_index_report* report = NULL;
  WriteFile(other, "Ada repairs the roof.");
  CHECK_OK(lectern_engine_index_file(engine, other, strlen(other), NULL, &report, &error), error);
  CHECK(strcmp(lectern_index_report_document(report, NULL), first) == 0);
  CHECK(lectern_index_report_free(report) == LECTERN_OK);
  named all = {0, 0, ""};
  CHECK_OK(lectern_engine_list(engine, OnNamed, &all, NULL, &error), error);
  CHECK(all.num_documents == 1 && all.num_names == 2);
  CHECK(strcmp(all.names, "copy.txt=copy.txt;lease.txt=lease.txt;") == 0);

  lectern_removed removed = {.struct_size = sizeof removed};
  lectern_text* json = NULL;
  CHECK_OK(lectern_engine_remove_named(engine, "copy.txt", 8, &removed, &json, &error), error);
  CHECK(removed.names == 1 && removed.left == 1 && removed.is_document_gone == 0);
  CHECK(strstr(lectern_text_data(json, NULL), "\"left\":[\"lease.txt\"]") != NULL);
  CHECK(lectern_text_free(json) == LECTERN_OK);
  removed.struct_size = 3;
  CHECK(lectern_engine_remove_named(engine, first, 32, &removed, NULL, NULL) ==
        LECTERN_INVALID_ARGUMENT); /* and nothing is removed */

  const char text[] = "Ben repairs the roof.";
  const lectern_index_options options = {.struct_size = sizeof options,
                                         .source = path,
                                         .source_len = strlen(path),
                                         .keep_versions = 1};
  lectern_index_options resolved = options;
  char real[5100];
  CHECK(realpath(path, real) != NULL);
  resolved.source = real, resolved.source_len = strlen(real);
  CHECK_OK(lectern_engine_index(engine, text, strlen(text), &resolved, &report, &error), error);
  CHECK(strcmp(lectern_index_report_replaced(report, NULL), first) == 0);
  CHECK(strstr(lectern_index_report_note(report, NULL), "stays, as document") != NULL);
  CHECK(lectern_index_report_free(report) == LECTERN_OK);
  removed.struct_size = sizeof removed;
  CHECK_OK(lectern_engine_remove_named(engine, first, 32, &removed, NULL, &error), error);
  CHECK(removed.names == 0 && removed.left == 0 && removed.is_document_gone == 1);
  CHECK(lectern_engine_free(engine) == LECTERN_OK);
}

/* While one engine indexes, another one of this program may neither open the document nor collect;
 * then ends the indexing. */
static int32_t MeetIndexing(const lectern_progress* progress, void* user) {
  lectern_engine* const second = user;
  lectern_session* session = NULL;
  lectern_error* error = NULL;
  if (strcmp(progress->stage, "prefill") != 0 || progress->done == 0) return 0;
  CHECK(lectern_session_open(second, "late", 4, &session, &error) == LECTERN_NOT_READY);
  CHECK(strstr(lectern_error_message(error, NULL), "is being indexed now; wait") != NULL);
  CHECK(lectern_error_free(error) == LECTERN_OK);
  error = NULL;
  CHECK(lectern_engine_collect(second, NULL, NULL, &error) == LECTERN_LOCKED);
  CHECK(strstr(lectern_error_message(error, NULL), "another engine of this program") != NULL);
  CHECK(lectern_error_free(error) == LECTERN_OK);
  return 1;
}

static void TestTwoEngines(const char* store, const char* model) {
  char path[5100];
  snprintf(path, sizeof path, "%s/two", store);
  lectern_engine* engine = CreateEngine(path, model);
  lectern_engine* second = CreateEngine(path, model);
  lectern_index_report* report = NULL;
  lectern_session* session = NULL;
  lectern_error* error = NULL;
  const lectern_index_options options = {.struct_size = sizeof options,
                                         .name = "late",
                                         .name_len = 4,
                                         .on_progress = MeetIndexing,
                                         .progress_user = second};
  CHECK_FAILS(LECTERN_CANCELLED,
              lectern_engine_index(engine, document, strlen(document), &options, &report, &error),
              report, error);
  CHECK(lectern_session_open(second, "late", 4, &session, &error) == LECTERN_NOT_READY);
  CHECK(strstr(lectern_error_message(error, NULL), "index the same text again") != NULL);
  CHECK(lectern_error_free(error) == LECTERN_OK);
  error = NULL;
  CHECK_OK(lectern_engine_remove(second, "late", 4, &error), error); /* also what was begun */
  CHECK(lectern_engine_free(engine) == LECTERN_OK);
  CHECK(lectern_engine_free(second) == LECTERN_OK);
}

int main(int argc, char** argv) {
  const char* const temporary = getenv("TMPDIR");
  char store[4096], command[3 * sizeof store + 40];
  snprintf(store, sizeof store, "%s/lectern_c_api_XXXXXX", temporary ? temporary : ".");
  if (!mkdtemp(store)) return 1;
  const char* const model = argc > 1 ? argv[1] : NULL;
  TestCodes();
  TestHandleMisuse(store);
  TestStructSizes(store);
  TestBadArguments(store);
  TestJson();
  TestConcurrentFree();
  if (model) {
    MakeDocument();
    lectern_engine* engine = CreateEngine(store, model);
    TestIndexing(engine);
    TestTokensOfAnAnswer(engine);
    TestAsking(engine); /* frees the engine */
    engine = CreateEngine(store, NULL);
    TestFallback(engine);
    TestFreeWhileAsking(engine);
    TestQuota(store, model);
    TestIoAndMemory(store, model);
    TestStore(engine, store);
    CHECK(lectern_engine_free(engine) == LECTERN_OK);
    char beside[sizeof store + 16]; /* the store itself holds nothing else */
    snprintf(beside, sizeof beside, "%s.more", store);
    CHECK(mkdir(beside, 0700) == 0);
    TestNames(beside, model);
    TestTwoEngines(beside, model);
    char third[sizeof store + 16];
    snprintf(third, sizeof third, "%s.third", store);
    CHECK(mkdir(third, 0700) == 0);
    TestCollections(third, model);
  } else {
    fprintf(stderr, "SKIPPED: no model given, only the half that needs none has run\n");
  }
  snprintf(command, sizeof command, "rm -rf '%s' '%s.more' '%s.third'", store, store, store);
  CHECK(system(command) == 0);
  if (num_failures == 0) puts("all good");
  return num_failures == 0 ? 0 : 1;
}
