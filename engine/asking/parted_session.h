// A conversation about a document in parts: each question goes to the parts that words choose.
#ifndef LECTERN_ENGINE_ASKING_PARTED_SESSION_H_
#define LECTERN_ENGINE_ASKING_PARTED_SESSION_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/asking/asked_sessions.h"
#include "engine/asking/route.h"
#include "engine/asking/session.h"
#include "engine/document/equal_passages.h"
#include "engine/document/parts.h"

namespace lectern {

// Asks parts, the likeliest by words first, each by itself, with the conversation so far, as long
// as AnswerChoice wants more; the answer is the one that ChooseAnswer chooses. Where words leave no
// doubt its text comes as it is decoded, else when all have answered. Passages, pages and offsets
// are those of the whole text. Where each value of an object is asked for by itself (AskForObject),
// each chooses its parts. Everything else as Session.
class PartedSession : public Session {
 public:
  // Opens a session on the document of a part. Called on the thread that asks, also long after the
  // session was made; it must own what it needs, and keep the part's model loaded.
  using OpenPart =
      std::function<Result<std::unique_ptr<Session>>(const DocumentId&, const CancelFlag*)>;

  // `open_ms`: time in ms that opening took, for the first answer's timings. May throw bad_alloc.
  PartedSession(std::shared_ptr<const PartedDocument> document, OpenPart open, double open_ms);

  // Also the codes of OpenPart and of DocumentText::words. kCancelled where the question was
  // cancelled before any text was shown, that is, with several parts, before all have answered.
  Result<Answer> Ask(std::string_view question, const AskOptions& options) override;
  const DocumentRow& document() const override { return contents().row(); }
  std::string_view text() const override { return contents().text(); }
  std::shared_ptr<const void> KeepDocument() const override { return document_; }
  // Opens the first part at its first call, as PlainModel does. Also the codes of OpenPart.
  Result<TokenizedText> Tokenize(std::string_view text) const override;
  Result<std::shared_ptr<const Model>> PlainModel(const AskOptions& options) const override;
  uint64_t dense_bytes() const override;

 private:
  // An answer of one part, with offsets into its own text.
  struct Try {
    RankedPart part;
    AskedSession asked;
  };

  // Runs `use` with a session on the first part, which it opens where that is not done yet.
  template <typename Use>
  auto WithFirstPart(Use use) const -> decltype(use(std::declval<const Session&>())) {
    const std::lock_guard lock(first_.mutex);
    if (!first_.session) {
      LECTERN_ASSIGN(first_.session, open_(IdOf(document_->parts().front()), nullptr));
    }
    return use(*first_.session);
  }
  const DocumentText& contents() const { return document_->contents(); }
  // Asks a part. `shows`: as AskForOne has it.
  Result<Try> AskPart(const RankedPart& part, std::string_view question, const AskOptions& options,
                      bool shows);
  // Asks a question, or for one value of an object. `before`: what it may refer to, for words.
  Result<Answer> AskParts(std::string_view question, std::string_view before,
                          const AskOptions& options);
  // Asks the likeliest parts and chooses an answer. With `holds` nothing is shown,
  // and nothing is returned where an answer says that the question draws on the whole text.
  Result<std::optional<Answer>> AskSome(std::string_view question, std::string_view before,
                                        const AskOptions& options, bool holds);
  // Asks all parts, each exactly, and puts their answers together.
  Result<Answer> AskAll(std::string_view question, const AskOptions& options);
  // One answer of those of the parts; `best` is the part to which the model goes for it, if it
  // does.
  Result<std::string> PutTogether(std::string_view question, std::vector<std::string> answers,
                                  size_t best, const AskOptions& options);
  // Takes the headings before a part's text out of what its answer shows, because they are no
  // passage of the document, and warns of "no_evidence" where nothing else was evidence. At most
  // max_evidence passages stay. `shows`: as AskForOne has it.
  static void DropLead(const Part& part, const AskOptions& options, bool shows,
                       AskedSession& asked);
  // Turns the evidence and the attention of a part's answer into those of the document: moves all
  // offsets, highlights included, and takes pages, headings and places from the whole text. A piece
  // that is no single passage of the whole text gets no places, and the headings of the last
  // passage that begins at or before its first byte. The first call with evidence makes equals_.
  // May throw std::bad_alloc.
  void MoveEvidence(const Part& part, Answer& answer) const;
  // The answer of the document, from that of one part and the costs of all.
  Answer Merge(std::vector<Try> tries, size_t chosen) const;

  const std::shared_ptr<const PartedDocument> document_;
  const OpenPart open_;
  SharedConversation conversation_;
  mutable std::optional<EqualPassages> equals_;  // made when it is first needed
  struct {
    std::mutex mutex;
    std::unique_ptr<Session> session;  // on the first part, for what all parts have in common
  } mutable first_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_PARTED_SESSION_H_
