// Mails (.eml): RFC 5322 and MIME, by GMime, which decodes headers and character sets.
#include <gmime/gmime.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/html.h"

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

// The parts of one message that are read, and the names of the others.
class MessageReader {
 public:
  void Read(GMimeMessage* message, int nesting) {
    Headers(message);
    Part(g_mime_message_get_mime_part(message), nesting);
    writer_.Gap();
  }
  Extracted Finish() {
    std::string note;
    if (!attachments_.empty()) {
      note = "attachments are not read: ";
      for (size_t i = 0; i < attachments_.size(); ++i)
        note += (i > 0 ? ", " : "") + attachments_[i];
    }
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

  // Parts that are alternatives of each other say the same: plain text is taken first, then HTML.
  void Multipart(GMimeMultipart* multipart, int nesting) {
    const int count = g_mime_multipart_get_count(multipart);
    const GMimeContentType* const type = g_mime_object_get_content_type(GMIME_OBJECT(multipart));
    if (!g_mime_content_type_is_type(const_cast<GMimeContentType*>(type), "multipart",
                                     "alternative")) {
      for (int i = 0; i < count; ++i) Part(g_mime_multipart_get_part(multipart, i), nesting + 1);
      return;
    }
    GMimeObject* best = nullptr;
    constexpr const char* kSubtypes[] = {"plain", "html", nullptr};
    for (const char* const subtype : kSubtypes) {
      for (int i = 0; i < count && !best; ++i) {
        GMimeObject* const part = g_mime_multipart_get_part(multipart, i);
        GMimeContentType* const of_part = g_mime_object_get_content_type(part);
        const bool is_wanted = subtype ? g_mime_content_type_is_type(of_part, "text", subtype)
                                       : GMIME_IS_MULTIPART(part);
        if (is_wanted && (!subtype || HasText(part))) best = part;
      }
    }
    Part(best, nesting + 1);
  }

  static bool HasText(GMimeObject* object) {
    const std::string text = Decoded(GMIME_TEXT_PART(object));
    return text.find_first_not_of(" \t\r\n") != std::string::npos;
  }

  void Leaf(GMimePart* part) {
    GMimeContentType* const type = g_mime_object_get_content_type(GMIME_OBJECT(part));
    const std::string name = Text(g_mime_part_get_filename(part));
    if (!GMIME_IS_TEXT_PART(part) || g_mime_part_is_attachment(part)) {
      const OwnedText kind(g_mime_content_type_get_mime_type(type));
      attachments_.push_back(CleanUtf8(name.empty() ? Text(kind.get()) : name).text);
      return;
    }
    const std::string text = Decoded(GMIME_TEXT_PART(part));
    if (!g_mime_content_type_is_type(type, "text", "html")) return Plain(text);
    auto read = ReadHtml(text, {.name = "its HTML", .keeps_all = true, .marks_headings = true});
    if (read.ok()) writer_.Verbatim(*read);
  }

  void Plain(const std::string& text) {
    std::string lines;
    for (const char c : text) {
      if (c != '\r') lines += c;
    }
    writer_.Verbatim(lines);
  }

  // The text of a part in UTF-8, by the character set that it declares, else windows-1252.
  static std::string Decoded(GMimeTextPart* part) {
    GMimeDataWrapper* const content = g_mime_part_get_content(GMIME_PART(part));
    if (!content) return "";
    const Owned<GMimeStream> raw(g_mime_stream_mem_new());
    g_mime_data_wrapper_write_to_stream(content, raw.get());
    const GByteArray* const array = g_mime_stream_mem_get_byte_array(GMIME_STREAM_MEM(raw.get()));
    const std::string bytes(reinterpret_cast<const char*>(array->data), array->len);
    const std::string charset = Text(g_mime_text_part_get_charset(part));
    if (IsValidUtf8(bytes) && charset.find("2022") == std::string::npos &&
        charset.find("tf-7") == std::string::npos && charset.find("TF-7") == std::string::npos)
      return bytes;
    for (const std::string& from : {charset, std::string("windows-1252")}) {
      if (from.empty()) continue;
      const char* const known = g_mime_charset_iconv_name(from.c_str());
      gsize size = 0;
      const OwnedText converted(g_convert_with_fallback(bytes.data(),
                                                        static_cast<gssize>(bytes.size()), "UTF-8",
                                                        known, "?", nullptr, &size, nullptr));
      if (converted) return std::string(converted.get(), size);
    }
    return CleanUtf8(bytes).text;
  }

  TextBuilder writer_;
  std::vector<std::string> attachments_;
};

}  // namespace

api::Result<Extracted> ReadMail(std::string_view bytes) {
  static const bool is_ready = (g_mime_init(), true);
  static_cast<void>(is_ready);
  // "From " lines of a mailbox stand before the headers.
  if (bytes.starts_with("From "))
    bytes.remove_prefix(std::min(bytes.find('\n'), bytes.size() - 1) + 1);
  const Owned<GMimeStream> stream(g_mime_stream_mem_new_with_buffer(bytes.data(), bytes.size()));
  const Owned<GMimeParser> parser(g_mime_parser_new_with_stream(stream.get()));
  const Owned<GMimeMessage> message(g_mime_parser_construct_message(parser.get(), nullptr));
  if (!message)
    return api::Error{LECTERN_INVALID_ARGUMENT, "is no mail: it has no headers", "file"};
  MessageReader reader;
  reader.Read(message.get(), 0);
  return reader.Finish();
}

}  // namespace lectern::tools
