// A conversation about a collection: each question goes to the documents that words choose.
#ifndef LECTERN_ENGINE_ASKING_COLLECTION_SESSION_H_
#define LECTERN_ENGINE_ASKING_COLLECTION_SESSION_H_

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/asking/answer_fields.h"
#include "engine/asking/asked_sessions.h"
#include "engine/asking/route.h"
#include "engine/asking/session.h"
#include "engine/document/collection.h"

namespace lectern {

// Asks documents, the likeliest by words first, each by itself, with the conversation so far, as
// long as AnswerChoice wants more, and until four had to be indexed for it; the answer is the one
// that ChooseAnswer chooses, and its passages name their document. Where words leave no doubt its
// text comes as it is decoded, else when all have answered. A question that
// asks which documents mention something is answered from words (MentionedWords), and so is one
// that shares no word with any text. Where each value of an object is asked for by itself
// (AskForObject), each chooses its documents; after four that had to be indexed for one of them,
// each of the others asks one. Everything else as Session.
class CollectionSession : public Session {
 public:
  // A document of the store that has a text of the collection.
  struct OpenedText {
    std::unique_ptr<Session> session;
    bool is_new = false;  // it was indexed now
  };
  // Opens a session on a text's document, and indexes the text before if it has none. Called on the
  // thread that asks, also long after the session was made; it must own what it needs, and keep the
  // document's model loaded. May call `options.on_index`, and looks at `options.cancel`.
  using OpenText =
      std::function<Result<OpenedText>(const CollectedText&, const AskOptions& options)>;

  // `open_ms`: time in ms that opening took, for the first answer's timings. May throw bad_alloc.
  CollectionSession(std::string name, std::shared_ptr<Collection> collection, OpenText open,
                    double open_ms);

  // Also the codes of OpenText and Collection. kCancelled where the question was cancelled before
  // any text was shown, that is, with several documents, before all have answered.
  Result<Answer> Ask(std::string_view question, const AskOptions& options) override;
  // A row without id, which has the collection's name as its name.
  const DocumentRow& document() const override { return row_; }
  std::string_view text() const override { return {}; }  // each answer has its texts
  std::shared_ptr<const void> KeepDocument() const override { return nullptr; }
  // By the model of the first document that is indexed. kNotReady: none is yet. Also the codes of
  // OpenText.
  Result<TokenizedText> Tokenize(std::string_view text) const override;
  // That of the document whose model Tokenize takes; the others may have others.
  Result<std::shared_ptr<const Model>> PlainModel(const AskOptions& options) const override;
  uint64_t dense_bytes() const override { return 0; }

 private:
  // The answer of one text's document.
  struct Try {
    CollectedText text;
    AskedSession asked;
    std::shared_ptr<const std::string> content;
    bool is_new = false;
  };

  // Asks a question in one go.
  Result<Answer> AskTexts(std::string_view question, const AskOptions& options);
  // Asks for an object of these members value by value, where the model of the document that is the
  // likeliest for the first one is to be asked so; else in one go.
  Result<Answer> AskFields(std::span<const AnswerField> fields, std::string_view question,
                           const AskOptions& options);
  // Asks the likeliest of these texts, of which there is at least one. `num_new`: how many had to
  // be indexed for the question so far.
  Result<Answer> AskRanked(std::string_view question, const RankedTexts& texts,
                           const AskOptions& options, size_t& num_new);
  // A session on the first document of the collection that is indexed.
  Result<std::unique_ptr<Session>> OpenIndexed() const;
  Result<Try> AskText(const CollectedText& text, double probability, std::string_view question,
                      const AskOptions& options, bool shows);
  Answer Merge(std::vector<Try> tries, size_t chosen, size_t num_documents) const;
  // The answer to a question after documents that mention words.
  Result<Answer> AnswerMentions(const std::string& words, const AskOptions& options);

  const std::string name_;
  const std::shared_ptr<Collection> collection_;
  const OpenText open_;
  SharedConversation conversation_;
  DocumentRow row_;
  struct {
    std::mutex mutex;
    std::unique_ptr<Session> session;  // opened by the first call of Tokenize
  } mutable tokenizing_;
};

// The texts of a collection with a passage that has all of `words`, at most `most`, and those
// passages. Codes of Collection.
Result<Mentions> FindMentions(Collection& collection, std::string_view words, size_t most);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_COLLECTION_SESSION_H_
