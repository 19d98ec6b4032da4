// Chooses the passages that a session shows with its answer.
#include "engine/asking/ask.h"
#include "engine/asking/cite.h"
#include "engine/asking/evidence.h"
#include "engine/asking/evidence_passages.h"
#include "engine/constraint/json_text.h"

namespace lectern {

Result<std::vector<Evidence>> DocumentSession::EvidenceByWords(std::string_view question,
                                                               const AskOptions& options,
                                                               const Answer& answer) const {
  LECTERN_ASSIGN(const WordIndex* const words, document_->words());
  LECTERN_ASSIGN(const WordSupport support,
                 WordSupport::Create(*words, document_->text(), document_->passages(), question));
  // Names of members are the schema's words, not the document's.
  const std::string said = options.json_schema.empty() ? answer.text : TextOfJson(answer.text);
  LECTERN_ASSIGN(const WordSupport::Supports of_answer, support.OfAnswer(said));
  auto evidence = FindEvidence(PassagesOf(document_->contents()), document_->ranges(),
                               sums_.squares, options.max_evidence,
                               {of_answer.support, of_answer.probability, sums_.retrieved});
  LECTERN_RETURN_IF_ERROR(AddHighlights(*words, said, question, evidence));
  return evidence;
}

void DocumentSession::AddEvidence(std::string_view question, const AskOptions& options,
                                  Answer& answer) const {
  if (options.max_evidence == 0) return;
  auto evidence = EvidenceByWords(question, options, answer);
  const bool has_words = evidence.ok();
  if (!has_words) {
    // The answer is there; words that cannot be read leave the choice of passages to attention.
    AddNote(answer, "passages were chosen without words: " + evidence.status().message());
    evidence = FindEvidence(PassagesOf(document_->contents()), document_->ranges(), sums_.squares,
                            options.max_evidence);
  }
  answer.evidence = *std::move(evidence);
  answer.attention = FindAttended(document_->passages(), document_->ranges(), sums_.squares);
  const bool has_evidence = has_words ? HasEvidence(answer.evidence) : !answer.evidence.empty();
  // A refusal is the model's word that nothing supports an answer, whatever its own words match.
  if (!has_evidence || SaysRefusal(answer)) WarnOfNoEvidence(options, answer);
}

}  // namespace lectern
