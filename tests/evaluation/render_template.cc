// render_template TEMPLATE [VARIABLES] [--origins | --document]: renders the Jinja chat template in
// the file TEMPLATE with the members of a JSON object, from the file VARIABLES or stdin, as its
// variables, and prints the text. With --origins, text of the variables is put between "⟦" and "⟧".
// With --document the engine asks about a document instead: the members of VARIABLES are "document",
// "turns" (a list of [question, answer]), "question", "bos" and "eos", and the text is that of the
// fixed context and of what follows it. Prints "ERROR " and the message, and exits 1, where the
// template is refused or refuses. strftime_now tells 2026-02-03 04:05:06, for a document the day
// alone. tests/real/templates.py compares this with jinja2.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "engine/model/formats/json.h"
#include "engine/model/template/chat_template.h"
#include "engine/model/template/jinja.h"
#include "tests/engine/byte_tokenizer.h"

namespace {

using lectern::jinja::Program;
using lectern::jinja::Rendered;
using lectern::jinja::Value;
using lectern::jinja::Variables;

std::string ReadAll(std::istream& in) {
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

lectern::Result<Rendered> Render(const std::string& source, const std::string& json) {
  std::tm now = {};
  now.tm_year = 2026 - 1900, now.tm_mon = 1, now.tm_mday = 3, now.tm_wday = 2, now.tm_yday = 33;
  now.tm_hour = 4, now.tm_min = 5, now.tm_sec = 6;
  LECTERN_ASSIGN(const Variables variables, lectern::jinja::VariablesFromJson(json));
  LECTERN_ASSIGN(const Program program, Program::Parse(source));
  return program.Render(variables, now);
}

std::string TextOf(const lectern::Json& object, std::string_view key) {
  const lectern::Json* const member = object.Find(key);
  return member != nullptr && member->string() != nullptr ? *member->string() : "";
}

// The conversation of the fixed context and the question as the engine feeds it, tokens as text.
lectern::Result<Rendered> AskAboutDocument(const std::string& source, const std::string& json) {
  constexpr std::string_view kDate = "2026-02-03";
  LECTERN_ASSIGN(const lectern::Json given, lectern::ParseJson(json));
  const std::string bos = TextOf(given, "bos"), eos = TextOf(given, "eos");
  lectern::ChatHistory history;
  for (const lectern::Json& turn : *given.Find("turns")->array()) {
    history.turns.push_back({*(*turn.array())[0].string(), *(*turn.array())[1].string()});
  }
  const lectern::ByteTokenizer tokenizer("", "");
  LECTERN_ASSIGN(const lectern::ChatTemplate chat,
                 lectern::ChatTemplate::Make({.name = std::string(lectern::kOwnTemplate),
                                              .jinja = source,
                                              .bos = bos,
                                              .eos = eos},
                                             tokenizer));
  LECTERN_ASSIGN(const auto context,
                 chat.EncodeDocument(tokenizer, TextOf(given, "document"), kDate));
  LECTERN_ASSIGN(const auto rest,
                 chat.EncodeQuestion(tokenizer, TextOf(given, "question"), history, kDate));
  Rendered whole{.text = tokenizer.TextOf(context.ids) + tokenizer.TextOf(rest), .runs = {}};
  whole.runs = {{whole.text.size(), false}};
  return whole;
}

}  // namespace

int main(int argc, char** argv) {
  const auto ends_with = [&](const char* flag) {
    return argc > 1 && std::strcmp(argv[argc - 1], flag) == 0;
  };
  const bool shows_origins = ends_with("--origins"), has_document = ends_with("--document");
  const int num_files = argc - 1 - (shows_origins || has_document);
  if (num_files < 1 || num_files > 2) {
    std::fprintf(stderr, "usage: render_template TEMPLATE [VARIABLES] [--origins | --document]\n");
    return 2;
  }
  std::ifstream source(argv[1], std::ios::binary);
  std::ifstream variables(num_files == 2 ? argv[2] : "/dev/stdin", std::ios::binary);
  if (!source || !variables) {
    std::fprintf(stderr, "render_template: cannot read its files\n");
    return 2;
  }
  const auto render = has_document ? AskAboutDocument : Render;
  const auto rendered = render(ReadAll(source), ReadAll(variables));
  if (!rendered.ok()) {
    std::printf("ERROR %s\n", rendered.status().message().c_str());
    return 1;
  }
  size_t begin = 0;
  for (const lectern::jinja::Run& run : rendered->runs) {
    const std::string part = rendered->text.substr(begin, run.end - begin);
    std::cout << (shows_origins && run.is_input ? "⟦" + part + "⟧" : part);
    begin = run.end;
  }
  return 0;
}
