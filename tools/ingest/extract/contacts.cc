// vCard 2.1, 3.0 (RFC 2426) and 4.0 (RFC 6350): address books.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tools/ingest/characters.h"
#include "tools/ingest/extract/content_lines.h"
#include "tools/ingest/extract/readers.h"

namespace lectern::tools {
namespace {

// How the parts of a value that semicolons divide are shown.
enum class CardValue { kText, kParts, kDate };
struct CardProperty {
  std::string_view property, name;
  CardValue value;
};
constexpr CardProperty kCardProperties[] = {
    {"NICKNAME", "Nickname", CardValue::kText}, {"ORG", "Organization", CardValue::kParts},
    {"TITLE", "Title", CardValue::kText},       {"ROLE", "Role", CardValue::kText},
    {"TEL", "Telephone", CardValue::kText},     {"EMAIL", "E-mail", CardValue::kText},
    {"ADR", "Address", CardValue::kParts},      {"LABEL", "Address", CardValue::kText},
    {"URL", "Web address", CardValue::kText},   {"IMPP", "Messages", CardValue::kText},
    {"BDAY", "Birthday", CardValue::kDate},     {"ANNIVERSARY", "Anniversary", CardValue::kDate},
    {"NOTE", "Note", CardValue::kText},         {"CATEGORIES", "Categories", CardValue::kText},
    {"LANG", "Language", CardValue::kText},     {"RELATED", "Related", CardValue::kText},
    {"GEO", "Position", CardValue::kText},      {"X-SKYPE", "Skype", CardValue::kText},
    {"X-JABBER", "Jabber", CardValue::kText},   {"X-ASSISTANT", "Assistant", CardValue::kText},
    {"X-SPOUSE", "Spouse", CardValue::kText},   {"X-ABRELATEDNAMES", "Related", CardValue::kText},
    {"X-ABDATE", "Date", CardValue::kDate}};

// The parts of a value that have text, with commas between them.
std::string JoinedParts(std::string_view value) {
  std::string joined;
  for (const std::string_view part : SplitValue(value, ';')) {
    std::string text = CollapseSpace(UnescapeValue(part), false);
    if (!text.empty()) joined += (joined.empty() ? "" : ", ") + text;
  }
  return joined;
}

// "Dr. Ada Maria Brok" of "Brok;Ada;Maria;Dr.;".
std::string NameOfParts(std::string_view value) {
  constexpr size_t kOrder[] = {3, 1, 2, 0, 4};  // family, given, others, before, behind
  const std::vector<std::string_view> parts = SplitValue(value, ';');
  std::string name;
  for (const size_t i : kOrder) {
    if (i >= parts.size()) continue;
    for (const std::string_view part : SplitValue(parts[i], ',')) {
      const std::string text = CollapseSpace(UnescapeValue(part), false);
      if (!text.empty()) name += (name.empty() ? "" : " ") + text;
    }
  }
  return name;
}

// "home, mobile" of the types of a line; those that say nothing to a reader are left out.
std::string TypesOf(const ContentLine& line) {
  constexpr std::string_view kSilent[] = {
      "internet", "pref", "voice", "quoted-printable", "8bit", "7bit", "uri", "text", "base64"};
  std::string types;
  std::string rest = Lower(line.Parameter("TYPE"));
  for (const std::string_view type : SplitValue(rest, ',')) {
    const bool is_silent = type.empty() || std::find(std::begin(kSilent), std::end(kSilent),
                                                     type) != std::end(kSilent);
    if (!is_silent) types += (types.empty() ? "" : ", ") + std::string(type);
  }
  return types;
}

// "Work" of Apple's "_$!<Work>!$_".
std::string LabelText(std::string_view label) {
  constexpr std::string_view kBegin = "_$!<", kEnd = ">!$_";
  if (!label.starts_with(kBegin) || !label.ends_with(kEnd) || label.size() < 8)
    return UnescapeValue(label);
  return std::string(label.substr(4, label.size() - 8));
}

class ContactsReader {
 public:
  Extracted Read(std::string_view bytes) {
    ContentLines lines(bytes);
    for (ContentLine line; lines.Next(line);) Take(line);
    WriteCard();  // of a file that is cut off
    // Another text, such as the variants of genes, whose files have the same ending.
    if (!has_cards_) {
      writer_ = TextBuilder();
      writer_.Verbatim(bytes);
    }
    return writer_.Finish(0, "");
  }

 private:
  struct CardLine {
    std::string name, types, value, group;
  };

  void Take(const ContentLine& line) {
    if (line.name == "BEGIN" || line.name == "END") {
      WriteCard();
      has_cards_ = true;
    } else if (line.name == "FN") {
      if (full_name_.empty()) full_name_ = CollapseSpace(UnescapeValue(line.value), false);
    } else if (line.name == "N") {
      name_ = NameOfParts(line.value);
    } else if (line.name == "X-ABLABEL" && !line.group.empty()) {
      labels_[line.group] = LabelText(line.value);
    }
    for (const auto& [property, name, kind] : kCardProperties) {
      if (line.name != property) continue;
      std::string value = kind == CardValue::kParts  ? JoinedParts(line.value)
                          : kind == CardValue::kDate ? Date(line.value)
                                                     : UnescapeValue(line.value);
      for (const std::string_view scheme : {"tel:", "mailto:", "urn:uuid:"}) {
        if (Lower(value).starts_with(scheme)) value.erase(0, scheme.size());
      }
      value = CollapseSpace(value, false);
      if (property == "ORG" && organization_.empty()) organization_ = value;
      if (!value.empty()) lines_.push_back({std::string(name), TypesOf(line), value, line.group});
    }
  }

  // "--0412" is a day of any year.
  static std::string Date(const std::string& value) {
    const bool has_no_year = value.size() >= 6 && value.starts_with("--") && IsAsciiDigit(value[2]);
    if (!has_no_year) return ReadableTime(value, "");
    const size_t day = value[4] == '-' ? 5 : 4;
    return "month " + value.substr(2, 2) + ", day " + value.substr(day, 2);
  }

  void WriteCard() {
    const std::string title = !full_name_.empty() ? full_name_
                              : !name_.empty()    ? name_
                                                  : organization_;
    if (!title.empty() || !lines_.empty())
      writer_.Heading(2, title.empty() ? "Without a name" : title);
    if (!name_.empty() && name_ != title) writer_.Line("Name: " + name_);
    for (const CardLine& line : lines_) {
      const auto label = line.group.empty() ? labels_.end() : labels_.find(line.group);
      const std::string& types = label != labels_.end() ? label->second : line.types;
      writer_.Line(line.name + (types.empty() ? "" : " (" + types + ")") + ": " + line.value);
    }
    writer_.Gap();
    full_name_.clear();
    name_.clear();
    organization_.clear();
    lines_.clear();
    labels_.clear();
  }

  TextBuilder writer_;
  bool has_cards_ = false;
  // The card that is read:
  std::string full_name_, name_, organization_;
  std::vector<CardLine> lines_;
  std::map<std::string, std::string> labels_;  // by group
};

}  // namespace

api::Result<Extracted> ReadContacts(std::string_view bytes) { return ContactsReader().Read(bytes); }

}  // namespace lectern::tools
