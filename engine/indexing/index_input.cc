#include "engine/indexing/index_input.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/document/document_names.h"
#include "engine/document/kept_rows.h"
#include "engine/document/kv_spill.h"
#include "engine/document/layer_shard.h"
#include "engine/document/page_map.h"
#include "engine/indexing/calibrate_document.h"
#include "engine/indexing/calibration_questions.h"
#include "engine/indexing/cut_parts.h"
#include "engine/indexing/index_context.h"
#include "engine/indexing/index_cost.h"
#include "engine/indexing/prefill.h"
#include "engine/model/formats/sha256.h"
#include "engine/requests/options.h"
#include "engine/requests/report_json.h"

namespace lectern {
namespace {

// Checks all options that can be wrong without looking at the text.
Status CheckIndexOptions(const Model& model, const IndexOptions& options) {
  const auto wrong = [](const char* param, const Message& message) {
    return Status(Code::kInvalidArgument, message).WithParam(param);
  };
  LECTERN_RETURN_IF_ERROR(CheckOptions(IndexOptionRows(), options));
  LECTERN_RETURN_IF_ERROR(CheckPolicies({options.layer_budget, options.head_budget}));
  LECTERN_RETURN_IF_ERROR(CheckRetention(options.retention));
  if (options.prefill == "sparse" && options.stats == "full") {
    return wrong("stats", "a sparse prefill does not know the attention of all tokens; use " +
                              OptionName("stats", "window"));
  }
  if (options.kv_dtype == Dtype::kQ8 && model.config().head_dim % kQ8Block != 0) {
    return wrong("kv_type", "q8 needs a head_dim that is a multiple of 32; this model has " +
                                std::to_string(model.config().head_dim) + "; use f16");
  }
  return CheckName(options.name);
}

// The number with a comma after each three digits, for messages.
std::string Grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

// Refuses a document that leaves no room in the model's positions for a question and a short
// answer.
Status CheckRoom(const Model& model, uint64_t tokens, const std::string& date,
                 std::string_view text) {
  constexpr char kWayOut[] =
      "; nothing is cut off: split the document or use a model with more positions";
  const uint64_t limit = model.config().max_positions;
  if (tokens >= limit) {
    return Status(Code::kContextTooLong, "the document has " + Grouped(tokens) +
                                             " tokens, the model's positions end at " +
                                             Grouped(limit) + kWayOut);
  }
  LECTERN_ASSIGN(const uint64_t least, LeastRoom(model.chat_template(),
                                                  model.tokenizer(), date, text));
  if (limit - tokens >= least) return {};
  return Status(Code::kContextTooLong,
                "the document's " + Grouped(tokens) + " tokens leave " + Grouped(limit - tokens) +
                    " of " + Grouped(limit) +
                    " positions for a question and its answer, a short one of which takes " +
                    Grouped(least) + kWayOut);
}

// Bytes of the temporary clusters of a sparse prefill: a shard for each layer, and one more,
// because a new shard is complete before the old one is removed. 0 for an exact prefill.
uint64_t ClustersBytes(const ModelConfig& config, Dtype dtype, uint64_t tokens, double budget) {
  if (budget >= 1) return 0;
  return (config.num_layers + 1) * ShardBytes(config, SpillDtype(dtype), tokens);
}

// Describes a retention for the document's id: "keep 1", or "keep 0.25 kvcrush", and for methods
// with representatives their share and the seed. Never change the format: ids depend on it. "%.9g"
// tells apart all floats.
std::string RetentionText(const Retention& retention, uint64_t seed) {
  char text[64];
  std::snprintf(text, sizeof text, "keep %.9g", retention.keep);
  if (retention.keeps_all()) return text;
  std::string all = text + (" " + retention.method);
  const double share = MethodOf(retention).crush.share;
  if (share == 0) return all;
  std::snprintf(text, sizeof text, " %.9g %llu", share, static_cast<unsigned long long>(seed));
  return all + text;
}

// Describes a sparse prefill for the document's id; the 1 is the version of its rules. An exact
// prefill adds nothing, so that ids from before there were others stay.
std::string PrefillText(double budget) {
  if (budget >= 1) return "";
  char text[64];
  std::snprintf(text, sizeof text, " prefill sparse 1 %.9g", budget);
  return text;
}

// Describes, for the document's id, that it is cut into parts for a model of so many positions, and
// of how many tokens at most; the 2 is the version of the rules by which it is cut.
std::string PartsText(const Model& model) {
  return " parts 2 " + std::to_string(model.config().max_positions) + " " +
         std::to_string(MostPartTokens(model));
}

// Cleans and checks the text and the options, and finds the template's date: everything that does
// not depend on tokens.
Result<PreparedDocument> PrepareText(const Model& model, std::string_view bytes,
                                     const IndexOptions& options) {
  LECTERN_RETURN_IF_ERROR(CheckIndexOptions(model, options));
  if (bytes.size() > kMaxDocumentBytes) {
    return Status(Code::kLimitExceeded, "the document has " + std::to_string(bytes.size()) +
                                            " bytes; at most 1 GiB is accepted; split it");
  }
  PreparedDocument prepared;
  prepared.clean = CleanUtf8(bytes);
  if (prepared.clean.text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return Status(Code::kEmptyDocument,
                  bytes.empty() ? "the text that was given has no bytes: nothing was read, or what "
                                  "was read is empty"
                                : "the document is empty: it has only white space");
  }
  if (!options.pages.empty()) {
    // Pages are byte offsets into the text as given: cleaning must not have moved any byte.
    if (prepared.clean.text.size() != bytes.size() || prepared.clean.replaced_bytes > 0) {
      return Status(Code::kInvalidArgument, "a text with pages must be valid UTF-8, without a mark")
          .WithParam("pages");
    }
    if (!IsPageMap(options.pages, bytes.size())) {
      return Status(Code::kInvalidArgument,
                    "pages must ascend, from 1, and begin at ascending places inside the text")
          .WithParam("pages");
    }
  }
  if (!ArePageLabels(options.page_labels, options.pages.size())) {
    return Status(Code::kInvalidArgument,
                  "page_labels are UTF-8 with a line for each page and a newline behind each")
        .WithParam("page_labels");
  }
  if (model.chat_template().has_date()) prepared.date = Today();
  return prepared;
}

}  // namespace

// Indexing asks each document a few plain questions. Where the longest of them and its answer do
// not fit, indexing would fail in the end, and so would every question of a user.
Result<uint64_t> LeastRoom(const ChatTemplate& chat, const Tokenizer& tokenizer,
                           std::string_view date, std::string_view text) {
  uint64_t least = 0;
  for (const std::string& question : CalibrationQuestions(text)) {
    LECTERN_ASSIGN(const auto ids, chat.EncodeQuestion(tokenizer, question, {}, date));
    least = std::max<uint64_t>(least, ids.size() + kMostCalibrationTokens);
  }
  return least;
}

// After the text and the options are checked, encodes the text and fixes the settings that depend
// on its length, such as retention: short documents are never clustered, so nothing of them is
// evicted. The identity comes last, since it depends on all of these.
Result<PreparedDocument> PrepareDocument(const Model& model, std::string_view bytes,
                                         const IndexOptions& options) {
  LECTERN_ASSIGN(PreparedDocument prepared, PrepareText(model, bytes, options));
  LECTERN_ASSIGN(prepared.tokens, model.EncodeDocument(prepared.clean.text, prepared.date));
  LECTERN_RETURN_IF_ERROR(CheckRoom(model, prepared.tokens.ids.size(), prepared.date,
                                    prepared.clean.text));
  const auto tokens = static_cast<uint32_t>(prepared.tokens.ids.size());
  if (tokens >= kMinClusteredTokens) {
    const ModelConfig& config = model.config();
    prepared.retention = options.retention;
    if (config.window > 0 && !options.retention.keeps_all()) {
      return Status(Code::kInvalidArgument,
                    OptionName("keep") +
                        " below 1 needs a model without sliding windows; this one's layers already "
                        "keep no more than their windows: use " +
                        OptionName("keep") + " 1")
          .WithParam("keep");
    }
    LECTERN_RETURN_IF_ERROR(CheckKeep(options.retention, {config.num_layers, config.num_kv_heads,
                                                          tokens, kSinkTokens, kWindowTokens}));
  }
  if (options.prefill == "sparse" && tokens > kDenseTokens) {
    prepared.prefill_budget = options.prefill_budget;
  }
  prepared.id = MakeDocumentId(prepared.clean.text, model.fingerprint(), options.kv_dtype,
                               prepared.retention, options.seed, prepared.prefill_budget);
  return prepared;
}

Result<PreparedDocument> PrepareWhole(const Model& model, std::string_view bytes,
                                      const IndexOptions& options) {
  LECTERN_ASSIGN(PreparedDocument prepared, PrepareText(model, bytes, options));
  prepared.retention = options.retention;
  if (options.prefill == "sparse") prepared.prefill_budget = options.prefill_budget;
  prepared.id =
      MakeDocumentId(prepared.clean.text, model.fingerprint(), options.kv_dtype, prepared.retention,
                     options.seed, prepared.prefill_budget, PartsText(model));
  return prepared;
}

DiskCost CostOnDisk(const ModelConfig& config, const IndexOptions& options,
                    const PreparedDocument& prepared) {
  const Dtype dtype = options.kv_dtype;
  const uint64_t tokens = prepared.tokens.ids.size();
  const uint64_t text_bytes = prepared.clean.text.size() +
                              options.pages.size() * sizeof(PageMapEntry) +
                              options.page_labels.size();
  const uint64_t layer_bytes = ShardBytes(config, dtype, tokens);
  const auto kept_bytes = static_cast<uint64_t>(
      std::ceil(prepared.retention.keep * static_cast<double>(config.num_layers * layer_bytes)));
  const uint64_t document_bytes = DocumentShardBytes(config, tokens, text_bytes);
  const uint64_t finished = kept_bytes + document_bytes;
  const uint64_t spills = SpillBytes(config, SpillDtype(dtype), tokens);
  const uint64_t prefilling =
      spills + ClustersBytes(config, dtype, tokens, prepared.prefill_budget);
  // The peak is one of three moments: the end; the prefill with its temporary clusters; or
  // clustering, when all spills and one finished layer are there.
  return {finished, std::max({finished, prefilling, spills + layer_bytes + document_bytes})};
}

DocumentId MakeDocumentId(std::string_view text, const Fingerprint& fingerprint, Dtype kv_dtype,
                          const Retention& retention, uint64_t seed, double prefill_budget,
                          std::string_view parts) {
  Sha256 hash;
  hash.UpdateText(text);
  hash.Update(fingerprint.data(), fingerprint.size());
  hash.UpdateText(DtypeName(kv_dtype));
  hash.UpdateText(RetentionText(retention, seed) + PrefillText(prefill_budget) +
                  std::string(parts));
  const std::array<uint8_t, 32> digest = hash.Finish();
  DocumentId id;
  std::copy_n(digest.begin(), id.size(), id.begin());
  return id;
}

}  // namespace lectern
