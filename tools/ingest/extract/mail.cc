// Mails (.eml), mailboxes (.mbox) and web pages that browsers saved as mails (.mhtml): RFC 5322,
// RFC 4155, RFC 2557 and MIME, by GMime, which decodes headers and parts.
#include <gmime/gmime.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/charset_conversion.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/file_kind.h"
#include "tools/ingest/html.h"
#include "tools/ingest/text_encoding.h"

namespace lectern::tools {
namespace {

constexpr int kMostNesting = 20;  // of parts in parts

struct Unref {
  void operator()(void* object) const { g_object_unref(object); }
};
struct Free {
  void operator()(char* text) const { g_free(text); }
};
template <typename Object>
using Owned = std::unique_ptr<Object, Unref>;
using OwnedText = std::unique_ptr<char, Free>;

std::string Text(const char* text) { return text ? text : ""; }

bool HasParameter(GMimeContentType* type, const char* name, std::string_view value) {
  return Lower(Text(g_mime_content_type_get_parameter(type, name))) == value;
}

bool IsFlowed(GMimeContentType* type) { return HasParameter(type, "format", "flowed"); }

// The paragraphs of a text whose lines the mail program broke (RFC 3676): a line goes on where it
// ends with a space, in the same depth of quotation. Where the type says DelSp that space was added
// too, within words of languages that have no spaces.
std::string WithoutSoftBreaks(std::string_view text, GMimeContentType* type) {
  const bool deletes_space = HasParameter(type, "delsp", "yes");
  std::string paragraphs;
  size_t last_depth = 0;
  bool goes_on = false;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t depth = std::min(line.find_first_not_of('>'), line.size());
    line.remove_prefix(depth);
    if (line.starts_with(' ')) line.remove_prefix(1);
    const bool is_signature = line == "-- ";
    if (!goes_on || depth != last_depth || is_signature) {
      if (goes_on) paragraphs += '\n';
      paragraphs += std::string(depth, '>') + (depth > 0 ? " " : "");
    }
    goes_on = line.ends_with(' ') && !is_signature;
    last_depth = depth;
    if (goes_on && deletes_space) line.remove_suffix(1);
    paragraphs += line;
    if (!goes_on) paragraphs += '\n';
  }
  return paragraphs;
}

// A header with its words in base64 (RFC 2047) as words in quoted-printable. GMime decodes words of
// one character set that follow each other as one text, and of base64 it drops all that stands
// behind the padding of the first one.
std::string WithoutBase64(std::string_view header) {
  std::string out;
  while (!header.empty()) {
    const size_t begin = header.find("=?");
    out += header.substr(0, begin);
    if (begin == std::string_view::npos) break;
    header.remove_prefix(begin);
    const size_t set_end = header.find('?', 2);
    const size_t end = set_end == std::string_view::npos ? set_end : header.find("?=", set_end + 3);
    const bool is_base64 = end != std::string_view::npos && header[set_end + 2] == '?' &&
                           (header[set_end + 1] == 'B' || header[set_end + 1] == 'b');
    if (!is_base64) {
      out += header.substr(0, 2);
      header.remove_prefix(2);
      continue;
    }
    const std::string coded(header.substr(set_end + 3, end - set_end - 3));
    gsize size = 0;
    guchar* const bytes = g_base64_decode(coded.c_str(), &size);
    out += std::string(header.substr(0, set_end)) + "?Q?";
    for (gsize i = 0; i < size; ++i) {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      out += {'=', kDigits[bytes[i] >> 4], kDigits[bytes[i] & 15]};
    }
    g_free(bytes);
    out += "?=";
    header.remove_prefix(end + 2);
  }
  return out;
}

// The character set that the first text of a message declares; empty: none.
std::string FirstCharset(GMimeObject* object, int nesting = 0) {
  if (!object || nesting > kMostNesting) return "";
  if (GMIME_IS_TEXT_PART(object))
    return Text(g_mime_text_part_get_charset(GMIME_TEXT_PART(object)));
  if (!GMIME_IS_MULTIPART(object) || g_mime_multipart_get_count(GMIME_MULTIPART(object)) == 0)
    return "";
  return FirstCharset(g_mime_multipart_get_part(GMIME_MULTIPART(object), 0), nesting + 1);
}

// The headers of one name as they stand in a message, in UTF-8, with commas between them; `is_one`:
// the first of them alone. Bytes outside of ASCII are read as the message's text is.
std::string RawHeader(GMimeMessage* message, const char* name, bool is_one) {
  GMimeHeaderList* const headers = g_mime_object_get_header_list(GMIME_OBJECT(message));
  std::string value;
  for (int i = 0; i < g_mime_header_list_get_count(headers); ++i) {
    GMimeHeader* const header = g_mime_header_list_get_header_at(headers, i);
    if (g_ascii_strcasecmp(g_mime_header_get_name(header), name) != 0) continue;
    if (is_one && !value.empty()) break;
    const std::string raw = Text(g_mime_header_get_raw_value(header));
    if (raw.find_first_not_of(" \t\r\n") != std::string::npos)
      value += (value.empty() ? "" : ",") + raw;
  }
  if (!IsValidUtf8(value)) {
    const std::string encoding =
        EncodingOfLabel(FirstCharset(g_mime_message_get_mime_part(message)));
    auto decoded = DecodeText(value, "auto");
    value = !encoding.empty() && encoding != "UTF-8" ? ConvertToUtf8(value, encoding).text
            : decoded.ok()                           ? CleanUtf8(decoded->text).text
                                                     : "";
  }
  return WithoutBase64(value);
}

// Programs that write quotes and dashes of windows-1252 say ISO-8859-1, where they are controls.
std::string WithoutControls(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_control = text[i] == '\xC2' && i + 1 < text.size() &&
                            static_cast<uint8_t>(text[i + 1]) >= 0x80 &&
                            static_cast<uint8_t>(text[i + 1]) < 0xA0;
    if (is_control) {
      out += ConvertToUtf8(text.substr(++i, 1), "WINDOWS-1252").text;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string DecodedHeader(const std::string& raw) {
  const OwnedText text(g_mime_utils_header_decode_text(nullptr, raw.c_str()));
  return WithoutControls(Text(text.get()));
}

std::string SubjectOf(GMimeMessage* message) {
  return DecodedHeader(RawHeader(message, "Subject", true));
}

// Whether a browser saved a web page as this message.
bool IsSavedPage(GMimeMessage* message) {
  if (g_mime_object_get_header(GMIME_OBJECT(message), "Snapshot-Content-Location")) return true;
  const std::string from = Text(g_mime_object_get_header(GMIME_OBJECT(message), "From"));
  return from.find("Saved by ") != std::string::npos && from.find('@') == std::string::npos;
}

// Writes messages, and collects the names of the parts that are not read.
class MessageReader {
 public:
  void Read(GMimeMessage* message, int nesting) {
    is_page_ = nesting == 0 && IsSavedPage(message);
    has_page_ = false;
    if (!is_page_) Headers(message);
    Part(g_mime_message_get_mime_part(message), nesting);
    writer_.Gap();
  }
  // A message of a mailbox is a page, whose heading is its subject.
  void ReadPage(GMimeMessage* message, uint64_t page) {
    writer_.BeginPage(page);
    writer_.Heading(1, SubjectOf(message));
    Read(message, 0);
  }
  api::Result<Extracted> Finish() {
    constexpr size_t kMostNamed = 20;
    const std::string unread_parts = IncompleteMessages();
    if (num_leaves_ == 0 && !unread_parts.empty()) {
      return api::Error{LECTERN_EMPTY_DOCUMENT,
                        "is " + unread_parts + ", which begins in part 1; " + kHowToJoin, "file"};
    }
    std::string note;
    if (!unread_parts.empty()) note = unread_parts + " is not read; " + kHowToJoin;
    if (!note.empty() && !attachments_.empty()) note += "; ";
    for (size_t i = 0; i < std::min(attachments_.size(), kMostNamed); ++i)
      note += (i > 0 ? ", " : "attachments are not read: ") + attachments_[i];
    if (attachments_.size() > kMostNamed)
      note += " and " + std::to_string(attachments_.size() - kMostNamed) + " more";
    return writer_.Finish(0, note);
  }

 private:
  void Headers(GMimeMessage* message) {
    writer_.Gap();
    for (const char* const name : {"From", "To", "Cc"}) Addresses(message, name);
    if (GDateTime* const date = g_mime_message_get_date(message)) {
      const OwnedText text(g_date_time_format(date, "%a, %d %b %Y %H:%M:%S %z"));
      Header("Date", Text(text.get()));
    } else {
      Header("Date", DecodedHeader(RawHeader(message, "Date", true)));
    }
    Header("Subject", SubjectOf(message));
    writer_.Gap();
  }
  void Header(const char* name, const std::string& value) {
    std::string line;
    AppendInline(value, line);
    if (!line.empty()) writer_.Line(std::string(name) + ": " + line);
  }
  // A header that is no list of addresses is written as it stands.
  void Addresses(GMimeMessage* message, const char* name) {
    const std::string raw = RawHeader(message, name, false);
    const Owned<InternetAddressList> list(internet_address_list_parse(nullptr, raw.c_str()));
    if (!list || internet_address_list_length(list.get()) == 0)
      return Header(name, DecodedHeader(raw));
    const OwnedText text(internet_address_list_to_string(list.get(), nullptr, FALSE));
    Header(name, WithoutControls(Text(text.get())));
  }

  void Part(GMimeObject* object, int nesting) {
    if (!object || nesting > kMostNesting) return;
    if (GMIME_IS_MULTIPART(object)) {
      Multipart(GMIME_MULTIPART(object), nesting);
    } else if (GMIME_IS_MESSAGE_PART(object)) {
      GMimeMessage* const message = g_mime_message_part_get_message(GMIME_MESSAGE_PART(object));
      if (message) Read(message, nesting + 1);
    } else if (GMIME_IS_PART(object)) {
      Leaf(GMIME_PART(object), nesting);
    }
  }

  // Parts that are alternatives of each other say the same: plain text is taken first, then HTML,
  // then a part of several, else the last, which should be the best one. Plain text that only says
  // where to see the HTML is none. A part with files is named.
  void Multipart(GMimeMultipart* multipart, int nesting) {
    const int count = g_mime_multipart_get_count(multipart);
    GMimeContentType* const type = g_mime_object_get_content_type(GMIME_OBJECT(multipart));
    if (!g_mime_content_type_is_type(type, "multipart", "alternative")) {
      for (int i = 0; i < count; ++i) Part(g_mime_multipart_get_part(multipart, i), nesting + 1);
      return;
    }
    GMimeObject* best = BestOf(multipart, count);
    for (int i = 0; i < count; ++i) {
      GMimeObject* const part = g_mime_multipart_get_part(multipart, i);
      GMimeObject* const html = HtmlOf(part, nesting);
      if (part == best || !html || !IsStub(best, html)) continue;
      best = part;
      break;
    }
    for (int i = 0; i < count; ++i) {
      GMimeObject* const part = g_mime_multipart_get_part(multipart, i);
      if (part != best && !IsCalendar(part)) NameFiles(part, nesting + 1);
    }
    Part(best, nesting + 1);
    // Only the calendar's form of an invitation may tell when and where.
    for (int i = 0; i < count; ++i) {
      GMimeObject* const part = g_mime_multipart_get_part(multipart, i);
      if (part != best && IsCalendar(part)) Part(part, nesting + 1);
    }
  }

  static bool IsCalendar(GMimeObject* part) {
    GMimeContentType* const type = g_mime_object_get_content_type(part);
    return GMIME_IS_PART(part) && (g_mime_content_type_is_type(type, "text", "calendar") ||
                                   g_mime_content_type_is_type(type, "application", "ics"));
  }

  static GMimeObject* BestOf(GMimeMultipart* multipart, int count) {
    for (const char* const subtype : {"plain", "html", static_cast<const char*>(nullptr)}) {
      for (int i = 0; i < count; ++i) {
        GMimeObject* const part = g_mime_multipart_get_part(multipart, i);
        GMimeContentType* const type = g_mime_object_get_content_type(part);
        const bool is_wanted = subtype ? GMIME_IS_TEXT_PART(part) &&
                                             g_mime_content_type_is_type(type, "text", subtype) &&
                                             HasText(part)
                                       : GMIME_IS_MULTIPART(part);
        if (is_wanted) return part;
      }
    }
    return count > 0 ? g_mime_multipart_get_part(multipart, count - 1) : nullptr;
  }

  // The HTML of a part, which may hold its images too; null: there is none.
  static GMimeObject* HtmlOf(GMimeObject* part, int nesting) {
    for (; nesting <= kMostNesting && GMIME_IS_MULTIPART(part) &&
           g_mime_multipart_get_count(GMIME_MULTIPART(part)) > 0;
         ++nesting) {
      part = g_mime_multipart_get_part(GMIME_MULTIPART(part), 0);
    }
    const bool is_html =
        GMIME_IS_TEXT_PART(part) &&
        g_mime_content_type_is_type(g_mime_object_get_content_type(part), "text", "html");
    return is_html ? part : nullptr;
  }

  // The different words of a text: runs of letters, digits and bytes outside of ASCII.
  static std::set<std::string> WordsIn(std::string_view text) {
    std::set<std::string> words;
    std::string word;
    for (const char c : text) {
      if (IsAsciiLetter(c) || IsAsciiDigit(c) || static_cast<uint8_t>(c) >= 0x80) {
        word += Lower(c);
      } else if (!word.empty()) {
        words.insert(std::exchange(word, ""));
      }
    }
    if (!word.empty()) words.insert(word);
    return words;
  }

  // Whether plain text lacks most of what the HTML beside it says: "Your program cannot show HTML",
  // as shops and newsletters send it.
  static bool IsStub(GMimeObject* plain, GMimeObject* html) {
    constexpr size_t kLongestStub = 2000;  // bytes; also so that few mails are read twice
    constexpr size_t kLeastMissing = 20;   // words; an advertisement of the program has fewer
    if (!plain || !GMIME_IS_TEXT_PART(plain) || plain == html) return false;
    const std::string text = Decoded(GMIME_TEXT_PART(plain));
    if (text.size() > kLongestStub) return false;
    auto read = ReadHtml(Decoded(GMIME_TEXT_PART(html)),
                         {.name = "its HTML", .encoding = "UTF-8", .keeps_all = true});
    if (!read.ok()) return false;
    const std::set<std::string> said = WordsIn(text), all = WordsIn(*read);
    const auto num_missing = static_cast<size_t>(
        std::ranges::count_if(all, [&](const std::string& word) { return !said.contains(word); }));
    return num_missing >= kLeastMissing && 2 * num_missing > all.size();
  }

  // Names the attached files of a part that is not read.
  void NameFiles(GMimeObject* object, int nesting) {
    if (GMIME_IS_PART(object) && g_mime_part_is_attachment(GMIME_PART(object)))
      attachments_.push_back(NameOf(GMIME_PART(object)));
    if (!GMIME_IS_MULTIPART(object) || nesting > kMostNesting) return;
    GMimeMultipart* const multipart = GMIME_MULTIPART(object);
    for (int i = 0; i < g_mime_multipart_get_count(multipart); ++i)
      NameFiles(g_mime_multipart_get_part(multipart, i), nesting + 1);
  }

  static bool HasText(GMimeObject* object) {
    const std::string text = Decoded(GMIME_TEXT_PART(object));
    return text.find_first_not_of(" \t\r\n") != std::string::npos;
  }

  static std::string NameOf(GMimePart* part) {
    const std::string name = Text(g_mime_part_get_filename(part));
    GMimeContentType* const type = g_mime_object_get_content_type(GMIME_OBJECT(part));
    const OwnedText kind(g_mime_content_type_get_mime_type(type));
    return CleanUtf8(name.empty() ? Text(kind.get()) : name).text;
  }

  // A signature says nothing to a reader; nor does the version of an encrypted message.
  static bool IsSignature(GMimeContentType* type) {
    constexpr const char* kSubtypes[] = {"pgp-signature", "pkcs7-signature", "x-pkcs7-signature",
                                         "pgp-encrypted"};
    return std::any_of(std::begin(kSubtypes), std::end(kSubtypes), [type](const char* subtype) {
      return g_mime_content_type_is_type(type, "application", subtype) != FALSE;
    });
  }

  // Attached texts are read too, behind their names, as mail programs show them.
  void Leaf(GMimePart* part, int nesting) {
    GMimeContentType* const type = g_mime_object_get_content_type(GMIME_OBJECT(part));
    if (GMIME_IS_MESSAGE_PARTIAL(part)) return PartOfMessage(GMIME_MESSAGE_PARTIAL(part), nesting);
    ++num_leaves_;
    if (g_mime_content_type_is_type(type, "message", "rfc822"))
      return Message(BytesOf(part), nesting);
    for (const char* const report : {"delivery-status", "disposition-notification"}) {
      if (g_mime_content_type_is_type(type, "message", report))
        return Plain(CleanUtf8(BytesOf(part)).text);
    }
    const auto is_text = [type](const char* kind) {
      return g_mime_content_type_is_type(type, "text", kind) != FALSE;
    };
    const bool is_contact = is_text("vcard") || is_text("x-vcard");
    const bool is_data = is_text("rtf") || is_text("css") || is_text("javascript");
    if (is_page_) {  // the first part of HTML, and none of its frames
      if (is_text("html") && !std::exchange(has_page_, true)) Page(part);
      return;
    }
    if (IsSignature(type)) return;
    if (is_contact || IsCalendar(GMIME_OBJECT(part))) return Entries(part, is_contact);
    if (!GMIME_IS_TEXT_PART(part) || is_data) return attachments_.push_back(NameOf(part));
    if (g_mime_part_is_attachment(part)) {
      // Some programs call any file a text.
      if (KindOfBinary(BytesOf(part))) return attachments_.push_back(NameOf(part));
      writer_.Gap();
      Header("Attachment", NameOf(part));
      writer_.Gap();
    }
    const std::string text = Decoded(GMIME_TEXT_PART(part));
    if (!is_text("html")) return Plain(IsFlowed(type) ? WithoutSoftBreaks(text, type) : text);
    auto read = ReadHtml(
        text, {.name = "its HTML", .encoding = "UTF-8", .keeps_all = true, .marks_headings = true});
    if (read.ok()) writer_.Verbatim(*read);
  }

  // The events of an invitation, which many programs send twice in a message, or addresses.
  void Entries(GMimePart* part, bool is_contact) {
    const std::string text =
        GMIME_IS_TEXT_PART(part) ? Decoded(GMIME_TEXT_PART(part)) : BytesOf(part);
    auto read = is_contact ? ReadContacts(text) : ReadCalendar(text);
    if (!read.ok()) return attachments_.push_back(NameOf(part));
    if (read->text == last_entries_) return;
    writer_.Verbatim(read->text);
    last_entries_ = std::move(read->text);
  }

  // One part of a message that a mail program sent in several mails (RFC 2046, 5.2.2). The message
  // is read when its last part has come, as in a mailbox.
  void PartOfMessage(GMimeMessagePartial* partial, int nesting) {
    auto& parts = partials_[Text(g_mime_message_partial_get_id(partial))];
    parts.emplace_back(GMIME_MESSAGE_PARTIAL(g_object_ref(partial)));
    std::vector<GMimeMessagePartial*> all;
    for (const auto& part : parts) all.push_back(part.get());
    std::ranges::sort(all, {}, g_mime_message_partial_get_number);
    int number = 0;
    for (GMimeMessagePartial* const part : all) {
      if (g_mime_message_partial_get_number(part) != ++number) return;
    }
    // Only the last part must say how many there are.
    if (number != g_mime_message_partial_get_total(all.back())) return;
    const Owned<GMimeMessage> message(
        g_mime_message_partial_reconstruct_message(all.data(), all.size()));
    parts.clear();
    if (message) Read(message.get(), nesting + 1);
  }

  // Reads the first parts of messages of which others are missing. Returns which part is not read:
  // "part 2 of 3 of a message that was sent in parts (message/partial)"; empty: none is missing.
  std::string IncompleteMessages() {
    std::string unread;
    for (const auto& [id, parts] : std::exchange(partials_, {})) {
      for (const auto& part : parts) {
        const int number = g_mime_message_partial_get_number(part.get());
        const int total = g_mime_message_partial_get_total(part.get());
        const std::string of_total = total > 0 ? " of " + std::to_string(total) : "";
        if (number == 1) {
          Message(BytesOf(GMIME_PART(part.get())), 1);
          unread = "what follows part 1" + of_total;
        } else if (unread.empty()) {
          unread = "part " + std::to_string(number) + of_total;
        }
      }
    }
    return unread.empty() ? "" : unread + " of a message that was sent in parts (message/partial)";
  }

  // A message that is attached in base64, which GMime takes for a file: RFC 2046 forbids it, and
  // mail programs do it.
  void Message(const std::string& bytes, int nesting) {
    const Owned<GMimeStream> stream(g_mime_stream_mem_new_with_buffer(bytes.data(), bytes.size()));
    const Owned<GMimeParser> parser(g_mime_parser_new_with_stream(stream.get()));
    const Owned<GMimeMessage> message(g_mime_parser_construct_message(parser.get(), nullptr));
    if (message) Read(message.get(), nesting + 1);
  }

  // The main content of a saved page.
  void Page(GMimePart* part) {
    auto read = ReadHtml(Decoded(GMIME_TEXT_PART(part)),
                         {.name = "its HTML", .encoding = "UTF-8", .marks_headings = true});
    if (read.ok()) writer_.Verbatim(*read);
  }

  void Plain(const std::string& text) {
    std::string lines;
    for (const char c : text) {
      const bool is_before = lines.empty() && c == '\n';
      if (c != '\r' && !is_before) lines += c;
    }
    writer_.Verbatim(lines);
  }

  // The content of a part, without its transfer encoding.
  static std::string BytesOf(GMimePart* part) {
    GMimeDataWrapper* const content = g_mime_part_get_content(part);
    if (!content) return "";
    const Owned<GMimeStream> raw(g_mime_stream_mem_new());
    g_mime_data_wrapper_write_to_stream(content, raw.get());
    const GByteArray* const array = g_mime_stream_mem_get_byte_array(GMIME_STREAM_MEM(raw.get()));
    return {reinterpret_cast<const char*>(array->data), array->len};
  }

  // The text of a part in UTF-8, by the character set that it declares. Without one, and where
  // nobody knows it, as of a file without a name.
  static std::string Decoded(GMimeTextPart* part) {
    const std::string bytes = BytesOf(GMIME_PART(part));
    const std::string charset = Text(g_mime_text_part_get_charset(part));
    std::string encoding = EncodingOfLabel(charset);
    if (encoding.empty() && !charset.empty()) encoding = EncodingOfIconv(charset);
    // Many mailers declare a character set and write UTF-8. Those of seven bits and those of two
    // bytes a character look like it too.
    constexpr std::string_view kAlike[] = {"2022", "UTF-7", "HZ", "UTF-16", "UTF-32", "UCS"};
    const bool looks_alike = std::any_of(
        std::begin(kAlike), std::end(kAlike),
        [&](std::string_view name) { return encoding.find(name) != std::string::npos; });
    if (!encoding.empty() && !looks_alike && IsValidUtf8(bytes)) return bytes;
    if (!encoding.empty() && encoding != "UTF-8") return ConvertToUtf8(bytes, encoding).text;
    GMimeContentType* const type = g_mime_object_get_content_type(GMIME_OBJECT(part));
    const bool is_html = g_mime_content_type_is_type(type, "text", "html");
    auto decoded = is_html ? DecodeHtml(bytes, {}) : DecodeText(bytes, "auto");
    return CleanUtf8(decoded.ok() ? decoded->text : bytes).text;
  }

  static constexpr char kHowToJoin[] =
      "join the parts in a mail program, and save the whole message";

  TextBuilder writer_;
  std::vector<std::string> attachments_;
  // Parts of messages by their id, until all of a message have come.
  std::map<std::string, std::vector<Owned<GMimeMessagePartial>>> partials_;
  std::string last_entries_;  // of a calendar or an address book
  uint64_t num_leaves_ = 0;   // of messages, beside parts of messages
  bool is_page_ = false, has_page_ = false;
};

}  // namespace

api::Result<Extracted> ReadMail(std::string_view bytes) {
  static const bool is_ready = (g_mime_init(), true);
  static_cast<void>(is_ready);
  // A message that was saved as UTF-16 or UTF-32: a header begins with a letter of ASCII.
  std::string decoded_bytes;
  if (bytes.substr(0, 4).find('\0') != std::string_view::npos) {
    if (auto decoded = DecodeText(std::string(bytes), "auto"); decoded.ok()) {
      decoded_bytes = std::move(decoded->text);
      bytes = decoded_bytes;
    }
  }
  const Owned<GMimeStream> stream(g_mime_stream_mem_new_with_buffer(bytes.data(), bytes.size()));
  const Owned<GMimeParser> parser(g_mime_parser_new_with_stream(stream.get()));
  const bool is_mailbox = bytes.starts_with("From ");
  if (is_mailbox) g_mime_parser_set_format(parser.get(), GMIME_FORMAT_MBOX);
  const bool has_pages = is_mailbox && (bytes.find("\n\nFrom ") != std::string_view::npos ||
                                        bytes.find("\r\n\r\nFrom ") != std::string_view::npos);
  MessageReader reader;
  uint64_t num_messages = 0;
  do {
    const Owned<GMimeMessage> message(g_mime_parser_construct_message(parser.get(), nullptr));
    if (!message) break;
    ++num_messages;
    has_pages ? reader.ReadPage(message.get(), num_messages) : reader.Read(message.get(), 0);
  } while (is_mailbox && !g_mime_parser_eos(parser.get()));
  if (num_messages == 0)
    return api::Error{LECTERN_INVALID_ARGUMENT, "is no mail: it has no headers", "file"};
  return reader.Finish();
}

}  // namespace lectern::tools
