// Mails (.eml), mailboxes (.mbox) and web pages that browsers saved as mails (.mhtml): RFC 5322,
// RFC 4155, RFC 2557 and MIME, by GMime, which decodes headers and parts.
#include <gmime/gmime.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/ingest/charset_conversion.h"
#include "tools/ingest/extract/readers.h"
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
    writer_.Heading(1, Text(g_mime_message_get_subject(message)));
    Read(message, 0);
  }
  Extracted Finish() {
    constexpr size_t kMostNamed = 20;
    std::string note;
    for (size_t i = 0; i < std::min(attachments_.size(), kMostNamed); ++i)
      note += (i > 0 ? ", " : "attachments are not read: ") + attachments_[i];
    if (attachments_.size() > kMostNamed)
      note += " and " + std::to_string(attachments_.size() - kMostNamed) + " more";
    return writer_.Finish(0, note);
  }

 private:
  void Headers(GMimeMessage* message) {
    writer_.Gap();
    Addresses("From", g_mime_message_get_from(message));
    Addresses("To", g_mime_message_get_to(message));
    Addresses("Cc", g_mime_message_get_cc(message));
    if (GDateTime* const date = g_mime_message_get_date(message)) {
      const OwnedText text(g_date_time_format(date, "%a, %d %b %Y %H:%M:%S %z"));
      Header("Date", Text(text.get()));
    }
    Header("Subject", Text(g_mime_message_get_subject(message)));
    writer_.Gap();
  }
  void Header(const char* name, const std::string& value) {
    std::string line;
    AppendInline(value, line);
    if (!line.empty()) writer_.Line(std::string(name) + ": " + line);
  }
  void Addresses(const char* name, InternetAddressList* list) {
    if (!list || internet_address_list_length(list) == 0) return;
    const OwnedText text(internet_address_list_to_string(list, nullptr, FALSE));
    Header(name, Text(text.get()));
  }

  void Part(GMimeObject* object, int nesting) {
    if (!object || nesting > kMostNesting) return;
    if (GMIME_IS_MULTIPART(object)) {
      Multipart(GMIME_MULTIPART(object), nesting);
    } else if (GMIME_IS_MESSAGE_PART(object)) {
      GMimeMessage* const message = g_mime_message_part_get_message(GMIME_MESSAGE_PART(object));
      if (message) Read(message, nesting + 1);
    } else if (GMIME_IS_PART(object)) {
      Leaf(GMIME_PART(object));
    }
  }

  // Parts that are alternatives of each other say the same: plain text is taken first, then HTML,
  // then a part of several, else the last, which should be the best one. A part with files is
  // named.
  void Multipart(GMimeMultipart* multipart, int nesting) {
    const int count = g_mime_multipart_get_count(multipart);
    GMimeContentType* const type = g_mime_object_get_content_type(GMIME_OBJECT(multipart));
    if (!g_mime_content_type_is_type(type, "multipart", "alternative")) {
      for (int i = 0; i < count; ++i) Part(g_mime_multipart_get_part(multipart, i), nesting + 1);
      return;
    }
    GMimeObject* const best = BestOf(multipart, count);
    for (int i = 0; i < count; ++i) {
      GMimeObject* const part = g_mime_multipart_get_part(multipart, i);
      if (part != best) NameFiles(part, nesting + 1);
    }
    Part(best, nesting + 1);
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
  void Leaf(GMimePart* part) {
    GMimeContentType* const type = g_mime_object_get_content_type(GMIME_OBJECT(part));
    const auto is_text = [type](const char* kind) {
      return g_mime_content_type_is_type(type, "text", kind) != FALSE;
    };
    const bool is_data = is_text("calendar") || is_text("vcard") || is_text("x-vcard") ||
                         is_text("rtf") || is_text("css") || is_text("javascript");
    if (is_page_) {  // the first part of HTML, and none of its frames
      if (is_text("html") && !std::exchange(has_page_, true)) Page(part);
      return;
    }
    if (IsSignature(type)) return;
    if (!GMIME_IS_TEXT_PART(part) || is_data) return attachments_.push_back(NameOf(part));
    if (g_mime_part_is_attachment(part)) {
      writer_.Gap();
      Header("Attachment", NameOf(part));
      writer_.Gap();
    }
    const std::string text = Decoded(GMIME_TEXT_PART(part));
    if (!is_text("html")) return Plain(text);
    auto read = ReadHtml(
        text, {.name = "its HTML", .encoding = "UTF-8", .keeps_all = true, .marks_headings = true});
    if (read.ok()) writer_.Verbatim(*read);
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

  // The text of a part in UTF-8, by the character set that it declares. Without one, and where
  // nobody knows it, as of a file without a name.
  static std::string Decoded(GMimeTextPart* part) {
    GMimeDataWrapper* const content = g_mime_part_get_content(GMIME_PART(part));
    if (!content) return "";
    const Owned<GMimeStream> raw(g_mime_stream_mem_new());
    g_mime_data_wrapper_write_to_stream(content, raw.get());
    const GByteArray* const array = g_mime_stream_mem_get_byte_array(GMIME_STREAM_MEM(raw.get()));
    const std::string bytes(reinterpret_cast<const char*>(array->data), array->len);
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

  TextBuilder writer_;
  std::vector<std::string> attachments_;
  bool is_page_ = false, has_page_ = false;
};

}  // namespace

api::Result<Extracted> ReadMail(std::string_view bytes) {
  static const bool is_ready = (g_mime_init(), true);
  static_cast<void>(is_ready);
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
