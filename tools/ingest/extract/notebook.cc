// Jupyter notebooks (.ipynb): nbformat 4, and 3 with its worksheets.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "engine/model/formats/text.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/html.h"

namespace lectern::tools {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostOutputBytes = 20'000;  // of one output; logs of training can be megabytes

// A text, or a list of its lines, as the format allows both.
std::string TextOf(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  std::string text;
  if (value.is_array()) {
    for (const Json& line : value) {
      if (line.is_string()) text += line.get_ref<const std::string&>();
    }
  }
  return text;
}

std::string TextOf(const Json& object, const char* member) {
  if (!object.is_object()) return "";
  const auto found = object.find(member);
  return found == object.end() ? "" : TextOf(*found);
}

// Without the escape sequences that colour a terminal.
std::string WithoutColours(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1B' || i + 1 >= text.size() || text[i + 1] != '[') {
      plain += text[i];
      continue;
    }
    for (i += 2; i < text.size() && (text[i] < '@' || text[i] > '~');) ++i;
  }
  return plain;
}

// Whether the plain text of an output only says what kind of object it is, as Python does without a
// better way: "<Figure size 640x480 with 1 Axes>", "<IPython.core.display.HTML object>".
bool IsNameOfObject(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text.size() < 200 && text.starts_with('<') && text.ends_with('>') &&
         (text.find(" object") != text.npos || text.starts_with("<Figure size") ||
          text.find(" at 0x") != text.npos);
}

// Markdown without the bytes of images that stand in it ("![x](data:image/png;base64,…)").
std::string WithoutImageData(std::string_view markdown) {
  constexpr std::string_view kBegin = "(data:";
  std::string kept;
  while (!markdown.empty()) {
    const size_t begin = std::min(markdown.find(kBegin), markdown.size());
    kept += markdown.substr(0, begin);
    markdown.remove_prefix(begin);
    if (markdown.empty()) break;
    const size_t end = markdown.find_first_of(")\n");
    const bool is_data = end != markdown.npos && markdown[end] == ')' &&
                         markdown.substr(0, std::min(end, size_t{100})).find(',') != markdown.npos;
    kept += is_data ? "()" : kBegin;
    markdown.remove_prefix(is_data ? end + 1 : kBegin.size());
  }
  return kept;
}

class NotebookReader {
 public:
  void Cells(const Json& cells) {
    if (!cells.is_array()) return;
    for (const Json& cell : cells) {
      const std::string type = TextOf(cell, "cell_type");
      std::string source = TextOf(cell, "source");
      if (type == "heading") {  // of version 3
        const auto level = cell.find("level");
        writer_.Heading(level != cell.end() && level->is_number_integer() ? level->get<int>() : 1,
                        source);
      } else if (type == "code") {
        if (source.empty()) source = TextOf(cell, "input");
        writer_.Code(source);
        if (const auto outputs = cell.find("outputs"); outputs != cell.end()) Outputs(*outputs);
      } else {
        writer_.Verbatim(WithoutImageData(source));
      }
    }
  }
  Extracted Finish() {
    return writer_.Finish(0, is_shortened_ ? "outputs of more than 20 kB were cut off" : "");
  }

 private:
  void Outputs(const Json& outputs) {
    if (!outputs.is_array()) return;
    for (const Json& output : outputs) {
      std::string text = TextOf(output, "text");
      if (text.empty() && output.is_object()) {
        const auto data = output.find("data");
        if (data != output.end() && Rich(*data)) continue;
        if (data != output.end()) text = TextOf(*data, "text/plain");
      }
      if (text.empty() && TextOf(output, "output_type") == "error")
        text = TextOf(output, "ename") + ": " + TextOf(output, "evalue");
      if (!IsNameOfObject(text)) writer_.Code(Shortened(WithoutColours(text)));
    }
  }

  // Writes an output that is Markdown, or a page whose plain text says nothing. False: neither.
  bool Rich(const Json& data) {
    if (const std::string markdown = TextOf(data, "text/markdown"); !markdown.empty()) {
      writer_.Verbatim(Shortened(WithoutImageData(markdown)));
      return true;
    }
    const std::string plain = TextOf(data, "text/plain"), html = TextOf(data, "text/html");
    if (html.empty() || (!plain.empty() && !IsNameOfObject(plain))) return false;
    auto text = ReadHtml(html, {.name = "an output", .encoding = "UTF-8", .keeps_all = true});
    if (text.ok()) writer_.Verbatim(Shortened(*text));
    return text.ok();
  }

  std::string Shortened(std::string text) {
    if (text.size() <= kMostOutputBytes) return text;
    is_shortened_ = true;
    size_t end = kMostOutputBytes;
    while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
    text.resize(end);
    return text;
  }

  TextBuilder writer_;
  bool is_shortened_ = false;
};

}  // namespace

api::Result<Extracted> ReadNotebook(std::string_view bytes) {
  const std::string clean = CleanUtf8(bytes).text;
  const Json root = Json::parse(clean, nullptr, false);
  if (!root.is_object()) {
    return api::Error{LECTERN_INVALID_ARGUMENT, "is damaged: a notebook is a JSON object", "file"};
  }
  NotebookReader reader;
  if (const auto cells = root.find("cells"); cells != root.end()) reader.Cells(*cells);
  if (const auto sheets = root.find("worksheets"); sheets != root.end() && sheets->is_array()) {
    for (const Json& sheet : *sheets) {
      if (!sheet.is_object()) continue;
      if (const auto cells = sheet.find("cells"); cells != sheet.end()) reader.Cells(*cells);
    }
  }
  return reader.Finish();
}

}  // namespace lectern::tools
