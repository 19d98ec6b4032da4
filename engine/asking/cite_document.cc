// CiteFromDocument of cite.h: a whole text cited from an open document.
#include <new>
#include <utility>

#include "engine/asking/cite.h"
#include "engine/model/formats/text.h"

namespace lectern {
namespace {

Status CheckRequest(const CiteRequest& request) {
  const auto wrong = [](std::string param, std::string reason) {
    std::string message = param + " " + std::move(reason);
    return Status(Code::kInvalidArgument, std::move(message)).WithParam(std::move(param));
  };
  if (request.text.size() > kMaxCitedBytes || request.question.size() > kMaxCitedBytes) {
    return Status(Code::kLimitExceeded, "a text to be cited and its question have at most 1 MiB");
  }
  if (!IsValidUtf8(request.text)) return wrong("text", "is not valid UTF-8");
  if (!IsValidUtf8(request.question)) return wrong("question", "is not valid UTF-8");
  if (request.max_citations < 1 || request.max_citations > 100) {
    return wrong("max_citations", "must be between 1 and 100");
  }
  return {};
}

}  // namespace

Result<std::vector<Citation>> CiteFromDocument(const Document& document,
                                               const CiteRequest& request) try {
  LECTERN_RETURN_IF_ERROR(CheckRequest(request));
  LECTERN_ASSIGN(const WordIndex* words, document.words());
  const std::span<const Passage> passages = document.passages();
  std::vector<Citation> citations;
  for (const Passage& sentence : SplitPassages(request.text, {})) {
    const std::string claim = PlainText(request.text, sentence);
    LECTERN_ASSIGN(const auto found, Cite(*words, document.text(), passages, claim,
                                          request.question, request.max_citations));
    for (const CitedPassage& cited : found) {
      const std::string_view text =
          document.text().substr(cited.begin, cited.end - cited.begin);
      citations.push_back({sentence.begin, sentence.end, cited.begin, cited.end,
                           std::string(text), cited.score, PageAt(document.pages(), cited.begin),
                           HeadingPath(document.text(), passages, cited.passage)});
    }
  }
  return citations;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "citing: out of memory");
}

}  // namespace lectern
