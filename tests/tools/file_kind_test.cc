// Files that are no text are known by name, and text is never taken for them. tools_test.py has
// files that other programs wrote.
#include "tools/ingest/file_kind.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tools/ingest/ingest.h"

namespace lectern::tools {
namespace {

using std::string_literals::operator""s;

std::string Kind(std::string_view bytes) {
  const auto kind = KindOfBinary(bytes);
  return kind ? std::string(kind->name) : "text";
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// First bytes as the formats' specifications have them, with some of what follows.
TEST(FileKindTest, FormatsAreKnownByTheirFirstBytes) {
  const std::pair<std::string, const char*> cases[] = {
      {"\x89PNG\r\n\x1A\n\0\0\0\rIHDR"s, "a PNG image"},
      {"\xFF\xD8\xFF\xE0\0\x10JFIF\0"s, "a JPEG image"},
      {"GIF89a\1\0\1\0\x80\0\0"s, "a GIF image"},
      {"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0"s, "a WAV recording"},
      {"RIFF\x24\0\0\0WEBPVP8 \0"s, "a WebP image"},
      {"ID3\3\0\0\0\0\0\x21TIT2"s, "an MP3 recording"},
      {"\0\0\0\x20"
       "ftypisom\0\0\2\0isomiso2"s,
       "an MPEG-4 film or recording"},
      {"OggS\0\2\0\0\0\0\0\0\0\0"s, "an Ogg recording or film"},
      {"PK\3\4\x14\0\0\0\x08\0"s, "a zip archive"},
      {"PK\3\4\x14\0\0\0\x08\0… Index/Document.iwa"s,
       "a document of Apple's Pages, Numbers or Keynote"},
      {"PK\3\4\x14\0\0\0\x08\0… FixedDocSeq.fdseq"s, "an XPS document"},
      {"PK\3\4\x14\0\6\0\x08\0\0\0!\0\0\0\0\0\0\0\0\0\0\0\0\0\x13\0\0\0[Content_Types].xml"s,
       "an office file in a zip archive"},
      {"\x1F\x8B\x08\0\0\0\0\0\0\3"s, "a gzip file"},
      {"\xFD"
       "7zXZ\0\0\4\xE6\xD6"s,
       "an xz file"},
      {"\x28\xB5\x2F\xFD\x04\0"s, "a zstd file"},
      {"7z\xBC\xAF\x27\x1C\0\4"s, "a 7z archive"},
      {"Rar!\x1A\7\1\0"s, "a RAR archive"},
      {"MZ\x90\0\3\0\0\0\4\0\0\0\xFF\xFF"s, "a program for Windows or DOS"},
      {"\xCA\xFE\xBA\xBE\0\0\0\x34"s, "a Java class or a program for macOS"},
      {"SQLite format 3\0\x10\0\1\1"s, "an SQLite database"},
      {"GGUF\3\0\0\0\x23\1\0\0\0\0\0\0"s, "a GGUF model"},
      {"\x58\0\0\0\0\0\0\0{\"weight\":{\"dtype\":\"F32\"}}"s, "a safetensors model"},
      {"\0\1\0\0\0\x0F\0\x80\0\3\0\x70"
       "FFTM"s,
       "a TrueType font"},
      {"wOF2\0\1\0\0\0\0\x10"s, "a WOFF2 font"},
      {"QFI\xFB\0\0\0\3"s, "a disk image (qcow)"},
      {"{\\rtf1\\ansi Hello}", "an RTF document"},
      {"%!PS-Adobe-3.0\n%%Pages: 1\n", "a PostScript document"},
      {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1" + std::string(600, '\0') +
           "W\0o\0r\0d\0D\0o\0c\0u\0m\0e\0n\0t\0"s,
       "an old Word document (.doc)"},
      {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1" + std::string(600, '\0') +
           "E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e\0"s,
       "an office file with a password"},
      // A message with a document attached: the class of the root, in the first sector, tells.
      {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1" + std::string(504 + 80, '\0') +
           "\x0B\x0D\2\0\0\0\0\0\xC0\0\0\0\0\0\0F"s + "W\0o\0r\0d\0D\0o\0c\0u\0m\0e\0n\0t\0"s,
       "an Outlook message (.msg)"},
  };
  for (const auto& [bytes, name] : cases) EXPECT_EQ(Kind(bytes), name);
  std::string disc(0x8801, '\0');
  disc.replace(0x8001, 5, "CD001");
  EXPECT_EQ(Kind(disc), "an image of a CD or DVD");
  EXPECT_EQ(Kind(ReadFile("/proc/self/exe")), "a program or library (ELF)");
}

TEST(FileKindTest, RandomBytesAreBinaryData) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    std::string bytes(1000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    bytes[0] = 'x';
    EXPECT_EQ(Kind(bytes), "binary data") << seed;
  }
  std::string integers;  // little-endian numbers
  for (int i = 0; i < 500; ++i) integers += std::string(1, static_cast<char>(i)) + "\x10\0\0"s;
  EXPECT_EQ(Kind(integers), "binary data");
}

TEST(FileKindTest, TextThatBeginsLikeAFormatIsText) {
  for (const char* begin :
       {"BM", "MZ", "PK", "ID3", "GIF89a", "ORC", "PAR1", "GGUF", "true", "BZh", "OTTO", "07070",
        "Rar!", "RIFF", "LZIP", ".snd", "MThd", "8BPS", "qoif"}) {
    std::string text = std::string(begin) + " is how this text begins.\n";
    EXPECT_EQ(Kind(text), "text") << text;
    for (int i = 0; i < 10; ++i) text += "And so it goes on, line after line.\n";
    EXPECT_EQ(Kind(text + "\a"), "text") << text;  // with one control character
  }
  EXPECT_EQ(Kind("%!PS-Adobe-3.0 Resource-CMap\n/CIDInit\n"), "text");
}

TEST(FileKindTest, TextWithControlsIsText) {
  EXPECT_EQ(Kind("N\bNA\bAM\bME\bE\n\x1B[1mbold\x1B[m\n\f\v"), "text");  // man, terminals, pages
  EXPECT_EQ(Kind("a\0b\0c\0"s), "text");                                 // find -print0
  EXPECT_EQ(Kind("PATH=/bin\0HOME=/root\0"s), "text");
  EXPECT_EQ(Kind("log line\n" + std::string(4096, '\0') + "log line\n"), "text");
  EXPECT_EQ(Kind("old DOS text\r\n\x1A"), "text");
  EXPECT_EQ(Kind("H\0i\0"s), "text");  // UTF-16
  EXPECT_EQ(Kind(""), "text");
}

TEST(FileKindTest, LicencesAndThisProjectsSourcesAreText) {
  uint64_t texts = 0;
  for (const char* folder :
       {"/usr/share/common-licenses", LECTERN_SOURCE_DIR "/engine",
        LECTERN_SOURCE_DIR "/tests/tools", LECTERN_SOURCE_DIR "/tools/ingest"}) {
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file() || entry.path().extension() == ".pyc") continue;
      if (entry.path().parent_path().filename() == "extract_files") continue;  // office files
      ++texts;
      EXPECT_EQ(Kind(ReadFile(entry.path())), "text") << entry.path();
    }
  }
  EXPECT_GT(texts, 100u);
}

TEST(FileKindTest, IngestRefusesByNameUnlessTheFormatIsNamed) {
  const std::string png = "\x89PNG\r\n\x1A\n\0\0\0\rIHDR"s;
  for (const char* name : {"photo.png", "photo.txt", "photo.md", "photo.html"}) {
    auto refused = Ingest(png, {.file_name = name});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, LECTERN_INVALID_ARGUMENT);
    EXPECT_EQ(refused.error().param, "file");
    EXPECT_NE(
        refused.error().message.find('"' + std::string(name) + "\" is a PNG image and not text"),
        std::string::npos);
    EXPECT_NE(refused.error().message.find("tesseract"), std::string::npos);
  }
  EXPECT_TRUE(Ingest(png, {.format = "text", .file_name = "photo.png"}).ok());
}

}  // namespace
}  // namespace lectern::tools
