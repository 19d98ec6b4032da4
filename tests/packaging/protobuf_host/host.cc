// A program with a protobuf of its own, another version than SentencePiece brings: it writes and
// reads messages before Lectern is loaded, while it works, and after. Usage: host MODEL STORE
// [LIBRARY]: the library is loaded at run time, unless compiled with LINKED, which is for one that
// the linker gets. Prints the answer; 1 when anything is not as it should be.
#include <dlfcn.h>
#include <lectern/lectern_c.h>

#include <cstdio>
#include <string>
#include <thread>

#include "note.pb.h"

namespace {

bool MessagesWork() {
  for (int round = 0; round < 100; ++round) {
    Note note, copy;
    note.set_text("round " + std::to_string(round));
    for (int i = 0; i < 1000; ++i) note.add_numbers(i * 0.5);
    (*note.mutable_counts())["rounds"] = round;
    if (!copy.ParseFromString(note.SerializeAsString())) return false;
    if (copy.text() != note.text() || copy.numbers_size() != 1000 || copy.numbers(999) != 499.5 ||
        copy.counts().at("rounds") != round) {
      return false;
    }
  }
  return !Note().ParseFromString("\xff\xff\xff");
}

#ifdef LINKED
#define FIND(name) const auto name##_ = &name
#else
#define FIND(name)                                                               \
  const auto name##_ = reinterpret_cast<decltype(&name)>(dlsym(library, #name)); \
  if (!name##_) return std::fprintf(stderr, "%s\n", dlerror()), 1
#endif

constexpr char kText[] = "The Fethol bridge was designed by Norla Vey. The river is wide.";
constexpr char kQuestion[] = "Who designed the Fethol bridge?";

// Indexes and asks, with messages of the program between the calls and in a callback.
int IndexAndAsk([[maybe_unused]] void* library, const char* model, const char* store) {
  FIND(lectern_engine_create);
  FIND(lectern_engine_index);
  FIND(lectern_index_report_free);
  FIND(lectern_session_open);
  FIND(lectern_session_ask);
  FIND(lectern_answer_text);
  FIND(lectern_answer_free);
  FIND(lectern_session_free);
  FIND(lectern_engine_free);
  FIND(lectern_error_message);
  lectern_engine_options options = {};
  options.struct_size = sizeof options;
  options.store = store, options.store_len = std::string(store).size();
  options.model = model, options.model_len = std::string(model).size();
  lectern_engine* engine = nullptr;
  lectern_index_report* report = nullptr;
  lectern_session* session = nullptr;
  lectern_answer* answer = nullptr;
  lectern_error* error = nullptr;
  lectern_ask_options ask = {};
  ask.struct_size = sizeof ask;
  ask.on_text = [](const char*, size_t, void*) { return MessagesWork() ? 0 : 1; };
  if (lectern_engine_create_(&options, &engine, &error) ||
      lectern_engine_index_(engine, kText, sizeof kText - 1, nullptr, &report, &error) ||
      !MessagesWork() || lectern_session_open_(engine, nullptr, 0, &session, &error) ||
      lectern_session_ask_(session, kQuestion, sizeof kQuestion - 1, &ask, &answer, &error)) {
    std::fprintf(stderr, "%s\n", error ? lectern_error_message_(error, nullptr) : "messages");
    return 1;
  }
  std::printf("%s\n", lectern_answer_text_(answer, nullptr));
  lectern_answer_free_(answer);
  lectern_session_free_(session);
  lectern_index_report_free_(report);
  return lectern_engine_free_(engine);
}

}  // namespace

int main(int argc, char** argv) {
  GOOGLE_PROTOBUF_VERIFY_VERSION;
  if (argc < 3 || !MessagesWork()) return 1;
  void* library = nullptr;
  if (argc == 4 && !(library = dlopen(argv[3], RTLD_NOW | RTLD_GLOBAL))) {
    return std::fprintf(stderr, "%s\n", dlerror()), 1;
  }
  int status = 1;
  std::thread([&] { status = IndexAndAsk(library, argv[1], argv[2]); }).join();
  if (status != 0 || !MessagesWork() || (library && dlclose(library) != 0)) return 1;
  const bool works = MessagesWork();
  google::protobuf::ShutdownProtobufLibrary();
  return works ? 0 : 1;
}
