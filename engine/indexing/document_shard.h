// Writes the document's own shard: its text, tokens and names, how it was indexed, and the
// statistics that plans are made from.
#ifndef LECTERN_ENGINE_INDEXING_DOCUMENT_SHARD_H_
#define LECTERN_ENGINE_INDEXING_DOCUMENT_SHARD_H_

#include <string>

#include "engine/document/document_names.h"
#include "engine/document/kv_spill.h"
#include "engine/document/layer_shard.h"
#include "engine/document/missed_calibration.h"
#include "engine/indexing/index_context.h"
#include "engine/indexing/index_input.h"
#include "store/shard_format.h"
#include "store/shard_writer.h"

namespace lectern {

// The header of every shard of a document; kind and layer are left 0.
ShardHeader ShardHeaderOf(const DocumentRow& row, const RowLayout& layout,
                          const ModelConfig& config);

// All borrowed for the call.
struct DocumentShardParts {
  const IndexContext& context;
  const IndexOptions& options;
  const PreparedDocument& prepared;
  const NamePlan& names;
  const RowLayout& layout;
  const ShardHeader& header;
  const KvSpill& spill;             // whose statistics are kept
  const MissedCalibration& missed;  // kept once it is measured
  const IndexReport& report;        // names the device
  std::string cluster_keys;         // as ClusterKeys (cluster_layers.h) resolved it
};
// Writes the shard; one that is there already is replaced.
Result<ShardSummary> WriteDocumentShard(const DocumentShardParts& parts,
                                        const std::string& directory, const std::string& temp_dir);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_DOCUMENT_SHARD_H_
