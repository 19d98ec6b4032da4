// A new option is a field of its structs and a row of a table: from these few lines come its check,
// its C struct, its flag, its field in a request and its description. And the real tables are
// whole.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/requests/options.h"
#include "tools/option_flags.h"
#include "tools/server/option_fields.h"

namespace lectern {
namespace {

// --- a table with one option of each kind, as a change to the program would add it ---------------

enum CMoods { kMoodDefault = 0, kMoodCalm = 1, kMoodWild = 2 };
struct CTest {
  size_t struct_size;
  float warmth;
  uint32_t num_rounds;
  int32_t no_echo;
  int32_t mood;
  const char* color;
  size_t color_len;
};
struct ApiTest {
  float warmth = 0;
  uint32_t num_rounds = 0;
  bool echo = true;
  int32_t mood = kMoodDefault;
  std::string_view color = {};
  std::vector<std::string> words = {};
};
struct EngineTest {
  struct {
    double warmth = 0.5;
  } weather;
  uint32_t num_rounds = 7;
  bool echo = true;
  uint32_t mood = kMoodCalm;
  std::string color = "red";
  std::vector<std::string> words;
};

using TestRow = OptionRow<CTest, ApiTest, EngineTest>;
using GivenTest = GivenOptions<CTest, ApiTest, EngineTest>;
using Weather = decltype(EngineTest::weather);

constexpr TestRow kRows[] = {
    {{.name = "warmth",
      .kind = OptionKind::kNumber,
      .surfaces = kCommandLine | kRequest,
      .range = kShare,
      .help = "How warm it is, where {rounds} are given",
      .default_text = "0.5",
      .value_name = "W"},
     AtOrZero<&CTest::warmth>(),
     At<&ApiTest::warmth>(),
     At<&EngineTest::weather, &Weather::warmth>()},
    {{.name = "rounds",
      .kind = OptionKind::kWhole,
      .surfaces = kCommandLine | kRequest,
      .range = {.least = 2},
      .most_of_request = 9,
      .help = "Rounds to go"},
     AtOrZero<&CTest::num_rounds>(),
     At<&ApiTest::num_rounds>(),
     At<&EngineTest::num_rounds>()},
    {{.name = "echo",
      .kind = OptionKind::kFlag,
      .surfaces = kCommandLine | kRequest,
      .is_on = true,
      .help = "Whether there is an echo",
      .help_off = "Leave the echo out"},
     AtFlag<&CTest::no_echo, false>(),
     At<&ApiTest::echo>(),
     At<&EngineTest::echo>()},
    {{.name = "mood",
      .kind = OptionKind::kEnumeration,
      .surfaces = kCommandLine | kRequest,
      .choices = {"calm", "wild"},
      .help = "The mood"},
     AtOrZero<&CTest::mood>(),
     At<&ApiTest::mood>(),
     At<&EngineTest::mood>()},
    {{.name = "top_color",
      .kind = OptionKind::kChoice,
      .surfaces = kCommandLine | kRequest,
      .choices = {"red", "green", "blue"},
      .help = "The colour",
      .flag = "color"},
     AtText<&CTest::color, &CTest::color_len>(),
     At<&ApiTest::color>(),
     At<&EngineTest::color>()},
    {{.name = "words",
      .kind = OptionKind::kTexts,
      .surfaces = kCommandLine | kRequest,
      .range = {.most = 8},
      .help = "The words",
      .flag = "word"},
     {},
     At<&ApiTest::words>(),
     At<&EngineTest::words>()},
    {{.name = "hidden", .kind = OptionKind::kText}, {}, {}, {}},
};
constexpr std::span<const TestRow> kTable(kRows);

// Parses `flags` into `given`. A value: the exit status.
std::optional<int> Parse(std::vector<std::string> flags, GivenTest& given) {
  tools::CommandLine app("A test.", "test-tool");
  tools::AddOptionFlags(app, given);
  flags.insert(flags.begin(), "test-tool");
  std::vector<char*> argv;
  for (std::string& flag : flags) argv.push_back(flag.data());
  return tools::ParseCommandLine(app, static_cast<int>(argv.size()), argv.data());
}

// The text that is printed on stderr when these flags are refused.
std::string Refusal(std::vector<std::string> flags) {
  GivenTest given(kTable);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Parse(std::move(flags), given), 2);
  return ::testing::internal::GetCapturedStderr();
}

Result<GivenTest> ReadJson(const std::string& body) {
  LECTERN_ASSIGN(server::RequestFields fields, server::RequestFields::Parse(body));
  GivenTest given(kTable);
  server::ReadOptionFields(fields, kRequest, given);
  LECTERN_RETURN_IF_ERROR(fields.Finish());
  return given;
}

TEST(OptionTest, ACStructGivesItToTheEngine) {
  CTest c = {};
  EngineTest engine;
  ASSERT_TRUE(ReadOptions(kTable, c, engine).ok());  // 0 everywhere: the defaults
  EXPECT_EQ(engine.weather.warmth, 0.5);
  EXPECT_EQ(engine.num_rounds, 7u);
  EXPECT_EQ(engine.color, "red");
  EXPECT_TRUE(engine.echo);
  c = {.struct_size = sizeof c,
       .warmth = 0.25f,
       .num_rounds = 3,
       .no_echo = 1,
       .mood = kMoodWild,
       .color = "green and more",
       .color_len = 5};
  ASSERT_TRUE(ReadOptions(kTable, c, engine).ok());
  EXPECT_EQ(engine.weather.warmth, 0.25);
  EXPECT_EQ(engine.num_rounds, 3u);
  EXPECT_FALSE(engine.echo);
  EXPECT_EQ(engine.mood, kMoodWild);
  EXPECT_EQ(engine.color, "green");
  c.mood = 3;
  Status status = ReadOptions(kTable, c, engine);
  EXPECT_EQ(status.message(), "mood is not one of lectern_mood");
  EXPECT_EQ(status.param(), "mood");
  c.mood = -1;
  EXPECT_EQ(ReadOptions(kTable, c, engine).param(), "mood");
  c.mood = 0, c.color = nullptr;
  status = ReadOptions(kTable, c, engine);
  EXPECT_EQ(status.message(), "text is NULL but its length is not 0");
  EXPECT_EQ(status.param(), "top_color");
}

TEST(OptionTest, TheEngineRefusesWhatIsOutOfRange) {
  const auto check = [](auto change) {
    EngineTest options;
    change(options);
    return CheckOptions(kTable, options);
  };
  EXPECT_TRUE(check([](EngineTest&) {}).ok());
  Status status = check([](EngineTest& e) { e.weather.warmth = 0; });
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.param(), "warmth");
  EXPECT_EQ(status.message(), "warmth must be in (0, 1]");
  EXPECT_EQ(status.wordings().cli_text(), "--warmth must be in (0, 1]");
  EXPECT_EQ(check([](EngineTest& e) { e.weather.warmth = NAN; }).param(), "warmth");
  EXPECT_EQ(check([](EngineTest& e) { e.num_rounds = 1; }).message(), "rounds must be at least 2");
  status = check([](EngineTest& e) { e.color = "pink"; });
  EXPECT_EQ(status.message(), "top_color must be red, green or blue, not \"pink\"");
  EXPECT_EQ(status.wordings().cli_text(), "--color must be red, green or blue, not \"pink\"");
  EXPECT_EQ(check([](EngineTest& e) { e.words = {"a", ""}; }).message(), "one of words is empty");
  EXPECT_EQ(check([](EngineTest& e) {
              e.words = {"12345", "6789"};
            }).message(),
            "words have more than 8 bytes; give shorter ones");
}

TEST(OptionTest, AFlagIsParsed) {
  GivenTest given(kTable);
  ASSERT_EQ(Parse({"--warmth", "0.75", "--rounds=4", "--no-echo", "--mood", "wild", "--color",
                   "blue", "--word", "a", "--word", "bc"},
                  given),
            std::nullopt);
  ApiTest options;
  given.PutInto(options);
  EXPECT_EQ(options.warmth, 0.75f);
  EXPECT_EQ(options.num_rounds, 4u);
  EXPECT_FALSE(options.echo);
  EXPECT_EQ(options.mood, kMoodWild);
  EXPECT_EQ(options.color, "blue");
  EXPECT_EQ(options.words, (std::vector<std::string>{"a", "bc"}));
  GivenTest nothing(kTable);
  ASSERT_EQ(Parse({}, nothing), std::nullopt);
  options = {};
  nothing.PutInto(options);
  EXPECT_EQ(options.warmth, 0);
  EXPECT_TRUE(options.echo && options.color.empty());
}

TEST(OptionTest, AFlagThatIsWrongSaysWhatItMayBe) {
  for (const char* const wrong : {"0", "1.01", "nan", "x", "0.5x", "1e-60", ""}) {
    EXPECT_EQ(Refusal({"--warmth", wrong}), "test-tool: --warmth: " + std::string(wrong) +
                                                " is not a share above 0 and up to 1 (see "
                                                "test-tool --help)\n");
  }
  for (const char* const wrong : {"1", "-1", "2.5", "99999999999999999999"}) {
    EXPECT_EQ(Refusal({"--rounds", wrong}), "test-tool: --rounds: " + std::string(wrong) +
                                                " is not a whole number of at least 2 (see "
                                                "test-tool --help)\n");
  }
  EXPECT_NE(Refusal({"--mood", "odd"}).find("--mood: odd not in {calm,wild}"), std::string::npos);
  EXPECT_NE(Refusal({"--color", "odd"}).find("--color: odd not in {red,green,blue}"),
            std::string::npos);
  EXPECT_NE(Refusal({"--word", "12345", "--word", "6789"}).find("--word have more than 8 bytes"),
            std::string::npos);
  EXPECT_NE(Refusal({"--word", ""}).find("one of --word is empty"), std::string::npos);
  EXPECT_NE(Refusal({"--hidden", "x"}).find("there is no option --hidden"), std::string::npos);
}

TEST(OptionTest, HelpShowsIt) {
  GivenTest given(kTable);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Parse({"--help"}, given), 0);
  const std::string help = ::testing::internal::GetCapturedStdout();
  for (const char* const said :
       {"--warmth W", "How warm it is, where --rounds are given (default: 0.5)", "--rounds TEXT",
        "--no-echo", "Leave the echo out", "--color TEXT", "--mood TEXT", "--word TEXT"}) {
    EXPECT_NE(help.find(said), std::string::npos) << said << "\n" << help;
  }
  EXPECT_EQ(help.find("hidden"), std::string::npos);
  EXPECT_EQ(help.find("--echo"), std::string::npos);
}

TEST(OptionTest, ARequestGivesIt) {
  const auto given = ReadJson(
      R"({"warmth": 0.75, "rounds": 4, "echo": false, "mood": "wild", "top_color": "blue",
          "words": ["a", "", "bc"]})");
  ASSERT_TRUE(given.ok()) << given.status().message();
  ApiTest options;
  given->PutInto(options);
  EXPECT_EQ(options.warmth, 0.75f);
  EXPECT_EQ(options.num_rounds, 4u);
  EXPECT_FALSE(options.echo);
  EXPECT_EQ(options.mood, kMoodWild);
  EXPECT_EQ(options.color, "blue");
  EXPECT_EQ(options.words, (std::vector<std::string>{"a", "bc"}));
  ASSERT_TRUE(ReadJson(R"({"warmth": null, "words": "alone"})").ok());
}

TEST(OptionTest, ARequestThatIsWrongIsNamed) {
  const auto refused = [](const std::string& body) { return ReadJson(body).status(); };
  Status status = refused(R"({"warmth": 0})");
  EXPECT_EQ(status.param(), "warmth");
  EXPECT_EQ(status.message(), "warmth must be a number from 1e-06 to 1");
  EXPECT_EQ(refused(R"({"rounds": 10})").message(), "rounds must be a whole number from 2 to 9");
  EXPECT_EQ(refused(R"({"echo": "no"})").message(), "echo must be true or false");
  EXPECT_EQ(refused(R"({"mood": "odd"})").message(), "mood must be one of: calm, wild");
  EXPECT_EQ(refused(R"({"top_color": 1})").param(), "top_color");
  EXPECT_EQ(refused(R"({"words": [1]})").message(), "words must be a string or a list of strings");
  EXPECT_EQ(refused(R"({"words": "123456789"})").message(), "words is too long: at most 8 bytes");
  EXPECT_EQ(refused(R"({"hidden": "x"})").param(), "hidden");
}

TEST(OptionTest, TheDescriptionShowsIt) {
  const Json::Object schemas = server::OptionSchemas(GivenTest(kTable), kRequest);
  EXPECT_EQ(schemas.size(), 6u);
  EXPECT_EQ(schemas.at("warmth").Dump(),
            R"json({"description":"How warm it is, where rounds are given (default: 0.5)",)json"
            R"("maximum":1.0,"minimum":1e-06,"type":["number","null"]})");
  EXPECT_EQ(schemas.at("rounds").Dump(),
            R"({"description":"Rounds to go","maximum":9,"minimum":2,"type":["integer","null"]})");
  EXPECT_EQ(schemas.at("mood").Dump(),
            R"({"description":"The mood","enum":["calm","wild",null],"type":["string","null"]})");
  const Json::Array query = server::OptionParameters(GivenTest(kTable), kRequest);
  EXPECT_EQ(query[2].Dump(),
            R"({"description":"Whether there is an echo","in":"query","name":"echo",)"
            R"("schema":{"type":"boolean"}})");
}

// --- the real tables -----------------------------------------------------------------------------

// A value that the option may have and no default is.
OptionValue Sample(const Option& option) {
  switch (option.kind) {
    case OptionKind::kFlag:
      return !option.is_on;
    case OptionKind::kNumber:
      return 0.5;
    case OptionKind::kBytes:
      return uint64_t{1} << 40;
    case OptionKind::kWhole:
      return option.range.most < 100 ? uint64_t{3} : uint64_t{77};
    case OptionKind::kText:
      return "a text";
    case OptionKind::kChoice:
      return std::string(option.choices[1]);
    case OptionKind::kEnumeration:
      return uint64_t{2};
    case OptionKind::kTexts:
      return std::vector<std::string>{"a", "b"};
  }
  return {};
}

std::string Shown(const OptionValue& value) {
  if (const auto* const flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* const whole = std::get_if<uint64_t>(&value)) return std::to_string(*whole);
  if (const auto* const number = std::get_if<double>(&value)) return std::to_string(*number);
  if (const auto* const text = std::get_if<std::string>(&value)) return *text;
  std::string all = IsGiven(value) ? "" : "nothing";
  if (const auto* const texts = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& text : *texts) all += text + ";";
  }
  return all;
}

using api::internal::ToC;
lectern_ask_options ToC(const api::AskOptions& options) {
  api::internal::Callback<decltype(options.on_text)> text{options.on_text};
  api::internal::Callback<decltype(options.on_text)> reasoning{options.on_reasoning};
  api::internal::Callback<decltype(options.on_token)> token{options.on_token};
  api::internal::Callback<decltype(options.on_warning)> warning{options.on_warning};
  api::internal::Callback<decltype(options.on_index)> index{options.on_index};
  api::internal::Callback<decltype(options.on_part)> part{options.on_part};
  return api::internal::ToC(options, text, reasoning, token, warning, index, part);
}
lectern_index_options ToC(const api::IndexOptions& options) {
  api::internal::Callback<decltype(options.on_progress)> progress{options.on_progress};
  return api::internal::ToC(options, progress);
}

// Set in the struct of lectern.h, each option arrives in the C struct and from there in the
// engine's.
template <typename C, typename Api, typename Engine>
void ExpectAllArrive(std::span<const OptionRow<C, Api, Engine>> rows) {
  std::set<std::string> names;
  for (const auto& row : rows) {
    SCOPED_TRACE(row.option.name);
    EXPECT_TRUE(names.insert(row.option.name).second);
    ASSERT_TRUE(row.api.is_there() && row.engine.is_there());
    const OptionValue sample = Sample(row.option);
    Engine engine;
    EXPECT_TRUE(CheckOption(row.option, row.engine.get(engine)).ok());  // the default
    EXPECT_NE(Shown(row.engine.get(engine)), Shown(sample));
    if (!row.c.is_there()) continue;  // a list, which is read by hand
    Api api;
    row.api.set(api, sample);
    const C c = ToC(api);
    EXPECT_EQ(Shown(row.c.get(c)), Shown(sample));
    ASSERT_TRUE(ReadOptions(rows, c, engine).ok());
    EXPECT_EQ(Shown(row.engine.get(engine)), Shown(sample));
    EXPECT_TRUE(CheckOption(row.option, row.engine.get(engine)).ok());
  }
}

TEST(OptionTablesTest, EveryOptionArrivesAtTheEngine) {
  ExpectAllArrive(EngineOptionRows());
  ExpectAllArrive(AskOptionRows());
  ExpectAllArrive(IndexOptionRows());
  ExpectAllArrive(PlanOptionRows());
}

template <typename Row>
void ExpectHelp(std::span<const Row> rows) {
  for (const Row& row : rows) {
    if (row.option.surfaces == kNowhere) continue;
    SCOPED_TRACE(row.option.name);
    EXPECT_STRNE(row.option.help, "");
    EXPECT_EQ(*row.option.help_off != '\0', row.option.is_on);
    EXPECT_EQ(FlagOf(row.option).find("--"), 0u);
    EXPECT_EQ(FlagOf(row.option).find("---"), std::string::npos);
  }
}

TEST(OptionTablesTest, WhatUsersMeetIsExplained) {
  ExpectHelp(EngineOptionRows());
  ExpectHelp(AskOptionRows());
  ExpectHelp(IndexOptionRows());
  ExpectHelp(PlanOptionRows());
}

TEST(OptionTablesTest, TheDescriptionHasThem) {
  const auto api = ParseJson(server::ApiDescription(), {.max_depth = 64});
  ASSERT_TRUE(api.ok());
  const auto* const schemas = api->Find("components")->Find("schemas");
  for (const AskOptionRow& row : AskOptionRows()) {
    const std::string field = FieldOf(row.option);
    const auto* const ask = schemas->Find("Ask")->Find("properties")->Find(field);
    // A schema is an object there, which a file of its own reads (answer_format.h).
    EXPECT_EQ(ask != nullptr, row.option.is_in(kRequest) || field == "json_schema") << field;
    if (row.option.is_in(kOpenAiRequest)) {
      EXPECT_NE(schemas->Find("Sampling")->Find("properties")->Find(field), nullptr) << field;
    }
  }
}

}  // namespace
}  // namespace lectern
