// Indexes a document of any length: one that is longer than its model's room in parts, each of
// which is a document of its own (engine/document/parts.h).
#ifndef LECTERN_ENGINE_INDEXING_INDEX_PARTS_H_
#define LECTERN_ENGINE_INDEXING_INDEX_PARTS_H_

#include <string_view>

#include "engine/indexing/index_context.h"
#include "engine/requests/requests.h"

namespace lectern {

// As IndexDocument, but a text that does not fit into the model's positions, or is too long to be
// tokenized at once, is cut into parts (cut_parts.h). Parts that are there, from this text or
// another one, are not indexed again, so that a run that was interrupted goes on at the part where
// it stopped, and a text that grew at its end keeps its first parts. The document is seen when all
// of its parts are done; until then its parts have hidden names. Progress counts the tokens of all
// parts in one stage. Other codes as IndexDocument. kContextTooLong: the model's positions have no
// room even for a part of 64 tokens.
Result<IndexReport> IndexAnyLength(const IndexContext& context, std::string_view bytes,
                                   const IndexOptions& options);

// EstimateIndex of a text of any length: of parts, it is the sum, the most memory of one, and the
// most disk space while they are indexed one after another; parts that are there are estimated as
// if they were not.
Result<IndexEstimate> EstimateAnyLength(const IndexContext& context, std::string_view bytes,
                                        const IndexOptions& options);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_PARTS_H_
