// The table of word patterns. The expressions are those of the pre_tokenizer in the families'
// published tokenizer.json, with lists of characters where llama.cpp has lists. The names are those
// that convert_hf_to_gguf.py writes and llama.cpp reads. A row never changes: documents were
// indexed with it.
#include "engine/model/tokenizer/word_patterns.h"

namespace lectern {
namespace {

// Parts that several patterns share. LECTERN_SPACES ends most of them: line ends with the space
// before them, then white space, of which a run before a word leaves its last character to that
// word. LECTERN_SIGNS is all that is neither letter nor digit nor white space.
#define LECTERN_CONTRACTIONS "'[sStTmMdD]|'[rR][eE]|'[vV][eE]|'[lL][lL]"
#define LECTERN_ANY_CASE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LECTERN_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LECTERN_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define LECTERN_LAST_SPACES R"(|\s+(?!\S)|\s+)"
#define LECTERN_SPACES R"(|\s*[\r\n]+)" LECTERN_LAST_SPACES
#define LECTERN_SIGNS R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)"
#define LECTERN_WORDS R"(|[^\r\n\p{L}\p{N}]?\p{L}+)"
#define LECTERN_GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
#define LECTERN_LLAMA3 \
  LECTERN_CONTRACTIONS LECTERN_WORDS R"(|\p{N}{1,3})" LECTERN_SIGNS LECTERN_SPACES
#define LECTERN_QWEN2 LECTERN_CONTRACTIONS LECTERN_WORDS R"(|\p{N})" LECTERN_SIGNS LECTERN_SPACES
#define LECTERN_GPT_4O                                                           \
  R"([^\r\n\p{L}\p{N}]?)" LECTERN_UPPER "*" LECTERN_LOWER "+" LECTERN_ANY_CASE   \
  R"(?|[^\r\n\p{L}\p{N}]?)" LECTERN_UPPER "+" LECTERN_LOWER "*" LECTERN_ANY_CASE \
  R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" LECTERN_SPACES
#define LECTERN_CJK R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"
#define LECTERN_DEEPSEEK3_WORDS                                                             \
  R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)" \
  R"(| ?[\p{P}\p{S}]+)"
#define LECTERN_SENTENCES R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)"
// Kimi K2's classes of letters: all but Chinese ones.
#define LECTERN_NOT_HAN_UPPER R"((?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]))"
#define LECTERN_NOT_HAN_LOWER R"((?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}]))"

// Letters with case, and punctuation, as DeepSeek LLM lists them.
#define LECTERN_CASED                                                                           \
  R"([A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"      \
  R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})" \
  R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"       \
  R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"    \
  R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"    \
  R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-)"     \
  R"(\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"     \
  R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC})"    \
  R"(\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128})"       \
  R"(\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E})"     \
  R"(\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3})"      \
  R"(\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"    \
  R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"    \
  R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2})"             \
  R"(\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}])"
#define LECTERN_DEEPSEEK_SIGNS \
  R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)"
#define LECTERN_DEEPSEEK_CJK R"([\x{800}-\x{9FA5}\x{AC00}-\x{D7FF}]+)"

// One row for each way to cut; many names mean the same way.
constexpr WordPattern kPatterns[] = {
    {"gpt2",
     " gpt-2 gpt2 phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code gigachat "
     "a.x-4.0 mellum modern-bert roberta-bpe mpt olmo jais trillion granite-docling exaone4 ",
     {LECTERN_GPT2}},
    {"llama3",
     " llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ",
     {LECTERN_LLAMA3},
     /*ignore_merges=*/true,
     /*adds_bos=*/true},
    {"dbrx", " dbrx smaug-bpe chatglm-bpe ", {LECTERN_LLAMA3}},
    {"glm4", " glm4 glm5 ", {LECTERN_LLAMA3}, /*ignore_merges=*/true},
    {"qwen2",
     " qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 ",
     {LECTERN_QWEN2}},
    {"qwen35",
     " qwen35 ",
     {LECTERN_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
                           R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" LECTERN_SPACES}},
    {"tekken",
     " tekken ",
     {R"([^\r\n\p{L}\p{N}]?)" LECTERN_UPPER "*" LECTERN_LOWER
      R"(+|[^\r\n\p{L}\p{N}]?)" LECTERN_UPPER "+" LECTERN_LOWER
      R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" LECTERN_SPACES},
     /*ignore_merges=*/true,
     /*adds_bos=*/true},
    {"smollm",
     " smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 ",
     {R"(\p{N})", LECTERN_GPT2}},
    {"gpt-4o", " gpt-4o llama4 kanana2 talkie minimax-m2 ", {LECTERN_GPT_4O}},
    {"tiny-aya", " tiny_aya cohere2moe ", {"digits", LECTERN_GPT_4O}},
    {"falcon", " falcon ", {R"([\p{P}\$\+<=>\^~\|`]+)", LECTERN_GPT2, "[0-9][0-9][0-9]"}},
    {"default",
     " default ",
     {R"([\p{P}\$\+<=>\^~\|]+)", LECTERN_GPT2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
    {"deepseek-llm",
     " deepseek-llm ",
     {R"([\r\n])", R"(\s?)" LECTERN_CASED "+", LECTERN_DEEPSEEK_SIGNS, R"(\s+\z)",
      LECTERN_DEEPSEEK_CJK, R"(\p{N}+)"}},
    {"deepseek-coder",
     " deepseek-coder ",
     {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", LECTERN_DEEPSEEK_CJK, R"(\p{N})"}},
    {"deepseek-v3",
     " deepseek-v3 hunyuan-dense joyai-llm hy_v4 ",
     {R"(\p{N}{1,3})", LECTERN_CJK, LECTERN_DEEPSEEK3_WORDS R"([\r\n]*)" LECTERN_SPACES}},
    {"spark2_5",
     " spark2_5 ",
     {R"(\p{N}{1,3})", LECTERN_CJK, LECTERN_DEEPSEEK3_WORDS R"(|[\r\n])" LECTERN_LAST_SPACES,
      R"(\p{N})"}},
    {"youtu",
     " youtu ",
     {R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019})"
      R"(\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+)"
      R"(|[\x{3105}-\x{312F}]+|)" LECTERN_CJK,
      R"([^\r\n\p{L}\p{N}]?)" LECTERN_UPPER "*" LECTERN_LOWER "+" LECTERN_ANY_CASE
      R"(?|[^\r\n\p{L}\p{N}]?)" LECTERN_UPPER "+" LECTERN_LOWER "*" LECTERN_ANY_CASE
      R"(?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" LECTERN_SPACES},
     /*ignore_merges=*/true},
    {"afmoe",
     " afmoe ",
     {"digits",
      R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{30FF}\x{FF65}-\x{FF9F})"
      R"(\x{2F00}-\x{2FDF}\x{E40}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F})"
      R"(\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)",
      LECTERN_DEEPSEEK3_WORDS R"([\r\n]*)" LECTERN_SPACES}},
    {"bloom", " bloom poro-chat gpt3-finnish ", {LECTERN_SENTENCES}},
    {"viking", " viking ", {LECTERN_SENTENCES, R"(\p{N})"}},
    {"chameleon",
     " chameleon ",
     {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", R"([\t\n]|    |  )", R"(\p{N})",
      R"([\p{P}!-/:-@\[-`{-~])", LECTERN_GPT2},
     /*ignore_merges=*/false,
     /*adds_bos=*/true},
    {"kimi-k2",
     " kimi-k2 ",
     {R"(\p{Han}+|[^\r\n\p{L}\p{N}]?)" LECTERN_NOT_HAN_UPPER "*" LECTERN_NOT_HAN_LOWER
      "+" LECTERN_ANY_CASE R"(?|[^\r\n\p{L}\p{N}]?)" LECTERN_NOT_HAN_UPPER "+" LECTERN_NOT_HAN_LOWER
      "*" LECTERN_ANY_CASE R"(?|\p{N}{1,3})" LECTERN_SIGNS LECTERN_SPACES}},
    {"superbpe", " superbpe ", {R"(\p{N}+)", "digits"}},
    {"bailingmoe",
     " bailingmoe bailingmoe2 llada-moe ",
     {LECTERN_CONTRACTIONS LECTERN_WORDS R"(|\p{N})" LECTERN_SIGNS
                                         R"(|\s*[\r\n])" LECTERN_LAST_SPACES}},
    {"seed-coder",
     " seed-coder ",
     {LECTERN_CONTRACTIONS LECTERN_WORDS R"(|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)" LECTERN_SPACES}},
    {"ufakzeka", " ufakzeka ", {R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" LECTERN_SIGNS LECTERN_SPACES}},
    {"exaone-moe",
     " exaone-moe ",
     {LECTERN_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N})"
                           R"(| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n])" LECTERN_LAST_SPACES}},
    {"minicpm5",
     " minicpm5 ",
     {R"(\p{N}{1,3})",
      LECTERN_CONTRACTIONS LECTERN_WORDS R"(|\p{N}+)" LECTERN_SIGNS LECTERN_SPACES},
     /*ignore_merges=*/true},
    {"laguna", " laguna ", {"lines", LECTERN_QWEN2}},
    {"jais-2",
     " jais-2 ",
     {LECTERN_CONTRACTIONS LECTERN_WORDS
      R"(|\p{N}{1,3})" LECTERN_SIGNS R"(|\s*[\r\n]+)"
      R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S))"
      R"(|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s)"}},
    {"gemma4",
     " gemma4 granite-embed-multi-311m ",
     {"lines"},
     /*ignore_merges=*/false,
     /*adds_bos=*/true,
     /*is_plain_text=*/true},
    {"sarvam-moe",
     " sarvam-moe ",
     {"lines"},
     /*ignore_merges=*/false,
     /*adds_bos=*/false,
     /*is_plain_text=*/true},
};

}  // namespace

const WordPattern* FindWordPattern(std::string_view gguf_name) {
  if (gguf_name.empty() || gguf_name.find(' ') != std::string_view::npos) return nullptr;
  // Names stand between spaces, so that "gpt" is not found in "gpt-2".
  const std::string between_spaces = " " + std::string(gguf_name) + " ";
  for (const WordPattern& pattern : kPatterns) {
    if (pattern.gguf_names.find(between_spaces) != std::string_view::npos) return &pattern;
  }
  return nullptr;
}

const WordPattern& WordPatternNamed(std::string_view name) {
  const WordPattern* pattern = kPatterns;
  while (pattern->name != name) ++pattern;
  return *pattern;
}

std::vector<PreTokenizerStep> StepsOf(const WordPattern& pattern) {
  std::vector<PreTokenizerStep> steps;
  for (const std::string_view step : pattern.steps) {
    if (step.empty()) break;
    PreTokenizerStep& made = steps.emplace_back();
    made.origin = Regex::Origin::kOurs;
    if (step == "digits") {
      made.kind = PreTokenizerStep::Kind::kDigitGroups;
      made.pattern = R"(\p{N}+)";
    } else if (step == "lines") {
      made.kind = PreTokenizerStep::Kind::kLines;
    } else {
      made.pattern = step;
    }
  }
  return steps;
}

std::string_view Gpt2Expression() { return LECTERN_GPT2; }

std::string KnownWordPatterns() {
  std::string names;
  for (const WordPattern& pattern : kPatterns) {
    names.append(names.empty() ? "" : " ");
    names.append(pattern.gguf_names.substr(1, pattern.gguf_names.size() - 2));
  }
  return names;
}

}  // namespace lectern
