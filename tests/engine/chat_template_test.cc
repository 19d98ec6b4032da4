#include "engine/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "engine/bpe_tokenizer.h"
#include "engine/json.h"
#include "tests/engine/memory_env.h"

namespace lectern {
namespace {

const char kBundled[] = LECTERN_SOURCE_DIR "/tools/reader/model/tokenizer.model";
const std::string kBpe = LECTERN_SOURCE_DIR "/tests/golden/bpe/";

// Every byte is a token, and whatever is asked for a control token.
class ByteTokenizer : public Tokenizer {
 public:
  explicit ByteTokenizer(const std::string& bos) : bos_id_(bos.empty() ? -1 : ControlId(bos)) {}
  std::string_view kind() const override { return "bytes"; }
  size_t vocab_size() const override { return 256 + controls_.size(); }
  int32_t bos_id() const override { return bos_id_; }
  int32_t eos_id() const override { return -1; }
  int32_t ControlId(std::string_view text) const override {
    const auto at = std::find(controls_.begin(), controls_.end(), text);
    const auto index = at - controls_.begin();
    if (at == controls_.end()) controls_.emplace_back(text);
    return 256 + static_cast<int32_t>(index);
  }
  bool has_dummy_prefix() const override { return false; }
  std::string_view TokenBytes(int32_t) const override { return {}; }
  void AddTo(Sha256&) const override {}

  std::string TextOf(const std::vector<int32_t>& ids) const {
    std::string text;
    for (const int32_t id : ids) {
      text += id < 256 ? std::string(1, static_cast<char>(id))
                       : controls_[static_cast<size_t>(id) - 256];
    }
    return text;
  }

 private:
  Result<TokenizedText> EncodeValid(std::string_view text, Place) const override {
    TokenizedText tokens;
    for (size_t i = 0; i < text.size(); ++i) {
      tokens.ids.push_back(static_cast<uint8_t>(text[i]));
      tokens.ranges.push_back({i, i + 1});
    }
    return tokens;
  }
  mutable std::deque<std::string> controls_;
  int32_t bos_id_;
};

std::unique_ptr<Tokenizer> LoadFile(const std::string& path) {
  auto tokenizer = Tokenizer::Load(Env::Default(), path);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

ChatTemplate Make(const char* name, const Tokenizer& tokenizer) {
  auto made = ChatTemplate::Make(**ChatFormatNamed(name), tokenizer);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(made).value();
}

std::vector<int32_t> Concat(std::initializer_list<std::vector<int32_t>> parts) {
  std::vector<int32_t> out;
  for (const auto& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

// --- Against jinja2 ---

TEST(ChatTemplateGoldenTest, ConversationsAreWhatJinjaRenders) {
  const auto golden = ParseJson(ReadWholeFile(LECTERN_SOURCE_DIR "/tests/golden/chat_golden.json"));
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  const auto text = [](const Json& of, const char* key) { return *of.Find(key)->string(); };
  const std::string question = text(*golden, "question"), answer = text(*golden, "answer"),
                    next = text(*golden, "next");
  const Json::Array& templates = *golden->Find("templates")->array();
  ASSERT_GE(templates.size(), 22u);
  for (const Json& item : templates) {
    const auto format = RecognizeChatFormat(text(item, "jinja"), "m");
    ASSERT_TRUE(format.ok()) << text(item, "name") << ": " << format.status().message();
    EXPECT_EQ((*format)->name, text(item, "name"));
    const ByteTokenizer tokenizer(text(item, "bos"));
    const auto chat = ChatTemplate::Make(**format, tokenizer);
    ASSERT_TRUE(chat.ok()) << chat.status().message();
    const auto said = [&](std::string_view last, const ChatHistory& history) {
      const auto document = chat->EncodeDocument(tokenizer, text(*golden, "document"));
      const auto rest = chat->EncodeQuestion(tokenizer, last, history);
      EXPECT_TRUE(document.ok() && rest.ok());
      return tokenizer.TextOf(document->ids) + tokenizer.TextOf(*rest);
    };
    EXPECT_EQ(said(question, {}), text(item, "first")) << (*format)->name;
    EXPECT_EQ(said(next, {.turns = {{question, answer}}}), text(item, "second")) << (*format)->name;
    EXPECT_EQ(said(next, {text(*golden, "instructions"), {{question, answer}, {next, answer}}}),
              text(item, "third"))
        << (*format)->name;
  }
}

// The tokens of a session: what it was asked and answered, and what is asked then.
TEST(ChatTemplateGoldenTest, AFollowUpGoesOnAsTheSameConversationGivenAtOnce) {
  for (const char* name : {"llama3", "chatml", "gemma", "phi3", "zephyr", "mistral-v1"}) {
    const ByteTokenizer tokenizer("<s>");
    const ChatTemplate chat = Make(name, tokenizer);
    const auto first = chat.EncodeQuestion(tokenizer, "Who?");
    const auto rest = chat.EncodeNextQuestion(tokenizer, -1, "Why?");
    const auto whole = chat.EncodeQuestion(tokenizer, "Why?", {.turns = {{"Who?", "He."}}});
    EXPECT_EQ(Concat({*first, {'H', 'e', '.'}, *rest}), *whole) << name;
  }
}

// --- Choice ---

TEST(ChatFormatTest, OneOfTheTableIsChosenOrNone) {
  EXPECT_EQ((*RecognizeChatFormat("", "m"))->name, "plain");
  for (const char* unknown :
       {"{{ messages }}", "<|im_start|>user<|im_sep|><|im_end|>", "[INST]",
        "'<|im_start|>system\nPlease reason step by step.<|im_end|>\n'",
        "{{bos_token}}<|im_start|>user\n<|im_end|>",
        "'<|system|>Your name is Phi.' '<|' + message['role'] + '|>' + message['content'] + "
        "'<|end|>' '<|assistant|>'",
        "'<|im_start|>system\nYou are an expert.<|im_end|>\n'",
        "[SYSTEM_PROMPT][AVAILABLE_TOOLS]\"[INST]\"", "<|start|>user<|message|>",
        "'<|user|>\n' + message['content'] + '\n' '<|assistant|>\n' + content + eos_token"}) {
    const auto format = RecognizeChatFormat(unknown, "dir/m");
    ASSERT_FALSE(format.ok()) << unknown;
    EXPECT_EQ(format.status().code(), Code::kUnsupportedModel);
    EXPECT_EQ(format.status().param(), "chat_template");
    EXPECT_EQ(format.status().message(),
              "dir/m: its chat template is none of those built in; choose one with "
              "--chat-template: plain, llama3, llama3.1, qwen2.5, smollm2, qwen2, chatml, "
              "chatml-bos, gemma, phi3, phi4-mini, zephyr, mistral-v3-tekken, mistral-v3, mistral-v1-spaces, "
              "mistral-v1-space, mistral-v1, llama2, vicuna");
  }
  EXPECT_EQ((*ChatFormatNamed("gemma"))->name, "gemma");
  const Status status = ChatFormatNamed("Gemma").status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.param(), "chat_template");
  EXPECT_TRUE(status.message().starts_with("chat template \"Gemma\" is none of plain, llama3,"));
}

TEST(ChatFormatTest, ATemplateIsATextOrTheDefaultOfAList) {
  const auto read = [](const char* json) { return ChatTemplateOf(json, "dir/t.json"); };
  EXPECT_EQ(*read("{}"), "");
  EXPECT_EQ(*read("{\"chat_template\":null}"), "");
  EXPECT_EQ(*read("{\"chat_template\":\"a\\nb\"}"), "a\nb");
  EXPECT_EQ(*read("{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"x\"},"
                  "{\"name\":\"default\",\"template\":\"y\"}]}"),
            "y");
  for (const char* bad : {"{\"chat_template\":7}", "{\"chat_template\":[]}",
                          "{\"chat_template\":[{\"name\":\"default\"}]}",
                          "{\"chat_template\":[{\"template\":\"x\"}]}", "[", ""}) {
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

  // The end token of an answer is part of what comes next.
  EXPECT_TRUE(chat.ends_answers());
  const auto turn = Concat({{eot, begin}, ids("user"), {end}, ids("\n\nWhy?"), answer});
  EXPECT_EQ(*chat.EncodeNextQuestion(*tokenizer, -1, "Why?"), turn);
  EXPECT_EQ(*chat.EncodeNextQuestion(*tokenizer, 'x', "Why?"), Concat({{'x'}, turn}));
  EXPECT_TRUE(chat.IsEnd(eot));
  EXPECT_TRUE(chat.IsEnd(id("<|end_of_text|>")));
  EXPECT_FALSE(chat.IsEnd(bos));
  EXPECT_FALSE(chat.IsEnd(-1));
}

// Documents that were indexed before there were other formats keep their identity.
TEST(ChatTemplateTest, PlainIsWhatItAlwaysWas) {
  const auto tokenizer = LoadFile(kBundled);
  const ChatTemplate chat = Make("plain", *tokenizer);
  EXPECT_EQ(chat.identity(), "plain 1: <bos>");
  EXPECT_FALSE(chat.ends_answers());
  const std::string text = "The old bridge.\nIt is old.";
  const auto context = chat.EncodeDocument(*tokenizer, text);
  const auto document = tokenizer->Encode(text);
  EXPECT_EQ(context->ids, Concat({{tokenizer->bos_id()}, document->ids}));
  EXPECT_EQ(context->num_prefix, 1u);
  const auto question = tokenizer->EncodeContinuation("\n\nQuestion: Who?\nAnswer:");
  EXPECT_EQ(*chat.EncodeQuestion(*tokenizer, "Who?"), question->ids);
  EXPECT_EQ(*chat.EncodeNextQuestion(*tokenizer, 2, "Who?"), Concat({{2}, question->ids}));
  EXPECT_EQ(*chat.EncodeNextQuestion(*tokenizer, -1, "Who?"), question->ids);
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
  const auto made = ChatTemplate::Make(**ChatFormatNamed("gemma"), *tokenizer);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kUnsupportedModel);
  EXPECT_EQ(made.status().param(), "chat_template");
  EXPECT_EQ(made.status().message(),
            "the chat template gemma needs the token <start_of_turn>, which the tokenizer does not "
            "have; choose another with --chat-template");
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

}  // namespace
}  // namespace lectern
