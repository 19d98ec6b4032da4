#include "tools/ingest/extracted.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "engine/model/formats/text.h"
#include "tools/find_program.h"

namespace lectern::tools {
namespace {

constexpr std::string_view kMagic = "lectern-extract 1";
constexpr std::string_view kUnpackedMagic = "lectern-unpack 1\n";
constexpr lectern_code kCodes[] = {LECTERN_OK, LECTERN_INVALID_ARGUMENT, LECTERN_EMPTY_DOCUMENT,
                                   LECTERN_LIMIT_EXCEEDED};

// Takes a number and the sign `end` behind it from the front of `bytes`; nothing: there is none.
std::optional<uint64_t> TakeNumber(std::string_view& bytes, char end) {
  uint64_t number = 0;
  const char* const last = bytes.data() + bytes.size();
  const auto read = std::from_chars(bytes.data(), last, number);
  if (read.ec != std::errc() || read.ptr == last || *read.ptr != end) return std::nullopt;
  bytes.remove_prefix(static_cast<size_t>(read.ptr - bytes.data()) + 1);
  return number;
}

// Whether pages ascend within the text and within their number.
bool ArePagesOf(const std::vector<lectern_page>& pages, const Extracted& extracted) {
  uint64_t next_begin = 0, next_page = 1;
  for (const lectern_page& page : pages) {
    if (page.text_begin < next_begin || page.page < next_page) return false;
    next_begin = page.text_begin + 1;
    next_page = page.page + 1;
  }
  return next_begin <= extracted.text.size() && next_page <= extracted.num_pages + 1 &&
         extracted.num_pages < uint64_t{1} << 32;
}

api::Error ExtractError(lectern_code code, const std::string& message) {
  return {code, message, "file"};
}

// ": …" with the first line that the program complained with, to end a message with.
std::string Complaint(const ChildEnd& end) {
  const std::string line = end.complaint.substr(0, std::min(end.complaint.find('\n'), size_t{200}));
  return line.empty() ? "" : ": " + CleanUtf8(line).text;
}

api::Error OtherProgram(const ChildEnd& end) {
  return ExtractError(
      LECTERN_IO_ERROR,
      "lectern-extract is not the program of this version; install it again" + Complaint(end));
}

// The error that the end of the program means; nothing: it ended as it should. Its path is no
// business of a server's clients.
std::optional<api::Error> ErrorOfEnd(const ChildEnd& end, const std::string& name,
                                     const ChildLimits& limits) {
  switch (end.how) {
    case ChildEnd::How::kNotStarted:
      if (end.number == ENOENT || end.number == EACCES) {
        return api::Error{LECTERN_NOT_FOUND,
                          "reading " + name +
                              " needs the program lectern-extract, which is not installed: " +
                              HowToInstall("lectern-tools") + ", or give the text",
                          "lectern-extract"};
      }
      return ExtractError(LECTERN_IO_ERROR,
                          std::string("start lectern-extract: ") + std::strerror(end.number));
    case ChildEnd::How::kCancelled:
      return ExtractError(LECTERN_CANCELLED, "cancelled while " + name + " was read");
    case ChildEnd::How::kTooSlow:
      return ExtractError(LECTERN_LIMIT_EXCEEDED,
                          name + " takes too long to read; split it, or give its text");
    case ChildEnd::How::kTooMuchOutput:
      return ExtractError(LECTERN_LIMIT_EXCEEDED,
                          name + " has too much text for one document; split it");
    case ChildEnd::How::kSignalled:
      return ExtractError(LECTERN_INVALID_ARGUMENT,
                          name +
                              " is damaged, or needs too much memory: lectern-extract crashed on "
                              "it (signal " +
                              std::to_string(end.number) + ")" + Complaint(end));
    case ChildEnd::How::kRefused:
      break;
    case ChildEnd::How::kExited:
      if (end.number == 0) return std::nullopt;
      if (end.number == kOutOfMemoryStatus) {
        return ExtractError(LECTERN_LIMIT_EXCEEDED,
                            name + " needs more than " + std::to_string(limits.memory_bytes >> 20) +
                                " MiB of memory, the limit for a file of its size; split it, or "
                                "give its text");
      }
  }
  return OtherProgram(end);
}

// Time as for a PDF of the size. Memory in proportion to the size, too, so that a small file that
// expands to gigabytes ends early. Measured: Word and OpenDocument files and books of 5 MB of text,
// and a workbook of 120,000 rows, need 20 to 60 times as much memory as their zip file has bytes.
ChildLimits ExtractLimits(uint64_t num_bytes) {
  ChildLimits limits;
  limits.cpu_seconds = std::min<uint64_t>(20 + 10 * (num_bytes >> 20), 600);
  limits.wall_seconds = 3 * static_cast<double>(limits.cpu_seconds);
  constexpr uint64_t kLeast = uint64_t{512} << 20, kMost = uint64_t{3} << 30, kTimesFile = 128;
  limits.memory_bytes = std::min(kLeast + kTimesFile * std::min(num_bytes, kMost), kMost);
  return limits;
}

// The output of lectern-extract for the bytes.
api::Result<std::string> RunExtract(std::string_view bytes, const std::string& format,
                                    const ExtractOptions& options) {
  const std::string program =
      options.program.empty() ? LibexecProgram("lectern-extract") : options.program;
  const ChildLimits limits = options.limits.value_or(ExtractLimits(bytes.size()));
  std::string output;
  const ChildEnd end = RunLimited(
      {program, format}, bytes, limits,
      [&output](std::string_view piece) { return output.append(piece), true; },
      options.is_cancelled);
  if (auto error = ErrorOfEnd(end, options.name, limits)) return *error;
  return output;
}

// An error of the program's, whose message begins with a verb.
api::Error Named(api::Error error, const std::string& name) {
  error.message = name + " " + error.message;
  return error;
}

// The bytes that the program writes as WriteUnpacked does.
api::Result<std::string> RunForBytes(std::string_view bytes, std::string_view what,
                                     const ExtractOptions& options) {
  auto output = RunExtract(bytes, std::string(what), options);
  if (!output.ok()) return output.error();
  if (output->starts_with(kUnpackedMagic)) {
    output->erase(0, kUnpackedMagic.size());
    return output;
  }
  const auto parsed = ParseExtracted(*output);
  return parsed && !parsed->ok() ? Named(parsed->error(), options.name) : OtherProgram({});
}

}  // namespace

std::string WriteUnpacked(api::Result<std::string> result) {
  if (!result.ok()) return WriteExtracted(result.error());
  return std::move(result->insert(0, kUnpackedMagic));
}

std::string WriteExtracted(api::Result<Extracted> result) {
  const auto code = result.ok() ? LECTERN_OK : result.error().code;
  // Notes and messages may name a part of the file, whose name is any bytes.
  const std::string text = result.ok() ? result->text : CleanUtf8(result.error().message).text;
  const std::vector<lectern_page> pages = result.ok() ? result->pages : std::vector<lectern_page>();
  const std::string note = result.ok() ? CleanUtf8(result->note).text : "";
  std::string bytes(kMagic);
  for (const uint64_t number :
       {static_cast<uint64_t>(code), result.ok() ? result->num_pages : 0, uint64_t{pages.size()},
        uint64_t{note.size()}, uint64_t{text.size()}}) {
    bytes += ' ' + std::to_string(number);
  }
  bytes += " \n";
  for (const lectern_page& page : pages)
    bytes += std::to_string(page.text_begin) + ' ' + std::to_string(page.page) + '\n';
  return bytes + note + text;
}

std::optional<api::Result<Extracted>> ParseExtracted(std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || bytes.size() == kMagic.size()) return std::nullopt;
  bytes.remove_prefix(kMagic.size() + 1);
  uint64_t numbers[5];
  for (uint64_t& number : numbers) {
    const auto taken = TakeNumber(bytes, ' ');
    if (!taken) return std::nullopt;
    number = *taken;
  }
  const auto [code, num_pages, num_listed, note_bytes, text_bytes] = numbers;
  if (!bytes.starts_with('\n') || num_listed > bytes.size()) return std::nullopt;
  bytes.remove_prefix(1);
  std::vector<lectern_page> pages;
  for (uint64_t i = 0; i < num_listed; ++i) {
    const auto begin = TakeNumber(bytes, ' ');
    const auto page = begin ? TakeNumber(bytes, '\n') : std::nullopt;
    if (!page) return std::nullopt;
    pages.push_back({*begin, *page});
  }
  if (note_bytes > bytes.size() || text_bytes != bytes.size() - note_bytes) return std::nullopt;
  Extracted extracted;
  extracted.note = bytes.substr(0, note_bytes);
  extracted.text = bytes.substr(note_bytes);
  extracted.num_pages = num_pages;
  if (!IsValidUtf8(extracted.note) || !IsValidUtf8(extracted.text)) return std::nullopt;
  for (const lectern_code known : kCodes) {
    if (code != static_cast<uint64_t>(known)) continue;
    if (known != LECTERN_OK) return api::Result<Extracted>(ExtractError(known, extracted.text));
    if (!ArePagesOf(pages, extracted) || !extracted.text.ends_with('\n')) return std::nullopt;
    extracted.pages = std::move(pages);
    return api::Result<Extracted>(std::move(extracted));
  }
  return std::nullopt;
}

api::Result<Extracted> ReadExtracted(std::string_view bytes, const std::string& format,
                                     const ExtractOptions& options) {
  auto output = RunExtract(bytes, format, options);
  if (!output.ok()) return output.error();
  auto parsed = ParseExtracted(*output);
  if (!parsed) return OtherProgram({});
  if (!parsed->ok()) return Named(parsed->error(), options.name);
  return std::move(*parsed);
}

api::Result<std::string> ReadUnpacked(std::string_view bytes, const ExtractOptions& options) {
  return RunForBytes(bytes, kUnpack, options);
}

api::Result<std::string> ReadMessageRtf(std::string_view bytes, const ExtractOptions& options) {
  return RunForBytes(bytes, kMsgRtf, options);
}

}  // namespace lectern::tools
