#include "tools/ingest/page_recognition.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <utility>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/letter_forms.h"
#include "tools/ingest/limited_child.h"

namespace lectern::tools {
namespace {

// The longer side of a page's image: that of A4 at 300 dots per inch, which Tesseract's models were
// made for. It bounds the memory whatever size a page says it has.
constexpr int kImagePixels = 3508;
constexpr double kPagePoints = 842;  // the longer side of A4; places are relative to it
constexpr size_t kMostRecognisedWords = size_t{1} << 17;
constexpr std::string_view kTableHead =
    "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n";
constexpr char kInstallTesseract[] = "apt install tesseract-ocr";

// A row of Tesseract's table. Levels: 1 a page, 2 a block, 3 a paragraph, 4 a line, 5 a word.
struct TableRow {
  enum Level { kParagraphLevel = 3, kLineLevel = 4, kWordLevel = 5 };
  std::array<int64_t, 10> numbers;  // level, page, block, paragraph, line, word and the place
  std::string_view text;

  int64_t level() const { return numbers[0]; }
  PdfBox Box(double scale) const {
    const auto x = static_cast<double>(numbers[6]), y = static_cast<double>(numbers[7]);
    const auto width = static_cast<double>(numbers[8]), height = static_cast<double>(numbers[9]);
    return {x * scale, y * scale, (x + width) * scale, (y + height) * scale};
  }
};

// Parses a row without its newline; nothing: it is none. The confidence, before the text, is a
// fraction that is not needed.
std::optional<TableRow> ParseTableRow(std::string_view line) {
  TableRow row{};
  for (int64_t& number : row.numbers) {
    const auto read = std::from_chars(line.data(), line.data() + line.size(), number);
    const auto size = static_cast<size_t>(read.ptr - line.data());
    if (read.ec != std::errc() || size == line.size() || line[size] != '\t') return std::nullopt;
    if (std::abs(static_cast<double>(number)) > 1e6) return std::nullopt;
    line.remove_prefix(size + 1);
  }
  const size_t confidence = line.find('\t');
  if (confidence == std::string_view::npos) return std::nullopt;
  row.text = line.substr(confidence + 1);
  return row;
}

// The characters of a word that a document may have; empty: it is white space.
std::string CleanWord(std::string_view bytes) {
  std::string word;
  for (const uint32_t character : CodePoints(CleanUtf8(bytes).text)) {
    if (character > 0x20 && character != 0x7F && character != 0xA0) AppendUtf8(character, word);
  }
  return word;
}

// Gives the lines of the last block, and their words, one height, the median: Tesseract's places
// are those of the ink, so that a line without tall letters is lower, and layout takes the height
// for the size of the font.
void EvenHeights(PdfPage& page) {
  if (page.blocks.empty()) return;
  const size_t block = page.blocks.size() - 1;
  std::vector<double> heights;
  size_t first = page.lines.size();
  while (first > 0 && page.lines[first - 1].block == block) {
    heights.push_back(page.lines[--first].box.Height());
  }
  if (heights.empty()) return;
  const auto middle = heights.begin() + static_cast<ptrdiff_t>(heights.size() / 2);
  std::nth_element(heights.begin(), middle, heights.end());
  for (size_t i = first; i < page.lines.size(); ++i) {
    PdfLine& line = page.lines[i];
    const double center = line.box.CenterY();
    line.box.y_min = center - *middle / 2;
    line.box.y_max = center + *middle / 2;
    for (PdfWord& word : line.words) {
      word.box.y_min = line.box.y_min;
      word.box.y_max = line.box.y_max;
    }
  }
}

// Adds a paragraph, a line or a word to the page. False: it lies in none.
bool AddRow(const TableRow& row, double scale, PdfPage& page, bool& has_line) {
  if (row.level() == TableRow::kParagraphLevel) {
    EvenHeights(page);
    page.blocks.push_back(row.Box(scale));
    has_line = false;
  }
  if (row.level() == TableRow::kLineLevel) {
    if (page.blocks.empty()) return false;
    has_line = true;
    if (!page.lines.empty() && page.lines.back().words.empty()) page.lines.pop_back();
    page.lines.push_back({{}, row.Box(scale), page.blocks.size() - 1});
  }
  if (row.level() == TableRow::kWordLevel) {
    if (!has_line) return false;
    std::string word = CleanWord(row.text);
    if (word.empty()) return true;
    page.num_characters += CodePoints(word).size();
    page.lines.back().words.push_back({std::move(word), row.Box(scale)});
    ++page.num_words;
  }
  return true;
}

api::Error RecognitionError(lectern_code code, const std::string& message) {
  return {code, message, "ocr"};
}

// The error that the end of a program means; nothing: it ended as it should.
std::optional<api::Error> ErrorOfProgram(const ChildEnd& end, const std::string& program,
                                         const char* install) {
  switch (end.how) {
    case ChildEnd::How::kNotStarted:
      if (end.number == ENOENT || end.number == EACCES) {
        return RecognitionError(LECTERN_NOT_FOUND,
                                "recognising the text of scans needs the program " + program +
                                    ", which is not installed: " + install +
                                    "; or do it before (apt install ocrmypdf; ocrmypdf in.pdf "
                                    "out.pdf)");
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
    case ChildEnd::How::kSignalled: break;
  }
  const std::string line = end.complaint.substr(0, std::min(end.complaint.find('\n'), size_t{200}));
  return RecognitionError(LECTERN_IO_ERROR, program + " fails on a page: " + CleanUtf8(line).text);
}

// Runs Tesseract with one thread (processes of other users than root may start none), or says
// how it ended. env sets the variable, because a limited child's environment is empty.
ChildEnd RunTesseract(const RecognitionOptions& options, std::vector<std::string> arguments,
                      std::string_view input, std::string& output) {
  std::vector<std::string> command = {"env", "OMP_THREAD_LIMIT=1", options.tesseract};
  command.insert(command.end(), std::make_move_iterator(arguments.begin()),
                 std::make_move_iterator(arguments.end()));
  ChildLimits limits;
  limits.memory_bytes = uint64_t{2} << 30;
  limits.cpu_seconds = 60;
  limits.wall_seconds = 300;
  limits.output_bytes = uint64_t{64} << 20;
  ChildEnd end = RunLimited(
      command, input, limits,
      [&output](std::string_view piece) { return output.append(piece), true; },
      options.is_cancelled);
  // env's own statuses for a program that is not there or may not be run.
  if (end.how == ChildEnd::How::kExited && (end.number == 127 || end.number == 126)) {
    end = {ChildEnd::How::kNotStarted, ENOENT, ""};
  }
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

std::optional<PdfPage> ParseRecognisedWords(std::string_view table, double scale) {
  if (!table.starts_with(kTableHead)) return std::nullopt;
  table.remove_prefix(kTableHead.size());
  PdfPage page;
  bool has_line = false;
  while (!table.empty()) {
    const size_t end = table.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const auto row = ParseTableRow(table.substr(0, end));
    if (!row || page.num_words == kMostRecognisedWords || !AddRow(*row, scale, page, has_line)) {
      return std::nullopt;
    }
    if (row->level() == 1) {
      page.width = row->Box(scale).Width();
      page.height = row->Box(scale).Height();
    }
    table.remove_prefix(end + 1);
  }
  EvenHeights(page);
  std::erase_if(page.lines, [](const PdfLine& line) { return line.words.empty(); });
  return page;
}

api::Result<PageRecogniser> PageRecogniser::Start(const RecognitionOptions& options) {
  std::string output;
  const ChildEnd end = RunTesseract(options, {"--list-langs"}, "", output);
  if (auto error = ErrorOfProgram(end, options.tesseract, kInstallTesseract)) return *error;
  std::vector<std::string> languages = ParseLanguages(output);
  const bool finds_direction =
      std::erase_if(languages, [](const std::string& name) { return name == "osd"; }) > 0;
  RecognitionOptions chosen = options;
  if (languages.empty()) {
    return RecognitionError(LECTERN_NOT_FOUND, "Tesseract has no language: apt install "
                                               "tesseract-ocr-eng, or another tesseract-ocr-…");
  }
  if (chosen.languages.empty()) {
    chosen.languages = MissingLanguage("eng", languages).empty() ? "eng" : languages.front();
  }
  const std::string missing = MissingLanguage(chosen.languages, languages);
  if (!missing.empty()) {
    std::string known;
    for (const std::string& language : languages) known += (known.empty() ? "" : ", ") + language;
    return RecognitionError(
        LECTERN_INVALID_ARGUMENT,
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
       "-gray", "-"},
      pdf, limits, [&image](std::string_view piece) { return image.append(piece), true; },
      options_.is_cancelled);
  if (auto error = ErrorOfProgram(end, options_.pdftoppm, "apt install poppler-utils")) {
    return *error;
  }
  std::string table;
  end = RunTesseract(options_,
                     {"stdin", "stdout", "--dpi", "300", "--psm", finds_direction_ ? "1" : "3",
                      "-l", options_.languages, "tsv"},
                     image, table);
  if (auto error = ErrorOfProgram(end, options_.tesseract, kInstallTesseract)) return *error;
  auto recognised = ParseRecognisedWords(table, kPagePoints / kImagePixels);
  if (!recognised) {
    return RecognitionError(LECTERN_IO_ERROR, options_.tesseract + " prints another table");
  }
  recognised->number = number;
  return std::move(*recognised);
}

}  // namespace lectern::tools
