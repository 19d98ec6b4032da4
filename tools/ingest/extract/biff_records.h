// Records of Excel's old workbooks (BIFF5 and BIFF8, MS-XLS): a number, a size, and bytes, which go
// on in records behind it where they are more than 8 KiB.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_BIFF_RECORDS_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_BIFF_RECORDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lectern::tools {

// Numbers of records. Where BIFF5 and BIFF8 differ in the number, both have names.
struct BiffId {
  static constexpr uint16_t kFormula = 0x0006, kEof = 0x000A, kNote = 0x001C, kDateMode = 0x0022,
                            kFilePass = 0x002F, kContinue = 0x003C, kCodePage = 0x0042,
                            kObject = 0x005D, kColumn = 0x007D, kSheet = 0x0085, kFilter = 0x009E,
                            kMultipleRk = 0x00BD, kRichLabel = 0x00D6, kCellStyle = 0x00E0,
                            kMergedCells = 0x00E5, kStrings = 0x00FC, kStringCell = 0x00FD,
                            kTextObject = 0x01B6, kNumber = 0x0203, kLabel = 0x0204,
                            kBoolean = 0x0205, kString = 0x0207, kRow = 0x0208, kRk = 0x027E,
                            kFormat = 0x041E, kBegin = 0x0809;
};

struct BiffRecord {
  uint16_t id = 0;
  std::string_view data;
};

class BiffRecords {
 public:
  // `stream` must outlive it; `at`: where the first record begins.
  BiffRecords(std::string_view stream, size_t at) : stream_(stream), at_(at) {}
  // False: there is no further record; the last one may be cut off.
  bool Next(BiffRecord& record);
  // The bytes of the records that go on with the one that Next gave, each for itself.
  std::vector<std::string_view> TakeContinued();
  size_t position() const { return at_; }

 private:
  bool Peek(BiffRecord& record) const;
  std::string_view stream_;
  size_t at_;
};

// The bytes of a record and those that go on with it. Behind the end numbers are 0.
class BiffBytes {
 public:
  explicit BiffBytes(std::vector<std::string_view> pieces) : pieces_(std::move(pieces)) {}
  bool is_at_end() const { return piece_ >= pieces_.size(); }
  uint8_t Uint8();
  uint16_t Uint16();
  uint32_t Uint32();
  void Skip(uint64_t count);
  // The characters of a string of BIFF8; its formats and reading aids are skipped. `is_short`: its
  // length has one byte.
  std::string Text(bool is_short);
  // A run of characters, which begins with a byte that says how wide they are, and so in each
  // record that goes on with it.
  std::string Characters(uint32_t count);

 private:
  std::string Characters(uint32_t count, bool is_wide);
  void SkipEmpty();
  std::vector<std::string_view> pieces_;
  size_t piece_ = 0, at_ = 0;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_BIFF_RECORDS_H_
