#include "engine/asking/collection_session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/asking/evidence_passages.h"
#include "engine/asking/mention_question.h"
#include "engine/asking/object_answer.h"

namespace lectern {
namespace {

// Documents that are indexed for one question at most: each makes it wait.
constexpr size_t kMostNew = 4;
// Documents whose names an answer after mentions says, and whose passages it shows.
constexpr size_t kNamedDocuments = 20;

double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

std::string Id(const std::optional<DocumentId>& document) {
  return document ? ToHex(*document) : std::string();
}

// Shows a text that no model made, with its warnings.
void Show(const Answer& answer, const AskOptions& options) {
  if (options.on_warning) {
    for (const std::string& warning : answer.warnings) options.on_warning(warning, answer.note);
  }
  if (options.on_text) (void)options.on_text(answer.text);
}

// The question for the first of the values that must be asked for.
std::string_view FirstQuestion(std::span<const AnswerField> fields) {
  const auto first = std::ranges::find_if(fields, NeedsAsking);
  return first->members.empty() ? first->question : FirstQuestion(first->members);
}

// An answer that no model made.
Answer AnswerOfWords(std::string text) {
  Answer answer;
  answer.text = std::move(text);
  answer.finish_reason = "stop", answer.stopped_by = "end";
  answer.kv.rule = "words";
  return answer;
}

}  // namespace

CollectionSession::CollectionSession(std::string name, std::shared_ptr<Collection> collection,
                                     OpenText open, double open_ms)
    : name_(std::move(name)),
      collection_(std::move(collection)),
      open_(std::move(open)),
      conversation_(open_ms) {
  row_.name = name_;
}

Result<std::unique_ptr<Session>> CollectionSession::OpenIndexed() const {
  LECTERN_ASSIGN(const auto texts, collection_->texts());
  const auto indexed = std::ranges::find_if(
      *texts, [](const CollectedText& one) { return one.document.has_value(); });
  if (indexed == texts->end()) {
    return Status(Code::kNotReady,
                  "no document of the collection is indexed yet: ask it a question first");
  }
  const AskOptions options;  // gcc 12 warns of a temporary one
  LECTERN_ASSIGN(OpenedText opened, open_(*indexed, options));
  return std::move(opened.session);
}

Result<TokenizedText> CollectionSession::Tokenize(std::string_view text) const {
  const std::lock_guard lock(tokenizing_.mutex);
  if (!tokenizing_.session) {
    LECTERN_ASSIGN(tokenizing_.session, OpenIndexed());
  }
  return tokenizing_.session->Tokenize(text);
}

Result<std::shared_ptr<const Model>> CollectionSession::PlainModel(
    const AskOptions& options) const {
  LECTERN_ASSIGN(const auto session, OpenIndexed());
  return session->PlainModel(options);
}

Result<CollectionSession::Try> CollectionSession::AskText(const CollectedText& text,
                                                          double probability,
                                                          std::string_view question,
                                                          const AskOptions& options, bool shows) {
  // Each question has a session of its own with the whole conversation before it, because another
  // document may have answered the question before.
  LECTERN_ASSIGN(const OpenedText opened, open_(text, options));
  Try one;
  one.text = text;
  one.is_new = opened.is_new;
  one.text.document = opened.session->document().id;
  LECTERN_ASSIGN(one.asked, AskForOne(*opened.session, question, conversation_.history(), options,
                                      options.max_evidence, shows));
  one.asked.probability = probability;
  one.content = std::make_shared<const std::string>(opened.session->text());
  return one;
}

Answer CollectionSession::Merge(std::vector<Try> tries, size_t chosen, size_t num_documents) const {
  Answer answer = std::move(tries[chosen].asked.answer);
  tries[chosen].asked.answer.text = answer.text;
  tries[chosen].asked.answer.evidence = answer.evidence;
  const std::string& name = tries[chosen].text.name;
  for (Evidence& one : answer.evidence) one.document = name;
  answer.texts.push_back({name, tries[chosen].content});
  answer.collection = name_;
  answer.num_documents = num_documents;
  for (size_t i = 0; i < tries.size(); ++i) {
    const Try& one = tries[i];
    answer.documents.push_back({.name = one.text.name,
                                .source = one.text.source,
                                .document = Id(one.text.document),
                                .probability = one.asked.probability,
                                .answer = one.asked.answer.text,
                                .support = SupportOf(one.asked.answer),
                                .logprob = one.asked.logprob,
                                .is_chosen = i == chosen,
                                .is_new = one.is_new,
                                .num_passages = 0});
    if (i != chosen) AddCosts(one.asked.answer, answer);
  }
  return answer;
}

Result<Answer> CollectionSession::AnswerMentions(const std::string& words,
                                                 const AskOptions& options) {
  LECTERN_ASSIGN(Mentions mentions, FindMentions(*collection_, words, kNamedDocuments));
  LECTERN_ASSIGN(const auto texts, collection_->texts());
  const uint64_t count = mentions.num_documents;
  std::string said;
  if (count == 0) {
    said = "No document of the collection mentions “" + words + "”.";
  } else {
    said = std::to_string(count) + (count == 1 ? " document mentions “" : " documents mention “") +
           words + "”: ";
    for (size_t i = 0; i < mentions.documents.size(); ++i) {
      said += (i > 0 ? ", " : "") + mentions.documents[i].name;
    }
    const uint64_t more = count - mentions.documents.size();
    said += more > 0 ? ", and " + std::to_string(more) + " more." : ".";
  }
  Answer answer = AnswerOfWords(std::move(said));
  answer.collection = name_;
  answer.num_documents = texts->size();
  answer.texts = std::move(mentions.texts);
  for (Mentions::One& one : mentions.documents) {
    answer.documents.push_back({.name = one.name,
                                .source = one.source,
                                .document = one.document,
                                .answer = {},
                                .num_passages = one.num_passages});
    if (answer.evidence.size() < options.max_evidence) {
      answer.evidence.push_back(std::move(one.passage));
    }
  }
  Show(answer, options);
  return answer;
}

Result<Answer> CollectionSession::AskTexts(std::string_view question, const AskOptions& options) {
  LECTERN_ASSIGN(const RankedTexts texts,
                 RankTexts(*collection_, question, conversation_.last_question()));
  if (texts.ranked.empty() && !options.json_schema.empty()) {
    return Status(Code::kInvalidArgument,
                  "no document of the collection has a word of the question, so that none can "
                  "answer in JSON; ask with words of the documents")
        .WithParam("question");
  }
  if (texts.ranked.empty()) {
    Answer answer = AnswerOfWords("No document of the collection has a word of the question.");
    answer.collection = name_;
    answer.num_documents = texts.texts->size();
    answer.warnings = {"no_evidence"};
    Show(answer, options);
    return answer;
  }
  size_t num_new = 0;
  return AskRanked(question, texts, options, num_new);
}

Result<Answer> CollectionSession::AskFields(std::span<const AnswerField> fields,
                                            std::string_view question, const AskOptions& options) {
  const auto rank = [&](std::string_view asked) {
    return RankTexts(*collection_, asked, conversation_.BeforeValue(asked, question));
  };
  LECTERN_ASSIGN(const RankedTexts likeliest, rank(FirstQuestion(fields)));
  if (likeliest.ranked.empty()) return AskTexts(question, options);
  const CollectedText& text = (*likeliest.texts)[likeliest.ranked.front().part];
  LECTERN_ASSIGN(OpenedText opened, open_(text, options));
  LECTERN_ASSIGN(const auto plain, opened.session->PlainModel(options));
  opened.session.reset();
  size_t num_new = opened.is_new;
  const auto ask = [&](std::string_view asked, const AskOptions& of_value) -> Result<Answer> {
    LECTERN_ASSIGN(const RankedTexts texts, rank(asked));
    // A value whose words no text has is asked for where the first one stands.
    return AskRanked(asked, texts.ranked.empty() ? likeliest : texts, of_value, num_new);
  };
  auto answer =
      plain ? AskForObject(fields, plain->tokenizer(), options, ask) : AskTexts(question, options);
  if (!answer.ok()) return answer;
  for (AskedDocument& asked : answer->documents) {
    if (asked.name == text.name) asked.is_new |= opened.is_new;
  }
  return answer;
}

Result<Answer> CollectionSession::AskRanked(std::string_view question, const RankedTexts& texts,
                                            const AskOptions& options, size_t& num_new) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Try> tries;
  AnswerChoice choice(texts.ranked);
  const bool is_alone = choice.is_sure() || texts.ranked.size() == 1;
  while (choice.WantsMore() && (tries.empty() || num_new < kMostNew)) {
    const RankedPart& ranked = texts.ranked[tries.size()];
    LECTERN_ASSIGN(Try one, AskText((*texts.texts)[ranked.part], ranked.probability, question,
                                    options, /*shows=*/is_alone));
    const bool is_cancelled = one.asked.answer.finish_reason == "cancelled";
    num_new += one.is_new;
    choice.Add(one.asked.answer);
    tries.push_back(std::move(one));
    if (is_cancelled && !is_alone) {
      return Status(Code::kCancelled,
                    "the question was cancelled before its documents had answered");
    }
  }
  std::vector<const AskedSession*> asked;
  for (const Try& one : tries) asked.push_back(&one.asked);
  const size_t chosen = ChooseAnswer(asked);
  const auto shown = std::move(tries[chosen].asked.shown);
  const double first_token = MillisecondsSince(start);
  Answer answer = Merge(std::move(tries), chosen, texts.texts->size());
  for (const auto& show : shown) show();
  if (!is_alone) answer.timings_ms.first_token = first_token;
  return answer;
}

Result<Answer> CollectionSession::Ask(std::string_view question, const AskOptions& options) {
  return conversation_.Ask(question, options, [&] {
    // A list of the documents that mention words has a text of its own.
    const auto words =
        options.json_schema.empty() ? MentionedWords(question) : std::optional<std::string>();
    if (words) return AnswerMentions(*words, options);
    const std::vector<AnswerField> fields = FieldsOf(question, options);
    return fields.empty() ? AskTexts(question, options) : AskFields(fields, question, options);
  });
}

Result<Mentions> FindMentions(Collection& collection, std::string_view words, size_t most) {
  LECTERN_ASSIGN(const Collection::Mentions found, collection.FindMentions(words));
  Mentions mentions;
  mentions.num_documents = found.mentions.size();
  for (const Collection::Mention& one : found.mentions) {
    if (mentions.documents.size() == most) break;
    const CollectedText& text = (*found.texts)[one.text];
    auto stored = collection.Read(text);
    if (stored.status().code() == Code::kNotFound) continue;  // it has gone since
    if (!stored.ok()) return std::move(stored).status();
    const auto content = std::make_shared<const std::string>(std::move(stored->text));
    const PassagesOfText passages = {*content, stored->passages, stored->pages,
                                     stored->page_labels};
    if (one.first >= stored->passages.size()) continue;
    const EqualPassages equals(*content, stored->passages);
    Evidence passage = MakeEvidence(passages, equals, one.first, one.first + 1);
    passage.document = text.name;
    mentions.documents.push_back(
        {text.name, text.source, Id(text.document), one.num_passages, std::move(passage)});
    mentions.texts.push_back({text.name, content});
  }
  return mentions;
}

}  // namespace lectern
