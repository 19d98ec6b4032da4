// Finds the ligatures of Arabic letters in a PDF. DejaVu Sans and Noto Sans Arabic, for example,
// have one glyph for lam and alef, "لا". pdftotext prints the letters of a glyph in their logical
// order and the glyphs of a line in visual order, so that the ligature looks like the two glyphs of
// "ال". Only the widths of the letters tell them apart, which pdftotext does not print: the program
// lectern-pdf-ligatures reads them with poppler, in a process of its own (limited_child.h), and
// hands over where ligatures are, in the form below.
#ifndef LECTERN_TOOLS_INGEST_PDF_LIGATURES_H_
#define LECTERN_TOOLS_INGEST_PDF_LIGATURES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lectern::tools {

// A ligature in a word of pdftotext's.
struct PdfLigature {
  uint64_t page = 0;    // from 1
  double x = 0, y = 0;  // the word's left upper corner, in points (pdf_page.h)
  uint32_t letter = 0;  // of the ligature's two the left one, counted in the word's text from 0
};

// Whether a word in visual order has a lam right before an alef, as a ligature looks.
bool MayHaveLigature(std::string_view word);

// Turns the letters of the ligatures at a word's place around, so that all of the word is in visual
// order. `ligatures`: those of its page, ascending by x. Other letters at a ligature's place stay.
void TurnLigatures(std::span<const PdfLigature> ligatures, double x, double y, std::string& word);

// Tells ligatures from two glyphs by the widths of the letters. One thread.
class LigatureFinder {
 public:
  struct Letter {
    uint32_t character;
    double width;  // in points; of a ligature's letters: half of the glyph's
  };
  // A word in visual order. `font`: its name; `size`: in points. Words of sizes that are not above
  // 0, and those with places and widths that are no numbers, are left out.
  void AddWord(uint64_t page, double x, double y, std::string_view font, double size,
               std::span<const Letter> letters);
  // The ligatures, ascending by page and x, at most kMaxLigatures, of the first four
  // million Arabic letters. Call it last.
  std::vector<PdfLigature> Finish();

 private:
  using Pair = std::pair<uint32_t, uint32_t>;  // letters, the left one first
  struct Candidate {
    PdfLigature place;
    size_t font;
    Pair letters;
    float left, right;  // widths, in sizes
  };
  // Widths in sizes.
  struct Font {
    std::map<Pair, std::vector<float>> halves;  // of left letters beside equally wide ones
    // Letters without an equally wide one on their right, and on their left.
    std::map<uint32_t, std::vector<float>> lefts, rights;
    std::vector<float> lams, alefs;       // lams not before an equally wide alef, and these alefs
    size_t num_pairs = 0, num_equal = 0;  // neighbours, and of them equally wide ones
    // It writes "لا" by two glyphs, at least in some forms: an alef is seen on the left of a lam.
    bool writes_two = false;
  };
  bool IsLigature(const Candidate& candidate) const;

  std::map<std::string, size_t, std::less<>> numbers_;
  std::vector<Font> fonts_;
  std::vector<Candidate> candidates_;
  size_t num_letters_ = 0;  // in fonts_
};

inline constexpr size_t kMaxLigatures = size_t{1} << 20;

// Writes ligatures as lines of text that ParsePdfLigatures reads.
std::string WritePdfLigatures(std::span<const PdfLigature> ligatures);

// Reads those lines; nothing where they are any others, or an end is missing. Any bytes will do.
std::optional<std::vector<PdfLigature>> ParsePdfLigatures(std::string_view bytes);

struct PdfLigatureOptions {
  std::function<bool()> is_cancelled = {};  // asked about every 50 ms; may be empty
  std::string program = {};                 // empty: lectern-pdf-ligatures, by LibexecProgram
  uint64_t cpu_seconds = 20;
};

// Returns the ligatures of a PDF, ascending by page and x; none where the program is missing,
// fails, takes too long or is cancelled. Any thread.
std::vector<PdfLigature> ReadPdfLigatures(std::string_view pdf,
                                          const PdfLigatureOptions& options = {});

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_PDF_LIGATURES_H_
