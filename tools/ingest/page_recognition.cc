#include "tools/ingest/page_recognition.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/model/formats/text.h"
#include "tools/find_program.h"
#include "tools/ingest/limited_child.h"
#include "tools/ingest/recognised_words.h"

namespace lectern::tools {
namespace {

// The longer side of a page's image: that of A4 at 300 dots per inch, which Tesseract's models were
// made for. It bounds the memory whatever size a page says it has.
constexpr int kImagePixels = 3508;
constexpr double kPagePoints = 842;  // the longer side of A4; places are relative to it
constexpr char kTesseractPackage[] = "tesseract-ocr";

api::Error RecognitionError(lectern_code code, const std::string& message) {
  return {code, message, "ocr"};
}

// The error that the end of a program means; nothing: it ended as it should.
std::optional<api::Error> ErrorOfProgram(const ChildEnd& end, const std::string& program,
                                         const char* package) {
  switch (end.how) {
    case ChildEnd::How::kNotStarted:
      if (end.number == ENOENT || end.number == EACCES) {
        return RecognitionError(LECTERN_NOT_FOUND,
                                "recognising the text of scans needs the program " + program +
                                    ", which is not installed: " + HowToInstall(package) +
                                    "; or do it before (ocrmypdf in.pdf out.pdf)");
      }
      return RecognitionError(LECTERN_IO_ERROR,
                              "start " + program + ": " + std::strerror(end.number));
    case ChildEnd::How::kCancelled:
      return RecognitionError(LECTERN_CANCELLED, "cancelled while a page was recognised");
    case ChildEnd::How::kTooSlow:
    case ChildEnd::How::kTooMuchOutput:
      return RecognitionError(LECTERN_LIMIT_EXCEEDED, program + " takes too long for a page");
    case ChildEnd::How::kExited:
      if (end.number == 0) return std::nullopt;
      break;
    case ChildEnd::How::kRefused:
    case ChildEnd::How::kSignalled:
      break;
  }
  const std::string line = end.complaint.substr(0, std::min(end.complaint.find('\n'), size_t{200}));
  return RecognitionError(LECTERN_IO_ERROR, program + " fails on a page: " + CleanUtf8(line).text);
}

// Runs Tesseract, whose lines end with "\r\n" on Windows; here they end with "\n".
ChildEnd RunTesseract(const RecognitionOptions& options, std::vector<std::string> arguments,
                      std::string_view input, std::string& output) {
  arguments.insert(arguments.begin(), options.tesseract);
  ChildLimits limits;
  limits.memory_bytes = uint64_t{2} << 30;
  limits.cpu_seconds = 60;
  limits.wall_seconds = 300;
  limits.output_bytes = uint64_t{64} << 20;
  ChildEnd end = RunLimited(
      arguments, input, limits,
      [&output](std::string_view piece) { return output.append(piece), true; },
      options.is_cancelled);
  std::erase(output, '\r');
  return end;
}

// The languages that `tesseract --list-langs` prints, one a line below a head.
std::vector<std::string> ParseLanguages(std::string_view output) {
  std::vector<std::string> languages;
  for (bool is_head = true; !output.empty(); is_head = false) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(output.size(), line.size() + 1));
    if (!is_head && !line.empty()) languages.emplace_back(line);
  }
  return languages;
}

// The first of the wanted languages ("deu+eng") that is not there; empty: all are.
std::string MissingLanguage(std::string_view wanted, const std::vector<std::string>& languages) {
  while (true) {
    const std::string_view language = wanted.substr(0, wanted.find('+'));
    if (std::find(languages.begin(), languages.end(), language) == languages.end()) {
      return language.empty() ? "+" : std::string(language);
    }
    if (language.size() == wanted.size()) return "";
    wanted.remove_prefix(language.size() + 1);
  }
}

}  // namespace

api::Result<PageRecogniser> PageRecogniser::Start(const RecognitionOptions& options) {
  std::string output;
  const ChildEnd end = RunTesseract(options, {"--list-langs"}, "", output);
  if (auto error = ErrorOfProgram(end, options.tesseract, kTesseractPackage)) return *error;
  std::vector<std::string> languages = ParseLanguages(output);
  const bool finds_direction =
      std::erase_if(languages, [](const std::string& name) { return name == "osd"; }) > 0;
  RecognitionOptions chosen = options;
  if (languages.empty()) {
    return RecognitionError(LECTERN_NOT_FOUND,
                            "Tesseract has no language: " + HowToInstall("tesseract-ocr-eng") +
                                ", or another tesseract-ocr-…");
  }
  if (chosen.languages.empty()) {
    chosen.languages = MissingLanguage("eng", languages).empty() ? "eng" : languages.front();
  }
  const std::string missing = MissingLanguage(chosen.languages, languages);
  if (!missing.empty()) {
    std::string known;
    for (const std::string& language : languages) known += (known.empty() ? "" : ", ") + language;
    return RecognitionError(LECTERN_INVALID_ARGUMENT,
                            "Tesseract has no language \"" + CleanUtf8(missing.substr(0, 40)).text +
                                "\", only: " + CleanUtf8(known).text +
                                "; each is in a package, such as tesseract-ocr-deu for deu");
  }
  return PageRecogniser(std::move(chosen), finds_direction);
}

api::Result<PdfPage> PageRecogniser::Recognise(std::string_view pdf, uint64_t number) const {
  const std::string page = std::to_string(number);
  std::string image;
  ChildLimits limits;
  limits.output_bytes = uint64_t{64} << 20;
  ChildEnd end = RunLimited(
      {options_.pdftoppm, "-f", page, "-l", page, "-scale-to", std::to_string(kImagePixels),
       "-gray", kInput},
      pdf, limits, [&image](std::string_view piece) { return image.append(piece), true; },
      options_.is_cancelled);
  if (auto error = ErrorOfProgram(end, options_.pdftoppm, "poppler-utils")) {
    return *error;
  }
  std::string table;
  end = RunTesseract(options_,
                     {"stdin", "stdout", "--dpi", "300", "--psm", finds_direction_ ? "1" : "3",
                      "-l", options_.languages, "tsv"},
                     image, table);
  if (auto error = ErrorOfProgram(end, options_.tesseract, kTesseractPackage)) return *error;
  auto recognised = ParseRecognisedWords(table, kPagePoints / kImagePixels);
  if (!recognised) {
    return RecognitionError(LECTERN_IO_ERROR, options_.tesseract + " prints another table");
  }
  recognised->number = number;
  return std::move(*recognised);
}

}  // namespace lectern::tools
