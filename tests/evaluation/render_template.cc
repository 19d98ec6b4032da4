// render_template TEMPLATE [VARIABLES] [--origins]: renders the Jinja chat template in the file
// TEMPLATE with the members of a JSON object, from the file VARIABLES or stdin, as its variables,
// and prints the text. With --origins, text of the variables is put between "⟦" and "⟧". Prints
// "ERROR " and the message, and exits 1, where the template is refused or refuses. strftime_now
// tells 2026-02-03 04:05:06. tests/real/templates.py compares this with jinja2.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "engine/jinja.h"

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

}  // namespace

int main(int argc, char** argv) {
  const bool shows_origins = argc > 1 && std::strcmp(argv[argc - 1], "--origins") == 0;
  const int num_files = argc - 1 - shows_origins;
  if (num_files < 1 || num_files > 2) {
    std::fprintf(stderr, "usage: render_template TEMPLATE [VARIABLES] [--origins]\n");
    return 2;
  }
  std::ifstream source(argv[1], std::ios::binary);
  std::ifstream variables(num_files == 2 ? argv[2] : "/dev/stdin", std::ios::binary);
  if (!source || !variables) {
    std::fprintf(stderr, "render_template: cannot read its files\n");
    return 2;
  }
  const auto rendered = Render(ReadAll(source), ReadAll(variables));
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
