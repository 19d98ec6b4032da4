// The bytes of a shard, the file that holds one layer's keys and values, or a document's text:
// constants and on-disk structs, nothing else. FORMAT.md is normative.
//
//   [header 4 KiB][section 0][section 1]…[section table][zero padding to 64 KiB]   the payload,
//   in blocks of 64 KiB counted from the start of the file (header included), then
//   [block table: u32 CRC-32C per block][footer 64 B]
//
// Little-endian. Written once, never modified.
#ifndef LECTERN_STORE_SHARD_FORMAT_H_
#define LECTERN_STORE_SHARD_FORMAT_H_

#include <cstddef>
#include <cstdint>

namespace lectern {

inline constexpr char kShardMagic[8] = {'L', 'E', 'C', 'T', 'E', 'R', 'N', '\n'};
inline constexpr char kShardEndMagic[8] = {'\n', 'N', 'R', 'E', 'T', 'C', 'E', 'L'};
inline constexpr uint16_t kFormatMajor = 1;  // a reader refuses a greater major
inline constexpr uint16_t kFormatMinor = 0;  // a reader reads any
inline constexpr size_t kHeaderBytes = 4096;
inline constexpr size_t kBlockBytes = 65536;      // what one checksum covers
inline constexpr size_t kSectionAlignment = 64;   // a cache line
inline constexpr size_t kMaxSections = 1u << 20;  // bounds the memory that a bad header can ask for

// Never renumber.
enum class ShardKind : uint32_t { kDocument = 1, kLayer = 2 };

// The content of a section. Never renumber. A reader ignores unknown kinds >= kFirstOptional and
// refuses unknown ones below.
enum class SectionKind : uint32_t {
  // document.shard (kv_head and level are 0)
  kText = 1,         // UTF-8 bytes of the document
  kTokens = 2,       // i32[L]: token ids of the fixed context
  kTokenRanges = 3,  // {u64 begin, u64 end}[L]: byte range of every token in the text
  kTemplate = 4,     // UTF-8: the prompt template, normalised text form
  kName = 5,         // UTF-8: the document's name when it was indexed
  kModel = 6,        // UTF-8 JSON: model path, fingerprint parts, index options; informative
  kParts = 7,        // PartEntry[parts], where the header has kInParts
  // layer-NNN.shard, one of each per kv head
  kRows = 16,       // K and V rows; see FORMAT.md "Rows"
  kPositions = 17,  // u32[rows]: document position of every stored row
  // …and per kv head and level (1 = coarsest)
  kCentroids = 24,   // [clusters, head_dim]: mean of the raw post-RoPE keys; q8, else f16
  kMeanValues = 25,  // [clusters, head_dim]; the same
  kKeyCounts = 26,   // u32[clusters]
  kRadii = 27,       // f32[clusters]: max |k - stored centroid|
  kVariances = 28,   // f32[clusters]: mean |k - stored centroid|^2 / head_dim
  kChildren = 29,    // u32[clusters + 1]: first child in the next level (finest: first row)
  // …and per kv head
  kThresholds = 32,   // see FORMAT.md "Thresholds"
  kQueryMetric = 33,  // f16[head_dim (head_dim + 1) / 2]; may be absent. See FORMAT.md "Metric"
  kFirstOptional = 1024,
  kStatistics = 1025,  // statistics for budget policies; JSON in document.shard
  kPageMap = 1027,     // PageMapEntry[pages that have text]
  // one of each per kv head: codes per clustered row; see FORMAT.md "Row codes"
  kRowCodes = 1028,
  kFineCodes = 1029,
  kBlockScores = 1030,  // f32[blocks of 16 rows], one of each per kv head, by squared attention
  kPlainBlockScores = 1031,  // the same by plain attention
  kFullBlockScores = 1032,   // by squared attention of all tokens, if requested
  kCosineSums = 1040,        // f64[whole chunks of 512 tokens][layers], in document.shard
  kSource = 1041,            // bytes: source of the text that kName names
  kPassages = 1042,          // PassageEntry[passages of the text], in document.shard
  kWords = 1043,             // SQLite database of the passages' words, in document.shard
  kPageLabels = 1044,        // bytes: a line for each entry of kPageMap
  // q8[num_window, head_dim] K rows, then V rows; may be absent, one per kv head
  kWindowCopy = 1045,
};

// The first bytes of the file. Readers must not use a field before header_crc is checked.
struct ShardHeader {
  char magic[8];
  uint16_t major;
  uint16_t minor;
  uint32_t header_crc;      // CRC-32C of the 4096 header bytes with this field 0
  uint32_t kind;            // ShardKind
  uint32_t layer;           // 0 in a document shard
  uint8_t document_id[16];  // DocumentId (catalog.h)
  uint8_t fingerprint[32];  // SHA-256, model identity
  uint64_t generation;
  uint64_t num_tokens;  // L, the fixed context
  uint32_t num_layers;
  uint32_t num_kv_heads;
  uint32_t head_dim;
  uint32_t kv_dtype;    // Dtype of rows
  uint32_t num_levels;  // 0: a short document, read densely
  uint32_t num_sinks;   // rows 0 … of every head: sinks, then the window
  uint32_t num_window;
  uint32_t window_size;  // sliding-window layers: W; 0 = full attention
  uint32_t num_sections;
  uint32_t block_bytes;  // kBlockBytes
  uint64_t section_table_offset;
  uint64_t payload_bytes;      // multiple of block_bytes; the block table begins here
  uint64_t num_blocks;         // payload_bytes / block_bytes
  uint64_t required_features;  // a reader refuses bits that it does not know
  uint64_t optional_features;  // unknown bits are ignored
  // zero up to kHeaderBytes
};
static_assert(sizeof(ShardHeader) <= kHeaderBytes);

// One entry of the section table, in the order of the sections' offsets.
struct SectionEntry {
  uint32_t kind;  // SectionKind
  uint32_t kv_head;
  uint32_t level;     // 1 = coarsest; 0 where it does not apply
  uint32_t reserved;  // 0
  uint64_t offset;    // from the start of the file; multiple of kSectionAlignment
  uint64_t bytes;
};
static_assert(sizeof(SectionEntry) == 32);

// A bit of ShardHeader::required_features. The document is indexed in parts: its document.shard has
// the text, no tokens, and where the parts are; there are no layers. Each part is a document of its
// own.
inline constexpr uint64_t kInParts = 1;

// One entry of a section kParts. The text of the part's own document is some lines of headings,
// `lead_bytes` long, and behind them bytes [begin, end) of the text.
struct PartEntry {
  uint64_t begin, end;  // both ascend; a part may begin before the end of the one before
  uint8_t id[16];       // of the part's document
  uint32_t lead_bytes;
  uint32_t num_tokens;  // of the part's document
  bool operator==(const PartEntry&) const = default;
};
static_assert(sizeof(PartEntry) == 40);

// One entry of a section kPageMap.
struct PageMapEntry {
  uint64_t text_begin;  // where the page begins in the text; ascending
  uint32_t page;        // from 1; ascending
  uint32_t reserved;    // 0
  bool operator==(const PageMapEntry&) const = default;
};
static_assert(sizeof(PageMapEntry) == 16);

// Kinds of passages. Never renumber.
enum class PassageKind : uint8_t {
  kSentence = 0,
  kHeading = 1,
  kListItem = 2,
  kTableRow = 3,
  kCode = 4,
};

struct PassageEntry {
  uint64_t begin, end;  // bytes [begin, end) of the text; ascending, and none overlaps another
  uint32_t heading;     // 1 + index of the heading passage under which it stands; 0: none
  PassageKind kind;
  uint8_t level;      // of a heading, from 1; else 0
  uint16_t reserved;  // 0
  bool operator==(const PassageEntry&) const = default;
};
static_assert(sizeof(PassageEntry) == 24);

// The last bytes of the file. A file without them was not written to its end.
struct ShardFooter {
  uint64_t file_bytes;
  uint32_t table_crc;    // CRC-32C of the block table
  uint32_t header_crc;   // the header's
  uint8_t reserved[40];  // 0
  char end_magic[8];
};
static_assert(sizeof(ShardFooter) == 64);

}  // namespace lectern

#endif  // LECTERN_STORE_SHARD_FORMAT_H_
