#include "tools/ingest/extract/zip_parts.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

struct FreeArchive {
  void operator()(archive* handle) const { archive_read_free(handle); }
};
using Archive = std::unique_ptr<archive, FreeArchive>;

// The form in which names are compared: small letters, "/" between folders and not at the start.
std::string Key(std::string_view name) {
  while (name.starts_with("./") || name.starts_with('/')) name.remove_prefix(1);
  std::string key(name);
  for (char& c : key) c = c == '\\' ? '/' : Lower(c);
  return key;
}

bool HoldsText(std::string_view key) {
  // Names without an ending: "mimetype", and chapters of some books.
  const std::string_view name = key.substr(key.rfind('/') + 1);
  if (name.find('.') == std::string_view::npos) return !name.empty();
  for (const std::string_view ending :
       {".xml", ".rels", ".opf", ".ncx", ".xhtml", ".html", ".htm", ".xht", ".html5", ".shtml"}) {
    if (key.ends_with(ending)) return true;
  }
  // Documents that a Word document takes in; embedded objects are files of their own.
  for (const std::string_view ending : {".docx", ".mht", ".mhtml", ".txt"}) {
    if (key.ends_with(ending) && key.find("embeddings/") == key.npos) return true;
  }
  return false;
}

api::Error Fail(lectern_code code, const std::string& message) { return {code, message, "file"}; }

// Appends the entry's bytes to `part`, at most `most` of them. Empty: done; else the error.
std::string ReadEntry(archive* handle, uint64_t most, std::string& part, bool& is_too_large) {
  char buffer[1 << 16];
  for (;;) {
    const la_ssize_t count = archive_read_data(handle, buffer, sizeof buffer);
    if (count == 0) return "";
    if (count == ARCHIVE_RETRY) continue;
    if (count < 0 && archive_errno(handle) == ENOMEM) throw std::bad_alloc();
    if (count < 0 && count != ARCHIVE_WARN) {
      const char* const said = archive_error_string(handle);
      return said ? said : "unreadable";
    }
    if (count < 0) continue;
    if (part.size() + static_cast<size_t>(count) > most) {
      is_too_large = true;
      return "";
    }
    part.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace

api::Result<ZipParts> ZipParts::Unpack(std::string_view zip, const ZipLimits& limits) {
  const Archive handle(archive_read_new());
  if (!handle) throw std::bad_alloc();
  archive_read_support_format_zip(handle.get());
  archive_read_set_option(handle.get(), "zip", "hdrcharset", "UTF-8");
  if (archive_read_open_memory(handle.get(), zip.data(), zip.size()) != ARCHIVE_OK)
    return Fail(LECTERN_INVALID_ARGUMENT, "is damaged: it is no zip file");
  ZipParts parts;
  uint64_t num_entries = 0, num_bytes = 0;
  for (archive_entry* entry = nullptr;;) {
    const int status = archive_read_next_header(handle.get(), &entry);
    if (status == ARCHIVE_EOF) break;
    if (status == ARCHIVE_RETRY) continue;
    if (status < ARCHIVE_WARN) {
      if (num_entries > 0 && parts.parts_.size() > 1) break;  // its end is cut off
      return Fail(LECTERN_INVALID_ARGUMENT, "is damaged: its zip directory cannot be read");
    }
    if (++num_entries > limits.most_entries)
      return Fail(LECTERN_LIMIT_EXCEEDED, "has too many parts for an office file or a book");
    const char* name = archive_entry_pathname_utf8(entry);
    if (!name) name = archive_entry_pathname(entry);
    const std::string key = Key(name ? name : "");
    if (!HoldsText(key) || parts.parts_.contains(key)) continue;
    if (archive_entry_is_data_encrypted(entry) > 0)
      return Fail(LECTERN_INVALID_ARGUMENT, "asks for a password; save it without one");
    std::string part;
    bool is_too_large = false;
    const std::string error =
        ReadEntry(handle.get(), limits.most_bytes - num_bytes, part, is_too_large);
    if (is_too_large)
      return Fail(LECTERN_LIMIT_EXCEEDED, "unpacks to more than " +
                                              std::to_string(limits.most_bytes >> 20) +
                                              " MiB; split it, or give its text");
    if (!error.empty())
      return Fail(LECTERN_INVALID_ARGUMENT,
                  "is damaged: its part " + key + " cannot be unpacked (" + error + ")");
    num_bytes += part.size();
    parts.parts_.emplace(key, std::move(part));
  }
  return parts;
}

bool ZipParts::IsCutOff(std::string_view zip) {
  // The record of 22 bytes, and a comment of up to 65,535 behind it.
  constexpr size_t kRecord = 22, kComment = 65535;
  const size_t begin = zip.size() - std::min(zip.size(), kRecord + kComment);
  return zip.find("PK\5\6", begin) == std::string_view::npos;
}

ZipParts ZipParts::Single(std::string name, std::string_view bytes) {
  ZipParts parts;
  parts.parts_.emplace(std::move(name), bytes);
  return parts;
}

const std::string* ZipParts::Find(std::string_view name) const {
  const auto found = parts_.find(Key(name));
  return found == parts_.end() ? nullptr : &found->second;
}

void ZipParts::Drop(std::string_view name) { parts_.erase(Key(name)); }

std::string ResolvePart(std::string_view base, std::string_view reference) {
  const auto hex = [](char c) {
    return c >= '0' && c <= '9'                 ? c - '0'
           : Lower(c) >= 'a' && Lower(c) <= 'f' ? Lower(c) - 'a' + 10
                                                : -1;
  };
  std::string decoded;
  reference = reference.substr(0, reference.find('#'));
  for (size_t i = 0; i < reference.size(); ++i) {
    const bool is_escape = reference[i] == '%' && i + 2 < reference.size() &&
                           hex(reference[i + 1]) >= 0 && hex(reference[i + 2]) >= 0;
    decoded += is_escape ? static_cast<char>(hex(reference[i + 1]) * 16 + hex(reference[i + 2]))
                         : reference[i];
    if (is_escape) i += 2;
  }
  // Windows' separator, as some programs write it.
  std::ranges::replace(decoded, '\\', '/');
  std::string path = decoded.starts_with('/')
                         ? decoded
                         : std::string(base.substr(0, base.rfind('/') + 1)) + decoded;
  std::vector<std::string_view> folders;
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view folder = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    if (folder == ".." && !folders.empty()) folders.pop_back();
    if (!folder.empty() && folder != "." && folder != "..") folders.push_back(folder);
  }
  std::string resolved;
  for (const std::string_view folder : folders) {
    if (!resolved.empty()) resolved += '/';
    resolved += folder;
  }
  return resolved;
}

}  // namespace lectern::tools
