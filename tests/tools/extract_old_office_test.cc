// Files of Microsoft's programs before 2007, which the tests write record by record, and the file
// system that holds them. Expected texts are what LibreOffice shows, in the form of html.h.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/tools/compound_writer.h"
#include "tools/ingest/compound_file.h"
#include "tools/ingest/extract/compressed_rtf.h"
#include "tools/ingest/extract/extract.h"
#include "tools/ingest/file_kind.h"
#include "tools/ingest/ingest.h"

namespace lectern::tools {
namespace {

using std::string_literals::operator""s;

using Streams = std::vector<std::pair<std::string, std::string>>;

std::string OldFile(const char* name) {
  std::ifstream file(LECTERN_SOURCE_DIR "/tests/tools/extract_files/" + std::string(name),
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The text, or "refused: " and why.
Extracted ReadOld(std::string_view format, std::string_view bytes) {
  auto extracted = Extract(format, bytes);
  if (extracted.ok()) return *extracted;
  Extracted refused;
  refused.text = "refused: " + extracted.error().message;
  return refused;
}

// --- Compound files ------------------------------------------------------------------------------

TEST(CompoundFileTest, StreamsOfAllSizesAreRead) {
  Streams streams;
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{64}, size_t{4095}, size_t{4096}, size_t{100'000}}) {
    std::string content(size, '\0');
    for (size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * i >> 3);
    streams.emplace_back("S" + std::to_string(size), content);
    streams.emplace_back("Folder/Inner/S" + std::to_string(size), content + "x");
  }
  const std::string bytes = CompoundWriter::Write(streams);
  auto file = CompoundFile::Open(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  for (const auto& [path, content] : streams) {
    uint32_t at = CompoundFile::kRoot;
    std::string_view rest = path;
    for (size_t slash; (slash = rest.find('/')) != rest.npos; rest.remove_prefix(slash + 1)) {
      const auto storage = file->Find(at, rest.substr(0, slash));
      ASSERT_TRUE(storage && file->entry(*storage).is_storage) << path;
      at = *storage;
    }
    const auto stream = file->Find(at, rest);
    ASSERT_TRUE(stream) << path;
    auto read = file->Read(*stream);
    ASSERT_TRUE(read.ok()) << path;
    EXPECT_EQ(*read, content) << path;
  }
  EXPECT_FALSE(file->is_cut_off());
  EXPECT_TRUE(file->Find(CompoundFile::kRoot, "s4096"));
  EXPECT_FALSE(file->Find(CompoundFile::kRoot, "S2"));
}

// The FAT is the last sector of such a small file, and the directory the one before.
TEST(CompoundFileTest, CirclesAreRefused) {
  const std::string sound = CompoundWriter::Write({{"A", std::string(5000, 'a')}});
  const auto refusal = [](const std::string& bytes) -> std::string {
    auto file = CompoundFile::Open(bytes);
    if (!file.ok()) return file.error().message;
    auto read = file->Read(*file->Find(CompoundFile::kRoot, "A"));
    return read.ok() ? "" : read.error().message;
  };
  EXPECT_EQ(refusal(sound), "");
  const size_t table = sound.size() - 512, directory = table - 512;
  std::string circle = sound;
  circle.replace(table + 4 * 4, 4, Little(2, 4));  // behind its fifth sector the third again
  EXPECT_EQ(refusal(circle), "is damaged: a stream in it (OLE) goes round in a circle");
  std::string tree = sound;
  tree.replace(directory + 128 + 72, 4, Little(1, 4));  // behind the entry the same entry
  EXPECT_EQ(refusal(tree), "is damaged: its directory (OLE) is missing, or goes round in a circle");
  std::string root = sound;
  root.replace(directory + 128 + 68, 4, Little(0, 4));  // before it the root
  EXPECT_EQ(refusal(root), refusal(tree));
  std::string chain = sound;
  chain.replace(table + 4 * 10, 4, Little(10, 4));  // the directory's only sector
  EXPECT_EQ(refusal(chain), refusal(tree));
}

TEST(CompoundFileTest, StreamsThatShareTheirBytesAreRefused) {
  Streams streams = {{"A", std::string(5000, 'a')}};
  for (int i = 0; i < 9; ++i) streams.emplace_back("B" + std::to_string(i), "");
  std::string bytes = CompoundWriter::Write(streams);
  const size_t entry = bytes.find(Wide("A") + std::string(2, '\0'));
  const std::string place = bytes.substr(entry + 116, 8);
  for (int i = 1; i < 10; ++i) bytes.replace(entry + 128 * static_cast<size_t>(i) + 116, 8, place);
  auto file = CompoundFile::Open(bytes);
  ASSERT_TRUE(file.ok());
  size_t num_read = 0;
  for (const uint32_t stream : file->entry(CompoundFile::kRoot).children)
    num_read += file->Read(stream).ok();
  EXPECT_GT(num_read, 1u);
  EXPECT_LT(num_read, 10u);
}

TEST(CompoundFileTest, EveryBeginningOfAFileIsReadOrRefused) {
  const std::string bytes = OldFile("stock.xls"), whole = ReadOld("xls", bytes).text;
  for (size_t size = 0; size < bytes.size(); size += 7) {
    const Extracted read = ReadOld("xls", bytes.substr(0, size));
    EXPECT_NE(read.text, "");
    const bool is_refused = read.text.starts_with("refused: ");
    const bool is_told = read.note.find("the file is cut off") != std::string::npos;
    EXPECT_TRUE(is_refused || is_told || read.text == whole) << size;  // streams follow the sheets
  }
  std::string longer = bytes;
  const size_t entry = longer.find(Wide("Workbook") + std::string(2, '\0'));
  longer.replace(entry + 120, 4, Little(4095, 4));
  EXPECT_EQ(ReadOld("xls", longer).text, whole);
  EXPECT_NE(ReadOld("xls", longer).note.find("the file is cut off"), std::string::npos);
}

TEST(CompoundFileTest, TheKindIsThatOfTheRootsStreams) {
  const std::string embedded = "Object/WordDocument";
  EXPECT_EQ(OldOfficeFormat(CompoundWriter::Write({{"Workbook", "x"}, {embedded, "x"}})), "xls");
  EXPECT_EQ(OldOfficeFormat(CompoundWriter::Write({{"BOOK", "x"}, {embedded, "x"}})), "xls");
  EXPECT_EQ(OldOfficeFormat(CompoundWriter::Write({{"PowerPoint Document", "x"}, {"PP40", "x"}})),
            "ppt");
  EXPECT_EQ(OldOfficeFormat(CompoundWriter::Write({{"PP40", "x"}})), "");
  EXPECT_EQ(OldOfficeFormat(CompoundWriter::Write({{"WordDocument", "x"}})), "doc");
  EXPECT_EQ(
      OldOfficeFormat(CompoundWriter::Write({{"__properties_version1.0", "x"}, {embedded, "x"}})),
      "msg");
  EXPECT_EQ(OldOfficeFormat(CompoundWriter::Write({{"Contents", "x"}, {embedded, "x"}})), "");
  const std::string secret = CompoundWriter::Write({{"EncryptedPackage", "x"}, {"Book", "x"}});
  EXPECT_EQ(OldOfficeFormat(secret), "");
  EXPECT_EQ(KindOfBinary(secret)->name, "an office file with a password");
  EXPECT_EQ(DetectFormat(OldFile("stock.xls"), "letter.txt"), Format::kXls);
  EXPECT_EQ(DetectFormat(OldFile("libreoffice.doc"), "a.xls"), Format::kDoc);
}

// --- Excel ---------------------------------------------------------------------------------------

std::string Record(uint16_t id, const std::string& data) {
  return Little(id, 2) + Little(data.size(), 2) + data;
}
std::string Begin(uint16_t version, uint16_t kind) {
  return Record(0x809, Little(version, 2) + Little(kind, 2) + std::string(12, '\0'));
}
std::string Place(int row, int column, int style = 0) {
  return Little(static_cast<uint64_t>(row), 2) + Little(static_cast<uint64_t>(column), 2) +
         Little(static_cast<uint64_t>(style), 2);
}
// A string of BIFF8 in single bytes, without its length.
std::string Narrow(const std::string& text) { return '\0' + text; }
std::string Label(int row, int column, const std::string& text) {
  return Record(0x204, Place(row, column) + Little(text.size(), 2) + Narrow(text));
}
std::string Number(int row, int column, double number, int style = 0) {
  return Record(0x203, Place(row, column, style) + Little(std::bit_cast<uint64_t>(number), 8));
}

struct TestSheet {
  std::string name, records;
  int state = 0, kind = 0;
};

// A workbook of BIFF8 or BIFF5 with these records before the sheets.
std::string Workbook(const std::vector<TestSheet>& sheets, const std::string& records = "",
                     uint16_t version = 0x600) {
  const bool is_biff8 = version == 0x600;
  std::string globals, body;
  for (int round = 0; round < 2; ++round) {  // the second one knows where the sheets begin
    const size_t begin = globals.size() + 4;
    globals = Begin(version, 5) + records;
    body.clear();
    for (const TestSheet& sheet : sheets) {
      globals += Record(
          0x85, Little(begin + body.size(), 4) + Little(static_cast<uint64_t>(sheet.state), 1) +
                    Little(static_cast<uint64_t>(sheet.kind), 1) + Little(sheet.name.size(), 1) +
                    (is_biff8 ? Narrow(sheet.name) : sheet.name));
      body += Begin(version, 0x10) + sheet.records + Record(0x0A, "");
    }
  }
  return globals + Record(0x0A, "") + body;
}

Extracted ReadWorkbook(const std::string& workbook) {
  return ReadOld("xls", CompoundWriter::Write({{"Workbook", workbook}}));
}
Extracted ReadSheet(const std::string& records, const std::string& globals = "") {
  return ReadWorkbook(Workbook({{"S", records}}, globals));
}

TEST(OldExcelTest, TheTextIsThatOfTheSameWorkbookAsXlsx) {
  const Extracted old = ReadOld("xls", OldFile("stock.xls"));
  const Extracted now = ReadOld("xlsx", OldFile("stock.xlsx"));
  EXPECT_EQ(old.text, now.text);
  EXPECT_EQ(old.note, now.note);
  ASSERT_EQ(old.pages.size(), now.pages.size());
  EXPECT_EQ(old.num_pages, now.num_pages);
  for (size_t i = 0; i < old.pages.size(); ++i)
    EXPECT_EQ(old.pages[i].text_begin, now.pages[i].text_begin);
}

TEST(OldExcelTest, AllKindsOfCellsAreRead) {
  const std::string formats = Record(0x41E, Little(164, 2) + Little(10, 2) + Narrow("yyyy-mm-dd")) +
                              Record(0xE0, Little(0, 2) + Little(0, 2)) +
                              Record(0xE0, Little(0, 2) + Little(164, 2)) +
                              Record(0xE0, Little(0, 2) + Little(10, 2));
  const std::string rk = Little(uint64_t{7} << 2 | 2, 4);                       // 7
  const std::string hundredth = Little(uint64_t{12345} << 2 | 3, 4);            // 123.45
  const std::string negative = Little((uint64_t{0xFFFFFFFF} - 4) << 2 | 2, 4);  // -5
  const std::string real = Little(std::bit_cast<uint64_t>(0.5) >> 32, 4);
  const auto formula = [](int row, int column, const std::string& result) {
    return Record(6, Place(row, column) + result + std::string(8, '\0'));
  };
  const auto other = [](int kind, int value) {
    return Little(static_cast<uint64_t>(kind), 2) + Little(static_cast<uint64_t>(value), 4) +
           "\xFF\xFF";
  };
  EXPECT_EQ(
      ReadSheet(
          Number(0, 0, 45429, 1) + Number(0, 1, 0.125, 2) + Record(0x27E, Place(0, 2) + hundredth) +
              Record(0xBD, Little(0, 2) + Little(3, 2) + Little(0, 2) + rk + Little(0, 2) +
                               negative + Little(2, 2) + real + Little(5, 2)) +
              Record(0x205, Place(1, 0) + "\1" + '\0') + Record(0x205, Place(1, 1) + "\x2A\1") +
              Record(0xD6, Place(1, 2) + Little(4, 2) + Narrow("rich")) +
              formula(1, 3, Little(std::bit_cast<uint64_t>(2.5), 8)) + formula(1, 4, other(0, 0)) +
              Record(0x4BC, "shared") + Record(0x207, Little(4, 2) + Narrow("text")) +
              formula(1, 5, other(1, 0)) + formula(1, 6, other(2, 7)) + formula(1, 7, other(3, 0)) +
              Number(1, 8, 1e300),
          formats)
          .text,
      "# S\n\n2024-05-17 | 12.50% | 123.45 | 7 | -5 | 50.00%\n"
      "TRUE | #N/A | rich | 2.5 | text | FALSE | #DIV/0! | 1e+300\n");
}

// Excel breaks the list of strings into records wherever 8 KiB are full, also within a character's
// formats, and says for each piece how wide its characters are.
TEST(OldExcelTest, StringsGoOnInFurtherRecords) {
  const std::string first = Little(4, 4) + Little(4, 4) + Little(5, 2) + Narrow("ab");
  const std::string second =
      '\1' + Wide("cde") + Little(3, 2) + "\x08" + Little(2, 2) + "xyz" + std::string(3, 'f');
  const std::string third = std::string(5, 'f') + Little(2, 2) + "\x05" + Little(4, 4) +
                            Little(0xE4, 2) + Little(0x416, 2) + "aids" + Little(9000, 2) +
                            Narrow("cut off");
  const std::string globals = Record(0xFC, first) + Record(0x3C, second) + Record(0x3C, third);
  std::string cells;
  for (int i = 0; i < 5; ++i) cells += Record(0xFD, Place(0, i) + Little(i, 4));
  EXPECT_EQ(ReadSheet(cells, globals).text, "# S\n\nabcde | xyz | äЖ | cut off\n");
}

TEST(OldExcelTest, HiddenPartsMergedCellsAndCommentsAreAsInXlsx) {
  const std::string merged =
      Record(0xE5, Little(1, 2) + Little(1, 2) + Little(2, 2) + Little(0, 2) + Little(0, 2));
  const auto row = [](int at, int options) {
    return Record(0x208, Place(at, 0) + std::string(6, '\0') +
                             Little(static_cast<uint64_t>(options), 2) + Little(0, 2));
  };
  const auto column = [](int at, int options) {
    return Record(0x7D, Little(static_cast<uint64_t>(at), 2) +
                            Little(static_cast<uint64_t>(at), 2) + Little(0, 4) +
                            Little(static_cast<uint64_t>(options), 2) + Little(0, 2));
  };
  const std::string cells = Label(0, 0, "Region") + Label(0, 1, "City") + Label(0, 2, "People") +
                            Label(1, 0, "North") + Label(1, 1, "Osk") + Number(1, 2, 7) +
                            Label(2, 1, "Lund") + Number(2, 2, 8) + Label(3, 1, "Secret") +
                            Number(3, 2, 9) + Label(1, 3, "secret");
  const std::string note = Record(0x1C, Little(1, 2) + Little(1, 2) + std::string(8, '\0'));
  const Extracted read =
      ReadWorkbook(Workbook({{"Shown", row(3, 0x20) + column(3, 1) + cells + note + merged},
                             {"Chart", Label(0, 0, "no"), 0, 2},
                             {"Away", Label(0, 0, "no"), 1},
                             {"Module", Label(0, 0, "no"), 0, 6},
                             {"Group", row(0, 0x21) + Label(0, 0, "in a closed group")}}));
  EXPECT_EQ(read.text,
            "# Shown\n\nRegion | City | People\nRegion: North | City: Osk | People: 7\n"
            "Region: North | City: Lund | People: 8\n\n# Group\n\nin a closed group\n");
  EXPECT_EQ(read.note,
            "hidden sheets are left out: Away; 1 hidden row and 1 hidden column are left out; 1 "
            "comment is left out");
  EXPECT_EQ(read.num_pages, 4u);
  ASSERT_EQ(read.pages.size(), 2u);
  EXPECT_EQ(read.pages[1].page, 4u);
  // A filter hides rows for a while alone.
  EXPECT_EQ(ReadSheet(row(0, 0x20) + Label(0, 0, "filtered") + Record(0x9E, "")).text,
            "# S\n\nfiltered\n");
}

TEST(OldExcelTest, TextBoxesAreReadAndChartsAndCommentsAreNot) {
  const auto object = [](int kind, const std::string& text) {
    return Record(0x5D, Little(0x15, 2) + Little(0x12, 2) + Little(static_cast<uint64_t>(kind), 2) +
                            std::string(16, '\0')) +
           Record(0x1B6, std::string(10, '\0') + Little(text.size(), 2) + Little(16, 2) +
                             std::string(4, '\0')) +
           Record(0x3C, Narrow(text)) + Record(0x3C, std::string(16, '\0'));
  };
  const std::string chart = Begin(0x600, 0x20) + Label(0, 0, "no") + Record(0x0A, "");
  EXPECT_EQ(ReadSheet(object(6, "A box\nof two lines") + object(0x19, "no") + object(7, "no") +
                      chart + Label(0, 0, "cell"))
                .text,
            "# S\n\ncell\n\nA box\nof two lines\n");
}

TEST(OldExcelTest, BytesOfExcel5AreInTheCodePage) {
  const auto label = [](const std::string& text) {
    return Record(0x204, Place(0, 0) + Little(text.size(), 2) + text);
  };
  const auto read = [&](const std::string& globals, const std::string& text) {
    return ReadOld("xls", CompoundWriter::Write(
                              {{"Book", Workbook({{"S\xE9", label(text)}}, globals, 0x500)}}))
        .text;
  };
  EXPECT_EQ(read("", "\x80 5"), "# Sé\n\n€ 5\n");
  EXPECT_EQ(read(Record(0x42, Little(1251, 2)), "\xCC\xE8\xF0"), "# Sй\n\nМир\n");
  const std::string japanese = read(Record(0x42, Little(932, 2)), "\x93\x8C");
  EXPECT_TRUE(japanese.ends_with("\n\n東\n")) << japanese;
  EXPECT_EQ(read(Record(0x42, Little(32768, 2)), "\x8A"), "# SÈ\n\nä\n");
  // The stream alone, as some programs write it.
  const std::string alone = Workbook({{"S", label("alone")}}, "", 0x500);
  EXPECT_EQ(ReadOld("xls", alone).text, "# S\n\nalone\n");
}

TEST(OldExcelTest, PasswordsAndDamageAreNamed) {
  EXPECT_EQ(
      ReadSheet(Label(0, 0, "a"), Record(0x2F, Little(1, 2))).text,
      "refused: asks for a password, or is protected in Excel, which encrypts it too; save it "
      "without the password or the protection");
  EXPECT_EQ(ReadWorkbook("no records").text,
            "refused: is damaged, or of an older Excel than 5: save it as xlsx, ods or CSV");
  EXPECT_EQ(ReadOld("xls", CompoundWriter::Write({{"A", "x"}})).text,
            "refused: has no workbook in it");
  std::string workbook = Workbook({{"One", Label(0, 0, "first")}, {"Two", Label(0, 0, "second")}});
  const size_t at = workbook.rfind(Begin(0x600, 0x10));
  workbook.replace(at, 2, "xx");
  const Extracted read = ReadWorkbook(workbook);
  EXPECT_EQ(read.text, "# One\n\nfirst\n");
  EXPECT_EQ(read.note, "sheets are damaged and left out: Two");
  // Sheets that all begin at the same place are not read for ever.
  const std::vector<TestSheet> sheets(50, {"Same", Label(0, 0, std::string(2000, 'a'))});
  std::string same = Workbook(sheets);
  const std::string head = Little(0x85, 2) + Little(4 + 2 + 1 + 1 + 4, 2);
  const std::string place = same.substr(same.find(head) + 4, 4);
  for (size_t next = same.find(head); next != same.npos; next = same.find(head, next + 1))
    same.replace(next + 4, 4, place);
  EXPECT_EQ(ReadWorkbook(same).note, "");
  same.resize(same.size() / 5);
  EXPECT_TRUE(ReadWorkbook(same).note.starts_with("sheets are damaged and left out: Same, Same"));
}

// --- Outlook -------------------------------------------------------------------------------------

std::string PropertyName(const std::string& storage, uint16_t id, uint16_t type) {
  char name[40];
  std::snprintf(name, sizeof name, "__substg1.0_%04X%04X", unsigned{id}, unsigned{type});
  return storage + name;
}

// A message, a receiver or an attachment as it grows, in a storage ("" or "…/").
class TestMessage {
 public:
  explicit TestMessage(std::string storage, size_t head = 32)
      : storage_(std::move(storage)), list_(head, '\0') {}
  TestMessage& Number(uint16_t id, uint64_t value) {
    list_ += Little(3, 2) + Little(id, 2) + Little(0, 4) + Little(value, 8);
    return *this;
  }
  TestMessage& Text(uint16_t id, const std::string& ascii) { return Bytes(id, 0x1F, Wide(ascii)); }
  TestMessage& Bytes(uint16_t id, uint16_t type, const std::string& bytes) {
    streams_.emplace_back(PropertyName(storage_, id, type), bytes);
    return *this;
  }
  void AddTo(Streams& streams) const {
    streams.emplace_back(storage_ + "__properties_version1.0", list_);
    streams.insert(streams.end(), streams_.begin(), streams_.end());
  }

 private:
  std::string storage_, list_;
  Streams streams_;
};

Extracted ReadMessage(const std::vector<TestMessage>& objects) {
  Streams streams;
  for (const TestMessage& object : objects) object.AddTo(streams);
  return ReadOld("msg", CompoundWriter::Write(streams));
}

constexpr uint64_t kNoonOf2024 = 133'485'840'000'000'000;  // 2024-01-01 12:00 UTC

TEST(OutlookTest, APlainMessageIsReadAsMail) {
  const auto receiver = [](int at, int kind, const std::string& name, const std::string& address) {
    return TestMessage("__recip_version1.0_#0000000" + std::to_string(at) + "/", 8)
        .Number(0x0C15, static_cast<uint64_t>(kind))
        .Text(0x3001, name)
        .Text(0x3003, "/o=Lund/cn=x")
        .Text(0x39FE, address);
  };
  const Extracted read = ReadMessage({TestMessage("")
                                          .Number(0x0039, kNoonOf2024)
                                          .Text(0x0037, "Rent\r\nof May")
                                          .Text(0x0042, "Brok, Ada")
                                          .Text(0x0065, "ada@example.org")
                                          .Text(0x1000, "First line\r\nSecond line\r\n")
                                          .Bytes(0x1013, 0x102, "<p>First line</p>"),
                                      receiver(0, 1, "Bo Lund", "bo@example.org"),
                                      receiver(1, 2, "Cy \"C\" Osk", "cy@example.org"),
                                      receiver(2, 1, "di@example.org", "di@example.org"),
                                      receiver(3, 3, "Secret", "secret@example.org")});
  EXPECT_EQ(read.text,
            "From: \"Brok, Ada\" <ada@example.org>\n"
            "To: Bo Lund <bo@example.org>, di@example.org\n"
            "Cc: Cy \"C\" Osk <cy@example.org>\n"
            "Date: Mon, 01 Jan 2024 12:00:00 +0000\nSubject: Rent of May\n\n"
            "First line\nSecond line\n");
  EXPECT_EQ(read.note, "");
}

TEST(OutlookTest, HeadersThatWereSentComeFirst) {
  EXPECT_EQ(ReadMessage({TestMessage("")
                             .Number(0x0039, kNoonOf2024)
                             .Text(0x0037, "Another")
                             .Text(0x0E04, "Bo Lund; Cy Osk")
                             .Text(0x007D,
                                   "Received: by x\r\nfrom: =?utf-8?q?Ad=C3=A1?=\r\n"
                                   " <ada@example.org>\r\n"
                                   "Date: Mon, 1 Jan 2024 13:00:00 +0100\r\nTo-Do: no\r\n\r\n"
                                   "Subject: of the body\r\n")
                             .Text(0x1000, "Hello")})
                .text,
            "From: Adá <ada@example.org>\nTo: Bo Lund, Cy Osk\n"
            "Date: Mon, 01 Jan 2024 13:00:00 +0100\nSubject: Another\n\nHello\n");
}

TEST(OutlookTest, TextsAreInUnicodeOrInTheCodePage) {
  const auto subject = [](uint16_t id, uint64_t page, const std::string& bytes) {
    return ReadMessage({TestMessage("").Number(id, page).Bytes(0x0037, 0x1E, bytes)}).text;
  };
  EXPECT_EQ(subject(0x3FFD, 1251, "\xCC\xE8\xF0"), "Subject: Мир\n");
  EXPECT_EQ(subject(0x3FDE, 950, "\xA4\xA4"), "Subject: 中\n");
  EXPECT_EQ(subject(0x3FDE, 65001, "\xC3\xA4"), "Subject: ä\n");
  EXPECT_EQ(subject(0x3FDE, 65001,
                    "f\xFC"
                    "r gro\xDF"
                    "e M\xE4"
                    "dchen"),
            "Subject: für große Mädchen\n");
  EXPECT_EQ(subject(0x3FDE, 0, "\x80"), "Subject: €\n");
  const auto html = [](uint64_t page, const std::string& bytes) {
    return ReadMessage({TestMessage("").Number(0x3FDE, page).Bytes(0x1013, 0x102, bytes)}).text;
  };
  EXPECT_EQ(html(1251, "<h1>\xCC\xE8\xF0</h1><p>x"), "# Мир\n\nx\n");
  EXPECT_EQ(html(0, "<meta charset=windows-1251><p>\xCC\xE8\xF0"), "Мир\n");
}

TEST(OutlookTest, AttachedTextsAndMessagesAreReadAndOthersNamed) {
  const auto attached = [](int at) {
    return "__attach_version1.0_#0000000" + std::to_string(at) + "/";
  };
  const std::string inner = attached(3) + "__substg1.0_3701000D/";
  const Extracted read = ReadMessage(
      {TestMessage("").Text(0x0037, "Outer").Text(0x1000, "See below"),
       TestMessage(attached(0), 8).Text(0x3707, "list [1].txt").Bytes(0x3701, 0x102, "one\ntwo\n"),
       TestMessage(attached(1), 8).Text(0x3704, "SCAN.PDF").Bytes(0x3701, 0x102, "%PDF-1.4 \1\2"),
       TestMessage(attached(2), 8)
           .Text(0x3707, "day.ics")
           .Text(0x370E, "text/calendar")
           .Bytes(0x3701, 0x102,
                  "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Visit\nDTSTART:20240301T081500\n"
                  "END:VEVENT\nEND:VCALENDAR\n"),
       TestMessage(attached(3), 8).Number(0x3705, 5).Text(0x3001, "Inner"),
       TestMessage(inner, 24).Text(0x0037, "Inner").Text(0x1000, "Deep"),
       TestMessage(inner + attached(0), 8).Text(0x3707, "a.png").Bytes(0x3701, 0x102, "\x89PNG")});
  EXPECT_EQ(read.text,
            "Subject: Outer\n\nSee below\n\nAttachment: list [1].txt\n\none\ntwo\n\n## Visit\n\n"
            "Start: Friday, 2024-03-01, 08:15\n\nSubject: Inner\n\nDeep\n");
  EXPECT_EQ(read.note, "attachments are not read: SCAN.PDF, a.png");
}

TEST(OutlookTest, ASignedMessageIsTheMailThatWasSigned) {
  const Extracted read = ReadMessage(
      {TestMessage("").Text(0x001A, "IPM.Note.SMIME.MultipartSigned").Text(0x0037, "Signed"),
       TestMessage("__attach_version1.0_#00000000/", 8)
           .Text(0x3707, "smime.p7m")
           .Text(0x370E, "multipart/signed")
           .Bytes(0x3701, 0x102,
                  "MIME-Version: 1.0\r\nContent-Type: multipart/signed; boundary=b\r\n\r\n--b\r\n"
                  "Content-Type: text/plain\r\n\r\nThe text\r\n--b\r\n"
                  "Content-Type: application/pkcs7-signature\r\n\r\nx\r\n--b--\r\n")});
  EXPECT_EQ(read.text, "Subject: Signed\n\nThe text\n");
  EXPECT_EQ(read.note, "");
}

TEST(OutlookTest, TextInRtfAloneIsTold) {
  const Extracted read =
      ReadMessage({TestMessage("").Text(0x0037, "Rich").Bytes(0x1009, 0x102, "compressed")});
  EXPECT_EQ(read.text, "Subject: Rich\n");
  EXPECT_EQ(read.note, kRtfAlone);
}

// The examples of MS-OXRTFCP, 3.1: a text, and one that repeats what it has just written.
const std::string kHelloRtf =
    "\x2D\0\0\0\x2B\0\0\0LZFu\xF1\xC5\xC7\xA7\x03\0\x0A\0rcpg125B2\x0A\xF3 hel\x09\0 bw\x05\xB0ld}"
    "\x0A\x80\x0F\xA0"s;

TEST(OutlookTest, RtfIsDecompressed) {
  EXPECT_EQ(DecompressRtf(kHelloRtf), "{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n");
  EXPECT_EQ(DecompressRtf(
                "\x1A\0\0\0\x1C\0\0\0LZFu\xE2\xD4\x4B\x51\x41\0\x04\x20WXYZ\x0D\x6E}\x01\x0E\xB0"s),
            "{\\rtf1 WXYZWXYZWXYZWXYZWXYZ}");
  EXPECT_EQ(DecompressRtf("\x0E\0\0\0\x06\0\0\0MELA\0\0\0\0{\\rtf}more"s), "{\\rtf}");
  for (size_t size = 0; size < kHelloRtf.size(); ++size)
    EXPECT_LE(DecompressRtf(kHelloRtf.substr(0, size)).size(), 43u);
  EXPECT_EQ(DecompressRtf("anything else that is long"), "");
}

TEST(OutlookTest, MessagesInMessagesEndSomewhere) {
  std::vector<TestMessage> objects;
  std::string storage;
  for (int depth = 0; depth < 60; ++depth) {
    objects.push_back(
        TestMessage(storage, depth == 0 ? 32 : 24).Text(0x0037, "Depth " + std::to_string(depth)));
    storage += "__attach_version1.0_#00000000/";
    objects.push_back(TestMessage(storage, 8).Text(0x3001, "message"));
    storage += "__substg1.0_3701000D/";
  }
  const Extracted read = ReadMessage(objects);
  EXPECT_NE(read.text.find("Subject: Depth 9\n"), std::string::npos) << read.text;
  EXPECT_EQ(read.text.find("Subject: Depth 30\n"), std::string::npos);
  EXPECT_EQ(ReadOld("msg", CompoundWriter::Write({{"Workbook", "x"}})).text,
            "refused: has no message in it");
}

// --- PowerPoint ----------------------------------------------------------------------------------

std::string Ppt(uint16_t kind, const std::string& data, int instance = 0) {
  const bool is_container = data.size() >= 8 && kind != 0x0FA8 && kind != 0x0FA0;
  return Little(static_cast<uint64_t>(instance) << 4 | (is_container ? 15 : 0), 2) +
         Little(kind, 2) + Little(data.size(), 4) + data;
}
std::string Words(int kind, const std::string& text, const std::string& style = "") {
  return Ppt(0x0F9F, Little(static_cast<uint64_t>(kind), 4)) + Ppt(0x0FA8, text) +
         (style.empty() ? "" : Ppt(0x0FA1, style));
}
std::string Box(int left, int top, int right, int bottom) {
  std::string anchor;
  for (const int side : {left, top, right, bottom})
    anchor += Little(static_cast<uint64_t>(side), 4);
  return Ppt(0xF00F, anchor);
}
std::string Options(const std::vector<std::pair<int, uint32_t>>& values,
                    const std::string& texts = "") {
  std::string data;
  for (const auto& [id, value] : values)
    data += Little(static_cast<uint64_t>(id), 2) + Little(value, 4);
  return Ppt(0xF00B, data + texts, static_cast<int>(values.size()));
}
std::string Shape(const std::string& records, int placeholder = 0) {
  const std::string fills =
      placeholder == 0
          ? ""
          : Ppt(0xF011, Ppt(0x0BC3, Little(0, 4) + Little(static_cast<uint64_t>(placeholder), 4)));
  return Ppt(0xF004, Ppt(0xF00A, Little(1, 4) + Little(0, 4)) + fills + records);
}
std::string TextShape(int kind, const std::string& text, int placeholder = 0,
                      const std::string& style = "") {
  return Shape(Ppt(0xF00D, Words(kind, text, style)), placeholder);
}
std::string OutlineShape(int index, int placeholder = 0) {
  return Shape(Ppt(0xF00D, Ppt(0x0F9E, Little(static_cast<uint64_t>(index), 4))), placeholder);
}
std::string Group(const std::string& shapes, const std::string& options = "") {
  return Ppt(0xF003, Shape(options) + shapes);
}
std::string Drawing(const std::string& shapes) { return Ppt(0x040C, Ppt(0xF002, Group(shapes))); }

struct TestSlide {
  std::string shapes, outline, notes;
  bool is_hidden = false;
};

// The streams of a presentation.
Streams Slides(const std::vector<TestSlide>& slides, const std::string& document = "") {
  std::string stream, list, notes_list, places;
  uint64_t number = 1;
  const auto add = [&](const std::string& record) {
    places += Little(++number | 1 << 20, 4) + Little(stream.size(), 4);
    stream += record;
    return number;
  };
  for (size_t i = 0; i < slides.size(); ++i) {
    const TestSlide& slide = slides[i];
    const uint64_t id = 256 + i, notes_id = slide.notes.empty() ? 0 : 500 + i;
    const std::string atom = Ppt(0x03EF, std::string(16, '\0') + Little(notes_id, 4));
    const std::string show =
        Ppt(0x03F9, std::string(10, '\0') + Little(slide.is_hidden ? 4 : 0, 2));
    const uint64_t at = add(Ppt(0x03EE, atom + show + Drawing(slide.shapes)));
    list += Ppt(0x03F3, Little(at, 4) + Little(0, 8) + Little(id, 4)) + slide.outline;
    if (slide.notes.empty()) continue;
    const uint64_t notes = add(Ppt(0x03F0, Drawing(slide.notes)));
    notes_list += Ppt(0x03F3, Little(notes, 4) + Little(0, 8) + Little(notes_id, 4));
  }
  const uint64_t main =
      add(Ppt(0x03E8, document + Ppt(0x0FF0, list, 0) + Ppt(0x0FF0, notes_list, 2)));
  const size_t directory = stream.size();
  stream += Ppt(0x1772, places);
  const size_t edit = stream.size();
  stream += Ppt(0x0FF5, std::string(8, '\0') + Little(0, 4) + Little(directory, 4) +
                            Little(main, 4) + std::string(8, '\0'));
  return {{"Current User", Ppt(0x0FF6, Little(20, 4) + Little(0xE391C05F, 4) + Little(edit, 4))},
          {"PowerPoint Document", stream}};
}
Extracted ReadSlides(const std::vector<TestSlide>& slides, const std::string& document = "") {
  return ReadOld("ppt", CompoundWriter::Write(Slides(slides, document)));
}

// Runs of paragraphs (count, level, bullet or -1) and then one of letters (count, flags).
std::string Style(const std::vector<std::array<int, 3>>& paragraphs, const std::string& letters) {
  std::string style;
  for (const auto& [count, level, bullet] : paragraphs) {
    style += Little(static_cast<uint64_t>(count), 4) + Little(static_cast<uint64_t>(level), 2) +
             Little(bullet < 0 ? 0x800 : 0x801, 4) +
             (bullet < 0 ? "" : Little(static_cast<uint64_t>(bullet), 2)) + Little(0, 2);
  }
  return style + letters;
}

TEST(OldPowerPointTest, SlidesTitlesOutlinesAndNotes) {
  const Extracted read =
      ReadSlides({{OutlineShape(1, 14) + OutlineShape(0, 13) + TextShape(4, "beside"),
                   Words(0, "The\x0Btitle") + Words(1, "First\rSecond"),
                   TextShape(2, "What to say", 12) + TextShape(4, "5", 8)},
                  {TextShape(0, "Hidden"), "", "", true},
                  {TextShape(6, "Caf\xE9") + TextShape(5, "of 2024") + TextShape(4, "3", 8) +
                       TextShape(4, "a foot", 9),
                   "", ""}});
  EXPECT_EQ(read.text,
            "# The title\n\n- First\n- Second\n\nbeside\n\nWhat to say\n\n# Café\n\nof 2024\n");
  EXPECT_EQ(read.note, "1 hidden slide is left out");
  EXPECT_EQ(read.num_pages, 3u);
  ASSERT_EQ(read.pages.size(), 2u);
  EXPECT_EQ(read.pages[1].page, 3u);
}

TEST(OldPowerPointTest, LevelsBulletsAndRaisedLetters) {
  const std::string text = "One\rTwo\rThree\r106 m";
  // Letters: 16 plain, 1 raised by half, the rest plain.
  const std::string letters = Little(16, 4) + Little(0, 4) + Little(1, 4) + Little(1 << 19, 4) +
                              Little(30, 2) + Little(9, 4) + Little(3, 4) + Little(0, 2);
  EXPECT_EQ(ReadSlides({{TextShape(1, text, 14,
                                   Style({{4, 0, -1}, {4, 1, 1}, {6, 0, 0}, {6, 0, 1}}, letters)),
                         "", ""}})
                .text,
            "- One\n  - Two\n\nThree\n\n- 10⁶ m\n");
}

TEST(OldPowerPointTest, NumberedLists) {
  const auto numbering = [](int scheme, int first) {
    return Little(3 << 24, 4) + Little(1, 2) + Little(static_cast<uint64_t>(scheme), 2) +
           Little(static_cast<uint64_t>(first), 2) + Little(0, 4) + Little(0, 4);
  };
  const auto tags = [](const std::string& records) {
    return Ppt(0x1388, Ppt(0x138A, Ppt(0x0FBA, Wide("___PPT9")) + Ppt(0x138B, records)));
  };
  // The first two paragraphs have the first numbering, the third has none, the last the second.
  const auto letters = [](int count, int at) {
    return Little(static_cast<uint64_t>(count), 4) + Little(0x3C00, 4) +
           Little(static_cast<uint64_t>(at) << 10, 2);
  };
  const std::string style = Style({{12, 0, 1}}, letters(4, 1) + letters(2, 0) + letters(6, 2));
  const std::string numbers = Little(0, 12) + numbering(8, 2) + numbering(3, 1);
  EXPECT_EQ(ReadSlides({{Shape(Ppt(0xF00D, Words(4, "a\rb\rc\rd", style)) +
                               Ppt(0xF011, tags(Ppt(0x0FAC, numbers)))),
                         "", ""}})
                .text,
            "(b) a\n(c) b\n- c\n1. d\n");
  // Those of the outline stand in the document.
  const std::string outline = Ppt(0x0FAF, Little(256, 4) + Little(1, 4)) + Ppt(0x0FAC, numbers);
  EXPECT_EQ(ReadSlides({{OutlineShape(0), Words(1, "a\rb\rc\rd", style), ""}},
                       Ppt(0x07D0, tags(Ppt(0x0FAE, outline))))
                .text,
            "(b) a\n(c) b\n- c\n1. d\n");
}

TEST(OldPowerPointTest, TablesGroupsAndDescriptions) {
  const auto cell = [](const std::string& text, int left, int top, int right, int bottom) {
    return Shape(Box(left, top, right, bottom) + Ppt(0xF00D, Words(4, text)));
  };
  const std::string table = Group(cell("Region", 0, 0, 10, 10) + cell("City", 10, 0, 30, 10) +
                                      cell("North", 0, 10, 10, 30) + cell("Osk", 10, 10, 20, 20) +
                                      cell("7", 20, 10, 30, 20) + cell("Lund", 10, 20, 20, 30) +
                                      cell("8", 20, 20, 30, 30) + Shape(Box(0, 0, 30, 0)),
                                  Options({{0x039F, 1}}));
  const std::string wide = Wide("A pump");
  EXPECT_EQ(ReadSlides({{Group(Group(TextShape(4, "deep"))) + table +
                             Shape(Options({{0xC381, static_cast<uint32_t>(wide.size())}}, wide)) +
                             Shape(Options({{0x03BF, 0x20002}}) + Ppt(0xF00D, Words(4, "no"))),
                         "", ""}})
                .text,
            "deep\n\nRegion | City | City\nNorth | Osk | 7\nNorth | Lund | 8\n\n"
            "[Image: A pump]\n");
}

TEST(OldPowerPointTest, TheShortLineOnTopIsATitle) {
  const auto box = [](const std::string& text, int top, int size) {
    return Shape(
        Ppt(0xF010, Little(static_cast<uint64_t>(top), 2) + Little(0, 2) + Little(9, 2) +
                        Little(static_cast<uint64_t>(top) + 10, 2)) +
        Ppt(0xF00D, Words(4, text,
                          Little(99, 4) + Little(0, 6) + Little(99, 4) + Little(1 << 17, 4) +
                              Little(static_cast<uint64_t>(size), 2))));
  };
  EXPECT_EQ(ReadSlides({{box("Below", 50, 20) + box("On top", 0, 30), "", ""}}).text,
            "# On top\n\nBelow\n");
  EXPECT_EQ(ReadSlides({{box("Below", 50, 40) + box("On top", 0, 30), "", ""}}).text,
            "Below\n\nOn top\n");
}

TEST(OldPowerPointTest, PasswordsAndDamageAreNamed) {
  Streams streams = Slides({{TextShape(0, "a"), "", ""}});
  streams[0].second.replace(12, 4, Little(0xF3D1C4DF, 4));
  EXPECT_EQ(ReadOld("ppt", CompoundWriter::Write(streams)).text,
            "refused: asks for a password; save it without one");
  streams[0].second = "";
  EXPECT_EQ(ReadOld("ppt", CompoundWriter::Write(streams)).text,
            "refused: is damaged, or of an older PowerPoint than 97: save it as pptx, odp or PDF");
  EXPECT_EQ(ReadOld("ppt", CompoundWriter::Write({{"PP40", "x"}})).text,
            "refused: has no presentation of PowerPoint 97 to 2003 in it: save it as pptx, odp or "
            "PDF");
  // A text that several shapes refer to, and a slide that stands in the list again and again.
  EXPECT_EQ(ReadSlides({{OutlineShape(0) + OutlineShape(0), Words(4, "once"), ""}}).text, "once\n");
  std::string list;
  for (int i = 0; i < 100; ++i) list += Ppt(0x03F3, Little(2, 4) + Little(0, 12));
  const Extracted again =
      ReadSlides({{TextShape(4, std::string(5000, 'a')), "", ""}}, Ppt(0x0FF0, list, 0));
  EXPECT_EQ(again.num_pages, 101u);
  EXPECT_TRUE(again.note.ends_with("slides are damaged and left out")) << again.note;
  EXPECT_LT(again.text.size(), 200'000u);
  // More rows than a table has.
  std::string many;
  for (int i = 0; i < 1000; ++i)
    many += Shape(Box(i, i, i + 1000, i + 1000) + Ppt(0xF00D, Words(4, "cell")));
  const Extracted boxes = ReadSlides({{Group(many, Options({{0x039F, 1}})), "", ""}});
  EXPECT_TRUE(boxes.text.starts_with("cell\n\ncell\n\n"));
  EXPECT_LT(boxes.text.size(), 10'000u);
  // Groups in groups.
  std::string deep = TextShape(4, "deep");
  for (int i = 0; i < 500; ++i) deep = Group(deep);
  EXPECT_EQ(ReadSlides({{deep + TextShape(4, "shown"), "", ""}}).text, "shown\n");
}

}  // namespace
}  // namespace lectern::tools
