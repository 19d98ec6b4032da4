// Writes zip files for tests, with libarchive. Header only.
#ifndef LECTERN_TESTS_TOOLS_ZIP_WRITER_H_
#define LECTERN_TESTS_TOOLS_ZIP_WRITER_H_

#include <archive.h>
#include <archive_entry.h>

#include <string>
#include <utility>
#include <vector>

namespace lectern::tools {

// A zip file with these entries: names and contents.
inline std::string WriteZip(const std::vector<std::pair<std::string, std::string>>& entries) {
  size_t room = 4096;
  for (const auto& [name, content] : entries) room += 512 + 2 * name.size() + content.size() * 2;
  std::string bytes(room, '\0');
  size_t used = 0;
  archive* const zip = archive_write_new();
  archive_write_set_format_zip(zip);
  archive_write_open_memory(zip, bytes.data(), bytes.size(), &used);
  for (const auto& [name, content] : entries) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_write_header(zip, entry);
    archive_write_data(zip, content.data(), content.size());
    archive_entry_free(entry);
  }
  archive_write_close(zip);
  archive_write_free(zip);
  bytes.resize(used);
  return bytes;
}

}  // namespace lectern::tools

#endif  // LECTERN_TESTS_TOOLS_ZIP_WRITER_H_
