// The interface to a document's stored rows on a device: the parts of AttendDocument that read keys
// and values, for passes that the host leads.
#ifndef LECTERN_ENGINE_ATTENTION_STORED_ROWS_H_
#define LECTERN_ENGINE_ATTENTION_STORED_ROWS_H_

#include <span>
#include <vector>

#include "engine/attention/conversation.h"
#include "index/lookup.h"

namespace lectern {

// The rows of one session's document. One thread at a time. Every call may also fail with errors of
// the device, after which the states hold anything.
class StoredRows {
 public:
  virtual ~StoredRows() = default;

  // Some stored rows of a kv head: entries [rows.begin, rows.end) of `chosen` if that is given (it
  // holds row numbers of the head), else these rows of the head itself.
  struct Part {
    uint32_t head;
    IndexRange rows;
    std::span<const uint32_t> chosen = {};
  };
  struct Args {
    uint32_t layer;
    std::span<const HeadIndex> heads;
    RowQuery query;
    // Where Attend writes the logits of the last token's query rows, per kv head [query group][rows
    // of its parts side by side], if the device holds all of them; else it leaves it empty.
    // nullptr: not wanted.
    std::vector<std::vector<float>>* observed = nullptr;
  };

  // Does Lookup of index/lookup.h. False: the device cannot, nothing is found, and the host must
  // look up. kChecksumMismatch, kCorrupt.
  virtual Result<bool> LookUp(uint32_t layer, const LookupArgs& args,
                              std::vector<HeadSelection>& selections) = 0;
  // Adds attention to the parts, each head's in the given order. Either all parts name chosen rows
  // or none does. kChecksumMismatch, kCorrupt.
  virtual Status Attend(const Args& args, std::span<const Part> parts) = 0;
  // After LookUp found something and Attend: adds the tail, or puts it into the selections for the
  // host's AttendTails. Does nothing if `tail` was false in that lookup.
  virtual Status AttendTail(const Args& args, const LookupArgs& lookup,
                            std::vector<HeadSelection>& selections) = 0;
  // Attends to a windowed layer. Query row r belongs to token t = r / group, stands at position
  // `first_position` + t of the stored rows (which begin at 0) and sees the last `window` rows up
  // to itself. kChecksumMismatch, kCorrupt.
  virtual Status AttendWindow(const Args& args, uint64_t first_position, uint32_t window) = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_STORED_ROWS_H_
