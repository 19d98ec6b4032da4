// The interface of a conversation about one document, as the engine hands it out.
#ifndef LECTERN_ENGINE_ASKING_SESSION_H_
#define LECTERN_ENGINE_ASKING_SESSION_H_

#include <memory>
#include <string_view>

#include "engine/model/model.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "engine/requests/requests.h"
#include "store/catalog.h"
#include "store/status.h"

namespace lectern {

// One conversation about one document: follow-up questions see the questions and answers before.
// One thread at a time, except where a function says otherwise. May outlive its engine. Views and
// references live as long as the session.
class Session {
 public:
  virtual ~Session() = default;
  // Answers a question, and calls the options' functions on this thread while the answer grows.
  // kInvalidArgument (also history after the first question, and a question that leaves no token to
  // read), kBudgetTooSmall (the message has the smallest), kContextTooLong (numbers in the
  // message), kCancelled only if nothing was decoded yet (later the answer ends early, which is no
  // error), kChecksumMismatch and the other codes of ShardReader::Verify, kLimitExceeded,
  // kOutOfMemory, errors of the device. After an error the session stands where it stood before the
  // call. An answer that memory cuts short is no error: its note says so.
  virtual Result<Answer> Ask(std::string_view question, const AskOptions& options) = 0;
  // The document's row in the catalog, as it was when the session was opened.
  virtual const DocumentRow& document() const = 0;
  virtual std::string_view text() const = 0;  // the document's text
  // Keeps the document open, and text() valid, beyond the session.
  virtual std::shared_ptr<const void> KeepDocument() const = 0;
  // Tokenizes `text` alone as the document's model reads it: no template, no control tokens, a
  // dummy prefix where its tokenizer has one. Ranges as in TokenizedText. kInvalidArgument: not
  // UTF-8. kLimitExceeded: more than 16 MiB. Thread-safe.
  virtual Result<TokenizedText> Tokenize(std::string_view text) const = 0;
  // The document's model, if it was taught plain answers alone, or none, and is used as the options
  // say; nullptr: it is another one. Such a model is asked for each value of an object in JSON by
  // itself (AskForObject). Codes of Open.
  virtual Result<std::shared_ptr<const Model>> PlainModel(const AskOptions& options) const = 0;
  // Bytes of K and V that a step reading the whole document would read, per layer; all rows count,
  // stored or not.
  virtual uint64_t dense_bytes() const = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_SESSION_H_
