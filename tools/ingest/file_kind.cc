#include "tools/ingest/file_kind.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "tools/ingest/compound_file.h"
#include "tools/ingest/encoding_guess.h"

namespace lectern::tools {
namespace {

using std::string_view_literals::operator""sv;

constexpr size_t kLookedAt = size_t{64} << 10;  // bytes at the start in which controls are counted

constexpr std::string_view kImage = "recognise its text first (apt install tesseract-ocr)";
constexpr std::string_view kSound = "transcribe it first, and index the transcript";
constexpr std::string_view kArchive = "unpack it, and index the files in it";
constexpr std::string_view kCompressed = "decompress it, and index the file in it";
constexpr std::string_view kProgram = "index its manual or its source";
constexpr std::string_view kData = "export what it holds as text or CSV";
constexpr std::string_view kModel = "--model takes a model; give a document to index";
constexpr std::string_view kFont = "give a document that is written in it";
constexpr std::string_view kDisk = "mount it, and index the files in it";
constexpr std::string_view kOffice = "save it as PDF, HTML or text";
constexpr std::string_view kTable = "save it as xlsx, ods or CSV";
constexpr std::string_view kUnknown = "convert it to text, HTML or PDF first";

struct Signature {
  size_t at;
  std::string_view bytes;
  FileKind kind;
};

// Formats that are written in ASCII.
constexpr Signature kTextual[] = {
    {0, "{\\rtf", {"an RTF document", kOffice}},
    {0, "%!PS-Adobe-", {"a PostScript document", "convert it to PDF (ps2pdf)"}},
    {0, "\x04%!PS-Adobe-", {"a PostScript document", "convert it to PDF (ps2pdf)"}}};

// Formats that have NULs or control characters, the longer signatures before those that they begin
// with. They are in the formats' specifications and in the lists of file(1).
constexpr Signature kSignatures[] = {
    // Images.
    {0, "\x89PNG\r\n\x1A\n"sv, {"a PNG image", kImage}},
    {0, "\xFF\xD8\xFF"sv, {"a JPEG image", kImage}},
    {0, "GIF87a"sv, {"a GIF image", kImage}},
    {0, "GIF89a"sv, {"a GIF image", kImage}},
    {0, "II*\0"sv, {"a TIFF image", kImage}},
    {0, "MM\0*"sv, {"a TIFF image", kImage}},
    {8, "WEBP"sv, {"a WebP image", kImage}},
    {0, "BM"sv, {"a BMP image", kImage}},
    {0, "\0\0\1\0"sv, {"a Windows icon", kImage}},
    {0, "\0\0\2\0"sv, {"a Windows cursor", kImage}},
    {0, "8BPS"sv, {"a Photoshop image", kImage}},
    {0, "gimp xcf"sv, {"a GIMP image", kImage}},
    {0, "\0\0\0\x0CjP  "sv, {"a JPEG 2000 image", kImage}},
    {0, "\xFF\x4F\xFF\x51"sv, {"a JPEG 2000 image", kImage}},
    {0, "\0\0\0\x0CJXL "sv, {"a JPEG XL image", kImage}},
    {0, "\xFF\x0A"sv, {"a JPEG XL image", kImage}},
    {4, "ftypavif"sv, {"an AVIF image", kImage}},
    {4, "ftyphei"sv, {"a HEIF image", kImage}},
    {4, "ftypmif1"sv, {"a HEIF image", kImage}},
    {0, "qoif"sv, {"a QOI image", kImage}},
    {0, "v/1\x01"sv, {"an OpenEXR image", kImage}},
    {0, "AT&TFORM"sv, {"a DjVu document", "convert it to PDF (ddjvu -format=pdf)"}},
    {128, "DICM"sv, {"a DICOM image", kImage}},
    // Sound and films.
    {8, "WAVE"sv, {"a WAV recording", kSound}},
    {8, "AVI "sv, {"an AVI film", kSound}},
    {0, "ID3"sv, {"an MP3 recording", kSound}},
    {0, "\xFF\xFB"sv, {"an MP3 recording", kSound}},
    {0, "\xFF\xF3"sv, {"an MP3 recording", kSound}},
    {0, "\xFF\xF1"sv, {"an AAC recording", kSound}},
    {0, "OggS"sv, {"an Ogg recording or film", kSound}},
    {0, "fLaC"sv, {"a FLAC recording", kSound}},
    {0, "MThd"sv, {"a MIDI file", kUnknown}},
    {8, "AIFF"sv, {"an AIFF recording", kSound}},
    {8, "AIFC"sv, {"an AIFF recording", kSound}},
    {0, ".snd"sv, {"an AU recording", kSound}},
    {0, "#!AMR"sv, {"an AMR recording", kSound}},
    {4, "ftypM4A"sv, {"an MPEG-4 recording", kSound}},
    {4, "ftyp"sv, {"an MPEG-4 film or recording", kSound}},
    {4, "moov"sv, {"a QuickTime film", kSound}},
    {4, "mdat"sv, {"a QuickTime film", kSound}},
    {0, "\x1A\x45\xDF\xA3"sv, {"a Matroska or WebM film", kSound}},
    {0, "\x30\x26\xB2\x75\x8E\x66\xCF\x11"sv, {"a Windows Media film or recording", kSound}},
    {0, "FLV\1"sv, {"a Flash film", kSound}},
    {0, "\0\0\1\xBA"sv, {"an MPEG film", kSound}},
    {0, "\0\0\1\xB3"sv, {"an MPEG film", kSound}},
    // Packages, archives and compressed files. Office files are zip archives, too: DetectFormat
    // takes those that it can read before this is asked.
    {30, "[Content_Types].xml"sv, {"an office file in a zip archive", kOffice}},
    {30, "mimetypeapplication/vnd."sv, {"an office file in a zip archive", kOffice}},
    {30, "mimetypeapplication/epub"sv, {"an EPUB book", kOffice}},
    {0, "PK\3\4"sv, {"a zip archive", kArchive}},
    {0, "PK\5\6"sv, {"an empty zip archive", kArchive}},
    {0, "PK\7\10"sv, {"a part of a zip archive", kArchive}},
    {0, "7z\xBC\xAF\x27\x1C"sv, {"a 7z archive", kArchive}},
    {0, "Rar!\x1A\7"sv, {"a RAR archive", kArchive}},
    {0, "MSCF\0\0\0\0"sv, {"a cabinet archive", kArchive}},
    {0, "xar!"sv, {"a xar archive", kArchive}},
    {0, "\xED\xAB\xEE\xDB"sv, {"an RPM package", kArchive}},
    {0, "!<arch>\ndebian-binary"sv, {"a Debian package", kArchive}},
    {0, "!<arch>\n"sv, {"a static library", kProgram}},
    {0, "!<thin>\n"sv, {"a static library", kProgram}},
    {0, "07070"sv, {"a cpio archive", kArchive}},
    {0, "\xC7\x71"sv, {"a cpio archive", kArchive}},
    {0, "ZIM\x04"sv, {"a ZIM archive", kArchive}},
    {0, "\x1F\x8B\x08"sv, {"a gzip file", kCompressed, true}},
    {0, "BZh"sv, {"a bzip2 file", kCompressed, true}},
    {0,
     "\xFD"
     "7zXZ\0"sv,
     {"an xz file", kCompressed, true}},
    {0, "\x5D\0\0"sv, {"an lzma file", kCompressed, true}},
    {0, "\x28\xB5\x2F\xFD"sv, {"a zstd file", kCompressed, true}},
    {0, "\x04\x22\x4D\x18"sv, {"an lz4 file", kCompressed, true}},
    {0, "LZIP"sv, {"an lzip file", kCompressed, true}},
    {0, "\x1F\x9D"sv, {"a file of compress", kCompressed, true}},
    // Programs.
    {0,
     "\x7F"
     "ELF"sv,
     {"a program or library (ELF)", kProgram}},
    {0, "MZ"sv, {"a program for Windows or DOS", kProgram}},
    {0, "\xFE\xED\xFA\xCE"sv, {"a program for macOS", kProgram}},
    {0, "\xFE\xED\xFA\xCF"sv, {"a program for macOS", kProgram}},
    {0, "\xCE\xFA\xED\xFE"sv, {"a program for macOS", kProgram}},
    {0, "\xCF\xFA\xED\xFE"sv, {"a program for macOS", kProgram}},
    {0, "\xCA\xFE\xBA\xBE"sv, {"a Java class or a program for macOS", kProgram}},
    {0, "\0asm"sv, {"a WebAssembly program", kProgram}},
    {0, "dex\n"sv, {"a program for Android", kProgram}},
    {0, "BC\xC0\xDE"sv, {"LLVM bitcode", kProgram}},
    {2, "\r\n\0\0\0\0"sv, {"compiled Python", kProgram}},
    // Databases and tables.
    {0, "SQLite format 3\0"sv, {"an SQLite database", kData}},
    {4, "Standard Jet DB"sv, {"an Access database", kData}},
    {4, "Standard ACE DB"sv, {"an Access database", kData}},
    {0, "PAR1"sv, {"a Parquet table", kData}},
    {0, "ARROW1"sv, {"an Arrow table", kData}},
    {0, "ORC"sv, {"an ORC table", kData}},
    {0, "Obj\1"sv, {"an Avro file", kData}},
    {0, "\x89HDF\r\n\x1A\n"sv, {"an HDF5 file", kData}},
    {0, "\x93NUMPY"sv, {"a NumPy array", kData}},
    {0, "MATLAB 5.0"sv, {"a MATLAB file", kData}},
    {0, "\x80\x04\x95"sv, {"a Python pickle", kData}},
    {0, "\xAC\xED\0\5"sv, {"a serialised Java object", kData}},
    {0, "bplist00"sv, {"a binary property list", kData}},
    {0, "\xDE\x12\x04\x95"sv, {"a message catalogue (gettext)", "msgunfmt prints its text"}},
    {12, "\x61\x15\x06\0"sv, {"a Berkeley database", kData}},
    {12, "\x62\x31\x05\0"sv, {"a Berkeley database", kData}},
    // Models.
    {0, "GGUF"sv, {"a GGUF model", kModel}},
    {3, "\0\0\0\0\0{\""sv, {"a safetensors model", kModel}},
    // Fonts.
    {0, "\0\1\0\0"sv, {"a TrueType font", kFont}},
    {0, "OTTO\0"sv, {"an OpenType font", kFont}},
    {0, "true\0"sv, {"a TrueType font", kFont}},
    {0, "ttcf\0"sv, {"a collection of fonts", kFont}},
    {0, "wOFF"sv, {"a WOFF font", kFont}},
    {0, "wOF2"sv, {"a WOFF2 font", kFont}},
    {6, "%!PS-AdobeFont"sv, {"a Type 1 font", kFont}},
    {6, "%!FontType1"sv, {"a Type 1 font", kFont}},
    {0, "\1fcp"sv, {"an X11 font", kFont}},
    // Disk images.
    {0x8001, "CD001"sv, {"an image of a CD or DVD", kDisk}},
    {0, "QFI\xFB"sv, {"a disk image (qcow)", kDisk}},
    {0, "KDMV"sv, {"a disk image (VMDK)", kDisk}},
    {0x40, "\x7F\x10\xDA\xBE"sv, {"a disk image (VDI)", kDisk}},
    {0, "conectix"sv, {"a disk image (VHD)", kDisk}},
    {0, "vhdxfile"sv, {"a disk image (VHDX)", kDisk}},
    {0, "hsqs"sv, {"a squashfs file system", kDisk}},
    {0, "MSWIM\0\0\0"sv, {"a disk image (WIM)", kDisk}},
    {0x438, "\x53\xEF"sv, {"an ext file system", kDisk}},
    {0x1FE, "\x55\xAA"sv, {"a disk image", kDisk}},
    // Documents that are not read.
    {0, "\x09\0\4\0"sv, {"an Excel worksheet of before 1993", kTable}},
    {0, "\x09\2\6\0"sv, {"an Excel worksheet of before 1993", kTable}},
    {0, "\x09\4\6\0"sv, {"an Excel worksheet of before 1993", kTable}},
    {0, "\xFFWPC"sv, {"a WordPerfect document", kOffice}},
    {60, "BOOKMOBI"sv, {"a Kindle book", "convert it to EPUB or PDF (calibre's ebook-convert)"}},
    {60, "TEXtREAd"sv, {"a Palm book", "convert it to text (calibre's ebook-convert)"}},
    {0, "ITSF"sv, {"Windows help (CHM)", "unpack it (7z), and index the HTML in it"}},
    {0, "\xF7\2"sv, {"a DVI document", "convert it to PDF (dvipdfmx)"}}};

// The kinds of compound files, by a stream or storage that each of them has.
struct OleKind {
  std::string_view entry;
  std::string_view format;  // a name of ParseFormat; empty: it is not read
  FileKind kind;
};
constexpr std::string_view kMessageEntry = "__properties_version1.0";
constexpr OleKind kOleKinds[] = {
    // Office programs put a docx, xlsx or pptx with a password into a stream of such a file.
    {"EncryptedPackage", "", {"an office file with a password", "save it without one"}},
    {"WordDocument", "doc", {"an old Word document (.doc)", "save it as docx, odt or PDF"}},
    {"Workbook", "xls", {"an old Excel workbook (.xls)", kTable}},
    {"Book", "xls", {"an old Excel workbook (.xls)", kTable}},
    {"PowerPoint Document",
     "ppt",
     {"an old PowerPoint file (.ppt)", "save it as pptx, odp or PDF"}},
    {"PP97_DUALSTORAGE", "ppt", {"an old PowerPoint file (.ppt)", "save it as pptx, odp or PDF"}},
    {"PP40", "", {"a PowerPoint file of before 1997", "save it as pptx, odp or PDF"}},
    {kMessageEntry, "msg", {"an Outlook message (.msg)", "save it as .eml or text"}}};
constexpr OleKind kOtherOle = {
    "", "", {"a file of an old office program", "save it as docx, odt or PDF"}};

// The class of the root entry of a compound file (MS-CFB, 2.6): which program the file is of.
// Empty: it is cut off before.
std::string_view RootClass(std::string_view bytes) {
  constexpr size_t kShift = 30, kDirectory = 48, kClass = 80, kClassBytes = 16;
  const uint64_t shift = Uint16At(bytes, kShift) == 12 ? 12 : 9;  // sectors of 4096 or 512 bytes
  const uint64_t at = ((uint64_t{Uint32At(bytes, kDirectory)} + 1) << shift) + kClass;
  return at + kClassBytes <= bytes.size() ? bytes.substr(at, kClassBytes) : std::string_view();
}
constexpr std::string_view kMessageClass = "\x0B\x0D\2\0\0\0\0\0\xC0\0\0\0\0\0\0F"sv;
// Word 97 to 2003, Word 6 and 95, and none, which other programs write.
constexpr std::string_view kWordClasses[] = {"\x06\x09\2\0\0\0\0\0\xC0\0\0\0\0\0\0F"sv,
                                             "\0\x09\2\0\0\0\0\0\xC0\0\0\0\0\0\0F"sv,
                                             "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"sv};

// The kind of a compound file whose directory cannot be read, by names anywhere in it (UTF-16) and
// by the class of its root: an embedded document has streams in the file, too.
OleKind KindOfDamagedOle(std::string_view bytes) {
  const std::string_view root = RootClass(bytes);
  for (const OleKind& kind : kOleKinds) {
    std::string wide;
    for (const char c : kind.entry) wide += {c, '\0'};
    const bool is_found = root == kMessageClass ? kind.entry == kMessageEntry
                                                : bytes.find(wide) != std::string_view::npos;
    if (!is_found) continue;
    const bool is_word = std::ranges::find(kWordClasses, root) != std::end(kWordClasses);
    return {kind.entry, kind.format == "doc" && !is_word ? "" : kind.format, kind.kind};
  }
  return kOtherOle;
}

OleKind KindOfOle(std::string_view bytes) {
  auto file = CompoundFile::Open(bytes);
  if (!file.ok()) return KindOfDamagedOle(bytes);
  for (const OleKind& kind : kOleKinds) {
    if (file->Find(CompoundFile::kRoot, kind.entry)) return kind;
  }
  return kOtherOle;
}

// Tells zip archives that are documents by the names of their parts.
std::optional<FileKind> KindOfZip(std::string_view bytes) {
  constexpr std::string_view kExport = "export it as docx, xlsx, pptx or PDF";
  constexpr std::pair<std::string_view, FileKind> kParts[] = {
      {"Index/Document.iwa"sv, {"a document of Apple's Pages, Numbers or Keynote", kExport}},
      {"Index/Presentation.iwa"sv, {"a document of Apple's Keynote", kExport}},
      {"QuickLook/Preview.pdf"sv, {"a document of Apple's iWork", kExport}},
      {"FixedDocSeq.fdseq"sv, {"an XPS document", "convert it to PDF (xpstopdf)"}},
      {"FixedDocumentSequence.fdseq"sv, {"an XPS document", "convert it to PDF (xpstopdf)"}}};
  for (const auto& [part, kind] : kParts) {
    if (bytes.find(part) != std::string_view::npos) return kind;
  }
  return std::nullopt;
}

// How many of the bytes are not text's. A run of NULs counts once: logs have holes of them.
struct ControlCounts {
  uint64_t nul_runs = 0, others = 0, kept = 0;
};

ControlCounts CountControls(std::string_view bytes) {
  ControlCounts counts;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const bool is_text =
        byte >= 0x20 ? byte != 0x7F : (byte >= '\b' && byte <= '\r') || byte == 0x1B;
    if (is_text) {
      ++counts.kept;
    } else if (byte != 0) {
      ++counts.others;
    } else if (i == 0 || bytes[i - 1] != '\0') {
      ++counts.nul_runs;
    }
  }
  return counts;
}

// Whether so many bytes are controls as in no text. Lists have NULs between their items. Of random
// bytes a tenth are controls, of text that is no UTF-8 less than one in two hundred.
bool IsBinaryData(std::string_view bytes, const ControlCounts& counts) {
  const Utf8Counts utf8 = CountUtf8(bytes);
  if (counts.others == 0 && utf8.is_valid()) return counts.nul_runs > counts.kept;
  const uint64_t controls = counts.nul_runs + counts.others;
  if (controls <= 2) return false;
  return controls * 10 > counts.kept || (!IsMostlyUtf8(utf8) && counts.others * 100 > counts.kept);
}

bool Matches(std::string_view bytes, const Signature& signature) {
  return bytes.size() >= signature.at && bytes.substr(signature.at).starts_with(signature.bytes);
}

// Whether the first line says that this is a part of PostScript programs, such as a character map:
// source code.
bool IsPostScriptResource(std::string_view bytes) {
  return bytes.substr(0, std::min(bytes.find_first_of("\r\n"), size_t{200})).find("Resource-") !=
         std::string_view::npos;
}

// Signatures of letters alone, such as "BM" and "ORC", also begin texts, of which few have a
// control character. Of the formats one byte in two hundred is a control at least.
bool IsEnough(const Signature& signature, const ControlCounts& counts) {
  const bool is_text = CountControls(signature.bytes).kept == signature.bytes.size() &&
                       CountUtf8(signature.bytes).is_valid();
  return !is_text || (counts.nul_runs + counts.others) * 200 > counts.kept;
}

}  // namespace

std::string_view OldOfficeFormat(std::string_view bytes) {
  if (CompoundFile::IsOne(bytes)) return KindOfOle(bytes).format;
  // Excel 5 and later write their records into a file of their own, too, where they are told to.
  constexpr std::string_view kRecords[] = {"\x09\x08\x08\0\0\5"sv, "\x09\x08\x10\0\0\6"sv};
  const bool is_workbook = std::ranges::any_of(
      kRecords, [bytes](std::string_view begin) { return bytes.starts_with(begin); });
  return is_workbook ? "xls" : "";
}

bool IsTarArchive(std::string_view bytes) {
  constexpr size_t kHeader = 512, kChecksum = 148, kDigits = 8;
  if (bytes.size() < kHeader || bytes[0] == '\0') return false;
  uint32_t sum = 0, said = 0;
  for (size_t i = 0; i < kHeader; ++i) {
    const bool is_checksum = i >= kChecksum && i < kChecksum + kDigits;
    sum += is_checksum ? ' ' : static_cast<uint8_t>(bytes[i]);
    if (is_checksum && bytes[i] >= '0' && bytes[i] <= '7') {
      said = said * 8 + static_cast<uint32_t>(bytes[i] - '0');
    }
  }
  return sum == said;
}

std::optional<FileKind> KindOfBinary(std::string_view bytes) {
  for (const Signature& signature : kTextual) {
    if (Matches(bytes, signature) && !IsPostScriptResource(bytes)) return signature.kind;
  }
  const std::string_view start = bytes.substr(0, kLookedAt);
  const ControlCounts counts = CountControls(start);
  if (counts.nul_runs + counts.others == 0) return std::nullopt;
  for (const std::string_view mark : {"\xFF\xFE"sv, "\xFE\xFF"sv, "\0\0\xFE\xFF"sv}) {
    if (start.starts_with(mark)) return std::nullopt;
  }
  if (!WideEncoding(start).empty()) return std::nullopt;
  if (CompoundFile::IsOne(start)) return KindOfOle(bytes).kind;
  if (start.starts_with("PK\3\4")) {
    if (const auto kind = KindOfZip(bytes)) return kind;
  }
  if (IsTarArchive(start)) return FileKind{"a tar archive", kArchive};
  const auto* const found =
      std::find_if(std::begin(kSignatures), std::end(kSignatures), [&](const Signature& signature) {
        return Matches(start, signature) && IsEnough(signature, counts);
      });
  if (found != std::end(kSignatures)) return found->kind;
  // Korean in ISO-2022-KR has two control characters around each run of its letters.
  const bool is_korean = start.find(kKoreanEscape) != start.npos && CountUtf8(start).is_valid();
  if (!is_korean && IsBinaryData(start, counts)) return FileKind{"binary data", kUnknown};
  return std::nullopt;
}

}  // namespace lectern::tools
