#include "engine/model/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "engine/model/formats/json.h"
#include "engine/model/tokenizer/unicode_classes.h"
#include "engine/model/tokenizer/word_patterns.h"

namespace lectern {
namespace {

using Kind = PreTokenizerStep::Kind;

// The words of a text, each between bars.
std::string Cut(const std::vector<PreTokenizerStep>& steps, std::string_view text,
                bool has_prefix = true) {
  auto made = PreTokenizer::Make(steps);
  EXPECT_TRUE(made.ok()) << made.status().message();
  AlignedText aligned(text, 0);
  const auto words = WordCutter(*made).Cut(&aligned, true, has_prefix);
  EXPECT_TRUE(words.ok()) << words.status().message();
  std::string out = "|";
  for (const WordCutter::Word& word : *words) {
    out.append(aligned.text().substr(word.begin, word.end - word.begin)).append("|");
  }
  return out;
}

PreTokenizerStep Split(std::string pattern, SplitBehavior behavior = SplitBehavior::kIsolated,
                       bool inverts = false) {
  return {.pattern = std::move(pattern), .behavior = behavior, .inverts = inverts};
}

PreTokenizerStep Groups() { return {.kind = Kind::kDigitGroups, .pattern = R"(\p{N}+)"}; }

std::string CutAs(std::string_view gguf_name, std::string_view text) {
  const WordPattern* pattern = FindWordPattern(gguf_name);
  EXPECT_NE(pattern, nullptr) << gguf_name;
  return pattern == nullptr ? "" : Cut(StepsOf(*pattern), text);
}

TEST(PreTokenizerTest, BehavioursAreThoseOfTokenizers) {
  const std::string text = "-a--b-";
  EXPECT_EQ(Cut({Split("-")}, text), "|-|a|-|-|b|-|");
  EXPECT_EQ(Cut({Split("-", SplitBehavior::kRemoved)}, text), "|a|b|");
  EXPECT_EQ(Cut({Split("-", SplitBehavior::kContiguous)}, text), "|-|a|--|b|-|");
  EXPECT_EQ(Cut({Split("-", SplitBehavior::kMergedWithPrevious)}, text), "|-|a-|-|b-|");
  EXPECT_EQ(Cut({Split("-", SplitBehavior::kMergedWithNext)}, text), "|-a|-|-b|-|");
  EXPECT_EQ(Cut({Split("[a-z]+", SplitBehavior::kRemoved, true)}, text), "|a|b|");
}

TEST(PreTokenizerTest, StepsCutWordsOneAfterAnother) {
  EXPECT_EQ(Cut({Split("[0-9]"), Split("(?<=b)c")}, "ab1bc2c"), "|ab|1|b|c|2|c|");
  EXPECT_EQ(Cut({}, "a b"), "|a b|");
  EXPECT_EQ(Cut({Split("x")}, ""), "|");
  EXPECT_EQ(Cut({{.kind = Kind::kLines}}, "a\n\nb c\n"), "|a|\n\n|b c|\n|");
  EXPECT_EQ(Cut({Groups()}, "1234567a12\u0663"), "|1|234|567|a|12\u0663|");
  EXPECT_EQ(Cut({Groups()}, "1234"), "|1|234|");
  EXPECT_EQ(Cut({{.kind = Kind::kSpaceMarks}}, "\u2581\u2581a\u2581b"), "|\u2581\u2581a|\u2581b|");
  EXPECT_EQ(Cut({Split("(?=bc)")}, "abcbc"), "|a|bc|bc|");  // an empty match cuts
  EXPECT_EQ(Cut({{.pattern = "a.", .is_literal = true}}, "aba.b"), "|ab|a.|b|");
}

TEST(PreTokenizerTest, PrefixesAndReplacementsChangeTheText) {
  const std::vector<PreTokenizerStep> metaspace = {
      {.kind = Kind::kReplace, .pattern = " ", .content = "\u2581"},
      {.kind = Kind::kPrefix, .pattern = "\u2581"}};
  EXPECT_EQ(Cut(metaspace, "a b"), "|\u2581a\u2581b|");
  EXPECT_EQ(Cut(metaspace, " a b"), "|\u2581a\u2581b|");
  EXPECT_EQ(Cut(metaspace, "a b", /*has_prefix=*/false), "|a\u2581b|");
  std::vector<PreTokenizerStep> words = {Split("b"), {.kind = Kind::kPrefix, .pattern = "+"}};
  EXPECT_EQ(Cut(words, "abc"), "|+a|+b|+c|");
  words[1].only_first = true;
  EXPECT_EQ(Cut(words, "abc"), "|+a|b|c|");
}

// The words that pre_tokenizers of Hugging Face tokenizers 0.23.3 cut.
TEST(PreTokenizerTest, OnlyAWordThatBeginsTheTextIsFirst) {
  // WhitespaceSplit, then Metaspace with prepend_scheme "first".
  std::vector<PreTokenizerStep> steps = {
      Split(R"(\s)", SplitBehavior::kRemoved),
      {.kind = Kind::kReplace, .pattern = " ", .content = "\u2581"},
      {.kind = Kind::kPrefix, .pattern = "\u2581", .only_first = true},
      {.pattern = "\u2581", .is_literal = true, .behavior = SplitBehavior::kMergedWithNext}};
  EXPECT_EQ(Cut(steps, "foo bar"), "|\u2581foo|bar|");
  EXPECT_EQ(Cut(steps, " foo bar"), "|foo|bar|");
  EXPECT_EQ(Cut(steps, "\u2581foo bar"), "|\u2581foo|bar|");
  EXPECT_EQ(Cut(steps, " "), "|");
  EXPECT_EQ(Cut(steps, "foo bar", /*has_prefix=*/false), "|foo|bar|");  // has no counterpart there
  // The word that begins the text is removed between two rewritings.
  const PreTokenizerStep prefix = steps[2];
  steps = {steps[1], prefix, Split("\u2581", SplitBehavior::kRemoved), steps[1], prefix};
  EXPECT_EQ(Cut(steps, " foo bar"), "|foo|bar|");
  steps[1].only_first = steps[4].only_first = false;
  EXPECT_EQ(Cut(steps, " foo bar"), "|\u2581foo|\u2581bar|");
}

TEST(PreTokenizerTest, AWordThatBecomesEmptyLeavesNoBeginning) {
  EXPECT_EQ(Cut({Split("b"),
                 {.kind = Kind::kReplace, .pattern = "a", .content = ""},
                 {.kind = Kind::kPrefix, .pattern = "+", .only_first = true}},
                "abc"),
            "|b|c|");
}

// --- Expressions, which mean what Oniguruma takes them for ---

TEST(RegexTest, ClassesAreThoseOfOniguruma) {
  EXPECT_EQ(Cut({Split(R"(\s)")}, "a\u180Eb\u00A0c\u0085"), "|a\u180Eb|\u00A0|c|\u0085|");
  EXPECT_EQ(Cut({Split(R"([^\s]+)")}, "a \u3000b"), "|a| \u3000|b|");
  EXPECT_EQ(Cut({Split(R"(\S+)")}, "a\u180E b"), "|a\u180E| |b|");
  EXPECT_EQ(Cut({Split(R"(\w+)")}, "a\u0301_1-b"), "|a\u0301_1|-|b|");
  EXPECT_EQ(Cut({Split(R"(\h+)")}, "fg0"), "|f|g|0|");
  EXPECT_EQ(Cut({Split(R"(\d+)")}, "1\u0663\u00B2"), "|1\u0663|\u00B2|");
  EXPECT_EQ(Cut({Split(R"(\p{Han}+)")}, "a日本の\u3001"), "|a|日本|の\u3001|");  // not extensions
  EXPECT_EQ(Cut({Split(R"(\u0061+)")}, "aab"), "|aa|b|");
  EXPECT_EQ(Cut({Split(R"([ab[cd]]+)")}, "abcde"), "|abcd|e|");  // sets in sets
  EXPECT_EQ(Cut({Split(R"(a{1,2}+)")}, "aaaaab"), "|aaaaa|b|");  // is not possessive
  EXPECT_EQ(Cut({Split(R"((?:ab){2}+)")}, "ababababc"), "|abababab|c|");
  EXPECT_EQ(Cut({Split(R"(a++b)")}, "aab"), "|aab|");
  EXPECT_EQ(Cut({Split(R"(a$)")}, "a\na"), "|a|\n|a|");  // the end of a line
  EXPECT_EQ(Cut({Split(R"([]a]+)")}, "a]b"), "|a]|b|");
  EXPECT_EQ(Cut({Split(R"((?i:É))")}, "é"), "|é|");
}

TEST(RegexTest, RefusesWhatItCannotSay) {
  for (const char* bad : {"(", "[a", "[a&&b]", "[a[^b]]", "(*UTF)a", R"(\C)", R"([\H])", "a\xFF"}) {
    EXPECT_EQ(Regex::Make(bad, Regex::Origin::kForeign).status().code(), Code::kUnsupportedModel)
        << Json(bad).Dump();
  }
  EXPECT_FALSE(Regex::Make(std::string((1 << 16) + 1, 'a'), Regex::Origin::kForeign).ok());
}

TEST(RegexTest, ForeignExpressionsAreLimited) {
  const auto regex = Regex::Make("(?:a+)+[xy]", Regex::Origin::kForeign);
  ASSERT_TRUE(regex.ok()) << regex.status().message();
  const std::string text(64, 'a');
  std::vector<RegexMatcher::Match> matches;
  EXPECT_EQ(RegexMatcher(*regex).FindAll(text, &matches).code(), Code::kLimitExceeded);
}

TEST(RegexTest, LongRunsOfGroupsNeedNoStack) {
  const auto regex = Regex::Make(R"((?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+)", Regex::Origin::kOurs);
  ASSERT_TRUE(regex.ok());
  std::string text;
  while (text.size() < (1u << 20)) text += "a b";
  std::vector<RegexMatcher::Match> matches;
  const Status status = RegexMatcher(*regex).FindAll(text, &matches);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].end, text.size());
}

// --- The table ---

TEST(WordPatternTest, NamesOfTheConverterAreKnown) {
  for (const char* name : {"gpt-2",        "phi-2",
                           "llama-bpe",    "falcon3",
                           "qwen2",        "qwen35",
                           "stablelm2",    "tekken",
                           "smollm",       "starcoder",
                           "command-r",    "refact",
                           "falcon",       "mpt",
                           "olmo",         "dbrx",
                           "smaug-bpe",    "poro-chat",
                           "chatglm-bpe",  "glm4",
                           "viking",       "jais",
                           "jais-2",       "codeshell",
                           "bloom",        "gpt3-finnish",
                           "exaone",       "exaone4",
                           "exaone-moe",   "chameleon",
                           "minerva-7b",   "megrez",
                           "gpt-4o",       "llama4",
                           "superbpe",     "trillion",
                           "bailingmoe",   "bailingmoe2",
                           "seed-coder",   "a.x-4.0",
                           "midm-2.0",     "hunyuan",
                           "kimi-k2",      "grok-2",
                           "minimax-m2",   "granite-docling",
                           "lfm2",         "afmoe",
                           "youtu",        "solar-open",
                           "deepseek-v3",  "deepseek-r1-qwen",
                           "default",      "gemma4",
                           "deepseek-llm", "deepseek-coder",
                           "pixtral",      "hunyuan-dense",
                           "tiny_aya",     "laguna"}) {
    EXPECT_NE(FindWordPattern(name), nullptr) << name;
    EXPECT_NE((" " + KnownWordPatterns() + " ").find(" " + std::string(name) + " "),
              std::string::npos);
  }
  for (const char* unknown : {"", " ", "llama", "llama-bpe ", "gpt-2 gpt2", "bert-bge"}) {
    EXPECT_EQ(FindWordPattern(unknown), nullptr) << unknown;
  }
  EXPECT_TRUE(FindWordPattern("llama-bpe")->ignore_merges);
  EXPECT_TRUE(FindWordPattern("llama-bpe")->adds_bos);
  EXPECT_FALSE(FindWordPattern("dbrx")->ignore_merges);
}

TEST(WordPatternTest, FamiliesCutAsPublished) {
  EXPECT_EQ(CutAs("gpt-2", "I'm 1234  x\n y"), "|I|'m| 1234| | x|\n| y|");
  EXPECT_EQ(CutAs("smollm", "a 123 b"), "|a| |1|2|3| b|");
  EXPECT_EQ(CutAs("llama-bpe", "I'M 12345, x\n\n y"), "|I|'M| |123|45|,| x|\n\n| y|");
  EXPECT_EQ(CutAs("qwen2", "12 a'S"), "|1|2| a|'S|");
  EXPECT_EQ(CutAs("qwen35", "a\u0301b 1"), "|a\u0301b| |1|");
  EXPECT_EQ(CutAs("falcon", "a$$b 12345!"), "|a|$$|b| |123|45|!|");
  EXPECT_EQ(CutAs("default", "a=b 1234"), "|a|=|b| |123|4|");
  EXPECT_EQ(CutAs("deepseek-llm", "ab é1\r\n日本 x  "), "|ab| é|1|\r|\n|日本| x|  |");
  EXPECT_EQ(CutAs("deepseek-coder", "ab, 12\n日本"), "|ab|,| |1|2|\n|日本|");
  EXPECT_EQ(CutAs("deepseek-v3", "ab1234 日本x !!\n"), "|ab|123|4| |日本|x| !!\n|");
  EXPECT_EQ(CutAs("gpt-4o", "HTMLParser isn't"), "|HTMLParser| isn't|");
  EXPECT_EQ(CutAs("tekken", "HTMLParser isn't"), "|HTMLParser| isn|'t|");
  EXPECT_EQ(CutAs("superbpe", "of the 12345"), "|of the |12|345|");
  EXPECT_EQ(CutAs("afmoe", "1234 a"), "|1|234| a|");
  EXPECT_EQ(CutAs("bloom", "a, b c"), "|a|,| b| c|");
  EXPECT_EQ(CutAs("viking", "a12 b"), "|a|1|2| b|");
  EXPECT_EQ(CutAs("kimi-k2", "ab日本cD 1234"), "|ab|日本|c|D| |123|4|");
  EXPECT_EQ(CutAs("laguna", "a\n\nb"), "|a|\n\n|b|");
  EXPECT_EQ(CutAs("chameleon", "a    b1."), "|a|    |b|1|.|");
  EXPECT_EQ(CutAs("gemma4", "a b\n\nc"), "|a b|\n\n|c|");
  EXPECT_EQ(CutAs("jais-2", "a       b"), "|a|    |  | b|");
  EXPECT_EQ(CutAs("seed-coder", "a !\n"), "|a| !|\n|");
  EXPECT_EQ(CutAs("exaone-moe", "a b1"), "|a b|1|");
}

// White space is that of Unicode, without U+180E, and every pattern leaves no character out.
TEST(WordPatternTest, CutsEveryCharacter) {
  const std::string_view white =
      "\t\v\f \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
      "\u200A\u2028\u2029\u202F\u205F\u3000";
  for (const char* name : {"gpt2", "llama3", "qwen2", "tekken", "smollm", "gpt-4o"}) {
    const auto words = PreTokenizer::Make(StepsOf(WordPatternNamed(name)));
    ASSERT_TRUE(words.ok()) << words.status().message();
    WordCutter cutter(*words);
    size_t white_characters = 0;
    for (uint32_t c = 0; c < 0x110000; c += c < 0x3100 ? 1 : 37) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      std::string text;
      AppendChar(c, &text);
      AlignedText run(text + text + ".", 0);
      const auto cut = cutter.Cut(&run, true, true);
      ASSERT_TRUE(cut.ok()) << cut.status().message();
      uint32_t end = 0;
      for (const WordCutter::Word& word : *cut) {
        ASSERT_EQ(word.begin, end) << name << " " << c;
        end = word.end;
      }
      ASSERT_EQ(end, run.text().size()) << name << " " << c;
      // The first of two white spaces before a point is a word; other characters stay together.
      if (white.find(text) != std::string_view::npos) {
        ++white_characters;
        EXPECT_EQ((*cut)[0].end, text.size()) << name << " " << c;
      }
      if (c == 0x180E || c == 0x200B || c == 0xFEFF || c == 0x1C) {
        EXPECT_EQ(cut->size(), 1u) << name << " " << c;
      }
    }
    EXPECT_EQ(white_characters, 23u);
  }
}

// Every row of the table, on texts that walk its expressions back.
TEST(WordPatternTest, LongRunsEndSoon) {
  const std::string names = KnownWordPatterns();
  for (size_t at = 0; at < names.size(); at = names.find(' ', at) + 1) {
    const std::string name = names.substr(at, names.find(' ', at) - at);
    const auto words = PreTokenizer::Make(StepsOf(*FindWordPattern(name)));
    ASSERT_TRUE(words.ok()) << name << words.status().message();
    WordCutter cutter(*words);
    for (const char* unit :
         {"a", "A", " ", "\n", " \n", "1", ".", "é", "日", "\u0301", "a ", "'s"}) {
      std::string text = "x";
      while (text.size() < (1u << 15)) text += unit;
      AlignedText aligned(text, 0);
      const auto cut = cutter.Cut(&aligned, true, true);
      ASSERT_TRUE(cut.ok()) << name << " " << Json(unit).Dump() << cut.status().message();
      ASSERT_EQ(cut->back().end, text.size());
    }
    if (names.find(' ', at) == std::string::npos) break;
  }
}

}  // namespace
}  // namespace lectern
