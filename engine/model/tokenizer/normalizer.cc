#include "engine/model/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <optional>

#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/charsmap.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

constexpr size_t kMaxNormalized = size_t{64} << 20;  // bytes; a text has at most 16 MiB before

// Brings the text into a Unicode form. ComposedText counts in `text`, which may itself be changed.
AlignedText ApplyForm(UnicodeForm form, const AlignedText& text) {
  const ComposedText composed(text.text(), form);
  AlignedText out;
  size_t at = 0;
  for (const ComposedText::Stretch& change : composed.changes()) {
    out.AppendPart(text, at, change.original_begin);
    out.AppendReplaced(composed.text().substr(change.begin, change.end - change.begin), text,
                       change.original_begin, change.original_end);
    at = change.original_end;
  }
  out.AppendPart(text, at, text.text().size());
  return out;
}

// Replaces every match by `content`.
AlignedText Replace(const AlignedText& text, const std::vector<RegexMatcher::Match>& matches,
                    std::string_view content) {
  AlignedText out;
  size_t at = 0;
  for (const RegexMatcher::Match& match : matches) {
    if (out.text().size() > kMaxNormalized) break;
    out.AppendPart(text, at, match.begin);
    out.AppendReplaced(content, text, match.begin, match.end);
    at = match.end;
  }
  out.AppendPart(text, at, text.text().size());
  return out;
}

// All places of a text in another, from the left and without overlaps.
std::vector<RegexMatcher::Match> FindAll(std::string_view text, std::string_view wanted) {
  std::vector<RegexMatcher::Match> matches;
  if (wanted.empty()) return matches;
  for (size_t at = text.find(wanted); at != std::string_view::npos;
       at = text.find(wanted, at + wanted.size())) {
    matches.push_back({at, at + wanted.size()});
  }
  return matches;
}

// Puts `content` before a text that is not empty; it stands for no byte of the original.
AlignedText Prepend(std::string_view content, const AlignedText& text) {
  AlignedText out;
  if (text.text().empty()) return out;
  out.AppendReplaced(content, text, 0, 0);
  out.AppendPart(text, 0, text.text().size());
  return out;
}

// Replaces each character by what `change` makes of it; nullopt: it stays.
template <typename Change>
AlignedText ChangeChars(const AlignedText& text, Change change) {
  AlignedText out;
  size_t same_from = 0, length = 0;
  for (size_t at = 0; at < text.text().size(); at += length) {
    const uint32_t c = DecodeChar(text.text(), at, &length);
    const std::optional<std::string> changed = change(c);
    if (!changed) continue;
    out.AppendPart(text, same_from, at);
    out.AppendReplaced(*changed, text, at, at + length);
    same_from = at + length;
  }
  out.AppendPart(text, same_from, text.text().size());
  return out;
}

// A character in lower case; nothing: it stays.
std::optional<std::string> Lowered(uint32_t c) {
  if (c == 0x130) return "i\xCC\x87";  // the one character that becomes two
  const uint32_t lower = LowerCase(c);
  if (lower == c) return std::nullopt;
  std::string out;
  AppendChar(lower, &out);
  return out;
}

// Nothing in place of a mark, as "StripAccents" of tokenizers.
std::optional<std::string> Unmarked(uint32_t c) {
  return IsMark(c) ? std::optional<std::string>("") : std::nullopt;
}

// Takes white space off the ends.
AlignedText Strip(const NormalizerStep& step, const AlignedText& text) {
  const size_t size = text.text().size();
  const size_t begin = step.left ? SpaceAfter(text.text(), 0) : 0;
  const size_t end = step.right ? std::max(begin, SpaceBefore(text.text(), size)) : size;
  AlignedText out;
  out.AppendPart(text, begin, end);
  return out;
}

// Returns where the grapheme (what a reader sees as one character, UAX #29) that begins at `at`
// ends.
size_t GraphemeEnd(std::string_view text, size_t at) {
  size_t length = 0;
  auto previous = static_cast<utf8proc_int32_t>(DecodeChar(text, at, &length));
  utf8proc_int32_t state = 0;
  for (at += length; at < text.size(); at += length) {
    const auto next = static_cast<utf8proc_int32_t>(DecodeChar(text, at, &length));
    if (utf8proc_grapheme_break_stateful(previous, next, &state)) break;
    previous = next;
  }
  return at;
}

// Applies a charsmap as Hugging Face's tokenizers does: it looks up a short grapheme as a whole,
// else each of its characters, and replaces all of what it looked up by the text of the shortest
// key that this begins with.
AlignedText ApplyCharsmap(const Charsmap& charsmap, const AlignedText& text) {
  AlignedText out;
  const std::string_view from = text.text();
  const auto append = [&](size_t begin, size_t end) {
    const auto found = charsmap.Shortest(from.substr(begin, end - begin));
    if (found) out.AppendReplaced(found->text, text, begin, end);
    return found.has_value();
  };
  for (size_t at = 0, end = 0; at < from.size(); at = end) {
    end = GraphemeEnd(from, at);
    // Fewer than 6 bytes: the limit of tokenizers (normalizers/precompiled.rs).
    if (end - at < 6 && append(at, end)) continue;
    for (size_t length = 0; at < end; at += length) {
      DecodeChar(from, at, &length);
      if (!append(at, at + length)) out.AppendPart(text, at, at + length);
    }
  }
  return out;
}

// Appends `made`, the replacement of the bytes [begin, end) of `text`, with `space` for its spaces.
// As in SentencePiece, its last character stands for all of these bytes, and the others for none,
// at `begin`.
void AppendEach(std::string_view made, std::string_view space, const AlignedText& text,
                size_t begin, size_t end, AlignedText* out) {
  size_t length = 0;
  for (size_t at = 0; at < made.size(); at += length) {
    DecodeChar(made, at, &length);
    const std::string_view character = made.substr(at, length);
    out->AppendReplaced(character == " " ? space : character, text, begin,
                        at + length == made.size() ? end : begin);
  }
}

}  // namespace

Result<Normalizer> Normalizer::Make(std::vector<NormalizerStep> steps, Literals kept) {
  Normalizer made;
  for (const NormalizerStep& step : steps) {
    std::unique_ptr<Regex>& regex = made.regexes_.emplace_back();
    if (!step.charsmap.empty()) {
      if (const auto fault = FindCharsmapFault(step.charsmap)) {
        return Status(Code::kMalformedModel, "precompiled_charsmap: " + *fault);
      }
    }
    if (step.kind != NormalizerStep::Kind::kReplace || step.is_literal) continue;
    LECTERN_ASSIGN(Regex compiled, Regex::Make(step.pattern, Regex::Origin::kForeign));
    regex = std::make_unique<Regex>(std::move(compiled));
  }
  made.steps_ = std::move(steps);
  made.kept_ = std::move(kept);
  return made;
}

bool Normalizer::has_prefix() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const NormalizerStep& step) {
    return step.kind == NormalizerStep::Kind::kPrepend ||
           (step.kind == NormalizerStep::Kind::kSentencePiece && step.adds_prefix &&
            !step.prefix_is_suffix);
  });
}

Result<AlignedText> Normalizer::Apply(AlignedText text, bool has_prefix) const {
  for (size_t step = 0; step < steps_.size(); ++step) {
    LECTERN_ASSIGN(text, Apply(step, text, has_prefix));
    if (text.text().size() <= kMaxNormalized) continue;
    return Status(Code::kLimitExceeded, "tokenizer: the text grows to more than " +
                                            std::to_string(kMaxNormalized) +
                                            " bytes when it is normalised");
  }
  return text;
}

Result<AlignedText> Normalizer::Apply(size_t index, const AlignedText& text,
                                      bool has_prefix) const {
  const NormalizerStep& step = steps_[index];
  switch (step.kind) {
    case NormalizerStep::Kind::kForm:
      return ApplyForm(step.form, text);
    case NormalizerStep::Kind::kReplace: {
      if (step.is_literal) return Replace(text, FindAll(text.text(), step.pattern), step.content);
      std::vector<RegexMatcher::Match> matches;
      LECTERN_RETURN_IF_ERROR(RegexMatcher(*regexes_[index]).FindAll(text.text(), &matches));
      return Replace(text, matches, step.content);
    }
    case NormalizerStep::Kind::kPrepend:
      return has_prefix ? Prepend(step.content, text) : text;
    case NormalizerStep::Kind::kLowerCase:
      return ChangeChars(text, Lowered);
    case NormalizerStep::Kind::kStrip:
      return Strip(step, text);
    case NormalizerStep::Kind::kStripMarks:
      return ChangeChars(text, Unmarked);
    case NormalizerStep::Kind::kCharsmap:
      return step.charsmap.empty() ? text : ApplyCharsmap(Charsmap(step.charsmap), text);
    case NormalizerStep::Kind::kSentencePiece:
      return ApplySentencePiece(step, text, has_prefix);
  }
  return text;
}

AlignedText Normalizer::ApplySentencePiece(const NormalizerStep& step, const AlignedText& text,
                                           bool has_prefix) const {
  const std::string_view from = text.text();
  const std::string_view space = step.escapes_spaces ? kSpaceMark : std::string_view(" ");
  const Charsmap charsmap(step.charsmap);
  // Returns the replacement of the next bytes from `at` on; `length`: how many bytes it replaces.
  const auto next = [&](size_t at, size_t* length) -> std::string_view {
    if (const size_t kept = kept_.LongestSize(from, at); kept > 0) {
      *length = kept;
      return from.substr(at, kept);
    }
    if (const auto found = charsmap.Longest(from.substr(at))) {
      *length = found->key_size;
      return found->text;
    }
    DecodeChar(from, at, length);
    return from.substr(at, *length);
  };
  size_t at = 0, length = 0;
  if (step.removes_extra_spaces) {
    while (at < from.size() && next(at, &length) == " ") at += length;
  }
  AlignedText out;
  if (at == from.size()) return out;
  const bool adds_prefix = step.adds_prefix && has_prefix;
  if (adds_prefix && !step.prefix_is_suffix) out.AppendReplaced(space, text, at, at);
  // The text begins as if behind a space, so that spaces at its beginning are dropped.
  bool after_space = step.removes_extra_spaces;
  for (; at < from.size(); at += length) {
    std::string_view made = next(at, &length);
    while (after_space && made.starts_with(' ')) made.remove_prefix(1);
    const bool is_same = made == from.substr(at, length) && made.find(' ') == made.npos;
    if (is_same) {
      out.AppendPart(text, at, at + length);
    } else if (!made.empty()) {
      AppendEach(made, space, text, at, at + length, &out);
    }
    if (!made.empty()) after_space = made.ends_with(' ');
    if (!step.removes_extra_spaces) after_space = false;
  }
  if (step.removes_extra_spaces) {
    while (out.text().ends_with(space)) out.Truncate(out.text().size() - space.size());
  }
  if (adds_prefix && step.prefix_is_suffix) {
    out.AppendReplaced(space, text, from.size(), from.size());
  }
  return out;
}

}  // namespace lectern
