#include "tools/answer_text.h"

#include "tools/quantities.h"

namespace lectern::tools {
namespace {

// "3", or the label that the page is printed with, and the page itself: "xii (page 14)". Empty: the
// document has no pages.
std::string PageText(uint64_t page, std::string_view label) {
  if (label.empty()) return page > 0 ? std::to_string(page) : "";
  return std::string(label) + " (page " + std::to_string(page) + ")";
}

// The pages of a passage: "3", or "3 to 4" for one that runs over a page break.
std::string PagesText(const lectern_evidence& of) {
  std::string text = PageText(of.page, {of.page_label, of.page_label_len});
  if (of.page_end > 0)
    text += " to " + PageText(of.page_end, {of.page_end_label, of.page_end_label_len});
  return text;
}
std::string PagesText(const api::Passage& of) {
  std::string text = PageText(of.page, of.page_label);
  if (of.page_end > 0) text += " to " + PageText(of.page_end, of.page_end_label);
  return text;
}

// A line for a passage.
std::string PassageText(size_t number, std::string_view how_sure, uint64_t begin, uint64_t end,
                        const std::string& page, std::string_view passage,
                        std::string_view document = {}) {
  std::string text = "[" + std::to_string(number) + "] ";
  if (!document.empty()) text.append(document).append(", ");
  if (!how_sure.empty()) text.append(how_sure).append(", ");
  text.append("bytes ").append(std::to_string(begin) + "-" + std::to_string(end));
  if (!page.empty()) text += ", p. " + page;
  return text + ": \"" + OnOneLine(passage) + "\"\n";
}
std::string Likely(double score) { return Percent(score) + " likely"; }

// "asked 2 of the 70 documents: a.txt, b.txt (indexed now)"; where words alone were looked at, who
// was asked is no question.
std::string AskedText(const api::Answer& answer, uint64_t num_documents) {
  std::string names;
  size_t count = 0;
  for (const lectern_asked_document& asked : answer.asked_documents()) {
    if (asked.num_passages > 0)
      return "looked for words in " + Grouped(num_documents) + " documents";
    names.append(count++ > 0 ? ", " : ": ").append(asked.name, asked.name_len);
    if (asked.is_new != 0) names += " (indexed now)";
  }
  return "asked " + Grouped(count) + " of " + Grouped(num_documents) + " documents" + names;
}

}  // namespace

std::string OnOneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == '\v';
    if (!is_space) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  if (line.ends_with(' ')) line.pop_back();
  return line;
}

// How sure a passage is: by words, or, where these were not compared, by its share of the
// attention; nothing where no model read it.
std::string PassagesText(const api::Answer& answer) {
  std::string text;
  size_t number = 0;
  for (const lectern_evidence& passage : answer.evidence()) {
    const std::string how_sure = passage.score > 0  ? Likely(passage.score)
                                 : passage.mass > 0 ? Percent(passage.mass) + " of the attention"
                                                    : "";
    text += PassageText(++number, how_sure, passage.begin, passage.end, PagesText(passage),
                        {passage.text, passage.text_len}, {passage.document, passage.document_len});
  }
  return text;
}

std::string CitedTextLines(std::string_view given, const api::CitedText& cited) {
  std::string text;
  for (const api::CitedSentence& sentence : cited.sentences) {
    text += OnOneLine(given.substr(sentence.begin, sentence.end - sentence.begin));
    text += sentence.is_supported ? "\n" : "\n(no passage is likely to say this)\n";
    size_t number = 0;
    for (const api::Passage& passage : sentence.passages) {
      text += PassageText(++number, Likely(passage.score), passage.begin, passage.end,
                          PagesText(passage), passage.text);
    }
    text += "\n";
  }
  return text;
}

std::string MentionsText(const api::MentionList& list) {
  std::string text;
  for (const api::Mention& one : list.mentions) {
    const api::Passage& passage = one.passage;
    const std::string page = PagesText(passage);
    text += one.document.name + ": " + Grouped(one.num_passages) +
            (one.num_passages == 1 ? " passage" : " passages") + "\n  bytes " +
            std::to_string(passage.begin) + "-" + std::to_string(passage.end) +
            (page.empty() ? "" : ", p. " + page) + ": \"" + OnOneLine(passage.text) + "\"\n";
  }
  const uint64_t more = list.num_documents - list.mentions.size();
  if (more > 0) text += "and " + Grouped(more) + " documents more\n";
  return text.empty() ? "no document mentions this\n" : text;
}

std::string ReceiptText(const api::Answer& answer) {
  const lectern_receipt receipt = answer.receipt();
  const bool is_by_words = receipt.document_tokens == 0;  // of a collection
  std::string text = is_by_words
                         ? "read nothing"
                         : "read " + Percent(receipt.read_fraction_prefill) + " of the document";
  if (receipt.read_fraction_decode >= 0) {
    text += " for the question, " + Percent(receipt.read_fraction_decode) + " per answer token";
  }
  if (receipt.num_parts > 0) {
    text += "; asked " + Grouped(receipt.num_asked_parts) + " of its " +
            Grouped(receipt.num_parts) + " parts";
  }
  if (receipt.num_documents > 0) text += "; " + AskedText(answer, receipt.num_documents);
  text += "; " + Grouped(static_cast<uint64_t>(receipt.total_ms + 0.5)) + " ms";
  if (receipt.prefill_budget < 1) text += "; prefilled sparsely";
  if (receipt.is_refused != 0) {
    text += "; no answer, because the model found a refusal " +
            Percent(receipt.refusal_probability) + " likely";
  }
  if (receipt.reasoning_tokens > 0) {
    text += "; thought for " + Grouped(receipt.reasoning_tokens) + " tokens (--json shows them)";
  }
  if (!answer.note().empty()) text.append("; ").append(answer.cli_note());
  return text + "\n";
}

}  // namespace lectern::tools
