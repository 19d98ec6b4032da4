// A document's stored rows on a device: the parts of engine/attention/document_attention.h that
// read keys and values, for passes that the host leads.
#ifndef LECTERN_ENGINE_ATTENTION_STORED_ROWS_H_
#define LECTERN_ENGINE_ATTENTION_STORED_ROWS_H_

#include <span>
#include <vector>

#include "engine/attention/conversation.h"
#include "index/lookup.h"

namespace lectern {

// One session's; one thread at a time. Every call has also the errors of the device, after which
// the states hold anything.
class StoredRows {
 public:
  virtual ~StoredRows() = default;

  // Some stored rows of a kv head: [rows.begin, rows.end), of `chosen` where that is given (its row
  // numbers are then those of the head), else of the head.
  struct Part {
    uint32_t head;
    IndexRange rows;
    std::span<const uint32_t> chosen = {};
  };
  struct Args {
    uint32_t layer;
    std::span<const HeadIndex> heads;
    RowQuery query;
    // Attend writes here the logits of the last token's query rows, per kv head [query group][rows
    // of its parts side by side], where the device holds them all; else empty. nullptr: not wanted.
    std::vector<std::vector<float>>* observed = nullptr;
  };

  // index/lookup.h's Lookup. false, and nothing is found: it is the host's to do.
  virtual Result<bool> LookUp(uint32_t layer, const LookupArgs& args,
                              std::vector<HeadSelection>& selections) = 0;
  // Adds attention over the parts, each head's in their order. kChecksumMismatch.
  virtual Status Attend(const Args& args, std::span<const Part> parts) = 0;
  // After these and a LookUp that found them: adds the tail, or brings it into the selections, for
  // the host's AttendTails.
  virtual Status AttendTail(const Args& args, const LookupArgs& lookup,
                            std::vector<HeadSelection>& selections) = 0;
  // Attends to a windowed layer: query row r of token t = r / group stands at position
  // `first_position` + t of the stored rows (which begin at 0) and sees the `window` up to itself.
  virtual Status AttendWindow(const Args& args, uint64_t first_position, uint32_t window) = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_STORED_ROWS_H_
