// Prepares what a document is indexed from, and checks it before anything is written: text, tokens,
// identity, and the room that it will take on disk.
#ifndef LECTERN_ENGINE_INDEXING_INDEX_INPUT_H_
#define LECTERN_ENGINE_INDEXING_INDEX_INPUT_H_

#include <string>
#include <string_view>

#include "engine/model/formats/text.h"
#include "engine/model/model.h"
#include "engine/requests/requests.h"

namespace lectern {

struct PreparedDocument {
  CleanText clean;
  FixedContext tokens;
  std::string date;  // that the chat template is told; empty: it asks for none
  Retention retention;
  double prefill_budget = 1;  // below 1: sparse
  DocumentId id{};
};

// kInvalidArgument with param, kLimitExceeded, kEmptyDocument, kContextTooLong, and errors of
// EncodeDocument and CheckKeep.
Result<PreparedDocument> PrepareDocument(const Model& model, std::string_view bytes,
                                         const IndexOptions& options);

// Positions that the longest question asked while indexing and its answer take: a document that
// leaves fewer is refused.
Result<uint64_t> LeastRoom(const ChatTemplate& chat, const Tokenizer& tokenizer,
                           std::string_view date, std::string_view text = {});

struct DiskCost {
  uint64_t finished, peak;  // bytes of the document, and at most while it is indexed
};
DiskCost CostOnDisk(const ModelConfig& config, const IndexOptions& options,
                    const PreparedDocument& prepared);

// First 16 bytes of SHA-256(text, fingerprint, what changes rows). `seed`: of representatives.
DocumentId MakeDocumentId(std::string_view text, const Fingerprint& fingerprint, Dtype kv_dtype,
                          const Retention& retention = {}, uint64_t seed = 0,
                          double prefill_budget = 1);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_INPUT_H_
