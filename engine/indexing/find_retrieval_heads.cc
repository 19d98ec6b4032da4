#include "engine/indexing/find_retrieval_heads.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/asking/ask.h"
#include "engine/document/parts.h"
#include "engine/indexing/index_cost.h"
#include "engine/indexing/index_document.h"
#include "engine/indexing/index_input.h"
#include "engine/indexing/planted_facts.h"

namespace lectern {
namespace {

Result<std::shared_ptr<const Document>> OpenReady(const IndexContext& context,
                                                  const std::string& store, const Catalog& catalog,
                                                  const DocumentRow& row) {
  LECTERN_ASSIGN(const std::vector<ShardSummary> shards, catalog.Shards(row.generation));
  return Document::Open(context.env, DocumentDirectory(store, row.id, row.generation), row, shards,
                        context.reading());
}

// Heads on record with the model's newest ready document that has keys and values: a document in
// parts has a text alone. One that cannot be opened has none.
std::optional<RetrievalHeads> KnownHeads(const IndexContext& context, const Catalog& catalog) {
  const auto rows = catalog.List();
  if (!rows.ok()) return std::nullopt;
  const DocumentRow* newest = nullptr;
  for (const DocumentRow& row : *rows) {
    if (row.state != DocumentState::kReady) continue;
    if (row.fingerprint != context.model.fingerprint()) continue;
    if (newest != nullptr && row.generation < newest->generation) continue;
    const auto shards = catalog.Shards(row.generation);
    if (shards.ok() && !IsInParts(*shards)) newest = &row;
  }
  if (newest == nullptr) return std::nullopt;
  const auto document = OpenReady(context, context.store, catalog, *newest);
  return document.ok() ? (*document)->retrieval_heads() : std::nullopt;
}

// Asks about the planted facts and adds up where each head looks.
class HeadMeter {
 public:
  HeadMeter(DocumentSession& session, const PlantedText& planted,
            const std::function<bool()>& stopped)
      : session_(session), planted_(planted), stopped_(stopped) {}

  Result<RetrievalHeads> Run() {
    session_.probe().on_head = [this](const HeadStep& step) { Add(step); };
    AskOptions options;
    options.kv_budget = 1;
    options.max_tokens = 1;
    options.max_evidence = 0;
    options.focus = "off";
    const std::span<const PlantedFact> facts = PlantedFacts();
    for (size_t i = 0; i < facts.size(); ++i) {
      if (stopped_()) return Status(Code::kCancelled, "finding heads was cancelled");
      fact_ = &planted_.facts[i];
      LECTERN_RETURN_IF_ERROR(session_.Ask(facts[i].question, options).status());
      session_.Forget();
    }
    std::vector<HeadShare> shares;
    for (const auto& [key, share] : shares_) {
      const auto& [layer, head, from_last_row] = key;
      shares.push_back({{layer, head, from_last_row}, share / static_cast<double>(facts.size())});
    }
    return ChooseRetrievalHeads(std::move(shares));
  }

 private:
  void Add(const HeadStep& step) {
    shares_[{step.layer, step.head, false}] += ShareOfFact(step.all_rows);
    shares_[{step.layer, step.head, true}] += ShareOfFact(step.last_row);
  }

  // A token counts for the fact that holds its last byte.
  double ShareOfFact(std::span<const double> mass) const {
    const std::span<const TokenizedText::Range> ranges = session_.indexed().ranges();
    double of_fact = 0, of_text = 0;
    for (size_t t = 0; t < ranges.size(); ++t) {
      if (ranges[t].end <= ranges[t].begin) continue;
      of_text += mass[t];
      if (ranges[t].end > fact_->begin && ranges[t].end <= fact_->end) of_fact += mass[t];
    }
    return of_text > 0 ? of_fact / of_text : 0;
  }

  DocumentSession& session_;
  const PlantedText& planted_;
  const std::function<bool()>& stopped_;
  const PlantedText::Range* fact_ = nullptr;  // that the running question is about
  std::map<std::tuple<uint32_t, uint32_t, bool>, double> shares_;
};

Result<RetrievalHeads> Measure(const IndexContext& context, const std::string& store,
                               const std::function<bool()>& stopped) {
  const PlantedText planted = MakePlantedText();
  const IndexContext apart = {.env = context.env,
                              .store = store,
                              .model = context.model,
                              .backend = context.backend,
                              .threads = context.threads,
                              .ram = context.ram};
  IndexOptions options;
  options.kv_budget = 1;
  options.on_progress = [&](const IndexProgress&) { return !stopped(); };
  LECTERN_ASSIGN(const IndexReport report, IndexDocument(apart, planted.text, options));
  LECTERN_ASSIGN(const auto catalog,
                 Catalog::Open(context.env, CatalogPath(store), Catalog::Mode::kReadOnly));
  LECTERN_ASSIGN(const auto row, catalog->FindReady(*ParseDocumentId(report.document)));
  LECTERN_ASSIGN(auto document, OpenReady(apart, store, *catalog, *row));
  const std::shared_ptr<void> nothing;
  LECTERN_ASSIGN(const auto session,
                 DocumentSession::Create(
                     std::move(document), std::shared_ptr<const Model>(nothing, &context.model),
                     context.backend, std::shared_ptr<ThreadPool>(nothing, &context.threads), 0));
  return HeadMeter(*session, planted, stopped).Run();
}

}  // namespace

RetrievalHeads ChooseRetrievalHeads(std::vector<HeadShare> shares) {
  std::ranges::stable_sort(shares, std::ranges::greater(), &HeadShare::share);
  RetrievalHeads found;
  if (shares.empty() || !(shares.front().share >= kLeastBest)) return found;
  for (const HeadShare& head : shares) {
    if (found.heads.size() == kMostRetrievalHeads) break;
    if (head.share >= shares.front().share / 2) found.heads.push_back(head.head);
  }
  std::ranges::sort(found.heads, {}, [](const RetrievalHead& h) {
    return std::tuple(h.layer, h.head, h.from_last_row);
  });
  return found;
}

Result<std::optional<RetrievalHeads>> FindRetrievalHeads(const IndexContext& context,
                                                         const Catalog& catalog,
                                                         const std::function<bool()>& stopped) {
  if (auto known = KnownHeads(context, catalog)) return known;
  LECTERN_ASSIGN(const PreparedDocument prepared,
                 PrepareDocument(context.model, MakePlantedText().text, {}));
  const uint64_t needed = CostOnDisk(context.model.config(), {}, prepared).peak;
  const Status room = CheckFreeSpace(context.env, context.store, needed);
  if (room.code() == Code::kNoSpace) return std::optional<RetrievalHeads>();
  LECTERN_RETURN_IF_ERROR(room);
  const std::string store = PlantedStore(context.store);
  LECTERN_RETURN_IF_ERROR(context.env.RemoveTree(store));
  auto found = Measure(context, store, stopped);
  (void)context.env.RemoveTree(store);  // a later collection removes what is left
  LECTERN_RETURN_IF_ERROR(found.status());
  return std::optional<RetrievalHeads>(*std::move(found));
}

}  // namespace lectern
