#include "index/retention/kvcrush.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <random>

namespace lectern {
namespace {

// The signature of the page that begins there.
std::vector<uint8_t> PageSignature(const Signatures& signatures, uint32_t begin, uint32_t page) {
  std::vector<uint8_t> bits(size_t{page} * signatures.num_heads, 0);
  const size_t end = std::min<size_t>(begin + page, signatures.num_rows());
  for (size_t row = begin; row < end; ++row) {
    const std::span<const uint8_t> of_row = signatures.of(row);
    std::copy(of_row.begin(), of_row.end(),
              bits.begin() + static_cast<ptrdiff_t>((row - begin) * signatures.num_heads));
  }
  return bits;
}

std::vector<uint8_t> MakeAnchor(const KvCrush& crush,
                                const std::vector<std::vector<uint8_t>>& signatures,
                                std::mt19937_64& random) {
  std::vector<uint8_t> anchor(signatures.front().size());
  for (size_t bit = 0; bit < anchor.size(); ++bit) {
    switch (crush.anchor) {
      case Anchor::kRandom:
        anchor[bit] = random() >> 63;
        break;
      case Anchor::kMean: {
        size_t ones = 0;
        for (const auto& signature : signatures) ones += signature[bit];
        anchor[bit] = 2 * ones > signatures.size();
        break;
      }
      case Anchor::kAlternating:
        anchor[bit] = bit % 2;
        break;
    }
  }
  return anchor;
}

uint32_t Hamming(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  uint32_t distance = 0;
  for (size_t i = 0; i < a.size(); ++i) distance += a[i] != b[i];
  return distance;
}

}  // namespace

Signatures MakeSignatures(std::span<const std::vector<double>> attention, double keep) {
  Signatures signatures;
  signatures.num_heads = attention.size();
  const size_t num_rows = attention.front().size();
  signatures.bits.resize(num_rows * attention.size());
  const auto kept = static_cast<size_t>(std::lround(keep * static_cast<double>(num_rows)));
  const size_t last = std::clamp<size_t>(kept, 1, num_rows) - 1;
  for (size_t head = 0; head < attention.size(); ++head) {
    std::vector<double> sorted = attention[head];
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(last), sorted.end(),
                     std::greater<>());
    for (size_t row = 0; row < num_rows; ++row) {
      signatures.bits[row * attention.size() + head] = attention[head][row] >= sorted[last];
    }
  }
  return signatures;
}

std::vector<uint32_t> Representatives(const KvCrush& crush, const Signatures& signatures,
                                      std::span<const uint32_t> pages, size_t count,
                                      uint64_t seed) {
  assert(count <= pages.size());
  if (count == 0) return {};
  std::mt19937_64 random(seed);
  std::vector<std::vector<uint8_t>> of_pages;
  for (const uint32_t begin : pages) {
    of_pages.push_back(PageSignature(signatures, begin, crush.page));
  }
  const std::vector<uint8_t> anchor = MakeAnchor(crush, of_pages, random);
  std::vector<std::pair<uint32_t, uint32_t>> by_distance;
  for (size_t i = 0; i < pages.size(); ++i) {
    by_distance.emplace_back(Hamming(of_pages[i], anchor), pages[i]);
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
