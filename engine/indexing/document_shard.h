// Writes a document's own shard: text, tokens and names, how the document was indexed, and the
// statistics that plans are made from. index_document.cc uses it; store/FORMAT.md has the bytes.
#ifndef LECTERN_ENGINE_INDEXING_DOCUMENT_SHARD_H_
#define LECTERN_ENGINE_INDEXING_DOCUMENT_SHARD_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/document/document_names.h"
#include "engine/document/kv_spill.h"
#include "engine/document/layer_shard.h"
#include "engine/document/passages.h"
#include "engine/indexing/calibrate_document.h"
#include "engine/indexing/index_context.h"
#include "engine/indexing/index_input.h"
#include "store/shard_format.h"
#include "store/shard_writer.h"

namespace lectern {

// Returns the header that all shards of a document share. `kind` and `layer` are left 0; the writer
// of a shard sets them.
ShardHeader ShardHeaderOf(const DocumentRow& row, const RowLayout& layout,
                          const ModelConfig& config);

// A text's passages and the index of their words (WordIndex::Build); both are empty if the text has
// no words.
struct TextIndex {
  std::vector<Passage> passages;
  std::string words;
};
// Splits the text and indexes it; `pages` as IsPageMap has them. kOutOfMemory, kLimitExceeded.
Result<TextIndex> IndexText(std::string_view text, std::span<const PageMapEntry> pages);

// Everything that goes into the shard, borrowed for the call.
struct DocumentShardParts {
  const IndexContext& context;
  const IndexOptions& options;
  const PreparedDocument& prepared;
  const TextIndex& text_index;
  const NamePlan& names;
  const RowLayout& layout;
  const ShardHeader& header;
  const IndexReport& report;  // names the device
  // Whose statistics are kept; nullptr: the document is indexed in parts and has no rows itself.
  const KvSpill* spill = nullptr;
  std::span<const PartEntry> in_parts = {};  // these, without a spill
  const Calibration* calibration = nullptr;  // kept once it is measured
  std::string cluster_keys = {};             // as ClusterKeys (cluster_layers.h) resolved it
  const RetrievalHeads* heads = nullptr;     // the model's; nullptr: they were not looked for
};
// The budget that asks get which name none, in (0, 1]: for an automatic one what the curve says, 1
// where nothing was measured.
double StoredBudget(const IndexOptions& options, const DivergenceCurve& curve);

// Writes document.shard into `directory` by way of `temp_dir` on the same file system; a shard that
// is there already is removed first, so after an error there is none. kNoSpace, kIoError,
// kReadOnly.
Result<ShardSummary> WriteDocumentShard(const DocumentShardParts& parts,
                                        const std::string& directory, const std::string& temp_dir);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_DOCUMENT_SHARD_H_
