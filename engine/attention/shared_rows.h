// The interface to the ranks that attend to a document together: each process attends to the rows
// that it owns (index/lookup_share.h), and the first one, which leads, joins their results.
#ifndef LECTERN_ENGINE_ATTENTION_SHARED_ROWS_H_
#define LECTERN_ENGINE_ATTENTION_SHARED_ROWS_H_

#include <span>
#include <vector>

#include "engine/attention/conversation.h"
#include "index/lookup.h"

namespace lectern {

// One rank's part of a layer's attention. The vectors keep their memory.
struct OwnRows {
  // Per kv head; empty where every row was read.
  std::vector<HeadSelection> selections;
  // Per kv head [R]: log mass of the rows that were read, tails left out.
  std::vector<std::vector<float>> read_lse;
  uint64_t bytes = 0;  // that were read
};

// A document whose rows are shared with other ranks, for one session of the leading rank. Any
// thread; one layer at a time: other sessions wait between Begin and Finish.
class SharedRows {
 public:
  virtual ~SharedRows() = default;

  // The leader's own part. Valid from Begin to Finish.
  virtual const LookupShare& share() const = 0;

  struct Args {
    uint32_t layer;
    RowQuery query;
    // Everything of a lookup but heads and share, which each rank has of its own; of an exact pass
    // scale, softcap and queries alone.
    const LookupArgs& lookup;
    bool reads_all;       // exact: each rank reads all its rows
    size_t num_observed;  // of the last query rows of each head, whose logits come back; may be 0
  };
  // Tells the other ranks to attend to their rows, as the caller does next with its own; Finish
  // must follow. False: they are busy for longer, with a document that they index, and the caller
  // attends to all rows itself. Errors of the ranks, after which nothing has begun.
  virtual Result<bool> Begin(const Args& args) = 0;
  // Joins the parts of all ranks: `states` (of the query of Begin), `own` and `observed` (per kv
  // head [observed][rows], the same layout as ObservedLogits::rest) have this rank's part before,
  // and all parts afterwards, rows in the order in which they are stored. Of the selections the
  // rows, bytes, missed masses and bounds are joined. Returns `local`, the caller's own error, or
  // the error of the first rank that failed; all then hold anything.
  virtual Status Finish(Status local, std::span<const AttentionState> states, OwnRows& own,
                        std::vector<std::vector<float>>* observed) = 0;
  // Called instead of Finish where the caller cannot go on (an exception): the ranks, which would
  // wait for it, all end, this process too.
  [[noreturn]] virtual void Abort() = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_SHARED_ROWS_H_
