#include "engine/model/template/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "engine/model/template/answer_text.h"
#include "engine/model/tokenizer/bpe_tokenizer.h"
#include "tests/engine/byte_tokenizer.h"
#include "tests/engine/memory_env.h"

namespace lectern {
namespace {

const char kBundled[] = LECTERN_SOURCE_DIR "/tools/reader/model/tokenizer.model";
const std::string kBpe = LECTERN_SOURCE_DIR "/tests/golden/bpe/";

std::unique_ptr<Tokenizer> LoadFile(const std::string& path) {
  auto tokenizer = Tokenizer::Load(Env::Default(), path);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

ChatTemplate Make(const char* name, const Tokenizer& tokenizer) {
  auto made = ChatTemplate::Make(*ChatFormatNamed(name), tokenizer);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(made).value();
}

Result<ChatTemplate> MakeOwn(const std::string& jinja, const Tokenizer& tokenizer) {
  return ChatTemplate::Make({.name = std::string(kOwnTemplate), .jinja = jinja}, tokenizer,
                            "dir/m");
}

// A template of our own that thinks, and leaves the thinking of earlier answers out.
constexpr char kThinking[] =
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>"
    "{% if m.role == 'assistant' %}{{ m.content.split('</think>')[-1].strip() }}"
    "{% else %}{{ m.content }}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
    "{% endif %}";

std::vector<int32_t> Concat(std::initializer_list<std::vector<int32_t>> parts) {
  std::vector<int32_t> out;
  for (const auto& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

// --- Against jinja2 ---

// A published template, and the built-in one of its name.
TEST(ChatTemplateGoldenTest, ConversationsAreWhatJinjaRenders) {
  const auto golden = ParseJson(ReadWholeFile(LECTERN_SOURCE_DIR "/tests/golden/chat_golden.json"));
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  const auto text = [](const Json& of, const char* key) { return *of.Find(key)->string(); };
  const std::string question = text(*golden, "question"), answer = text(*golden, "answer"),
                    next = text(*golden, "next");
  const Json::Array& templates = *golden->Find("templates")->array();
  ASSERT_GE(templates.size(), 22u);
  for (const Json& item : templates) {
    const std::string name = text(item, "name");
    const ByteTokenizer tokenizer(text(item, "bos"), text(item, "eos"));
    ChatSource own{.name = std::string(kOwnTemplate),
                   .jinja = text(item, "jinja"),
                   .bos = text(item, "bos"),
                   .eos = text(item, "eos")};
    for (const ChatSource& source : {own, *ChatFormatNamed(name)}) {
      const auto chat = ChatTemplate::Make(source, tokenizer);
      ASSERT_TRUE(chat.ok()) << chat.status().message();
      const auto said = [&](std::string_view last, const ChatHistory& history) {
        const auto document = chat->EncodeDocument(tokenizer, text(*golden, "document"));
        const auto rest = chat->EncodeQuestion(tokenizer, last, history);
        EXPECT_TRUE(document.ok() && rest.ok());
        return tokenizer.TextOf(document->ids) + tokenizer.TextOf(*rest);
      };
      EXPECT_EQ(said(question, {}), text(item, "first")) << name;
      EXPECT_EQ(said(next, {.instructions = {}, .turns = {{question, answer}}}),
                text(item, "second"))
          << name;
      EXPECT_EQ(said(next, {text(*golden, "instructions"), {{question, answer}, {next, answer}}}),
                text(item, "third"))
          << name;
    }
  }
}

// --- Choice ---

TEST(ChatFormatTest, ATemplateIsANameAProgramOrAFile) {
  MemoryEnv env;
  env.files["/t.jinja"] = "{{ messages[0].content }}";
  env.files["/no.txt"] = "plain text";
  EXPECT_EQ(FindChatSource(env, "gemma")->name, "gemma");
  EXPECT_EQ(FindChatSource(env, "{{ x }}")->jinja, "{{ x }}");
  EXPECT_EQ(FindChatSource(env, "/t.jinja")->name, kFileTemplate);
  EXPECT_EQ(FindChatSource(env, "/t.jinja")->jinja, "{{ messages[0].content }}");
  for (const char* bad : {"Gemma", "/no.txt", "/none.jinja", "none"}) {
    const Status status = FindChatSource(env, bad).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ(status.param(), "chat_template");
    EXPECT_NE(status.message().find("none of plain, llama3,"), std::string::npos)
        << status.message();
  }
}

TEST(ChatFormatTest, ALongNameIsCutBetweenCharacters) {
  MemoryEnv env;
  std::string given = "x";
  for (int i = 0; i < 80; ++i) given += "é";
  EXPECT_TRUE(IsValidUtf8(FindChatSource(env, given).status().message()));
}

TEST(ChatFormatTest, ControlTokensSuggestATemplate) {
  EXPECT_EQ(SuggestedChatFormat(*LoadFile(kBpe + "llama3.json")), "llama3");
  EXPECT_EQ(SuggestedChatFormat(*LoadFile(kBpe + "qwen2.json")), "chatml");
  EXPECT_EQ(SuggestedChatFormat(*LoadFile(kBundled)), "");
  EXPECT_NE(AskedPlainly("chatml").text().find("chat_template \"chatml\""), std::string::npos);
}

TEST(ChatFormatTest, ATemplateThatCannotBeRunIsRefusedWithTheWayOut) {
  const ByteTokenizer tokenizer("", "");
  for (const auto& [jinja, why] : std::initializer_list<std::pair<const char*, const char*>>{
           {"{% if %}", "cannot be run"},
           {"no message is shown", "leaves a user's text out"},
           {"{{ messages[0].content }}{{ messages[0].content }}", "shows a user's text twice"},
           {"{{ messages[0].content | upper }}", "leaves a user's text out or changes it"},
           {"{{ raise_exception('only tools') }}", "only tools"}}) {
    const auto made = MakeOwn(jinja, tokenizer);
    ASSERT_FALSE(made.ok()) << jinja;
    EXPECT_EQ(made.status().code(), Code::kUnsupportedModel);
    EXPECT_EQ(made.status().param(), "chat_template");
    EXPECT_TRUE(made.status().message().starts_with("dir/m: its chat template "));
    EXPECT_NE(made.status().message().find(why), std::string::npos) << made.status().message();
    EXPECT_NE(made.status().message().find("chat_template"), std::string::npos);
  }
}

TEST(ChatFormatTest, ATemplateIsATextOrTheDefaultOfAList) {
  const auto read = [](const char* json) { return ChatTemplateOf(json, "dir/t.json"); };
  EXPECT_EQ(*read("{}"), "");
  EXPECT_EQ(*read("{\"chat_template\":null}"), "");
  EXPECT_EQ(*read("{\"chat_template\":\"a\\nb\"}"), "a\nb");
  EXPECT_EQ(*read("{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"x\"},"
                  "{\"name\":\"default\",\"template\":\"y\"}]}"),
            "y");
  EXPECT_EQ(*read("{\"chat_template\":[{\"name\":\"rag\",\"template\":\"x\"}]}"), "x");
  for (const char* bad : {"{\"chat_template\":7}", "{\"chat_template\":[]}",
                          "{\"chat_template\":[{\"name\":\"default\"}]}", "[", ""}) {
    const auto text = read(bad);
    EXPECT_EQ(text.status().code(), Code::kMalformedModel) << bad;
    EXPECT_TRUE(text.status().message().starts_with("dir/t.json: ")) << text.status().message();
  }
}

// --- Ids ---

TEST(ChatTemplateTest, ControlTokensStandWhereTheFormatHasThem) {
  const auto tokenizer = LoadFile(kBpe + "llama3.json");
  const ChatTemplate chat = Make("llama3", *tokenizer);
  const auto id = [&](const char* text) { return tokenizer->ControlId(text); };
  const auto ids = [&](const char* text) { return tokenizer->Encode(text)->ids; };
  const int32_t begin = id("<|start_header_id|>"), end = id("<|end_header_id|>"),
                eot = id("<|eot_id|>"), bos = id("<|begin_of_text|>");
  const std::string document = "A <|eot_id|> in it.\n";

  const auto context = chat.EncodeDocument(*tokenizer, document);
  ASSERT_TRUE(context.ok()) << context.status().message();
  const auto before = Concat({{bos, begin}, ids("user"), {end}, ids("\n\n")});
  const auto document_tokens = tokenizer->Encode(document);
  EXPECT_EQ(context->num_prefix, before.size());
  EXPECT_EQ(context->ids, Concat({before, document_tokens->ids}));
  ASSERT_EQ(context->ranges.size(), context->ids.size());
  for (size_t i = 0; i < context->ids.size(); ++i) {
    const bool in_prefix = i < before.size();
    const auto& range = context->ranges[i];
    EXPECT_EQ(range.begin, in_prefix ? 0 : document_tokens->ranges[i - before.size()].begin);
    EXPECT_EQ(range.end, in_prefix ? 0 : document_tokens->ranges[i - before.size()].end);
  }

  const auto answer = Concat({{eot, begin}, ids("assistant"), {end}, ids("\n\n")});
  EXPECT_EQ(*chat.EncodeQuestion(*tokenizer, "Who {x} <|eot_id|>?"),
            Concat({ids("\n\nQuestion: Who {x} <|eot_id|>?"), answer}));

  // After an answer stands what the template puts there.
  EXPECT_EQ(*chat.EncodeQuestion(*tokenizer, "Why?",
                                 {.instructions = {}, .turns = {{"Who?", "He."}}}),
            Concat({ids("\n\nQuestion: Who?"), answer, ids("He."),
                    {eot, begin}, ids("user"), {end}, ids("\n\nWhy?"), answer}));
}

// Documents that were indexed before there were other formats keep their identity.
TEST(ChatTemplateTest, PlainIsWhatItAlwaysWas) {
  const auto tokenizer = LoadFile(kBundled);
  const ChatTemplate chat = Make("plain", *tokenizer);
  EXPECT_EQ(chat.identity(), "plain 1: <bos>");
  EXPECT_EQ(NextTurnOf(chat), "\n\nQuestion:");
  const std::string text = "The old bridge.\nIt is old.";
  const auto context = chat.EncodeDocument(*tokenizer, text);
  const auto document = tokenizer->Encode(text);
  EXPECT_EQ(context->ids, Concat({{tokenizer->bos_id()}, document->ids}));
  EXPECT_EQ(context->num_prefix, 1u);
  const auto question = tokenizer->EncodeContinuation("\n\nQuestion: Who?\nAnswer:");
  EXPECT_EQ(*chat.EncodeQuestion(*tokenizer, "Who?"), question->ids);
}

// "[INST] " before the document is one token less than its characters: the dummy prefix.
TEST(ChatTemplateTest, TheSpaceBeforeADocumentIsTheDummyPrefix) {
  const auto tokenizer = LoadFile(kBundled);
  ASSERT_TRUE(tokenizer->has_dummy_prefix());
  const ChatTemplate chat = Make("llama2", *tokenizer);
  const auto context = chat.EncodeDocument(*tokenizer, "The bridge.");
  const auto mark = tokenizer->Encode("[INST]"), document = tokenizer->Encode("The bridge.");
  EXPECT_EQ(context->ids, Concat({{tokenizer->bos_id()}, mark->ids, document->ids}));
  std::string text;
  for (const int32_t id : context->ids) text += tokenizer->TokenBytes(id);
  EXPECT_EQ(text, " [INST] The bridge.");
}

TEST(ChatTemplateTest, ASpaceAtTheBeginningIsTheDummyPrefix) {
  const auto tokenizer = LoadFile(kBundled);
  const auto spaced = Make("mistral-v1-spaces", *tokenizer).EncodeDocument(*tokenizer, "Old.");
  const auto plain = Make("mistral-v1", *tokenizer).EncodeDocument(*tokenizer, "Old.");
  EXPECT_EQ(spaced->ids, plain->ids);
}

// A given answer of a plain conversation ends as one that was generated does.
TEST(ChatTemplateTest, PlainAnswersEndWithTheEndToken) {
  const auto tokenizer = LoadFile(kBundled);
  const ChatTemplate chat = Make("plain", *tokenizer);
  const auto before = tokenizer->EncodeContinuation("\n\nBe brief.\n\nQuestion: Who?\nAnswer: He.");
  const auto after = tokenizer->EncodeContinuation("\n\nQuestion: Why?\nAnswer:");
  EXPECT_EQ(*chat.EncodeQuestion(*tokenizer, "Why?", {"Be brief.\n", {{"Who?", "He."}}}),
            Concat({before->ids, {tokenizer->eos_id()}, after->ids}));
}

TEST(ChatTemplateTest, ControlTokensInEarlierTurnsAreText) {
  const auto tokenizer = LoadFile(kBpe + "llama3.json");
  const ChatTemplate chat = Make("llama3", *tokenizer);
  const std::string mark = "<|eot_id|>";
  const int32_t eot = tokenizer->ControlId(mark);
  const auto ids = *chat.EncodeQuestion(*tokenizer, mark, {mark, {{mark, mark}, {mark, mark}}});
  const auto none = *chat.EncodeQuestion(*tokenizer, "x", {"x", {{"x", "x"}, {"x", "x"}}});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), eot), std::count(none.begin(), none.end(), eot));
}

TEST(ChatTemplateTest, NamesTheTokenThatAVocabularyLacks) {
  const auto tokenizer = LoadFile(kBundled);
  const auto made = ChatTemplate::Make(*ChatFormatNamed("gemma"), *tokenizer);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kUnsupportedModel);
  EXPECT_EQ(made.status().param(), "chat_template");
  EXPECT_EQ(made.status().message(),
            "the chat template gemma needs the token <start_of_turn>, which the tokenizer does not "
            "have; choose another chat_template");
}

TEST(ChatTemplateTest, EveryFormatHasItsOwnIdentity) {
  std::vector<std::string> identities;
  const auto llama3 = LoadFile(kBpe + "llama3.json"), qwen2 = LoadFile(kBpe + "qwen2.json"),
             tekken = LoadFile(kBpe + "tekken.json");
  for (const auto& [name, tokenizer] : std::initializer_list<std::pair<const char*, Tokenizer*>>{
           {"llama3", llama3.get()},
           {"llama3.1", llama3.get()},
           {"plain", llama3.get()},
           {"chatml", qwen2.get()},
           {"qwen2", qwen2.get()},
           {"qwen2.5", qwen2.get()},
           {"smollm2", qwen2.get()},
           {"mistral-v3-tekken", tekken.get()},
           {"mistral-v3", tekken.get()},
           {"mistral-v1", tekken.get()},
           {"mistral-v1-spaces", tekken.get()},
           {"llama2", tekken.get()},
           {"zephyr", tekken.get()},
           {"vicuna", tekken.get()}}) {
    identities.push_back(Make(name, *tokenizer).identity());
  }
  std::sort(identities.begin(), identities.end());
  EXPECT_EQ(std::unique(identities.begin(), identities.end()), identities.end());
}

// --- Programs of models ---

TEST(ChatTemplateTest, TheTokenThatBeginsATextIsThereOnce) {
  const ByteTokenizer tokenizer("<s>", "");
  for (const char* jinja : {"{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}!",
                            "<s>{% for m in messages %}{{ m.content }}{% endfor %}!",
                            "{% for m in messages %}{{ m.content }}{% endfor %}!"}) {
    const auto chat = MakeOwn(jinja, tokenizer);
    ASSERT_TRUE(chat.ok()) << chat.status().message();
    EXPECT_EQ(tokenizer.TextOf(chat->EncodeDocument(tokenizer, "D")->ids), "<s>D") << jinja;
  }
}

TEST(ChatTemplateTest, ThinkingIsTurnedOffWhereTheTemplateCan) {
  const ByteTokenizer tokenizer("", "");
  const auto chat = MakeOwn(kThinking, tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status().message();
  EXPECT_EQ(tokenizer.TextOf(*chat->EncodeQuestion(tokenizer, "Who?")),
            "\n\nQuestion: Who?<|end|><|assistant|><think>\n\n</think>\n\n");
  EXPECT_EQ(chat->thinking().begin, "<think>");
  EXPECT_FALSE(chat->BeginsThinking("<|assistant|><think>\n\n</think>\n\n"));
  EXPECT_TRUE(chat->BeginsThinking("<|assistant|><think>\n"));
}

TEST(ChatTemplateTest, PartsAreGivenToATemplateThatWantsThem) {
  const ByteTokenizer tokenizer("", "");
  const auto chat = MakeOwn(
      "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}!",
      tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status().message();
  EXPECT_EQ(tokenizer.TextOf(*chat->EncodeQuestion(tokenizer, "Who?")), "\n\nQuestion: Who?!");
}

TEST(ChatTemplateTest, ATemplateThatWantsToolsIsGivenNone) {
  const ByteTokenizer tokenizer("", "");
  const auto chat = MakeOwn(
      "Tools:{% for tool in tools %}{{ tool }}{% endfor %}"
      "{% for m in messages %}{{ m.content }}{% endfor %}!",
      tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status().message();
  EXPECT_EQ(tokenizer.TextOf(chat->EncodeDocument(tokenizer, "D")->ids), "Tools:D");
  ASSERT_EQ(chat->assumptions().size(), 1u);
  EXPECT_NE(chat->assumptions()[0].find("given none"), std::string::npos);
}

TEST(ChatTemplateTest, ADateIsThatOfTheDocument) {
  const ByteTokenizer tokenizer("", "");
  const auto chat = MakeOwn(
      "{{ strftime_now('%d %b %Y') }}: {% for m in messages %}{{ m.content }}{% endfor %}!",
      tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status().message();
  EXPECT_TRUE(chat->has_date());
  const auto document = [&](const char* date) {
    return tokenizer.TextOf(chat->EncodeDocument(tokenizer, "D", date)->ids);
  };
  EXPECT_EQ(document("2026-11-05"), "05 Nov 2026: D");
  EXPECT_EQ(document("2027-01-31"), "31 Jan 2027: D");
  // The identity does not change from day to day.
  EXPECT_EQ(chat->identity(), "template 1: 26 Jul 2024: ");
  EXPECT_EQ(Today().size(), 10u);
}

TEST(ChatTemplateTest, SaysWhereATemplateLooksIntoTheText) {
  const ByteTokenizer tokenizer("", "");
  const auto sees = MakeOwn(
      "{% if '#' in messages[0].content %}markdown: {% endif %}{{ messages[0].content }}!",
      tokenizer);
  ASSERT_TRUE(sees.ok()) << sees.status().message();
  ASSERT_EQ(sees->assumptions().size(), 1u);
  EXPECT_NE(sees->assumptions()[0].find("changes with a user's text"), std::string::npos);
  const auto counts = MakeOwn(
      "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}!", tokenizer);
  ASSERT_TRUE(counts.ok()) << counts.status().message();
  ASSERT_EQ(counts->assumptions().size(), 1u);
  EXPECT_NE(counts->assumptions()[0].find("longer conversation"), std::string::npos);
}

// --- Follow-ups ---

TEST(PromptTest, TokensBeforeAnotherTextAreWhole) {
  Prompt prompt;
  prompt.Add(1, "ab");
  prompt.Add(2, "c\xC3");  // a character that the next token ends
  prompt.Add(3, "\xA9");
  prompt.Add(4, "def");
  const std::string text = "abc\xC3\xA9";
  EXPECT_EQ(prompt.TokensBefore(text + "def!"), 4u);
  EXPECT_EQ(prompt.TokensBefore(text + "dex"), 3u);
  EXPECT_EQ(prompt.TokensBefore("abc\xC3\xA8" "def"), 1u);
  EXPECT_EQ(prompt.TokensBefore("abx"), 1u);
  EXPECT_EQ(prompt.TokensBefore("x"), 0u);
  EXPECT_EQ(prompt.TokensBefore(""), 0u);
  // Something is left to be read.
  EXPECT_EQ(prompt.TokensBefore(text + "def"), 3u);
  prompt.Truncate(1);
  EXPECT_EQ(prompt.text, "ab");
  EXPECT_EQ(prompt.ids, std::vector<int32_t>{1});
}

TEST(PromptTest, TokensWithoutTextStay) {
  Prompt prompt;
  prompt.Add(1, "");
  prompt.Add(2, "a");
  prompt.Add(3, "");
  prompt.Add(4, "b");
  EXPECT_EQ(prompt.TokensBefore(""), 0u);
  EXPECT_EQ(prompt.TokensBefore("x"), 1u);
  EXPECT_EQ(prompt.TokensBefore("ax"), 3u);
}

TEST(ChatTemplateTest, TheRestOfARenderingIsEncodedFromAnyToken) {
  const auto tokenizer = LoadFile(kBpe + "llama3.json");
  const ChatTemplate chat = Make("llama3", *tokenizer);
  const ChatHistory history = {.instructions = {}, .turns = {{"Who?", "He."}}};
  const auto rendered = *chat.Render(history, "Why?");
  const Prompt whole = *chat.Encode(*tokenizer, rendered);
  ASSERT_EQ(whole.ends.size(), whole.ids.size());
  EXPECT_EQ(whole.ends.back(), rendered.text.size());
  for (size_t i = 0; i < whole.ids.size(); ++i) {
    if (tokenizer->ControlText(whole.ids[i]).empty()) continue;
    const Prompt rest = *chat.Encode(*tokenizer, rendered, whole.ends[i]);
    EXPECT_EQ(rest.ids, std::vector<int32_t>(whole.ids.begin() + static_cast<ptrdiff_t>(i) + 1,
                                             whole.ids.end()));
    EXPECT_EQ(rest.ends, std::vector<uint64_t>(whole.ends.begin() + static_cast<ptrdiff_t>(i) + 1,
                                               whole.ends.end()));
  }
}

// --- Answers ---

struct Shown {
  std::string answer, reasoning;
  uint64_t reasoning_tokens = 0;
};

// The answer and the thoughts that are shown of a text. Each byte is a token; `controls` are
// control tokens.
Shown Show(const std::string& text, const ThinkingMarks& marks, bool is_thinking,
           const std::vector<std::string>& controls) {
  const ByteTokenizer tokenizer("", "");
  for (const std::string& control : controls) (void)tokenizer.ControlId(control);
  AnswerText answer(tokenizer, marks, is_thinking);
  Shown shown;
  const auto add = [&](const ShownText& piece) {
    EXPECT_FALSE(piece.answer.ends_with(' ') || piece.reasoning.ends_with('\n'));
    shown.answer += piece.answer, shown.reasoning += piece.reasoning;
  };
  for (size_t at = 0; at < text.size();) {
    const auto control = tokenizer.FindControl(std::string_view(text).substr(at));
    add(answer.Push(control ? control->id : static_cast<uint8_t>(text[at])));
    at += control ? control->length : 1;
  }
  add(answer.Flush());
  shown.reasoning_tokens = answer.reasoning_tokens();
  return shown;
}

TEST(AnswerTextTest, ThinkingIsApart) {
  const ThinkingMarks marks = {"<think>", "</think>"};
  const std::vector<std::string> as_control = {marks.begin, marks.end}, as_text;
  for (const auto& controls : {as_control, as_text}) {
    Shown shown = Show("\n<think>\nHe or she?\n</think>\n\nShe did. \n", marks, false, controls);
    EXPECT_EQ(shown.answer, "She did.");
    EXPECT_EQ(shown.reasoning, "He or she?");
    EXPECT_GE(shown.reasoning_tokens, 12u);
    shown = Show("He?</think>She.", marks, true, controls);
    EXPECT_EQ(shown.answer, "She.");
    EXPECT_EQ(shown.reasoning, "He?");
    shown = Show("<think>a</think>\n<think>b</think>c", marks, false, controls);
    EXPECT_EQ(shown.answer, "c");
    EXPECT_EQ(shown.reasoning, "ab");
    shown = Show("<think>never ends", marks, false, controls);
    EXPECT_EQ(shown.answer, "");
    EXPECT_EQ(shown.reasoning, "never ends");
    // Later marks, and what only looks like one, are text.
    shown = Show("<thin <b>", marks, false, controls);
    EXPECT_EQ(shown.answer, "<thin <b>");
    EXPECT_EQ(shown.reasoning_tokens, 0u);
  }
  EXPECT_EQ(Show("The tag <think> is text.", marks, false, as_text).answer,
            "The tag <think> is text.");
}

// gpt-oss heads each part of its turn: "analysis" is thought, "final" is the answer.
TEST(AnswerTextTest, ChannelsAreApart) {
  const ThinkingMarks marks = {"<|channel|>analysis<|message|>", "<|end|>", "<|start|>assistant",
                               "<|channel|>final<|message|>"};
  const std::vector<std::string> as_control = {"<|channel|>", "<|message|>", "<|start|>",
                                               "<|end|>"};
  for (const auto& controls : {as_control, std::vector<std::string>()}) {
    const auto show = [&](const std::string& text) { return Show(text, marks, false, controls); };
    const std::string thought = "<|channel|>analysis<|message|>Who? She.<|end|>";
    const std::string turn = "<|start|>assistant", final = "<|channel|>final<|message|>";
    Shown shown = show(thought + turn + final + "She did.");
    EXPECT_EQ(shown.answer, "She did.");
    EXPECT_EQ(shown.reasoning, "Who? She.");
    shown = show(thought + turn + thought + turn + final + "Yes, final.");
    EXPECT_EQ(shown.answer, "Yes, final.");
    EXPECT_EQ(shown.reasoning, "Who? She.Who? She.");
    EXPECT_EQ(show(final + "At once.").answer, "At once.");
    EXPECT_EQ(show("Without a head.").answer, "Without a head.");
    EXPECT_EQ(show(thought).answer, "");
    EXPECT_EQ(show(thought + "Without a head.").answer, "Without a head.");
  }
}

TEST(AnswerTextTest, WhiteSpaceAtTheEndIsCut) {
  const Shown shown = Show(" a \n b\t\n \n", {}, false, {});
  EXPECT_EQ(shown.answer, "a \n b");  // and the space that a first word begins with
  EXPECT_EQ(Show(" \n ", {}, false, {}).answer, "");
}

TEST(LoopDetectorTest, ALoopIsFoundAndRepetitionsAreNot) {
  const auto first_found = [](const std::vector<int32_t>& ids) -> size_t {
    LoopDetector loops;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (loops.Push(ids[i])) return i + 1;
    }
    return 0;
  };
  for (const size_t run : {1u, 2u, 7u, 24u, 40u, 64u}) {
    std::vector<int32_t> ids = {-1, -2, -3};
    for (size_t i = 0; i < 2000; ++i) ids.push_back(static_cast<int32_t>(i % run));
    const size_t wanted = std::max(LoopDetector::kLeastTokens, LoopDetector::kLeastRounds * run);
    EXPECT_EQ(first_found(ids), 3 + wanted) << run;
  }
  // Rows of a table are alike, but not the same.
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < 100; ++row) rows.insert(rows.end(), {1, 2, 100 + row, 3, 4, 5});
  EXPECT_EQ(first_found(rows), 0u);
}

}  // namespace
}  // namespace lectern
