#include "engine/model/tokenizer/pre_tokenizer.h"

#include <string_view>

#include "engine/model/tokenizer/unicode_classes.h"

#include <algorithm>

namespace lectern {
namespace {

using Word = WordCutter::Word;
using Match = RegexMatcher::Match;

constexpr size_t kMaxRewritten = size_t{64} << 20;  // bytes; offsets have 32 bits

// Finds all places of a text, from the left and without overlaps.
void FindLiteral(std::string_view text, std::string_view wanted, std::vector<Match>* matches) {
  matches->clear();
  if (wanted.empty()) return;
  for (size_t at = text.find(wanted); at != std::string_view::npos;
       at = text.find(wanted, at + wanted.size())) {
    matches->push_back({at, at + wanted.size()});
  }
}

// Finds runs of line feeds, and the runs between them.
void FindLines(std::string_view text, std::vector<Match>* matches) {
  matches->clear();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(
        text.size(), text[at] == '\n' ? text.find_first_not_of('\n', at) : text.find('\n', at));
    matches->push_back({at, end});
    at = end;
  }
}

// Finds the places before a U+2581 that follows another character. The matches are empty: they cut
// the text where they are.
void FindSpaceMarks(std::string_view text, std::vector<Match>* matches) {
  matches->clear();
  for (size_t at = text.find(kSpaceMark); at != std::string_view::npos;
       at = text.find(kSpaceMark, at + kSpaceMark.size())) {
    if (at > 0 && !text.substr(0, at).ends_with(kSpaceMark)) matches->push_back({at, at});
  }
}

// Replaces each run of digits in `matches` by its groups of three, counted from the right.
void GroupDigits(std::string_view text, std::vector<Match>* matches) {
  std::vector<Match> groups;
  for (const Match& run : *matches) {
    std::vector<size_t> begins;
    for (size_t at = run.begin; at < run.end; ++at) {
      if ((static_cast<uint8_t>(text[at]) & 0xC0) != 0x80) begins.push_back(at);
    }
    size_t from = run.begin;
    for (size_t i = 1; i < begins.size(); ++i) {
      if ((begins.size() - i) % 3 != 0) continue;
      groups.push_back({from, begins[i]});
      from = begins[i];
    }
    groups.push_back({from, run.end});
  }
  *matches = std::move(groups);
}

// A part of a word: a match, or what is between two matches.
struct Stretch {
  size_t begin, end;
  bool is_match;
};

// Returns the stretches of a word in order. Empty ones between matches are left out; an empty match
// stays, because it cuts. `inverts`: matches and the rest change places.
std::vector<Stretch> Stretches(const std::vector<Match>& matches, size_t size, bool inverts) {
  std::vector<Stretch> stretches;
  size_t at = 0;
  for (const Match& match : matches) {
    if (match.begin > at) stretches.push_back({at, match.begin, inverts});
    stretches.push_back({match.begin, match.end, !inverts});
    at = match.end;
  }
  if (at < size) stretches.push_back({at, size, inverts});
  return stretches;
}

// Joins matches and the stretches between them as `behavior` says. Merging with the next is merging
// with the previous from the other end.
std::vector<Stretch> Joined(std::vector<Stretch> stretches, SplitBehavior behavior) {
  const auto join = [](std::vector<Stretch> in, auto joins) {
    std::vector<Stretch> out;
    bool previous = false;
    for (const Stretch& stretch : in) {
      if (!out.empty() && joins(previous, stretch.is_match)) {
        out.back() = {std::min(out.back().begin, stretch.begin),
                      std::max(out.back().end, stretch.end), false};
      } else {
        out.push_back(stretch);
      }
      previous = stretch.is_match;
    }
    return out;
  };
  const auto follows = [](bool previous, bool is_match) { return is_match && !previous; };
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return stretches;
    case SplitBehavior::kRemoved:
      std::erase_if(stretches, [](const Stretch& stretch) { return stretch.is_match; });
      return stretches;
    case SplitBehavior::kContiguous:
      return join(std::move(stretches), [](bool a, bool b) { return a == b; });
    case SplitBehavior::kMergedWithPrevious:
      return join(std::move(stretches), follows);
    case SplitBehavior::kMergedWithNext:
      std::reverse(stretches.begin(), stretches.end());
      stretches = join(std::move(stretches), follows);
      std::reverse(stretches.begin(), stretches.end());
      return stretches;
  }
  return stretches;
}

// Whether the step's pattern is an expression.
bool NeedsRegex(const PreTokenizerStep& step) {
  return step.kind == PreTokenizerStep::Kind::kDigitGroups ||
         (step.kind == PreTokenizerStep::Kind::kSplit && !step.is_literal);
}

}  // namespace

Result<PreTokenizer> PreTokenizer::Make(std::vector<PreTokenizerStep> steps) {
  PreTokenizer made;
  for (const PreTokenizerStep& step : steps) {
    std::unique_ptr<Regex>& regex = made.regexes_.emplace_back();
    if (!NeedsRegex(step)) continue;
    LECTERN_ASSIGN(Regex compiled, Regex::Make(step.pattern, step.origin));
    regex = std::make_unique<Regex>(std::move(compiled));
  }
  made.steps_ = std::move(steps);
  return made;
}

bool PreTokenizer::has_prefix() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const PreTokenizerStep& step) {
    return step.kind == PreTokenizerStep::Kind::kPrefix;
  });
}

WordCutter::WordCutter(const PreTokenizer& pre_tokenizer) : pre_tokenizer_(pre_tokenizer) {
  for (const auto& regex : pre_tokenizer_.regexes_) {
    matchers_.push_back(regex == nullptr ? nullptr : std::make_unique<RegexMatcher>(*regex));
  }
}

Status WordCutter::Split(size_t step, std::string_view text, Word word, std::vector<Word>* words) {
  const PreTokenizerStep& how = pre_tokenizer_.steps_[step];
  const std::string_view part = text.substr(word.begin, word.end - word.begin);
  if (matchers_[step] != nullptr) {
    LECTERN_RETURN_IF_ERROR(matchers_[step]->FindAll(part, &matches_));
    if (how.kind == PreTokenizerStep::Kind::kDigitGroups) GroupDigits(part, &matches_);
  } else if (how.kind == PreTokenizerStep::Kind::kLines) {
    FindLines(part, &matches_);
  } else if (how.kind == PreTokenizerStep::Kind::kSpaceMarks) {
    FindSpaceMarks(part, &matches_);
  } else {
    FindLiteral(part, how.pattern, &matches_);
  }
  Take(how, word, words);
  return Status();
}

void WordCutter::Take(const PreTokenizerStep& step, Word word, std::vector<Word>* words) const {
  const auto push = [&](size_t begin, size_t end) {
    if (begin == end) return;
    words->push_back(
        {word.begin + static_cast<uint32_t>(begin), word.begin + static_cast<uint32_t>(end)});
  };
  const size_t size = word.end - word.begin;
  if (step.behavior == SplitBehavior::kIsolated) {  // nearly always
    size_t at = 0;
    for (const Match& match : matches_) {
      push(at, match.begin);
      push(match.begin, match.end);
      at = match.end;
    }
    return push(at, size);
  }
  for (const Stretch& stretch : Joined(Stretches(matches_, size, step.inverts), step.behavior)) {
    push(stretch.begin, stretch.end);
  }
}

std::vector<Word> WordCutter::Rewrite(const PreTokenizerStep& step, const std::vector<Word>& words,
                                      bool has_prefix, bool* is_beginning,
                                      AlignedText* text) const {
  AlignedText made;
  std::vector<Word> moved;
  bool stays = false;  // the word that begins the text
  for (const Word& word : words) {
    const std::string_view part = text->text().substr(word.begin, word.end - word.begin);
    const auto begin = static_cast<uint32_t>(made.text().size());
    const bool is_first = *is_beginning && word.begin == 0;
    size_t at = word.begin;
    if (step.kind == PreTokenizerStep::Kind::kPrefix) {
      const bool takes = !part.starts_with(step.pattern) && (is_first || !step.only_first) &&
                         (!is_first || has_prefix);
      if (takes) made.AppendReplaced(step.pattern, *text, at, at);
    } else {
      std::vector<Match> matches;
      FindLiteral(part, step.pattern, &matches);
      for (const Match& match : matches) {
        made.AppendPart(*text, at, word.begin + match.begin);
        at = word.begin + match.end;
        made.AppendReplaced(step.content, *text, word.begin + match.begin, at);
      }
    }
    made.AppendPart(*text, at, word.end);
    const auto end = static_cast<uint32_t>(made.text().size());
    if (begin == end) continue;
    moved.push_back({begin, end});
    stays |= is_first;
  }
  *is_beginning = stays;
  *text = std::move(made);
  return moved;
}

Result<std::vector<Word>> WordCutter::Cut(AlignedText* text, bool is_beginning, bool has_prefix) {
  std::vector<Word> words;
  if (!text->text().empty()) words.push_back({0, static_cast<uint32_t>(text->text().size())});
  for (size_t step = 0; step < pre_tokenizer_.steps_.size(); ++step) {
    const PreTokenizerStep& how = pre_tokenizer_.steps_[step];
    if (how.kind == PreTokenizerStep::Kind::kPrefix ||
        how.kind == PreTokenizerStep::Kind::kReplace) {
      words = Rewrite(how, words, has_prefix, &is_beginning, text);
      if (text->text().size() <= kMaxRewritten) continue;
      return Status(Code::kLimitExceeded, "tokenizer: the text grows to more than " +
                                              std::to_string(kMaxRewritten) + " bytes");
    }
    std::vector<Word> next;
    for (const Word& word : words) {
      LECTERN_RETURN_IF_ERROR(Split(step, text->text(), word, &next));
    }
    words = std::move(next);
  }
  return words;
}

}  // namespace lectern
