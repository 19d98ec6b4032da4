// utf8proc's own normalisation knows no offsets and sorts marks in quadratic time; so the text is
// cut where nothing can join, and each stretch is brought into its form.
#include "engine/model/tokenizer/compose.h"

#include <utf8proc.h>

#include <algorithm>

namespace lectern {
namespace {

using CodePoints = std::vector<utf8proc_int32_t>;

// The character at `at` of valid UTF-8, and its length.
utf8proc_int32_t CharAt(std::string_view text, size_t at, size_t* length) {
  utf8proc_int32_t c = 0;
  *length = static_cast<size_t>(
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                       static_cast<utf8proc_ssize_t>(text.size() - at), &c));
  return c;
}

// The two properties of a form: whether it composes at the end, and whether it takes apart what is
// only alike (ligatures, widths).
bool Composes(UnicodeForm form) { return form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc; }
bool IsCompatible(UnicodeForm form) {
  return form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
}

// Whether `c` can join or move before what precedes it: marks, the later parts of Hangul syllables,
// and the vowels of Kirat Rai, which compose though they are letters.
bool JoinsPrevious(utf8proc_int32_t c, UnicodeForm form) {
  if (c < 0x300) return false;
  if (IsCompatible(form)) {  // the half-width voiced marks of kana become marks that join
    if (c == 0xFF9E || c == 0xFF9F) return true;
    if (c >= 0xFFA0 && c <= 0xFFDC) return true;  // half-width Hangul
  }
  if ((c >= 0x1160 && c <= 0x11FF) || (c >= 0x16D63 && c <= 0x16D6A)) return true;
  const utf8proc_category_t category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

// Whether it is clear at once that the form leaves a character unchanged that stands alone. False:
// it may still stay as it is.
bool IsComposed(utf8proc_int32_t c, UnicodeForm form) {
  if (c < (form == UnicodeForm::kNfc ? 0x300 : 0x80)) return true;
  const bool is_hangul = c >= 0xAC00 && c <= 0xD7A3;  // taken apart by rule, not by table
  if (is_hangul) return Composes(form);
  return utf8proc_get_property(c)->decomp_seqindex == UINT16_MAX;
}

int CombiningClass(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// Appends a character taken apart as far as the form does.
void AppendDecomposed(utf8proc_int32_t c, UnicodeForm form, CodePoints* out) {
  utf8proc_int32_t parts[32];  // canonically at most four, else eighteen (U+FDFA)
  int last_boundclass = 0;
  const int options = UTF8PROC_DECOMPOSE | (IsCompatible(form) ? UTF8PROC_COMPAT : 0);
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      c, parts, std::size(parts), static_cast<utf8proc_option_t>(options), &last_boundclass);
  if (count > 0 && static_cast<size_t>(count) <= std::size(parts)) {
    out->insert(out->end(), parts, parts + count);
  } else {
    out->push_back(c);
  }
}

// Sorts every run of marks by combining class; marks of one class keep their order.
void OrderMarks(CodePoints* points) {
  for (auto begin = points->begin(); begin != points->end();) {
    begin = std::find_if(begin, points->end(), [](auto c) { return CombiningClass(c) != 0; });
    const auto end =
        std::find_if(begin, points->end(), [](auto c) { return CombiningClass(c) == 0; });
    std::stable_sort(begin, end,
                     [](auto a, auto b) { return CombiningClass(a) < CombiningClass(b); });
    begin = end;
  }
}

// Brings a stretch into the form: taken apart, marks sorted, put together again (UAX #15, section
// 1.3).
std::string ComposeStretch(std::string_view stretch, UnicodeForm form) {
  CodePoints points;
  size_t length = 0;
  for (size_t at = 0; at < stretch.size(); at += length) {
    AppendDecomposed(CharAt(stretch, at, &length), form, &points);
  }
  OrderMarks(&points);
  auto count = static_cast<utf8proc_ssize_t>(points.size());
  if (Composes(form)) {
    count = utf8proc_normalize_utf32(
        points.data(), count, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  }
  std::string out;
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t size = utf8proc_encode_char(points[static_cast<size_t>(i)], bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  }
  return out;
}

}  // namespace

ComposedText::ComposedText(std::string_view text, UnicodeForm form) : original_(text) {
  Compose(form);
}

// A stretch is a character and all that may join it. Most stretches are one character that the form
// leaves alone, which is found out without any work on it.
void ComposedText::Compose(UnicodeForm form) {
  size_t copied = 0;
  for (size_t at = 0, end = 0; at < original_.size(); at = end) {
    size_t length = 0, next_length = 0;
    const utf8proc_int32_t first = CharAt(original_, at, &length);
    end = at + length;
    while (end < original_.size() && JoinsPrevious(CharAt(original_, end, &next_length), form)) {
      end += next_length;
    }
    if (end == at + length && IsComposed(first, form)) continue;
    const std::string_view stretch = original_.substr(at, end - at);
    const std::string composed = ComposeStretch(stretch, form);
    if (composed == stretch) continue;
    composed_.append(original_.substr(copied, at - copied));
    changes_.push_back({composed_.size(), composed_.size() + composed.size(), at, end});
    composed_ += composed;
    copied = end;
  }
  if (copied > 0) composed_.append(original_.substr(copied));
}

const ComposedText::Stretch* ComposedText::LastFrom(uint64_t at) const {
  const auto after = std::upper_bound(changes_.begin(), changes_.end(), at,
                                      [](uint64_t a, const Stretch& b) { return a < b.begin; });
  return after == changes_.begin() ? nullptr : &*std::prev(after);
}

uint64_t ComposedText::OriginalBegin(uint64_t begin) const {
  const Stretch* stretch = LastFrom(begin);
  if (stretch == nullptr) return begin;
  return begin < stretch->end ? stretch->original_begin
                              : begin - stretch->end + stretch->original_end;
}

uint64_t ComposedText::OriginalEnd(uint64_t end) const {
  const Stretch* stretch = LastFrom(end - 1);
  if (stretch == nullptr) return end;
  return end <= stretch->end ? stretch->original_end : end - stretch->end + stretch->original_end;
}

}  // namespace lectern
