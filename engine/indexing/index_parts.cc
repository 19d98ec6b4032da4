#include "engine/indexing/index_parts.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "engine/document/document.h"
#include "engine/document/parts.h"
#include "engine/indexing/cut_parts.h"
#include "engine/indexing/document_shard.h"
#include "engine/indexing/estimate_index.h"
#include "engine/indexing/index_cost.h"
#include "engine/indexing/index_document.h"
#include "engine/indexing/index_input.h"
#include "engine/indexing/index_record.h"
#include "engine/requests/report_json.h"
#include "engine/requests/seconds.h"

namespace lectern {
namespace {

using PartsClock = std::chrono::steady_clock;

// The share of a model's positions that stays for questions and answers about a part, at least what
// measuring the document needs. Chosen without measurement: of 8,192 positions 1,024, which are a
// conversation of a few turns.
constexpr uint64_t kRoomShare = 8;
// A part of fewer tokens makes no sense.
constexpr uint64_t kLeastPartTokens = 64;
// Tokens of a part that its headings, and tokens that differ at its ends, take at most.
constexpr uint64_t kLeadTokens = 160;

// A text that is cut into parts.
struct CutText {
  std::vector<TextPart> parts;
  uint64_t num_tokens = 0;  // of the text, without template and headings
};

// The beginning of a part's document: its headings on a line and an empty line; empty without any.
std::string LeadOf(const TextPart& part) {
  return part.headings.empty() ? std::string() : part.headings + "\n\n";
}
// The text of a part's document: its lead, then its bytes of the whole text.
std::string TextOf(const TextPart& part, std::string_view text) {
  return LeadOf(part) + std::string(text.substr(part.begin, part.end - part.begin));
}

// Cuts the text so that each part leaves room for questions.
Result<CutText> Cut(const Model& model, const PreparedDocument& prepared,
                    std::span<const Passage> passages) {
  const std::string& text = prepared.clean.text;
  const uint64_t positions = model.config().max_positions;
  LECTERN_ASSIGN(const FixedContext nothing, model.EncodeDocument("", prepared.date));
  LECTERN_ASSIGN(const uint64_t least,
                 LeastRoom(model.chat_template(), model.tokenizer(), prepared.date, text));
  const uint64_t lead = std::min(kLeadTokens, positions / 16);
  const uint64_t taken =
      nothing.ids.size() + lead + std::max(least + least / 4, positions / kRoomShare);
  if (positions < taken + kLeastPartTokens) {
    return Status(Code::kContextTooLong,
                  "the model has " + std::to_string(positions) +
                      " positions, which leave no room for a part of the document beside a "
                      "question; use a model with more positions");
  }
  LECTERN_ASSIGN(const std::vector<uint64_t> tokens, TokenBegins(model.tokenizer(), text));
  const uint64_t limit = std::min(positions - taken, MostPartTokens(model));
  return CutText{CutParts(text, passages, tokens, limit), tokens.size()};
}

// Turns the progress of one part after another into that of the whole document.
class PartsProgress {
 public:
  PartsProgress(const IndexOptions& options, uint64_t total) : options_(options), total_(total) {}

  // The callback for a part of `tokens` tokens. Valid until the next call.
  std::function<bool(const IndexProgress&)> ForPart(uint64_t tokens) {
    if (!options_.on_progress) return nullptr;
    return [this, tokens](const IndexProgress& part) {
      double share = 0;  // of the part that is done; clustering and measuring are taken as its end
      if (part.stage == IndexProgress::Stage::kPrefill && part.total > 0) {
        share = static_cast<double>(part.done) / static_cast<double>(part.total);
      } else if (part.stage != IndexProgress::Stage::kRead) {
        share = 1;
      }
      return Report(done_ + static_cast<uint64_t>(share * static_cast<double>(tokens)),
                    part.tokens_per_second);
    };
  }
  // The part is done. `is_new`: it took time.
  void Done(uint64_t tokens, bool is_new) {
    done_ = std::min(done_ + tokens, total_);
    if (!is_new) first_ = done_;
  }
  // Tells that all parts are done.
  void Finish() const {
    if (options_.on_progress) (void)Report(total_, 0);
  }

 private:
  bool Report(uint64_t done, double tokens_per_second) const {
    const double seconds = std::chrono::duration<double>(PartsClock::now() - start_).count();
    const bool is_known = done > first_ && seconds > 0;
    const double left = static_cast<double>(total_ - std::min(done, total_));
    const double eta = is_known ? left * seconds / static_cast<double>(done - first_) : -1;
    return options_.on_progress(
        {IndexProgress::Stage::kPrefill, std::min(done, total_), total_, tokens_per_second, eta});
  }

  const IndexOptions& options_;
  const uint64_t total_;
  uint64_t done_ = 0;
  uint64_t first_ = 0;  // what was there before the first part that takes time
  const PartsClock::time_point start_ = PartsClock::now();
};

// One run of indexing a document in parts. The caller holds the store's lock; everything is
// borrowed.
class PartsIndexer {
 public:
  PartsIndexer(const IndexContext& context, const IndexOptions& options,
               const PreparedDocument& prepared, Catalog& catalog, const NamePlan& names)
      : context_(context),
        options_(options),
        prepared_(prepared),
        catalog_(catalog),
        names_(names) {
    context_.holds_lock = true;
    context_.part_of = ToHex(prepared.id);
    report_ = NewReport(context, prepared, options, names);
  }

  Result<IndexReport> Run() {
    LECTERN_ASSIGN(text_index_, IndexText(prepared_.clean.text, options_.pages));
    LECTERN_ASSIGN(const CutText cut, Cut(context_.model, prepared_, text_index_.passages));
    if (cut.parts.size() > kMaxParts) {
      return Status(Code::kLimitExceeded, "the document would have " +
                                              std::to_string(cut.parts.size()) +
                                              " parts, at most " + std::to_string(kMaxParts) +
                                              " are possible; use a model with more positions");
    }
    LECTERN_RETURN_IF_ERROR(CheckParts(cut.parts));
    LECTERN_RETURN_IF_ERROR(FindOrBeginRow());
    LECTERN_RETURN_IF_ERROR(IndexParts(cut.parts));
    LECTERN_RETURN_IF_ERROR(WriteAndCommit());
    return std::move(report_);
  }

 private:
  // Checks all parts, the disk and the quota before the first part is begun: no run of hours should
  // end at its last part. Sets part_tokens_ and the row's number of tokens. Parts that are there
  // already take no space.
  Status CheckParts(std::span<const TextPart> parts) {
    const ModelConfig& config = context_.model.config();
    uint64_t needed = DocumentShardBytes(config, 0, prepared_.clean.text.size()), more_at_peak = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const IndexOptions of_part = OptionsOfPart();
      const auto part =
          PrepareDocument(context_.model, TextOf(parts[i], prepared_.clean.text), of_part);
      if (!part.ok()) return InPart(i, parts.size(), part.status());
      part_tokens_.push_back(part->tokens.ids.size());
      row_.num_tokens += part_tokens_.back();
      LECTERN_ASSIGN(const auto there, catalog_.FindReady(part->id));
      if (there && !options_.again) continue;
      const DiskCost cost = CostOnDisk(config, of_part, *part);
      needed += cost.finished;
      more_at_peak = std::max(more_at_peak, cost.peak - cost.finished);
    }
    needed += more_at_peak;
    LECTERN_RETURN_IF_ERROR(CheckFreeSpace(context_.env, context_.store, needed));
    return CheckQuota(context_.env, context_.store, context_.quota_bytes, needed);
  }

  // The options of each part: it has no name, source and pages of its own.
  IndexOptions OptionsOfPart() const {
    IndexOptions options = options_;
    options.name.clear(), options.source.clear(), options.path.clear();
    options.pages.clear(), options.page_labels.clear();
    return options;
  }

  // Finds the row of an interrupted run, or begins one. As long as it is there, the parts belong to
  // a document; the file of its checkpoint keeps it from being collected.
  Status FindOrBeginRow() {
    row_.id = prepared_.id;
    row_.name = names_.name;
    row_.fingerprint = context_.model.fingerprint();
    row_.model_path = context_.model.folder();
    row_.text_bytes = prepared_.clean.text.size();
    row_.replaced_bytes = prepared_.clean.replaced_bytes;
    row_.report_json = BuildingReport(options_, context_.model, prepared_, "cpu", "");
    LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog_.List());
    for (const DocumentRow& row : rows) {
      if (row.id != prepared_.id || row.state != DocumentState::kBuilding) continue;
      if (row_.generation == 0 && HasOptions(row, options_, "", prepared_.date)) {
        row_.generation = row.generation;
        continue;
      }
      LECTERN_RETURN_IF_ERROR(DiscardGeneration(context_.env, context_.store, catalog_, row));
    }
    if (row_.generation == 0) {
      LECTERN_ASSIGN(row_.generation, catalog_.BeginDocument(row_));
    }
    report_.generation = row_.generation;
    directory_ = DocumentDirectory(context_.store, row_.id, row_.generation);
    LECTERN_RETURN_IF_ERROR(context_.env.MakeDirectory(directory_));
    LECTERN_ASSIGN(const auto checkpoint,
                   context_.env.OpenWritable(directory_ + "/" + kCheckpointFile, false));
    LECTERN_RETURN_IF_ERROR(checkpoint->WriteAt(0, "parts\n", 6));
    LECTERN_RETURN_IF_ERROR(checkpoint->Sync());
    return checkpoint->Close();
  }

  Status IndexParts(std::span<const TextPart> parts) {
    PartsProgress progress(options_, row_.num_tokens);
    for (size_t i = 0; i < parts.size(); ++i) {
      IndexOptions of_part = OptionsOfPart();
      of_part.on_progress = progress.ForPart(part_tokens_[i]);
      auto report = IndexDocument(context_, TextOf(parts[i], prepared_.clean.text), of_part);
      if (!report.ok()) return InPart(i, parts.size(), std::move(report).status());
      LECTERN_RETURN_IF_ERROR(Add(parts[i], *report));
      progress.Done(part_tokens_[i], !report->existed);
    }
    progress.Finish();
    return {};
  }

  // The error of a part, whose message says which it was where the document is at fault.
  static Status InPart(size_t number, size_t count, Status status) {
    if (status.code() != Code::kContextTooLong) return status;
    return Status(status.code(), "in part " + std::to_string(number + 1) + " of " +
                                     std::to_string(count) + ": " + status.message());
  }

  // Names the part, so that it belongs to the document, and adds its report to the document's.
  Status Add(const TextPart& part, const IndexReport& report) {
    const DocumentId id = *ParseDocumentId(report.document);
    LECTERN_RETURN_IF_ERROR(
        catalog_.ChangeNames(id, {.names = {{PartName(row_.id, parts_.size()), ""}},
                                  .replaced = {},
                                  .abandoned = {},
                                  .others = {}}));
    Part& entry = parts_.emplace_back();
    entry.begin = part.begin, entry.end = part.end;
    std::copy(id.begin(), id.end(), entry.id);
    entry.lead_bytes = static_cast<uint32_t>(LeadOf(part).size());
    entry.num_tokens = static_cast<uint32_t>(report.tokens);
    report_.tokens += report.tokens;
    report_.bytes_on_disk += report.bytes_on_disk;
    report_.resumed_tokens += report.existed ? report.tokens : report.resumed_tokens;
    report_.reused_tokens += report.reused_tokens;
    report_.device = report.device, report_.gpu = report.gpu;
    for (size_t level = 0; level < report.levels.size(); ++level) {
      if (level == report_.levels.size()) report_.levels.push_back({report.levels[level].level, 0});
      report_.levels[level].centroids += report.levels[level].centroids;
    }
    for (auto seconds : {&Seconds::prefill, &Seconds::cluster, &Seconds::calibrate}) {
      report_.seconds.*seconds += report.seconds.*seconds;
    }
    bool is_news = false;  // each kind of warning is told once, in the words of its first part
    for (const std::string& warning : report.warnings) {
      if (std::ranges::count(report_.warnings, warning) > 0) continue;
      report_.warnings.push_back(warning);
      is_news = true;
    }
    if (is_news) report_.note += (report_.note.empty() ? "" : "; ") + report.note;
    // The largest budget and divergence of any part, so that what is said holds for all.
    report_.kv_budget = std::max(report_.kv_budget, report.kv_budget);
    report_.is_budget_auto = options_.kv_budget == kAutoBudget;
    if (report.divergence) {
      report_.divergence = std::max(report_.divergence.value_or(0), *report.divergence);
    }
    return {};
  }

  // Writes the document's own shard and makes it visible, with all of its parts.
  Status WriteAndCommit() {
    const auto start = PartsClock::now();
    report_.parts = parts_.size();
    row_.num_tokens = report_.tokens;
    const RowLayout layout = {.num_tokens = report_.tokens,
                              .num_sinks = 0,
                              .num_window = 0,
                              .num_levels = 0,
                              .dtype = options_.kv_dtype,
                              .retention = prepared_.retention};
    ShardHeader header = ShardHeaderOf(row_, layout, context_.model.config());
    header.required_features |= kInParts;
    LECTERN_ASSIGN(const ShardSummary shard,
                   WriteDocumentShard({.context = context_,
                                       .options = options_,
                                       .prepared = prepared_,
                                       .text_index = text_index_,
                                       .names = names_,
                                       .layout = layout,
                                       .header = header,
                                       .report = report_,
                                       .in_parts = parts_},
                                      directory_, context_.store + "/tmp"));
    if (IsSet(options_.cancel)) {
      return {Code::kCancelled, "indexing was cancelled; the same command goes on from here"};
    }
    row_.state = DocumentState::kReady;
    row_.bytes_on_disk = shard.bytes;
    report_.bytes_on_disk += shard.bytes;
    report_.seconds.write += SecondsSince(start);
    row_.report_json = IndexReportJson(report_);
    LECTERN_RETURN_IF_ERROR(catalog_.CommitDocument(row_, {shard}, names_.change));
    // It is visible from here on; a later collection removes what is left now.
    if (RemoveOrphanedParts(context_.env, context_.store, catalog_).ok()) {
      (void)CollectGarbage(context_.env, context_.store, catalog_);
    }
    return {};
  }

  using Seconds = decltype(IndexReport::seconds);

  IndexContext context_;
  const IndexOptions& options_;
  const PreparedDocument& prepared_;
  Catalog& catalog_;
  const NamePlan& names_;
  DocumentRow row_;
  std::string directory_;  // of this generation
  TextIndex text_index_;   // of the whole text
  std::vector<uint64_t> part_tokens_;  // of each part's document
  std::vector<Part> parts_;
  IndexReport report_;
};

// Whether a document that was refused so can be indexed in parts.
bool IsTooLong(const Status& status, std::string_view bytes) {
  return status.code() == Code::kContextTooLong ||
         (status.code() == Code::kLimitExceeded && bytes.size() > kMaxTokenizedBytes &&
          bytes.size() <= kMaxDocumentBytes);
}

}  // namespace

Result<IndexReport> IndexAnyLength(const IndexContext& context, std::string_view bytes,
                                   const IndexOptions& options) try {
  const auto start = PartsClock::now();
  auto whole = IndexDocument(context, bytes, options);
  if (!IsTooLong(whole.status(), bytes)) return whole;
  LECTERN_ASSIGN(const PreparedDocument prepared, PrepareWhole(context.model, bytes, options));
  const double read_seconds = SecondsSince(start);
  LECTERN_ASSIGN(
      IndexReport report,
      IndexUnlessThere(context, prepared, options,
                       [&](Catalog& catalog, const NamePlan& names, const IndexOptions& chosen) {
                         return PartsIndexer(context, chosen, prepared, catalog, names).Run();
                       }));
  if (report.existed) AddAssumptions(context.model, prepared, &report);
  report.seconds.read = read_seconds;
  report.seconds.total = SecondsSince(start);
  return report;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "not enough memory to index the document; use fewer threads");
}

Result<IndexEstimate> EstimateAnyLength(const IndexContext& context, std::string_view bytes,
                                        const IndexOptions& options) try {
  auto whole = EstimateIndex(context, bytes, options);
  if (!IsTooLong(whole.status(), bytes)) return whole;
  LECTERN_ASSIGN(const PreparedDocument prepared, PrepareWhole(context.model, bytes, options));
  const std::vector<Passage> passages = SplitPassages(prepared.clean.text, options.pages);
  LECTERN_ASSIGN(const CutText cut, Cut(context.model, prepared, passages));
  IndexOptions of_part = options;
  of_part.pages.clear();
  of_part.page_labels.clear();
  IndexEstimate sum;
  for (const TextPart& part : cut.parts) {
    LECTERN_ASSIGN(const IndexEstimate one,
                   EstimateIndex(context, TextOf(part, prepared.clean.text), of_part));
    sum.tokens += one.tokens;
    sum.peak_bytes_on_disk =
        std::max(sum.peak_bytes_on_disk, sum.bytes_on_disk + one.peak_bytes_on_disk);
    sum.bytes_on_disk += one.bytes_on_disk;
    sum.free_bytes = one.free_bytes;
    sum.anonymous_bytes = std::max(sum.anonymous_bytes, one.anonymous_bytes);
    sum.flops += one.flops;
    sum.seconds += one.seconds;
  }
  const uint64_t own = DocumentShardBytes(context.model.config(), 0, prepared.clean.text.size());
  sum.bytes_on_disk += own;
  sum.peak_bytes_on_disk += own;
  LECTERN_ASSIGN(const auto row, FindReady(context, prepared.id));
  sum.existed = row.has_value() && !options.again && HasPages(context, *row, options);
  return sum;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "not enough memory to read the document");
}

}  // namespace lectern
