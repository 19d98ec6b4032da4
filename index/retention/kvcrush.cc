#include "index/retention/kvcrush.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <random>

namespace lectern {
namespace {

// Signatures of pages, one after the other: [pages][page rows * query heads].
class PageSignatures {
 public:
  PageSignatures(const Signatures& signatures, std::span<const uint32_t> pages, uint32_t page)
      : num_bits_(page * signatures.num_heads), bits_(pages.size() * num_bits_, 0) {
    for (size_t i = 0; i < pages.size(); ++i) {
      const size_t begin = pages[i] * signatures.num_heads;
      const size_t end = std::min(begin + num_bits_, signatures.bits.size());
      std::copy(signatures.bits.begin() + static_cast<ptrdiff_t>(begin),
                signatures.bits.begin() + static_cast<ptrdiff_t>(end),
                bits_.begin() + static_cast<ptrdiff_t>(i * num_bits_));
    }
  }

  // The anchor's bits, as many as a page's signature has. kRandom draws one number for each.
  std::vector<uint8_t> MakeAnchor(Anchor kind, std::mt19937_64& random) const {
    std::vector<uint8_t> anchor(num_bits_);
    for (size_t bit = 0; bit < num_bits_; ++bit) {
      switch (kind) {
        case Anchor::kRandom:
          anchor[bit] = random() >> 63;
          break;
        case Anchor::kMean:
          anchor[bit] = IsMajority(bit);
          break;
        case Anchor::kAlternating:
          anchor[bit] = bit % 2;
          break;
      }
    }
    return anchor;
  }

  // Hamming distance of the i-th page to the anchor.
  uint32_t Distance(size_t i, const std::vector<uint8_t>& anchor) const {
    uint32_t distance = 0;
    for (size_t bit = 0; bit < num_bits_; ++bit) {
      distance += bits_[i * num_bits_ + bit] != anchor[bit];
    }
    return distance;
  }

 private:
  bool IsMajority(size_t bit) const {
    size_t ones = 0;
    for (size_t at = bit; at < bits_.size(); at += num_bits_) ones += bits_[at];
    return 2 * ones * num_bits_ > bits_.size();
  }
  const size_t num_bits_;
  std::vector<uint8_t> bits_;
};

}  // namespace

void Signatures::SetHead(size_t head, std::span<const double> attention, double keep) {
  const size_t rows = attention.size();
  bits.resize(rows * num_heads);
  const auto kept = static_cast<size_t>(std::lround(keep * static_cast<double>(rows)));
  const size_t last = std::clamp<size_t>(kept, 1, rows) - 1;
  std::vector<double> sorted(attention.begin(), attention.end());
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(last), sorted.end(),
                   std::greater<>());
  for (size_t row = 0; row < rows; ++row) {
    bits[row * num_heads + head] = attention[row] >= sorted[last];
  }
}

std::vector<uint32_t> Representatives(const KvCrush& crush, const Signatures& signatures,
                                      std::span<const uint32_t> pages, size_t count,
                                      uint64_t seed) {
  assert(count <= pages.size());
  if (count == 0) return {};
  std::mt19937_64 random(seed);
  // Sorting pairs puts equal distances in document order, so the result does not depend on the
  // sorting algorithm.
  const PageSignatures of_pages(signatures, pages, crush.page);
  const std::vector<uint8_t> anchor = of_pages.MakeAnchor(crush.anchor, random);
  std::vector<std::pair<uint32_t, uint32_t>> by_distance;
  for (size_t i = 0; i < pages.size(); ++i) {
    by_distance.emplace_back(of_pages.Distance(i, anchor), pages[i]);
  }
  std::sort(by_distance.begin(), by_distance.end());
  std::vector<uint32_t> chosen;
  for (size_t bucket = 0; bucket < count; ++bucket) {
    const size_t begin = bucket * pages.size() / count, end = (bucket + 1) * pages.size() / count;
    chosen.push_back(by_distance[begin + random() % (end - begin)].second);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace lectern
