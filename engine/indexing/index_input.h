// Prepares everything that indexing starts from, and checks it before anything is written: the
// cleaned text, its tokens, the document's identity, and the space that it will take on disk.
#ifndef LECTERN_ENGINE_INDEXING_INDEX_INPUT_H_
#define LECTERN_ENGINE_INDEXING_INDEX_INPUT_H_

#include <string>
#include <string_view>

#include "engine/model/formats/text.h"
#include "engine/model/model.h"
#include "engine/requests/requests.h"

namespace lectern {

// A document that has passed all checks.
struct PreparedDocument {
  CleanText clean;       // the text that is stored: valid UTF-8
  FixedContext tokens;   // the template's prefix and the text
  std::string date;  // that the chat template is told; empty: it asks for none
  Retention retention;   // as asked for; all rows if the document is too short to be clustered
  double prefill_budget = 1;  // below 1: sparse
  DocumentId id{};         // MakeDocumentId
};

// Checks options and text, and tokenises the text. Writes nothing; any thread. kInvalidArgument
// (param names the option), kLimitExceeded (more than 1 GiB), kEmptyDocument (nothing but white
// space), kContextTooLong (no room is left for a question and a short answer), and errors of
// Model::EncodeDocument and CheckKeep.
Result<PreparedDocument> PrepareDocument(const Model& model, std::string_view bytes,
                                         const IndexOptions& options);

// Prepares a document that will be indexed in parts (index_parts.h): without tokens, and whatever
// its length. Codes of PrepareDocument, but not kContextTooLong.
Result<PreparedDocument> PrepareWhole(const Model& model, std::string_view bytes,
                                      const IndexOptions& options);

// Returns the number of positions that the longest question asked while indexing and its answer
// take. A document that leaves fewer is refused. `date`: PreparedDocument::date; `text`: of the
// document (CalibrationQuestions); empty: generic questions. Errors of
// ChatTemplate::EncodeQuestion.
Result<uint64_t> LeastRoom(const ChatTemplate& chat, const Tokenizer& tokenizer,
                           std::string_view date, std::string_view text = {});

// Bytes on disk.
struct DiskCost {
  uint64_t finished, peak;  // when the document is done, and at most while it is indexed
};
// Estimates both from above, within a few percent.
DiskCost CostOnDisk(const ModelConfig& config, const IndexOptions& options,
                    const PreparedDocument& prepared);

// Returns a document's id: the first 16 bytes of a SHA-256 over its arguments: the text, and what
// changes which rows are kept and how they are computed. The template's date and the device are no
// part of it. Equal input gives equal ids, in every store and build. `seed`: counts only for a
// retention with representatives, which are drawn with it. CheckRetention accepts `retention`.
// `parts`: PrepareWhole alone gives it.
DocumentId MakeDocumentId(std::string_view text, const Fingerprint& fingerprint, Dtype kv_dtype,
                          const Retention& retention = {}, uint64_t seed = 0,
                          double prefill_budget = 1, std::string_view parts = "");

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_INPUT_H_
