// Whatever program is rendered, in whatever conversation, ends within its limits, twice alike, with
// runs that cover the text; and what came from the conversation is never taken for the template's.
//
// Input: a program, and after a NUL the JSON object of its variables. Without one that can be read,
// the variables are those below. Their strings have U+E000 in them, which a program that cannot
// spell it (no such character, no backslash) cannot have made.
#include <cstdlib>

#include "engine/model/template/jinja.h"

namespace {

using lectern::jinja::Limits;
using lectern::jinja::Program;
using lectern::jinja::Rendered;
using lectern::jinja::Value;
using lectern::jinja::Variables;

constexpr std::string_view kMark = "\uE000";

Value Text(std::string text) { return Value::Input(text.append(kMark)); }

Variables DefaultVariables() {
  const Value user = Value::Dict({{"role", Value::Template("user")}, {"content", Text("Ask <b>")}});
  const Value answer =
      Value::Dict({{"role", Value::Template("assistant")},
                   {"content", Text("<think>a</think> Yes\n\u00e9")},
                   {"tool_calls", Value::List({Value::Dict({{"name", Text("f")}})})}});
  return {{"messages", Value::List({user, answer, user})},
          {"x", Text("a, b c\n")},
          {"n", Value::Integer(3)},
          {"f", Value::Float(2.5)},
          {"d", Value::Dict({{"k", Text("v")}, {"list", Value::List({Text("1"), Value()})}})},
          {"bos_token", Value::Template("<s>")},
          {"add_generation_prompt", Value::Bool(true)}};
}

void Check(const Rendered& rendered, bool can_spell_mark) {
  size_t begin = 0;
  for (size_t i = 0; i < rendered.runs.size(); ++i) {
    const lectern::jinja::Run& run = rendered.runs[i];
    if (run.end <= begin || run.end > rendered.text.size()) std::abort();
    if (i > 0 && rendered.runs[i - 1].is_input == run.is_input) std::abort();
    const std::string_view part = std::string_view(rendered.text).substr(begin, run.end - begin);
    if (!run.is_input && !can_spell_mark && part.find(kMark) != part.npos) std::abort();
    begin = run.end;
  }
  if (begin != rendered.text.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view source = input.substr(0, input.find('\0'));
  const Limits limits = {.source_bytes = 4096,
                         .steps = 20'000,
                         .output_bytes = 1 << 16,
                         .memory_bytes = 1 << 22,
                         .depth = 60};
  const auto program = Program::Parse(source, limits);
  if (!program.ok()) return 0;
  Variables variables = DefaultVariables();
  if (source.size() < input.size()) {
    auto given = lectern::jinja::VariablesFromJson(input.substr(source.size() + 1));
    if (given.ok()) variables = std::move(given).value();
  }
  std::tm now = {};
  now.tm_year = 126, now.tm_mday = 1;
  const auto rendered = program->Render(variables, now);
  const auto again = program->Render(variables, now);
  if (rendered.ok() != again.ok()) std::abort();
  if (!rendered.ok()) return 0;
  if (rendered->text != again->text) std::abort();
  Check(*rendered, source.find('\\') != source.npos || source.find(kMark) != source.npos);
  return 0;
}
