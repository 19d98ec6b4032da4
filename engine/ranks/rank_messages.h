// The messages of a group of ranks: the leader's commands, and the parts of a layer's attention
// that come back.
#ifndef LECTERN_ENGINE_RANKS_RANK_MESSAGES_H_
#define LECTERN_ENGINE_RANKS_RANK_MESSAGES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/attention/shared_rows.h"
#include "engine/ranks/communicator.h"
#include "engine/ranks/packed_message.h"

namespace lectern {

// The first number of every message that the leader broadcasts.
enum class RankCommand : uint32_t { kStop, kOpen, kClose, kAttend, kIndex };

// kOpen: a number for a document, the store's folder, and the generation of the document in it.
// kClose: the number.
// kIndex: engine/indexing/ranked_index.cc.

// kAttend: everything of a layer's queries that the other ranks need.
struct AttendMessage {
  uint64_t document = 0;  // its number
  uint32_t layer = 0, num_tokens = 0, num_observed = 0;
  uint32_t num_heads = 0, num_rows = 0, head_dim = 0;  // kv heads; R
  float scale = 0, softcap = 0;
  double kv_budget = 0;
  bool reads_all = false, tail = false, bound = false, window_copies = false;
  std::vector<float> queries;        // [kv heads][R, head_dim]
  std::vector<float> known_lse;      // [kv heads][R]; empty: not known
  std::vector<float> row_weights;    // [R]; empty: equal
  std::vector<double> head_budgets;  // [kv heads], or empty

  static AttendMessage Of(uint64_t document, const SharedRows::Args& args);
  void Write(MessageWriter& writer) const;
  // Reads what Write wrote, after the command. kInternal: it is cut, or its sizes do not fit.
  static Result<AttendMessage> Read(MessageReader& reader);
};

// The partial outputs of a layer as rows for Communicator::JoinAtFirst, [kv heads][R]: taken from
// the states, and put back into them and into `own`. Where `is_bounded`, bounds travel, too.
std::vector<float> PartialRows(std::span<const AttentionState> states, const OwnRows& own,
                               bool is_bounded);
void TakePartialRows(std::span<const float> rows, std::span<const AttentionState> states,
                     OwnRows& own, bool is_bounded);

// A rank's status and, where that is ok, the rows that it read, with the logits of those that are
// observed (per kv head [observed][rows]; nullptr: none).
std::vector<std::byte> PartMessage(const Status& local, const OwnRows& own,
                                   const std::vector<std::vector<float>>* observed);
// Appends another rank's part to the leader's, and sets `bytes` to the bytes that it read. `own`
// has no selections where all rows are read. Returns the rank's error; kInternal: the message is
// cut.
Status AppendPart(std::span<const std::byte> message, size_t num_observed, OwnRows& own,
                  std::vector<std::vector<float>>* observed, uint64_t& bytes);

}  // namespace lectern

#endif  // LECTERN_ENGINE_RANKS_RANK_MESSAGES_H_
