// Outlook's messages (.msg, .oft): MS-OXMSG, a compound file of properties. The message is written
// as the mail (MIME) that it was sent as, or would be, and read as such, so that its text is that
// of the same mail as .eml.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/compound_file.h"
#include "tools/ingest/extract/code_page.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/text_encoding.h"

namespace lectern::tools {
namespace {

constexpr int kMostNestedMessages = 20;  // as of parts in mails

// Numbers of properties (MS-OXPROPS).
struct MapiId {
  static constexpr uint16_t kClass = 0x001A, kSubject = 0x0037, kSubmitted = 0x0039,
                            kRepresentedName = 0x0042, kRepresentedAddress = 0x0065,
                            kHeaders = 0x007D, kReceiverKind = 0x0C15, kSenderName = 0x0C1A,
                            kSenderAddress = 0x0C1F, kShownCc = 0x0E03, kShownTo = 0x0E04,
                            kDelivered = 0x0E06, kBody = 0x1000, kRtf = 0x1009, kHtml = 0x1013,
                            kName = 0x3001, kAddress = 0x3003, kData = 0x3701, kShortFile = 0x3704,
                            kFile = 0x3707, kMediaType = 0x370E,
                            kSmtpAddress = 0x39FE, kHtmlCodePage = 0x3FDE, kCodePage = 0x3FFD,
                            kSenderSmtp = 0x5D01, kRepresentedSmtp = 0x5D02;
};

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr size_t kLine = 76;
  std::string text;
  size_t in_line = 0;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k)
      text += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
    if ((in_line += 4) >= kLine) {
      text += '\n';
      in_line = 0;
    }
  }
  return text + '\n';
}

// Without line breaks and other controls, to stand in a header.
std::string InHeader(std::string_view text) {
  std::string line;
  for (const char c : text) line += static_cast<uint8_t>(c) < 0x20 ? ' ' : c;
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

// "name=value" of a header's parameter (RFC 2231).
std::string Parameter(const std::string& name, std::string_view value) {
  std::string text = "; " + name + "*=UTF-8''";
  for (const char c : value) {
    char coded[4];
    std::snprintf(coded, sizeof coded, "%%%02X", static_cast<unsigned>(static_cast<uint8_t>(c)));
    text += IsAsciiLetter(c) || IsAsciiDigit(c) ? std::string(1, c) : coded;
  }
  return text;
}

// "Ada Brok <ada@example.org>".
std::string Mailbox(const std::string& name, const std::string& address) {
  if (name.empty() || name == address) return address;
  if (address.empty() && name.find_first_of(",;<>") == name.npos) return name;
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  quoted += '"';
  return address.empty() ? quoted : quoted + " <" + address + ">";
}

// The date of a number of 100 ns since 1601, in UTC; empty: there is none.
std::string HeaderDate(uint64_t ticks) {
  constexpr uint64_t kTicks = 10'000'000, kTo1970 = 11'644'473'600, kMostSeconds = 253'402'300'800;
  if (ticks / kTicks <= kTo1970 || ticks / kTicks - kTo1970 >= kMostSeconds) return "";
  const auto seconds = static_cast<std::time_t>(ticks / kTicks - kTo1970);
  const std::tm* const time = std::gmtime(&seconds);
  std::array<char, 64> text{};
  return time && std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S +0000", time) > 0
             ? text.data()
             : "";
}

// The headers of a name in the text of a mail's headers as they stand, with their further lines;
// empty: there is none.
std::string SentHeader(std::string_view headers, const std::string& name) {
  std::string found;
  bool is_it = false;
  while (!headers.empty() && headers[0] != '\r' && headers[0] != '\n') {
    const size_t end = std::min(headers.find('\n'), headers.size());
    std::string_view line = headers.substr(0, end);
    headers.remove_prefix(std::min(end + 1, headers.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool goes_on = line.starts_with(' ') || line.starts_with('\t');
    if (!goes_on) is_it = Lower(line.substr(0, name.size() + 1)) == Lower(name) + ":";
    if (is_it) found += std::string(line) + '\n';
  }
  return found;
}

// The media type of an attached file that has none, by the ending of its name: those that are read.
std::string MediaTypeOf(std::string_view file_name) {
  constexpr std::pair<std::string_view, const char*> kTypes[] = {
      {".txt", "text/plain"},    {".log", "text/plain"}, {".md", "text/markdown"},
      {".csv", "text/csv"},      {".htm", "text/html"},  {".html", "text/html"},
      {".ics", "text/calendar"}, {".vcf", "text/vcard"}, {".eml", "message/rfc822"}};
  const std::string lower = Lower(file_name);
  for (const auto& [ending, type] : kTypes) {
    if (lower.ends_with(ending)) return type;
  }
  return "application/octet-stream";
}

// Properties of a message, a receiver or an attachment, which are in a storage each.
class MapiObject {
 public:
  // `head`: bytes before the list of properties.
  MapiObject(CompoundFile& file, uint32_t storage, size_t head) : file_(file), storage_(storage) {
    if (const auto list = file.Find(storage, "__properties_version1.0")) {
      auto read = file.Read(*list);
      if (read.ok()) list_ = read->substr(std::min(head, read->size()));
    }
  }
  // A number or a time; 0: there is none.
  uint64_t Number(uint16_t id) const {
    constexpr size_t kEach = 16, kValue = 8;
    for (size_t at = 0; at + kEach <= list_.size(); at += kEach) {
      if (Uint16At(list_, at + 2) == id) return Uint64At(list_, at + kValue);
    }
    return 0;
  }
  // UTF-8. Text of programs that knew no Unicode is in the code page.
  std::string Text(uint16_t id, uint32_t code_page) {
    std::string text;
    if (const auto wide = Stream(id, kWide); !wide.empty()) {
      text = Utf16Text(wide);
    } else {
      text = NarrowText(Stream(id, kNarrow), code_page);
    }
    while (text.ends_with('\0')) text.pop_back();
    return text;
  }
  std::string Bytes(uint16_t id) { return Stream(id, kBytes); }
  std::string Stream(uint16_t id, uint16_t type) {
    const auto entry = file_.Find(storage_, EntryName(id, type));
    if (!entry || file_.entry(*entry).is_storage) return "";
    auto read = file_.Read(*entry);
    return read.ok() ? std::move(*read) : "";
  }
  // The storage of a message that is attached.
  std::optional<uint32_t> Message() const {
    constexpr uint16_t kObject = 0x000D;
    const auto entry = file_.Find(storage_, EntryName(MapiId::kData, kObject));
    return entry && file_.entry(*entry).is_storage && file_.Find(*entry, "__properties_version1.0")
               ? entry
               : std::nullopt;
  }
  // The storages whose names begin so: receivers, attachments.
  std::vector<uint32_t> Parts(std::string_view begin) const {
    std::vector<uint32_t> parts;
    for (const uint32_t child : file_.entry(storage_).children) {
      const CompoundFile::Entry& entry = file_.entry(child);
      if (entry.is_storage && Lower(entry.name).starts_with(begin)) parts.push_back(child);
    }
    return parts;
  }

  static constexpr uint16_t kNarrow = 0x001E, kWide = 0x001F, kBytes = 0x0102;

 private:
  // Messages may name UTF-8 for their HTML alone, and write their other texts in the usual page of
  // their country.
  static std::string NarrowText(std::string bytes, uint32_t code_page) {
    constexpr uint32_t kUtf8 = 65001;
    if (code_page != kUtf8 || IsValidUtf8(bytes)) return CodePageText(bytes, code_page);
    auto decoded = DecodeText(std::move(bytes), "auto");
    return decoded.ok() ? CleanUtf8(decoded->text).text : "";
  }
  static std::string EntryName(uint16_t id, uint16_t type) {
    std::array<char, 24> name{};
    std::snprintf(name.data(), name.size(), "__substg1.0_%04X%04X", unsigned{id}, unsigned{type});
    return name.data();
  }

  CompoundFile& file_;
  uint32_t storage_;
  std::string list_;
};

class MessageWriter {
 public:
  explicit MessageWriter(CompoundFile& file) : file_(file) {}

  // The message in a storage as a mail.
  std::string Write(uint32_t storage, int nesting) {
    constexpr size_t kTopHead = 32, kNestedHead = 24;
    MapiObject message(file_, storage, nesting == 0 ? kTopHead : kNestedHead);
    code_page_ = CodePageOf(message);
    std::string mail = Headers(message);
    const std::vector<uint32_t> attachments = message.Parts("__attach_version1.0_");
    if (attachments.size() == 1 && IsSigned(message)) {
      // The only attachment is the mail as it was signed, which begins with headers of its own.
      const std::string content = MapiObject(file_, attachments[0], 0).Bytes(MapiId::kData);
      if (content.starts_with("MIME-Version:") || content.starts_with("Content-"))
        return mail + content;
    }
    std::vector<std::string> parts;
    if (std::string body = Body(message, nesting); !body.empty()) parts.push_back(std::move(body));
    for (const uint32_t attachment : attachments) parts.push_back(Attachment(attachment, nesting));
    return mail + "MIME-Version: 1.0\n" + Multipart("mixed", parts);
  }

  // Whether the message's text is there in RTF alone, and of how many messages in it.
  bool is_rtf() const { return is_rtf_; }
  uint64_t num_rtf() const { return num_rtf_; }

 private:
  // The code page of texts that are not in Unicode. Many programs give that of the HTML alone.
  static uint32_t CodePageOf(const MapiObject& message) {
    constexpr uint32_t kUsual = 1252;
    for (const uint16_t id : {MapiId::kCodePage, MapiId::kHtmlCodePage}) {
      if (const uint64_t page = message.Number(id); page != 0) return static_cast<uint32_t>(page);
    }
    return kUsual;
  }

  bool IsSigned(MapiObject& message) {
    return Lower(message.Text(MapiId::kClass, code_page_)).ends_with("smime.multipartsigned");
  }

  std::string Multipart(const char* kind, const std::vector<std::string>& parts) {
    // All texts are in base64 and no header begins so.
    const std::string boundary = "=_part_" + std::to_string(++num_boundaries_);
    std::string text =
        std::string("Content-Type: multipart/") + kind + "; boundary=\"" + boundary + "\"\n\n";
    for (const std::string& part : parts) text += "--" + boundary + "\n" + part + "\n";
    return text + "--" + boundary + "--\n";
  }

  std::string Headers(MapiObject& message) {
    const std::string sent = message.Text(MapiId::kHeaders, code_page_);
    const std::pair<const char*, std::string> own[] = {
        {"From", Sender(message)},
        {"To", Receivers(message, 1, MapiId::kShownTo)},
        {"Cc", Receivers(message, 2, MapiId::kShownCc)},
        {"Date", SentTime(message)},
        {"Subject", InHeader(message.Text(MapiId::kSubject, code_page_))}};
    std::string headers;
    for (const auto& [name, value] : own) {
      const std::string header = SentHeader(sent, name);
      if (!header.empty()) {
        headers += header;
      } else if (!value.empty()) {
        headers += std::string(name) + ": " + value + "\n";
      }
    }
    return headers;
  }

  // Whom the message is from: the person on whose behalf it was sent.
  std::string Sender(MapiObject& message) {
    constexpr std::array<uint16_t, 3> kSenders[] = {
        {MapiId::kRepresentedName, MapiId::kRepresentedSmtp, MapiId::kRepresentedAddress},
        {MapiId::kSenderName, MapiId::kSenderSmtp, MapiId::kSenderAddress}};
    for (const auto& [name, smtp, address] : kSenders) {
      const std::string sender = Person(message, name, smtp, address);
      if (!sender.empty()) return sender;
    }
    return "";
  }

  // Addresses of Exchange alone ("/o=…") say nothing outside of it.
  std::string Person(MapiObject& object, uint16_t name, uint16_t smtp, uint16_t other) {
    std::string address;
    for (const uint16_t id : {smtp, other}) {
      if (address.find('@') == std::string::npos) address = InHeader(object.Text(id, code_page_));
    }
    if (address.find('@') == std::string::npos) address.clear();
    return Mailbox(InHeader(object.Text(name, code_page_)), address);
  }

  // `kind`: 1 for To, 2 for Cc.
  std::string Receivers(MapiObject& message, uint64_t kind, uint16_t shown) {
    constexpr size_t kHead = 8;
    std::string receivers;
    for (const uint32_t storage : message.Parts("__recip_version1.0_")) {
      MapiObject receiver(file_, storage, kHead);
      if ((receiver.Number(MapiId::kReceiverKind) & 0xF) != kind) continue;
      const std::string person =
          Person(receiver, MapiId::kName, MapiId::kSmtpAddress, MapiId::kAddress);
      if (!person.empty()) receivers += (receivers.empty() ? "" : ", ") + person;
    }
    if (!receivers.empty()) return receivers;
    std::string names = InHeader(message.Text(shown, code_page_));
    std::ranges::replace(names, ';', ',');
    return names;
  }

  static std::string SentTime(const MapiObject& message) {
    const std::string submitted = HeaderDate(message.Number(MapiId::kSubmitted));
    return submitted.empty() ? HeaderDate(message.Number(MapiId::kDelivered)) : submitted;
  }

  static std::string TextPart(const std::string& type, const std::string& text) {
    return "Content-Type: text/" + type + "\nContent-Transfer-Encoding: base64\n\n" + Base64(text);
  }

  // The plain text and the HTML of the message; empty: it has neither.
  std::string Body(MapiObject& message, int nesting) {
    std::vector<std::string> parts;
    const bool has_rtf = !message.Bytes(MapiId::kRtf).empty();
    const std::string plain = message.Text(MapiId::kBody, code_page_);
    if (!plain.empty()) parts.push_back(TextPart("plain; charset=utf-8", plain));
    std::string html = message.Bytes(MapiId::kHtml);
    const auto page = static_cast<uint32_t>(message.Number(MapiId::kHtmlCodePage));
    if (!html.empty()) {
      // Without a code page the HTML itself may say its encoding.
      const std::string charset = page == 0 ? "" : "; charset=" + CodePageEncoding(page);
      parts.push_back(TextPart("html" + charset, html));
    } else if (html = message.Text(MapiId::kHtml, code_page_); !html.empty()) {
      parts.push_back(TextPart("html; charset=utf-8", html));
    }
    num_rtf_ += nesting > 0 && parts.empty() && has_rtf;
    is_rtf_ |= nesting == 0 && parts.empty() && has_rtf;
    return parts.size() == 1 ? parts[0] : parts.empty() ? "" : Multipart("alternative", parts);
  }

  // An attachment as a part of a mail. Of files that are no text the name alone.
  std::string Attachment(uint32_t storage, int nesting) {
    constexpr size_t kHead = 8;
    MapiObject attachment(file_, storage, kHead);
    const uint32_t code_page = code_page_;
    if (const auto inner = attachment.Message(); inner && nesting < kMostNestedMessages) {
      std::string part = "Content-Type: message/rfc822\n\n" + Write(*inner, nesting + 1);
      code_page_ = code_page;
      return part;
    }
    std::string name;
    for (const uint16_t id : {MapiId::kFile, MapiId::kShortFile, MapiId::kName}) {
      if (name.empty()) name = InHeader(attachment.Text(id, code_page));
    }
    std::string type = InHeader(Lower(attachment.Text(MapiId::kMediaType, code_page)));
    const std::string data = attachment.Bytes(MapiId::kData);
    constexpr std::string_view kUnknown = "application/octet-stream";
    if (type.empty() || type.find('/') == type.npos || type == kUnknown) type = MediaTypeOf(name);
    constexpr std::string_view kRead[] = {"text/", "message/", "application/ics"};
    const bool is_read =
        std::ranges::any_of(kRead, [&](std::string_view begin) { return type.starts_with(begin); });
    return "Content-Type: " + (type.starts_with("multipart/") ? std::string(kUnknown) : type) +
           Parameter("name", name) + "\nContent-Disposition: attachment" +
           Parameter("filename", name) + "\nContent-Transfer-Encoding: base64\n\n" +
           (is_read ? Base64(data) : "");
  }

  CompoundFile& file_;
  uint32_t code_page_ = 0;  // of the message that is written
  uint64_t num_boundaries_ = 0, num_rtf_ = 0;
  bool is_rtf_ = false;
};

}  // namespace

api::Result<Extracted> ReadMsg(std::string_view bytes) {
  auto file = CompoundFile::Open(bytes);
  if (!file.ok()) return file.error();
  if (!file->Find(CompoundFile::kRoot, "__properties_version1.0"))
    return api::Error{LECTERN_INVALID_ARGUMENT, "has no message in it", "file"};
  MessageWriter message(*file);
  auto extracted = ReadMail(message.Write(CompoundFile::kRoot, 0));
  if (extracted.ok() && message.num_rtf() > 0) {
    AddNote(CountedNote(message.num_rtf(), "attached message", "there in RTF alone, and left out"),
            extracted->note);
  }
  if (extracted.ok() && message.is_rtf())
    extracted->note.insert(0, std::string(kRtfAlone) + (extracted->note.empty() ? "" : "; "));
  if (extracted.ok() && file->is_cut_off())
    AddNote("the file is cut off, so that parts of it may be missing", extracted->note);
  return extracted;
}

}  // namespace lectern::tools
