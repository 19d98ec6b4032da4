// Compressed files are read as the file in them.
#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tools/ingest/extract/unpack.h"
#include "tools/ingest/extracted.h"

namespace lectern::tools {
namespace {

// The bytes as a file of one of libarchive's filters.
std::string Compressed(int filter, const std::string& bytes) {
  std::string file(bytes.size() * 2 + (1 << 16), '\0');
  size_t used = 0;
  archive* const writer = archive_write_new();
  archive_write_set_format_raw(writer);
  EXPECT_EQ(archive_write_add_filter(writer, filter), ARCHIVE_OK);
  archive_write_set_bytes_in_last_block(writer, 1);
  EXPECT_EQ(archive_write_open_memory(writer, file.data(), file.size(), &used), ARCHIVE_OK);
  archive_entry* const entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  EXPECT_EQ(archive_write_header(writer, entry), ARCHIVE_OK);
  EXPECT_EQ(archive_write_data(writer, bytes.data(), bytes.size()),
            static_cast<la_ssize_t>(bytes.size()));
  archive_entry_free(entry);
  archive_write_free(writer);
  file.resize(used);
  return file;
}

// A text of 40 KB that no method makes so small that it has no control characters.
std::string LongText() {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += "The lamp of year " + std::to_string(i * 7919 % 1000) + " was lit.\n";
  return text;
}

constexpr std::array kFilters = {ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_BZIP2,   ARCHIVE_FILTER_XZ,
                                 ARCHIVE_FILTER_LZMA, ARCHIVE_FILTER_LZIP,    ARCHIVE_FILTER_ZSTD,
                                 ARCHIVE_FILTER_LZ4,  ARCHIVE_FILTER_COMPRESS};

// The error of a file that cannot be unpacked, or what came out of it.
std::string ErrorOf(const std::string& file) {
  auto unpacked = ReadUnpacked(file, {.name = "\"a.gz\"", .program = LECTERN_EXTRACT});
  return unpacked.ok() ? "read: " + *unpacked : unpacked.error().message;
}

TEST(UnpackTest, EveryMethodGivesTheFileInside) {
  const std::string text = LongText(), shorter = "The lighthouse opened in 1887.\n";
  for (const int filter : kFilters) {
    for (const std::string& whole : {text, shorter}) {
      const std::string file = Compressed(filter, whole);
      auto unpacked = Unpack(file);
      ASSERT_TRUE(unpacked.ok()) << filter << unpacked.error().message;
      EXPECT_EQ(*unpacked, whole) << filter;
      auto read = ReadUnpacked(file, {.program = LECTERN_EXTRACT});
      ASSERT_TRUE(read.ok()) << filter << read.error().message;
      EXPECT_EQ(*read, whole) << filter;
    }
    // A file that is cut off gives an error, not its first half.
    const std::string file = Compressed(filter, text);
    if (filter != ARCHIVE_FILTER_COMPRESS && filter != ARCHIVE_FILTER_LZ4) {  // have no end mark
      EXPECT_NE(ErrorOf(file.substr(0, file.size() / 2)).find("is damaged"), std::string::npos)
          << filter << ErrorOf(file.substr(0, file.size() / 2));
    }
  }
}

TEST(UnpackTest, AnEmptyFileIsOne) {
  // The output of gzip for no bytes; libarchive's writers cannot.
  const std::string file("\x1F\x8B\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0", 20);
  auto unpacked = Unpack(file);
  ASSERT_TRUE(unpacked.ok()) << unpacked.error().message;
  EXPECT_EQ(*unpacked, "");
}

TEST(UnpackTest, ArchivesAndBombsAreRefused) {
  std::string tar(1 << 16, '\0');
  size_t used = 0;
  archive* const writer = archive_write_new();
  archive_write_set_format_ustar(writer);
  archive_write_add_filter_gzip(writer);
  ASSERT_EQ(archive_write_open_memory(writer, tar.data(), tar.size(), &used), ARCHIVE_OK);
  archive_entry* const entry = archive_entry_new();
  archive_entry_set_pathname(entry, "a.txt");
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_entry_set_size(entry, 5);
  archive_write_header(writer, entry);
  archive_write_data(writer, "text\n", 5);
  archive_entry_free(entry);
  archive_write_free(writer);
  tar.resize(used);
  EXPECT_EQ(ErrorOf(tar),
            "\"a.gz\" holds a tar archive and not text: unpack it, and index the files in "
            "it");
  // 200 MB of spaces in 200 KB.
  EXPECT_NE(ErrorOf(Compressed(ARCHIVE_FILTER_GZIP, std::string(200'000'000, ' ')))
                .find("decompresses to more than 128 MiB"),
            std::string::npos);
  EXPECT_NE(ErrorOf("\x1F\x8B\x08" + std::string(40, '\2')).find("is damaged"), std::string::npos);
}

}  // namespace
}  // namespace lectern::tools
