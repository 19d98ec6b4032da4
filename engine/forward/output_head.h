// Computes the logits that a draw can depend on, and not the others: greedy decoding needs the
// largest alone, and the output matrix of a large vocabulary is most of what a token reads. Bounds
// from half of its bits (kernels/packed_planes.h) show which rows may hold them; only those are
// multiplied in full.
#ifndef LECTERN_ENGINE_FORWARD_OUTPUT_HEAD_H_
#define LECTERN_ENGINE_FORWARD_OUTPUT_HEAD_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/backend.h"
#include "kernels/thread_pool.h"

namespace lectern {

// Which logits of a step somebody will look at.
struct WantedLogits {
  uint32_t count = 0;  // the largest so many; 0: all
  double slack = 0;    // and those that are at most this below the last of them
  // All, if the last of them is further than this below the largest.
  double farthest = std::numeric_limits<double>::infinity();

  bool all() const { return count == 0; }
  // Returns the logits that serve both.
  WantedLogits With(const WantedLogits& other) const {
    if (all() || other.all()) return {};
    return {std::max(count, other.count), std::max(slack, other.slack),
            std::min(farthest, other.farthest)};
  }
};

// Bounds of the running step, and notes on earlier steps. One thread at a time.
class OutputHead {
 public:
  // Writes the wanted logits of every input row to `logits` [rows, vocab], with the bits of
  // packed_matmul; each of the others is -infinity or as exact. `input`: with sums. `head`: the
  // output matrix, [vocab, hidden], with planes. False: nothing is computed, because all logits may
  // be wanted, or because multiplying by all rows is likely to cost less; `logits` is then
  // undefined. May throw bad_alloc.
  bool FindLikely(const Int8Rows& input, const PackedRows& head, const WantedLogits& wanted,
                  const Backend& backend, ThreadPool& threads, Rows<float> logits);

  struct Counts {
    uint64_t rows = 0;    // input rows whose logits were found by bounds
    uint64_t panels = 0;  // panels of 16 rows that were multiplied in full for them
  };
  const Counts& counts() const { return counts_; }
  size_t num_known() const { return num_known_; }  // PlaneInput::Set, in the next step

 private:
  // Multiplies an input row by the panels chosen_[begin, end), for its logits.
  void Multiply(const Int8Rows& input, size_t row, const PackedRows& head, size_t begin, size_t end,
                const Backend& backend, ThreadPool& threads, Rows<float> logits) const;
  // Fills chosen_ with the panels that hold the wanted logits of a row, and multiplies by them.
  // False: all logits are wanted.
  bool FindRow(const Int8Rows& input, size_t row, const PackedRows& head,
               const WantedLogits& wanted, const Backend& backend, ThreadPool& threads,
               Rows<float> logits);

  // Chooses how many eights are known in the next step, and whether there are bounds, by the share
  // of the panels that a step multiplied in full.
  void Learn(double share, const PackedRows& head);

  PlaneInput input_;
  std::vector<float> likely_, most_;  // as PlaneBoundsArgs has them
  std::vector<uint32_t> chosen_;      // panels of the running row
  std::vector<float> largest_;        // logits of the first of them
  size_t num_known_ = 8;              // eights
  // Average of the share over the latest steps; and how many steps will go without bounds.
  double share_ = 0;
  uint32_t num_resting_ = 0;
  Counts counts_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_FORWARD_OUTPUT_HEAD_H_
