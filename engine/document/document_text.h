// The text of an indexed document, with everything that is known of it without a model: pages,
// passages, and the index of their words. It lies in document.shard.
#ifndef LECTERN_ENGINE_DOCUMENT_DOCUMENT_TEXT_H_
#define LECTERN_ENGINE_DOCUMENT_DOCUMENT_TEXT_H_

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/document/page_map.h"
#include "engine/document/passages.h"
#include "engine/document/word_index.h"
#include "store/catalog.h"
#include "store/env.h"
#include "store/shard_reader.h"
#include "store/shard_writer.h"
#include "store/status.h"

namespace lectern {

// The error of a document whose file contradicts itself: "PATH: WHAT; index the document again".
Status CorruptDocument(const std::string& path, const char* what);

// Opens a shard of the document's generation in `directory`, and checks it against `row` and the
// catalog's `shards`: kind, document, generation and checksum of its table. kCorrupt: the catalog
// does not know the file; codes of ShardReader::Open.
Result<std::unique_ptr<ShardReader>> OpenShardOf(
    const DocumentRow& row, const std::vector<ShardSummary>& shards, const std::string& directory,
    const std::string& file, std::unique_ptr<MappedFile> map, ShardKind kind, uint32_t layer);

// Immutable once it is opened, and thread-safe from then on. Views and pointers are valid as long
// as it lives.
class DocumentText {
 public:
  // Opens document.shard, which is read into memory, and reads text, pages and passages. `row`,
  // `shards` and `directory` as OpenShardOf has them. One call, before anything else. kCorrupt: the
  // parts contradict each other; kMissingFile; codes of OpenShardOf and ShardReader::Section.
  Status Open(Env& env, const std::string& directory, const DocumentRow& row,
              const std::vector<ShardSummary>& shards);

  const DocumentRow& row() const { return row_; }
  const ShardReader& shard() const { return *shard_; }
  std::string_view text() const { return text_; }
  // Empty: it has no pages.
  std::span<const PageMapEntry> pages() const { return pages_; }
  std::string_view page_labels() const { return page_labels_; }  // as PageLabelAt has them
  // The passages of the text. Documents that were indexed before passages were stored are split at
  // the first call, and so are texts that have none. May throw std::bad_alloc.
  std::span<const Passage> passages() const;
  // The words of the passages. Opened at the first call; made then, if the document was indexed
  // before words were stored (0.3 s for 1 MB of text). Calls wait for one that opens it; after an
  // error the next call tries again. Codes of WordIndex::Open and Build, kChecksumMismatch,
  // kCorrupt (it has another number of passages). May throw std::bad_alloc.
  Result<const WordIndex*> words() const;
  // An estimate of the memory in bytes that this object keeps while it is open: the shard's
  // payload, and, where the shard lacks them, the text's size for passages and twice that for
  // words. The number never changes: passages and words count before they are made. Passages of
  // less than 24 bytes on average take more; SQLite's memory for words() is not counted.
  uint64_t BytesKept() const;

 private:
  // Sets passages_ from the shard; leaves them empty if none are stored. kCorrupt: they do not fit
  // the text.
  Status ReadPassages();

  DocumentRow row_;
  std::unique_ptr<ShardReader> shard_;
  std::string_view text_;
  std::span<const PageMapEntry> pages_;
  std::string_view page_labels_;
  std::span<const Passage> passages_;  // empty: not stored
  struct {
    std::once_flag once;
    std::vector<Passage> passages;
  } mutable split_;  // of a document whose passages are not stored
  struct {
    std::mutex mutex;
    std::string bytes;                 // of a document whose words are not stored
    std::unique_ptr<WordIndex> index;  // null: not opened yet
  } mutable words_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_DOCUMENT_TEXT_H_
