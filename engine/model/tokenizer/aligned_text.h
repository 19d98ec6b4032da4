// A text that was made from another one, byte by byte or with changes, and that knows where its
// bytes come from. Tokens are found in the normalised text and reported as ranges of the original
// one, which users see.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_ALIGNED_TEXT_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_ALIGNED_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lectern {

// Runs of bytes with a common origin. Offsets have 32 bits: texts have at most 16 MiB, and
// normalised ones 64 MiB. One thread writes; while nobody
// writes, any thread may read.
class AlignedText {
 public:
  AlignedText() = default;
  // `text` as it is; its first byte is the byte `begin` of the original.
  AlignedText(std::string_view text, size_t begin) { AppendSame(text, begin); }

  std::string_view text() const { return text_; }

  // Appends bytes that are those of the original from `begin` on.
  void AppendSame(std::string_view bytes, size_t begin);
  // Appends bytes that stand for [begin, end) of the original as a whole; the range may be empty.
  // Does nothing, as all appending calls, if there are no bytes to append.
  void AppendChanged(std::string_view bytes, size_t begin, size_t end);
  // Appends the bytes [begin, end) of `other`, with their places in the original.
  void AppendPart(const AlignedText& other, size_t begin, size_t end);
  // Appends bytes that stand for the bytes [begin, end) of `other`. An empty range: they stand for
  // no byte, at OriginalBegin(begin) of `other`.
  void AppendReplaced(std::string_view bytes, const AlignedText& other, size_t begin, size_t end);
  // Drops all bytes from `size` on, which is at most the size.
  void Truncate(size_t size);

  // These tell where the bytes [begin, end) of text() come from; a part of a change stands for all
  // of it, and bytes that stand for no byte come from the place where they were put. From the
  // text's end on OriginalBegin is the end of what the last bytes come from; OriginalEnd(0), and
  // both for an empty text, are 0.
  size_t OriginalBegin(size_t begin) const;
  size_t OriginalEnd(size_t end) const;  // end: at most the size, not checked

 private:
  // A stretch of text() up to the next run; texts have at most 16 MiB.
  struct Run {
    uint32_t at, begin, end;
    bool is_same;  // byte for byte
  };
  // The number of the last run that begins at byte `at` of text() or before it. Only where there
  // is a run.
  size_t RunOf(size_t at) const;
  // The byte of text() at which a run, by its number, ends.
  size_t RunEnd(size_t run) const {
    return run + 1 < runs_.size() ? runs_[run + 1].at : text_.size();
  }

  std::string text_;
  std::vector<Run> runs_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_ALIGNED_TEXT_H_
