// KVCrush (arXiv:2503.00022): chooses representatives among the rows that are about to be evicted,
// by which heads attend to them.
#ifndef LECTERN_INDEX_RETENTION_KVCRUSH_H_
#define LECTERN_INDEX_RETENTION_KVCRUSH_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lectern {

// One bit per query head for each row: whether the head would keep the row.
struct Signatures {
  size_t num_heads = 0;
  std::vector<uint8_t> bits;  // [rows][num_heads], 0 or 1
  size_t num_rows() const { return num_heads == 0 ? 0 : bits.size() / num_heads; }
  // Sets the bits of one query head, below num_heads (set before), from its attention [rows], at
  // least one row and as many for every head; resizes `bits`. The threshold is the attention of its
  // round(keep * rows)-th best row (at least the first); rows equal to it get a 1.
  void SetHead(size_t head, std::span<const double> attention, double keep);
};

// The signature that distances are measured from.
enum class Anchor {
  kRandom,       // each bit by the seed
  kMean,         // each bit as in more than half of the pages that leave
  kAlternating,  // 0, 1, 0, 1, …
};

struct KvCrush {
  double share = 0;  // representatives' share of the kept rows; 0.25 in the paper
  Anchor anchor = Anchor::kMean;
  uint32_t page = 1;  // rows that stay or leave together
};

// Chooses `count` representatives, ascending, among the pages that leave. `pages` are the first
// rows of these pages, ascending; rows past the end of `signatures` count as 0.
//
// Pages are ordered by the Hamming distance between their signature (those of their rows in
// sequence) and the anchor, equal ones in document order, and cut into `count` buckets whose sizes
// differ by at most one. One page is drawn from each bucket. (The paper's figures have one bucket
// per distance, its text B buckets, although there are no more distances than heads; this is B.)
// Precondition: count <= pages (asserted). A count of 0 gives none. Equal arguments give equal
// representatives.
std::vector<uint32_t> Representatives(const KvCrush& crush, const Signatures& signatures,
                                      std::span<const uint32_t> pages, size_t count, uint64_t seed);

}  // namespace lectern

#endif  // LECTERN_INDEX_RETENTION_KVCRUSH_H_
