// Indexes a text file, asks about it, shows the answer as it comes: ask MODEL STORE FILE QUESTION
#include <lectern/lectern.h>

#include <iostream>

static int Fail(const lectern::api::Error& error) {
  return std::cerr << error.message << "\n", lectern_exit_status(error.code);
}

int main(int argc, char** argv) {
  if (argc != 5) return std::cerr << "ask MODEL_FOLDER STORE FILE QUESTION\n", 2;
  auto engine = lectern::api::Engine::Create({.store = argv[2], .model = argv[1]});
  if (!engine.ok()) return Fail(engine.error());
  auto report = engine->IndexFile(argv[3]);  // the same text again: nothing is done
  if (!report.ok()) return Fail(report.error());
  auto session = engine->Open(report->document());
  if (!session.ok()) return Fail(session.error());
  auto answer = session->Ask(argv[4], {.on_text = [](auto more) { return !!(std::cout << more); }});
  if (!answer.ok()) return Fail(answer.error());
  for (const auto& passage : answer->evidence()) std::cout << "\n- " << passage.text;
  std::cout << "\n";
}
