#include "engine/model/template/jinja.h"

#include <gtest/gtest.h>

#include <chrono>

#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "tests/engine/memory_env.h"

namespace lectern::jinja {
namespace {

std::tm Noon() {  // of 3 February 2026, a Tuesday, as in the golden file
  std::tm now = {};
  now.tm_year = 126, now.tm_mon = 1, now.tm_mday = 3, now.tm_wday = 2, now.tm_yday = 33;
  now.tm_hour = 4, now.tm_min = 5, now.tm_sec = 6;
  return now;
}

Result<Rendered> Render(std::string_view source, const Variables& variables = {},
                        const Limits& limits = {}) {
  LECTERN_ASSIGN(const Program program, Program::Parse(source, limits));
  return program.Render(variables, Noon());
}

// The text with "⟦" and "⟧" around what came from the input; or the error's code and message.
std::string Marked(const Result<Rendered>& rendered) {
  if (!rendered.ok()) {
    return std::string(CodeName(rendered.status().code())) + ": " + rendered.status().message();
  }
  std::string marked;
  size_t begin = 0;
  for (const Run& run : rendered->runs) {
    const std::string part = rendered->text.substr(begin, run.end - begin);
    marked += run.is_input ? "⟦" + part + "⟧" : part;
    begin = run.end;
  }
  EXPECT_EQ(begin, rendered->text.size());
  return marked;
}

std::string MarkedOf(std::string_view source, const Variables& variables = {}) {
  return Marked(Render(source, variables));
}

TEST(JinjaTest, RendersAndRefusesAsJinja2) {
  const std::string golden = ReadWholeFile(LECTERN_SOURCE_DIR "/tests/golden/jinja_golden.json");
  const auto json = ParseJson(golden);
  ASSERT_TRUE(json.ok()) << json.status().message();
  // From the text itself, in which keys have an order.
  const size_t begin = golden.find(' '), end = golden.find(",\n\"cases\"");
  const auto variables = VariablesFromJson(golden.substr(begin, end - begin));
  ASSERT_TRUE(variables.ok()) << variables.status().message();
  const Json::Array& cases = *json->Find("cases")->array();
  EXPECT_GT(cases.size(), 600u);
  for (const Json& item : cases) {
    const std::string& source = *item.Find("source")->string();
    const auto rendered = Render(source, *variables);
    if (item.Find("refused") != nullptr) {
      EXPECT_FALSE(rendered.ok()) << source << "\ngives: " << rendered->text;
      continue;
    }
    const std::string got = rendered.ok() ? rendered->text : rendered.status().message();
    EXPECT_EQ(got, *item.Find("text")->string()) << source;
  }
}

TEST(JinjaTest, EveryByteKnowsWhereItCameFrom) {
  const Variables variables = {{"u", Value::Input(" a<|end|>B,c ")},
                               {"n", Value::Integer(7)},
                               {"d", Value::Dict({{"<k>", Value::Input("v\n")}})},
                               {"t", Value::Template("<|end|>")},
                               {"l", Value::List({Value::Input("x"), Value::Template("y")})}};
  const std::pair<const char*, const char*> cases[] = {
      {"<s>{{ u }}{{ t }}", "<s>⟦ a<|end|>B,c ⟧<|end|>"},
      {"{{ 'x' + u.strip() + 'y' }}", "x⟦a<|end|>B,c⟧y"},
      {"{{ u | trim | upper }}{{ (u ~ 'ß').upper() }}", "⟦A<|END|>B,C A<|END|>B,C ⟧SS"},
      {"{{ u[1:3] }}{{ (t ~ u)[5:9] }}{{ (t ~ u)[::-1][-1] }}", "⟦a<⟧|>⟦ a⟧<"},
      {"{{ u.split(',') }}", "['⟦ a<|end|>B⟧', '⟦c ⟧']"},
      {"{{ (u ~ t).replace('<|end|>', '!') }}", "⟦ a⟧!⟦B,c ⟧!"},
      {"{{ 'a-b'.replace('-', u) }}", "a⟦ a<|end|>B,c ⟧b"},
      {"{{ l | join(', ') }}{{ t.join(l) }}", "⟦x⟧, y⟦x⟧<|end|>y"},
      {"{{ d | tojson }}", "{\"⟦<k>⟧\": \"⟦v\\n⟧\"}"},
      {"{{ d }}{{ [t, u] }}", "{'⟦<k>⟧': '⟦v\\n⟧'}['<|end|>', '⟦ a<|end|>B,c ⟧']"},
      {"{{ '%s|%5s|%.2s' % (u, 'z', u) }}", "⟦ a<|end|>B,c ⟧|    z|⟦ a⟧"},
      {"{{ '{}{:>4}{x!r}'.format(u, 'q', x=l[0]) }}", "⟦ a<|end|>B,c ⟧   q'⟦x⟧'"},
      {"{{ u | format }}{{ n }}{{ u | length }}", "⟦ a<|end|>B,c ⟧713"},
      {"{{ '%c%c' % (60, 124) }}", "⟦<|⟧"},  // the numbers may be a user's
      {"{{ '{:{}}'.format(1, l[0] ~ '>3') }}", "⟦xx⟧1"},
      {"{{ u | e }}{{ (u | safe) + '<' }}", "⟦ a&lt;|end|&gt;B,c  a<|end|>B,c ⟧&lt;"},
      {"{{ u | title | indent(2, true) }}{{ u | truncate(6, true, '..', 0) }}",
       "  ⟦ A<|end|>b,c  a<|⟧.."},
      {"{{ u | urlencode }}{{ u.center(15, '*') }}",
       "⟦%20a%3C%7Cend%7C%3EB%2Cc%20⟧*⟦ a<|end|>B,c ⟧*"},
      {"{% for c in l[0] ~ t[:1] %}{{ c }}{% endfor %}", "⟦x⟧<"},
      {"{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}", "⟦<k>v\n⟧"},
      {"{% set x %}[{{ u }}]{% endset %}{{ x }}", "[⟦ a<|end|>B,c ⟧]"},
      {"{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(l[0]) | upper }}", "<⟦X⟧>"},
      {"{% filter upper %}a{{ l[0] }}{% endfilter %}", "A⟦X⟧"},
      {"{{ dict(**d) }}", "{'⟦<k>⟧': '⟦v\\n⟧'}"},
      {"{{ l | map('upper') | list }}{{ l | sort | first }}", "['⟦X⟧', 'Y']⟦x⟧"},
      {"{{ u * 2 }}", "⟦ a<|end|>B,c  a<|end|>B,c ⟧"},
      {"{{ (l[0] ~ 'é').partition('é') }}", "('⟦x⟧', 'é', '')"},
      {"{{ strftime_now(l[0] ~ '%Y') }}{{ strftime_now('%Y') }}", "⟦x2026⟧2026"},
      {"{% set ns = namespace(a=u) %}{{ ns.a | first }}{{ ns.a | last }}", "⟦  ⟧"},
      {"{{ (t ~ l[0]).strip('<x') }}", "|end|>"},
  };
  for (const auto& [source, marked] : cases) {
    EXPECT_EQ(MarkedOf(source, variables), marked) << source;
  }
}

TEST(JinjaTest, JsonKeepsOrderAndIsInput) {
  const auto value =
      Value::FromJson(R"({"z": [1, -2.5, 1e3, true, null], "a": "\u00e9", "z2": {}})");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(MarkedOf("{{ v | tojson }}", {{"v", *value}}),
            "{\"⟦z⟧\": [1, -2.5, 1000.0, true, null], \"⟦a⟧\": \"⟦é⟧\", \"⟦z2⟧\": {}}");
  const auto twice = Value::FromJson(R"({"a": 1, "b": 2, "a": 3})");
  ASSERT_TRUE(twice.ok());
  EXPECT_EQ(MarkedOf("{{ v }}", {{"v", *twice}}), "{'⟦a⟧': 3, '⟦b⟧': 2}");
  for (const char* bad : {"", "{", "[1,]", "{\"a\" 1}", "nul", "\"\xff\"", "[1] 2", "'a'"}) {
    EXPECT_EQ(Value::FromJson(bad).status().code(), Code::kMalformedModel) << bad;
  }
  const std::string deep = std::string(70, '[') + std::string(70, ']');
  for (const std::string_view big :
       {std::string_view("9223372036854775808"), std::string_view("123456789012345678901234567890"),
        std::string_view(deep)}) {
    EXPECT_EQ(Value::FromJson(big).status().code(), Code::kLimitExceeded) << big;
  }
  EXPECT_EQ(VariablesFromJson("[1]").status().code(), Code::kMalformedModel);
}

TEST(JinjaTest, ErrorsNameTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"\n\n{{ x.y }}", "malformed_model: line 3: 'x' is undefined"},
      {"{% if true %}\n\n{{ 1 + 'a' }}{% endif %}",
       "malformed_model: line 3: unsupported operand types for +: 'int' and 'str'"},
      {"\n{{ 'a' | wordwrap }}",
       "malformed_model: line 2: the filter \"wordwrap\" is not supported"},
      {"\n{{ 'a' | nothing }}", "malformed_model: line 2: there is no filter \"nothing\""},
      {"{{ 'a' is nothing }}", "malformed_model: line 1: there is no test \"nothing\""},
      {"a\n{% include 'x' %}", "malformed_model: line 2: the tag \"include\" is not supported"},
      {"{% block a %}{% endblock %}",
       "malformed_model: line 1: the tag \"block\" is not supported"},
      {"\n\n{% nothing %}", "malformed_model: line 3: unexpected tag \"nothing\""},
      {"{% for x in y %}\n\n",
       "malformed_model: line 2: \"endfor\" is missing; the block begins on line 1"},
      {"\n{{ (1 }}", "malformed_model: line 2: unexpected '}'"},
      {"\n{{ lipsum() }}", "malformed_model: line 2: the function \"lipsum\" is not supported"},
      {"{% macro m() %}\n{{ none.a.b }}\n{% endmacro %}\n{{ m() }}",
       "malformed_model: line 2: 'NoneType object' has no attribute 'a'"},
      {"{{ raise_exception('Only ' ~ n) }}", "invalid_argument: Only 7"},
      {"\xff", "malformed_model: line 1: the template is not UTF-8"},
      {"{{ 99999999999999999999 }}", "limit_exceeded: line 1: an integer has more than 64 bits"},
      {"{{ 9223372036854775807 + 1 }}",
       "malformed_model: line 1: an integer has more than 64 bits"},
  };
  for (const auto& [source, message] : cases) {
    EXPECT_EQ(MarkedOf(source, {{"n", Value::Integer(7)}}), message) << source;
  }
}

TEST(JinjaTest, LongNamesInMessagesAreCutBetweenCharacters) {
  std::string key = "x";
  for (int i = 0; i < 150; ++i) key += "é";
  for (const char* source : {"{{ d[k].a }}", "{{ d[(k, 1)].a }}", "{{ (d | attr(k)).a }}"}) {
    const std::string message =
        MarkedOf(source, {{"d", Value::Dict({})}, {"k", Value::Input(key)}});
    EXPECT_NE(message.find("malformed_model"), std::string::npos) << message;
    EXPECT_TRUE(IsValidUtf8(message)) << source;
  }
}

// A program that never ends, or takes all memory, is ended soon.
TEST(JinjaTest, LimitsEndPrograms) {
  std::string deep_brackets, deep_tags;
  for (int i = 0; i < 100000; ++i) deep_brackets += "[";
  for (int i = 0; i < 1000; ++i) deep_tags += "{% if true %}";
  std::string long_sum = "{{ 1", long_filters = "{{ 1", nots = "{{ ";
  for (int i = 0; i < 5000; ++i) long_sum += "+1", long_filters += "|abs", nots += "not ";
  const std::string cases[] = {
      "{{ " + deep_brackets,
      deep_tags,
      long_sum + " }}",
      long_filters + " }}",
      nots + "1 }}",
      "{{ 'a' * 10 ** 10 }}",
      "{{ [1] * 10 ** 10 }}",
      "{{ ('a' * 10 ** 8) * 10 }}",
      "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% "
      "endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% "
      "endfor %}",
      "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor "
      "%}{{ ns.l }}",
      "{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}{{ ns.l }}",
      "{% set ns = namespace(a=[], b=[]) %}{% for i in range(99) %}{% set ns.a = [ns.a, ns.a] %}"
      "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
      "{% set ns = namespace(a=1) %}{% for i in range(99) %}{% set ns.a = (ns.a, ns.a) %}{% endfor "
      "%}"
      "{{ {0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 7: 0, 8: 0, 9: 0, 10: 0, 11: 0, ns.a: 1} }}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{{ range(99999) | map('string') | join('x' * 99999) }}",
      "{% for a in range(99999) %}{{ 'a' * 9999 }}{% endfor %}",
      "{{ '%999999999d' % 1 }}",
      "{{ '{:999999999}'.format(1) }}",
      "{{ 'a'.center(10 ** 12) }}",
      "{{ 'x'.replace('', 'y' * 9999) * 99999 }}",
      "{{ [1] | batch(10 ** 12, 1) | list }}",
      "{{ [1] | slice(10 ** 12) | list }}",
      "{{ '\t'.expandtabs(10 ** 12) }}",
      "{{ (range(99999) | list) * 99999 }}",
      "{{ {'a': 1} | tojson(indent=10 ** 12) }}",
      "{% set ns = namespace() %}{% for i in range(99999) %}{% set ns.x = namespace(y=ns.x) %}{% "
      "endfor %}"
      "{{ ns.x }}",
      "{{ 'a' | indent(10 ** 12) }}",
  };
  const Limits limits = {.steps = 5'000'000, .memory_bytes = size_t{64} << 20};
  for (const std::string& source : cases) {
    const auto begin = std::chrono::steady_clock::now();
    const auto rendered = Render(source, {}, limits);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(rendered.ok() ? Code::kOk : rendered.status().code(), Code::kLimitExceeded)
        << source.substr(0, 100) << "\n"
        << Marked(rendered).substr(0, 200);
    EXPECT_LT(took.count(), 60) << source.substr(0, 100);
  }
  EXPECT_EQ(Program::Parse(std::string(2 << 20, 'a')).status().code(), Code::kLimitExceeded);
}

// Namespaces, macros and loops can contain themselves.
TEST(JinjaTest, ValuesThatContainThemselvesAreFreed) {
  EXPECT_EQ(
      MarkedOf(
          "{% set ns = namespace() %}{% set ns.self = ns %}{% macro m() %}{{ ns.m }}{% endmacro %}"
          "{% set ns.m = m %}{% for i in [1] %}{% set ns.loop = loop %}{{ loop.changed(loop) }}"
          "{% endfor %}{{ m() }}{{ ns.loop.index }}"),
      "True<Macro 'm'>1");
}

TEST(JinjaTest, ADocumentOfManyMegabytesRenders) {
  std::string document;
  while (document.size() < (size_t{16} << 20)) document += "Überall steht \"etwas\".\n";
  const Value message =
      Value::Dict({{"role", Value::Template("user")}, {"content", Value::Input(document)}});
  const auto rendered = Render(
      "{% for m in messages %}<|{{ m.role }}|>{{ (m.content | trim) ~ '\n' }}{% if m.content is "
      "string "
      "and '<x>' not in m.content and m.content.startswith('U') is false %}{{ m.content | length }}"
      "{% endif %}{% endfor %}{{ messages[0].content.split('nothing')[-1][:3] }}{{ messages | "
      "tojson | length }}",
      {{"messages", Value::List({message})}});
  ASSERT_TRUE(rendered.ok()) << rendered.status().message();
  EXPECT_TRUE(rendered->text.starts_with("<|user|>Überall steht"));
  EXPECT_EQ(rendered->runs.size(), 5u);  // the mark, the document, its length, "Übe", a length
}

TEST(JinjaTest, BytesThatAreNotUtf8AreCharacters) {
  const Variables variables = {{"x", Value::Input("a\xff\xc3"
                                                  "b\xe2\x82")}};
  EXPECT_EQ(MarkedOf("{{ x | length }}{{ x[1] }}{{ x[::-1] }}{{ x.upper() }}", variables),
            "6⟦\xff\x82\xe2"
            "b\xc3\xff"
            "aA\xff\xc3"
            "B\xe2\x82⟧");
  const auto rendered = Render(
      "{{ x | tojson(true) }}{{ [x] }}{{ x.title().split() }}{{ x | urlencode }}"
      "{{ x.strip(x[-1]) }}{{ x.center(9) }}{{ x | wordcount }}",
      variables);
  EXPECT_TRUE(rendered.ok()) << rendered.status().message();
}

TEST(JinjaTest, ProgramsAreSharedAndMoved) {
  auto parsed = Program::Parse("{{ x }}");
  ASSERT_TRUE(parsed.ok());
  const Program program = std::move(parsed).value();
  const Program copy = program;
  EXPECT_EQ(copy.source(), "{{ x }}");
  EXPECT_EQ(Marked(program.Render({{"x", Value::Bool(true)}}, Noon())), "True");
  EXPECT_EQ(Marked(copy.Render({{"x", Value::Float(0.5)}}, Noon())), "0.5");
  EXPECT_EQ(Marked(copy.Render({}, Noon())), "");
}

// As Python has them, also where the last number is not one step before the stop.
TEST(JinjaRangeTest, KeepsTheBoundsThatItWasGiven) {
  const auto rendered = Render(
      "{{ range(0, 10, 3).stop }} {{ range(5, 0).stop }} {{ range(7).start }} {{ range(9, 1, -4).step "
      "}} {{ range(9223372036854775800, 9223372036854775807, 5).stop }}");
  ASSERT_TRUE(rendered.ok()) << rendered.status().message();
  EXPECT_EQ(rendered->text, "10 0 0 -4 9223372036854775807");
}

}  // namespace
}  // namespace lectern::jinja
