#include "tools/batch/document_options.h"

#include "tools/option_flags.h"

namespace lectern::batch {
namespace {

// A value as a command line would have it; nothing for lists, objects and null.
std::optional<std::string> FlagText(const Json& value) {
  if (const std::string* const text = value.string()) return *text;
  if (value.number()) return value.Dump();
  return std::nullopt;
}

// Takes one member of the table of index options. Returns what is wrong; empty: nothing.
std::string TakeIndexOption(const std::string& name, const Json& value, GivenIndexOptions& given) {
  for (size_t i = 0; i < given.size(); ++i) {
    const lectern::Option& option = given.option(i);
    if (name != option.name || name == "name" || !option.is_in(kCommandLine)) continue;
    if (option.kind == OptionKind::kFlag) {
      if (!value.boolean()) return "is neither true nor false";
      given.value(i) = *value.boolean();
      return "";
    }
    const std::optional<std::string> text = FlagText(value);
    if (!text) return "is neither a text nor a number";
    return tools::ReadFlag(option, *text, given.value(i));
  }
  return "there is no such option of a document";
}

}  // namespace

api::Result<DocumentOptions> ReadDocumentOptions(const Json::Object& members) {
  DocumentOptions options;
  for (const auto& [name, value] : members) {
    std::string wrong;
    if (name == "format" || name == "encoding" || name == "ocr") {
      const std::string* const text = value.string();
      if (!text) {
        wrong = "is no text";
      } else if (name == "ocr") {
        options.ocr = *text == "auto" ? "" : *text;
      } else {
        (name == "format" ? options.format : options.encoding) = *text;
      }
    } else {
      wrong = TakeIndexOption(name, value, options.index);
    }
    if (!wrong.empty()) {
      return api::Error{LECTERN_INVALID_ARGUMENT, "option \"" + name + "\": " + wrong, name};
    }
  }
  return options;
}

api::Result<DocumentOptions> ReadDocumentOptions(std::string_view json) {
  auto parsed = ParseJson(json);
  if (!parsed.ok() || !parsed->object()) {
    return api::Error{LECTERN_INVALID_ARGUMENT,
                      "the options of a document are no JSON object: " + std::string(json),
                      "options"};
  }
  return ReadDocumentOptions(*parsed->object());
}

}  // namespace lectern::batch
