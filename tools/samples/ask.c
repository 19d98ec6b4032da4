/* Indexes a text file and asks about it: ask MODEL_FOLDER STORE FILE QUESTION */
#include <lectern/lectern_c.h>
#include <stdio.h>
#include <string.h>

static int Fail(lectern_error* error) { /* says what is wrong and the way out */
  const int status = lectern_exit_status(lectern_error_code(error));
  fprintf(stderr, "%s\n", error ? lectern_error_message(error, NULL) : "out of memory");
  lectern_error_free(error);
  return status;
}

int main(int argc, char** argv) {
  if (argc != 5) return fprintf(stderr, "ask MODEL_FOLDER STORE FILE QUESTION\n"), 2;
  lectern_error* error = NULL;
  lectern_engine_options options = {.struct_size = sizeof options};
  options.model = argv[1], options.model_len = strlen(argv[1]);
  options.store = argv[2], options.store_len = strlen(argv[2]);
  lectern_engine* engine = NULL;
  if (lectern_engine_create(&options, &engine, &error)) return Fail(error);
  lectern_index_report* report = NULL; /* the same text again: nothing is done */
  const size_t path = strlen(argv[3]);
  if (lectern_engine_index_file(engine, argv[3], path, NULL, &report, &error)) return Fail(error);
  size_t id_len;
  const char* id = lectern_index_report_document(report, &id_len);
  lectern_session* session = NULL;
  if (lectern_session_open(engine, id, id_len, &session, &error)) return Fail(error);
  lectern_answer* answer = NULL;
  const size_t question = strlen(argv[4]);
  if (lectern_session_ask(session, argv[4], question, NULL, &answer, &error)) return Fail(error);
  printf("%s\n", lectern_answer_text(answer, NULL));
  lectern_evidence passage = {.struct_size = sizeof passage};
  for (size_t i = 0; lectern_answer_evidence(answer, i, &passage) == LECTERN_OK; ++i)
    printf("[%zu] %.*s\n", i + 1, (int)passage.text_len, passage.text);
  lectern_answer_free(answer), lectern_session_free(session); /* in any order, or not at all */
  return lectern_index_report_free(report) || lectern_engine_free(engine);
}
