#include "engine/asking/whole_question.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace lectern {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// The answer without white space and a full stop at its ends, in small letters: for comparing.
std::string Compared(std::string_view answer) {
  std::string text(answer);
  std::ranges::transform(text, text.begin(), Lower);
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return "";
  const size_t end = text.find_last_not_of(" \t\r\n.");
  return end == text.npos || end < begin ? "" : text.substr(begin, end + 1 - begin);
}

}  // namespace

WholeKind WholeKindOf(std::string_view question) {
  std::string text(question.substr(0, 80));
  std::ranges::transform(text, text.begin(), Lower);
  text.erase(0, std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  for (const std::string_view polite : {"please ", "can you ", "could you ", "would you "}) {
    if (text.starts_with(polite)) text.erase(0, polite.size());
  }
  const auto begins = [&](std::initializer_list<std::string_view> phrases) {
    return std::ranges::any_of(phrases, [&](std::string_view p) { return text.starts_with(p); });
  };
  if (begins({"how many ", "how often ", "count ", "in how many "})) return WholeKind::kCount;
  if (begins({"summari",
              "sum up",
              "give a summary",
              "give me a summary",
              "write a summary",
              "what is the document about",
              "what is this document about",
              "what is the text about",
              "what is this text about",
              "what is it about",
              "list ",
              "name all ",
              "name every ",
              "enumerate ",
              "give all ",
              "find all ",
              "which are all ",
              "what are all ",
              "who are all ",
              "describe the whole ",
              "give an overview",
              "give me an overview"})) {
    return WholeKind::kJoin;
  }
  return WholeKind::kNone;
}

std::string JoinAnswers(std::span<const std::string> answers) {
  std::vector<std::pair<std::string, const std::string*>> kept;  // as compared, as said
  for (const std::string& answer : answers) {
    std::string compared = Compared(answer);
    const auto has = [](const std::string& a, const std::string& b) {
      return a.find(b) != std::string::npos;
    };
    if (compared.empty() ||
        std::ranges::any_of(kept, [&](const auto& one) { return has(one.first, compared); })) {
      continue;
    }
    std::erase_if(kept, [&](const auto& one) { return has(compared, one.first); });
    kept.emplace_back(std::move(compared), &answer);
  }
  std::string joined;
  for (const auto& one : kept) joined += (joined.empty() ? "" : "\n") + *one.second;
  return joined;
}

std::vector<std::vector<std::string>> GroupAnswers(std::span<const std::string> answers,
                                                   size_t most_bytes) {
  std::vector<std::vector<std::string>> groups;
  size_t bytes = 0;
  for (const std::string& answer : answers) {
    const bool fits =
        !groups.empty() && (groups.back().size() < 2 || bytes + answer.size() <= most_bytes);
    if (!fits) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(answer);
    bytes += answer.size();
  }
  return groups;
}

std::string QuestionAfterAnswers(std::string_view question, std::span<const std::string> answers) {
  std::string asked = "These are answers from the parts of a long text, in their order:\n";
  for (const std::string& answer : answers) asked += "- " + answer + "\n";
  asked += "\nAnswer from all of them: ";
  return asked.append(question);
}

}  // namespace lectern
