// KVCrush (arXiv:2503.00022): rows that go leave representatives, found by which heads attend to
// them.
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
  // From the attention [rows] of a query head, of whose rows the share `keep` is kept: its
  // threshold is that of its round(keep * rows) best rows (at least one); what equals it is above.
  void SetHead(size_t head, std::span<const double> attention, double keep);
};

// What distances are measured from.
enum class Anchor {
  kRandom,       // each bit by the seed
  kMean,         // each bit that of more than half of all
  kAlternating,  // 0, 1, 0, 1, …
};

struct KvCrush {
  double share = 0;  // of what is kept, representatives; 0.25 in the paper
  Anchor anchor = Anchor::kMean;
  uint32_t page = 1;  // rows that stay or go together
};

// Of the pages that go, [begin, begin + page) for each of `pages` (ascending first rows; the rows
// after the last one of `signatures` count as 0): `count` representatives, ascending.
//
// Pages are ordered by the Hamming distance of their signatures, those of their rows one after the
// other, to the anchor, among equals as in the document, and cut into `count` buckets alike in size
// but for one; of each bucket one page is drawn. (The paper has one bucket per distance in the
// figures and B of them in the text, where there are no more distances than heads; this is B.)
// Precondition: count <= pages.
std::vector<uint32_t> Representatives(const KvCrush& crush, const Signatures& signatures,
                                      std::span<const uint32_t> pages, size_t count, uint64_t seed);

}  // namespace lectern

#endif  // LECTERN_INDEX_RETENTION_KVCRUSH_H_
