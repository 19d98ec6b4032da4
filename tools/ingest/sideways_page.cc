#include "tools/ingest/sideways_page.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "tools/ingest/letter_forms.h"

namespace lectern::tools {
namespace {

constexpr size_t kTellingWord = 4;      // characters; a shorter one may be higher than wide
constexpr size_t kMinSideways = 40;     // characters in sideways words
constexpr double kSidewaysShare = 0.6;  // in them, of those in all words that tell

bool IsSideways(const PdfBox& box) { return box.Height() > 1.2 * box.Width(); }

// How the sideways words of a page run: those that follow another one of their line upwards, less
// those that follow it downwards.
struct SidewaysWords {
  bool are_most = false;
  bool run_up = true;
};

SidewaysWords CountSideways(const PdfPage& page) {
  size_t num_sideways = 0, num_telling = 0;
  ptrdiff_t upwards = 0;
  for (const PdfLine& line : page.lines) {
    const PdfWord* last = nullptr;
    for (const PdfWord& word : line.words) {
      const size_t length = CodePoints(word.text).size();
      if (length >= kTellingWord) {
        num_telling += length;
        // A letter with its vowel points is several characters, and narrow in an upright line.
        num_sideways += IsSideways(word.box) && IsSideways(line.box) ? length : 0;
      }
      if (last != nullptr && IsSideways(line.box)) {
        upwards += word.box.CenterY() < last->box.CenterY() ? 1 : -1;
      }
      last = &word;
    }
  }
  const auto least = kSidewaysShare * static_cast<double>(num_telling);
  return {num_sideways >= kMinSideways && static_cast<double>(num_sideways) >= least, upwards >= 0};
}

}  // namespace

void TurnSidewaysPage(PdfPage& page) {
  const SidewaysWords words = CountSideways(page);
  if (!words.are_most) return;
  const auto turn = [&](PdfBox& box) {
    box = words.run_up
              ? PdfBox{page.height - box.y_max, box.x_min, page.height - box.y_min, box.x_max}
              : PdfBox{box.y_min, page.width - box.x_max, box.y_max, page.width - box.x_min};
  };
  for (PdfLine& line : page.lines) {
    turn(line.box);
    for (PdfWord& word : line.words) turn(word.box);
    std::stable_sort(line.words.begin(), line.words.end(),
                     [](const PdfWord& a, const PdfWord& b) { return a.box.x_min < b.box.x_min; });
  }
  for (PdfBox& block : page.blocks) turn(block);
  std::swap(page.width, page.height);
  // pdftotext's reading order is that of an upright page.
  std::stable_sort(page.lines.begin(), page.lines.end(), [&](const PdfLine& a, const PdfLine& b) {
    const auto key = [&](const PdfLine& line) {
      return std::tuple(page.blocks[line.block].y_min, line.block, line.box.CenterY());
    };
    return key(a) < key(b);
  });
}

}  // namespace lectern::tools
