// CiteFromDocument of cite.h: a whole text cited from an open document.
#include <new>
#include <utility>

#include "engine/asking/cite.h"
#include "engine/asking/evidence_passages.h"
#include "engine/model/formats/text.h"
#include "engine/requests/options.h"

namespace lectern {
namespace {

// kLimitExceeded: a text above kMaxCitedBytes. kInvalidArgument, with the field as param: not
// UTF-8, or a number of citations out of its range.
Status CheckRequest(const CiteRequest& request) {
  const auto wrong = [](std::string param, std::string reason) {
    std::string message = param + " " + std::move(reason);
    return Status(Code::kInvalidArgument, std::move(message)).WithParam(std::move(param));
  };
  if (request.text.size() > kMaxCitedBytes || request.question.size() > kMaxCitedBytes) {
    return Status(Code::kLimitExceeded,
                  "a text to be cited and its question have at most 64 KiB each; cite a longer one "
                  "in parts");
  }
  if (!IsValidUtf8(request.text)) return wrong("text", "is not valid UTF-8");
  if (!IsValidUtf8(request.question)) return wrong("question", "is not valid UTF-8");
  return CheckOptions(CiteOptionRows(), request);
}

}  // namespace

Result<CitedText> CiteFromDocument(std::shared_ptr<const DocumentText> document,
                                   const CiteRequest& request) try {
  LECTERN_RETURN_IF_ERROR(CheckRequest(request));
  LECTERN_ASSIGN(const WordIndex* words, document->words());
  const PassagesOfText of_document = PassagesOf(*document);
  const EqualPassages equals(of_document.text, of_document.passages);
  LECTERN_ASSIGN(const WordSupport support,
                 WordSupport::Create(*words, of_document.text, of_document.passages,
                                     request.question));
  CitedText result;
  const std::vector<Passage> sentences = SplitPassages(request.text, {});
  if (sentences.size() > kMaxCitedSentences) {
    return Status(Code::kLimitExceeded, "a text to be cited has at most 1,000 sentences; cite a "
                                        "longer one in parts");
  }
  for (const Passage& sentence : sentences) {
    const std::string claim = PlainText(request.text, sentence);
    CitedSentence& cited = result.sentences.emplace_back();
    cited.begin = sentence.begin, cited.end = sentence.end;
    LECTERN_ASSIGN(const auto found, Cite(support, equals, claim, request.max_evidence));
    for (const CitedPassage& one : found) {
      cited.evidence.push_back(MakeEvidence(of_document, equals, one.passage, one.passage + 1));
      cited.evidence.back().score = static_cast<float>(one.score);
    }
    LECTERN_RETURN_IF_ERROR(AddHighlights(*words, claim, request.question, cited.evidence));
  }
  result.document = ToHex(document->row().id);
  result.document_text = of_document.text;
  result.keeper = std::move(document);
  return result;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "citing: out of memory");
}

}  // namespace lectern
