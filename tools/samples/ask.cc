// Indexes a text file and asks about it, showing the answer as it comes: ask MODEL STORE FILE
// QUESTION
#include <lectern/lectern.h>

#include <fstream>
#include <iostream>
#include <iterator>

namespace api = lectern::api;
static int Fail(const api::Error& error) {
  std::cerr << error.message << "\n";
  return lectern_exit_status(error.code);
}

int main(int argc, char** argv) {
  if (argc != 5) return std::cerr << "ask MODEL STORE FILE QUESTION\n", 2;
  std::ifstream file(argv[3], std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  auto engine = api::Engine::Create({.store = argv[2], .model = argv[1]});
  if (!engine.ok()) return Fail(engine.error());
  auto report = engine->Index(text);
  if (!report.ok()) return Fail(report.error());
  auto session = engine->Open(report->document());
  if (!session.ok()) return Fail(session.error());
  auto answer =
      session->Ask(argv[4], {.on_text = [](auto piece) { return !!(std::cout << piece); }});
  if (!answer.ok()) return Fail(answer.error());
  for (const auto& passage : answer->evidence()) std::cout << "\n- " << passage.text;
  std::cout << "\n";
}
