#include "engine/model/tokenizer/aligned_text.h"

#include <algorithm>

namespace lectern {

void AlignedText::AppendSame(std::string_view bytes, size_t begin) {
  if (bytes.empty()) return;
  const auto end = static_cast<uint32_t>(begin + bytes.size());
  // Bytes that go on where the last run ended make one run with it: an unchanged text has a single
  // one.
  if (!runs_.empty() && runs_.back().is_same && runs_.back().end == begin) {
    runs_.back().end = end;
  } else {
    runs_.push_back({static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(begin), end, true});
  }
  text_ += bytes;
}

void AlignedText::AppendChanged(std::string_view bytes, size_t begin, size_t end) {
  if (bytes.empty()) return;
  runs_.push_back({static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(begin),
                   static_cast<uint32_t>(end), false});
  text_ += bytes;
}

// Run by run: a part of a run that is the same keeps byte offsets, a part of a change stands for
// all of the change.
void AlignedText::AppendPart(const AlignedText& other, size_t begin, size_t end) {
  while (begin < end) {
    const size_t at = other.RunOf(begin), stop = std::min(end, other.RunEnd(at));
    const Run& run = other.runs_[at];
    const std::string_view bytes = std::string_view(other.text_).substr(begin, stop - begin);
    if (run.is_same) {
      AppendSame(bytes, run.begin + (begin - run.at));
    } else {
      AppendChanged(bytes, run.begin, run.end);
    }
    begin = stop;
  }
}

// `other` may itself be a changed text, so the places are those of the original behind it.
void AlignedText::AppendReplaced(std::string_view bytes, const AlignedText& other, size_t begin,
                                 size_t end) {
  const size_t from = other.OriginalBegin(begin);
  AppendChanged(bytes, from, begin < end ? other.OriginalEnd(end) : from);
}

void AlignedText::Truncate(size_t size) {
  text_.resize(size);
  while (!runs_.empty() && runs_.back().at >= size) runs_.pop_back();
  if (!runs_.empty() && runs_.back().is_same) {
    runs_.back().end = static_cast<uint32_t>(runs_.back().begin + (size - runs_.back().at));
  }
}

size_t AlignedText::RunOf(size_t at) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), at,
                                      [](size_t a, const Run& run) { return a < run.at; });
  return static_cast<size_t>(after - runs_.begin()) - 1;
}

size_t AlignedText::OriginalBegin(size_t begin) const {
  if (runs_.empty()) return 0;
  if (begin >= text_.size()) return runs_.back().end;
  const Run& run = runs_[RunOf(begin)];
  return run.is_same ? run.begin + (begin - run.at) : run.begin;
}

// The end is found by the last byte before it, because a run that begins at `end` is another one.
size_t AlignedText::OriginalEnd(size_t end) const {
  if (runs_.empty() || end == 0) return 0;
  const Run& run = runs_[RunOf(end - 1)];
  return run.is_same ? run.begin + (end - run.at) : run.end;
}

}  // namespace lectern
