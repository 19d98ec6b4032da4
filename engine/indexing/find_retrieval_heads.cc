#include "engine/indexing/find_retrieval_heads.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/asking/ask.h"
#include "engine/indexing/index_cost.h"
#include "engine/indexing/index_document.h"
#include "engine/indexing/index_input.h"
#include "engine/indexing/planted_facts.h"
#include "engine/model/template/sampled_tokens.h"

namespace lectern {
namespace {

Result<std::shared_ptr<const Document>> OpenReady(const IndexContext& context,
                                                  const std::string& store, const Catalog& catalog,
                                                  const DocumentRow& row) {
  LECTERN_ASSIGN(const std::vector<ShardSummary> shards, catalog.Shards(row.generation));
  return Document::Open(context.env, DocumentDirectory(store, row.id, row.generation), row, shards,
                        context.reading());
}

// The record of the model's newest ready document. One that cannot be opened has none.
std::optional<ModelReading> KnownReading(const IndexContext& context, const Catalog& catalog) {
  const auto rows = catalog.List();
  if (!rows.ok()) return std::nullopt;
  const DocumentRow* newest = nullptr;
  for (const DocumentRow& row : *rows) {
    if (row.state != DocumentState::kReady) continue;
    if (row.fingerprint != context.model.fingerprint()) continue;
    if (newest == nullptr || row.generation > newest->generation) newest = &row;
  }
  if (newest == nullptr) return std::nullopt;
  const auto document = OpenReady(context, context.store, catalog, *newest);
  if (!document.ok() || !(*document)->retrieval_heads() || !(*document)->focus_trial()) {
    return std::nullopt;
  }
  return ModelReading{*(*document)->retrieval_heads(), *(*document)->focus_trial()};
}

// Asks about the planted facts, first with the whole text in view, to see where each head looks,
// then with a focus that the best of these heads help to choose.
class ReadingMeter {
 public:
  ReadingMeter(DocumentSession& session, const Model& model, const PlantedText& planted,
               const std::function<bool()>& stopped)
      : session_(session), model_(model), planted_(planted), stopped_(stopped) {}

  Result<ModelReading> Run() {
    session_.probe().on_head = [this](const HeadStep& step) { Add(step); };
    LECTERN_ASSIGN(const std::vector<ForcedTokens> whole, AskAll("off"));
    session_.probe().on_head = {};
    std::vector<HeadShare> shares;
    for (const auto& [key, share] : shares_) {
      const auto& [layer, head, from_last_row] = key;
      shares.push_back(
          {{layer, head, from_last_row}, share / static_cast<double>(whole.size())});
    }
    ModelReading reading = {.heads = ChooseRetrievalHeads(std::move(shares))};
    session_.UseHeads(reading.heads);
    LECTERN_ASSIGN(const std::vector<ForcedTokens> focused, AskAll("only"));
    reading.focus = CompareFocus(focused, whole);
    return reading;
  }

 private:
  // The model's own probabilities of the true answers' tokens, one for each question.
  Result<std::vector<ForcedTokens>> AskAll(const char* focus) {
    AskOptions options;
    options.kv_budget = focus == std::string_view("off") ? 1 : kAutoBudget;
    options.max_evidence = 0;
    options.focus = focus;
    std::vector<ForcedTokens> answers;
    const std::span<const PlantedFact> facts = PlantedFacts();
    for (size_t i = 0; i < facts.size(); ++i) {
      if (stopped_()) return Status(Code::kCancelled, "finding heads was cancelled");
      fact_ = &planted_.facts[i];
      LECTERN_ASSIGN(const std::vector<int32_t> ids, AnswerTokens(facts[i]));
      options.max_tokens = static_cast<uint32_t>(ids.size());
      LECTERN_ASSIGN(const ForcedTokens forced, Force(facts[i].question, ids, options));
      answers.push_back(forced);
      session_.Forget();
    }
    return answers;
  }

  // The answer behind its prompt, which some templates end before the space.
  Result<std::vector<int32_t>> AnswerTokens(const PlantedFact& fact) const {
    LECTERN_ASSIGN(const jinja::Rendered rendered,
                   model_.chat_template().Render({}, fact.question,
                                                 session_.indexed().template_date()));
    const bool has_space = rendered.text.ends_with(' ') || rendered.text.ends_with('\n');
    LECTERN_ASSIGN(TokenizedText answer, model_.tokenizer().EncodeContinuation(
                                             (has_space ? "" : " ") + std::string(fact.answer)));
    return std::move(answer.ids);
  }

  Result<ForcedTokens> Force(std::string_view question, std::span<const int32_t> ids,
                             const AskOptions& options) {
    Probe& probe = session_.probe();
    ForcedTokens forced = {.is_likeliest = true};
    probe.answer = ids;
    probe.on_token = [&](std::span<const float> logits, int32_t id) {
      forced.logprob += LogProbabilities(logits).Of(id) / static_cast<double>(ids.size());
      const auto likeliest = std::ranges::max_element(logits) - logits.begin();
      forced.is_likeliest &= likeliest == id;
    };
    const Status status = session_.Ask(question, options).status();
    probe.answer = {};
    probe.on_token = {};
    if (!status.ok()) return status;
    return forced;
  }

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
  const Model& model_;
  const PlantedText& planted_;
  const std::function<bool()>& stopped_;
  const PlantedText::Range* fact_ = nullptr;  // that the running question is about
  std::map<std::tuple<uint32_t, uint32_t, bool>, double> shares_;
};

Result<ModelReading> Measure(const IndexContext& context, const std::string& store,
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
  return ReadingMeter(*session, context.model, planted, stopped).Run();
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

Result<std::optional<ModelReading>> FindModelReading(const IndexContext& context,
                                                     const Catalog& catalog,
                                                     const std::function<bool()>& stopped) {
  if (auto known = KnownReading(context, catalog)) return known;
  LECTERN_ASSIGN(const PreparedDocument prepared,
                 PrepareDocument(context.model, MakePlantedText().text, {}));
  const uint64_t needed = CostOnDisk(context.model.config(), {}, prepared).peak;
  const Status room = CheckFreeSpace(context.env, context.store, needed);
  if (room.code() == Code::kNoSpace) return std::optional<ModelReading>();
  LECTERN_RETURN_IF_ERROR(room);
  const std::string store = PlantedStore(context.store);
  LECTERN_RETURN_IF_ERROR(context.env.RemoveTree(store));
  auto found = Measure(context, store, stopped);
  (void)context.env.RemoveTree(store);  // a later collection removes what is left
  LECTERN_RETURN_IF_ERROR(found.status());
  return std::optional<ModelReading>(*std::move(found));
}

}  // namespace lectern
