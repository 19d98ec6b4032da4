#include "tools/ingest/old_word.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/find_program.h"
#include "tools/ingest/limited_child.h"

namespace lectern::tools {
namespace {

// The error that the end of antiword means, with the code OK where it ended as it should.
api::Error OldWordError(const ChildEnd& end, const OldWordOptions& options) {
  const std::string way_out = "save " + options.name + " as .docx, .odt or PDF";
  if (end.how == ChildEnd::How::kNotStarted && (end.number == ENOENT || end.number == EACCES)) {
    return {LECTERN_NOT_FOUND,
            "reading an old Word document (.doc) needs the program antiword, which is not "
            "installed: " +
                HowToInstall("antiword") + ", or " + way_out,
            "antiword"};
  }
  switch (end.how) {
    case ChildEnd::How::kNotStarted:
      return {LECTERN_IO_ERROR, std::string("start antiword: ") + std::strerror(end.number),
              "file"};
    case ChildEnd::How::kCancelled:
      return {LECTERN_CANCELLED, "cancelled while " + options.name + " was read", "file"};
    case ChildEnd::How::kTooSlow:
    case ChildEnd::How::kTooMuchOutput:
      return {LECTERN_LIMIT_EXCEEDED,
              options.name + " takes too much to read as an old Word document; " + way_out, "file"};
    case ChildEnd::How::kExited:
      if (end.number == 0) return {LECTERN_OK, "", ""};
      break;
    default:
      break;
  }
  // It says why ("Encrypted documents are not supported"), behind a line about the missing HOME.
  std::string_view said = end.complaint;
  if (said.find("HOME") < said.find('\n')) said.remove_prefix(said.find('\n') + 1);
  const std::string line = CleanUtf8(said.substr(0, said.find('\n'))).text;
  return {LECTERN_INVALID_ARGUMENT,
          options.name + " cannot be read by antiword" + (line.empty() ? "" : " (" + line + ")") +
              "; " + way_out,
          "file"};
}

// antiword's DocBook without the document's properties, which stand before the first chapter, and
// without the signs "[pic]" in place of images.
std::string WithoutPicturesAndProperties(std::string docbook) {
  constexpr std::string_view kPictureSign = "[pic]";
  for (size_t at = 0; (at = docbook.find(kPictureSign, at)) != docbook.npos;) {
    docbook.erase(at, kPictureSign.size());
  }
  const size_t book = docbook.find("<book"), end = docbook.find('>', book);
  const size_t chapter = docbook.find("<chapter>");
  if (chapter != docbook.npos && end < chapter) docbook.erase(end + 1, chapter - end - 1);
  return docbook;
}

// Takes footnotes without text out, and counts them: antiword 0.37 loses the text of those that
// LibreOffice wrote.
uint64_t DropEmptyNotes(std::string& docbook) {
  constexpr std::string_view kBegin = "<footnote>", kEnd = "</footnote>";
  uint64_t num_empty = 0;
  std::string kept;
  std::string_view rest = docbook;
  for (;;) {
    const size_t begin = rest.find(kBegin), end = rest.find(kEnd, begin);
    if (end == std::string_view::npos) break;
    bool is_in_tag = false, is_empty = true;
    for (const char c : rest.substr(begin, end - begin)) {
      if (c == '<') is_in_tag = true;
      if (!is_in_tag && c != ' ' && c != '\n') is_empty = false;
      if (c == '>') is_in_tag = false;
    }
    num_empty += is_empty ? 1 : 0;
    kept += rest.substr(0, is_empty ? begin : end + kEnd.size());
    rest.remove_prefix(end + kEnd.size());
  }
  docbook = kept + std::string(rest);
  return num_empty;
}

bool IsWhite(char c) { return c == ' ' || c == '\n' || c == '\t'; }

std::string WithoutWhite(std::string_view text) {
  std::string kept;
  std::copy_if(text.begin(), text.end(), std::back_inserter(kept),
               [](char c) { return !IsWhite(c); });
  return kept;
}

// Puts back the line breaks that antiword's DocBook lacks, so that no two words are one: those of
// its plain text, at places where the same letters stand on both sides.
void PutLineBreaks(std::string_view plain, Extracted& extracted) {
  constexpr size_t kLetters = 16;             // bytes on each side that have to be the same
  constexpr size_t kAhead = size_t{1} << 19;  // bytes that are looked at for one
  std::string letters;                        // of the text
  std::vector<size_t> places;                 // of each in the text
  for (size_t i = 0; i < extracted.text.size(); ++i) {
    if (IsWhite(extracted.text[i])) continue;
    letters += extracted.text[i];
    places.push_back(i);
  }
  std::vector<size_t> breaks;  // before these bytes of the text
  std::string before;
  size_t from = 0;
  while (!plain.empty()) {
    const size_t end = std::min(plain.find('\n'), plain.size());
    const std::string line = WithoutWhite(plain.substr(0, end));
    plain.remove_prefix(std::min(plain.size(), end + 1));
    if (!before.empty() && !line.empty()) {
      const std::string left = before.substr(before.size() - std::min(before.size(), kLetters));
      const size_t found =
          std::string_view(letters).substr(from, kAhead).find(left + line.substr(0, kLetters));
      const size_t at = found == letters.npos ? letters.size() : from + found + left.size();
      if (at < letters.size()) {
        from = at;
        if (places[at - 1] + 1 == places[at]) breaks.push_back(places[at]);
      }
    }
    before = line;
  }
  for (auto at = breaks.rbegin(); at != breaks.rend(); ++at) extracted.text.insert(*at, 1, '\n');
}

}  // namespace

api::Result<Extracted> ReadOldWord(std::string_view bytes, const OldWordOptions& options) {
  std::string docbook, plain;
  for (std::string* const output : {&docbook, &plain}) {
    const bool is_plain = output == &plain;
    const ChildEnd end = RunLimited(
        {options.antiword, "-m", "UTF-8.txt", is_plain ? "-w" : "-x", is_plain ? "0" : "db",
         kInputPath},
        bytes, {}, [output](std::string_view piece) { return output->append(piece), true; },
        options.is_cancelled);
    if (api::Error error = OldWordError(end, options); error.code != LECTERN_OK) return error;
  }
  docbook = WithoutPicturesAndProperties(CleanUtf8(docbook).text);
  const uint64_t num_lost = DropEmptyNotes(docbook);
  auto extracted = ReadExtracted(
      docbook, "docbook",
      {.name = options.name, .is_cancelled = options.is_cancelled, .program = options.extract});
  if (extracted.ok()) PutLineBreaks(CleanUtf8(plain).text, *extracted);
  if (extracted.ok() && num_lost > 0) {
    extracted->note += (extracted->note.empty() ? "" : "; ") +
                       std::string("antiword gives no text of ") + std::to_string(num_lost) +
                       (num_lost == 1 ? " footnote" : " footnotes") +
                       ": save the file as .docx for them";
  }
  return extracted;
}

}  // namespace lectern::tools
