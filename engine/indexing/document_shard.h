// Writes the document's own shard: its text, tokens and names, how it was indexed, and the
// statistics that plans are made from.
#ifndef LECTERN_ENGINE_INDEXING_DOCUMENT_SHARD_H_
#define LECTERN_ENGINE_INDEXING_DOCUMENT_SHARD_H_

#include <string>

#include "engine/document/document_names.h"
#include "engine/document/kv_spill.h"
#include "engine/document/layer_shard.h"
#include "engine/indexing/calibrate_document.h"
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
  const KvSpill& spill;            // whose statistics are kept
  const Calibration& calibration;  // kept once it is measured
  const IndexReport& report;       // names the device
  std::string cluster_keys;        // as ClusterKeys (cluster_layers.h) resolved it
};
// The budget that asks get which name none, in (0, 1]: for an automatic one what the curve says, 1
// where nothing was measured.
double StoredBudget(const IndexOptions& options, const DivergenceCurve& curve);

// Writes the shard; one that is there already is replaced.
Result<ShardSummary> WriteDocumentShard(const DocumentShardParts& parts,
                                        const std::string& directory, const std::string& temp_dir);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_DOCUMENT_SHARD_H_
