#include "tools/doctor/speed_trial.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>

#include "engine/asking/ask.h"
#include "engine/forward/transformer.h"
#include "engine/indexing/index_cost.h"
#include "engine/indexing/index_document.h"
#include "engine/requests/seconds.h"
#include "store/store.h"
#include "tools/doctor/reading_test.h"
#include "tools/quantities.h"

namespace lectern::doctor {
namespace {

using tools::Duration;
using tools::Grouped;
using tools::Short;

constexpr double kBudget = 0.1;  // kv budget of the questions that are timed
// Length of the trial's document: enough for clusters, whatever a template puts before it.
constexpr uint64_t kTrialTokens = kMinClusteredTokens + 64;
// A trial takes layers until it is estimated to take 4 s; if the least number of layers takes more
// than 20 s, there is none. Choices: a user waits for the whole check.
constexpr double kTrialSeconds = 4, kMostTrialSeconds = 20;
// A guess: time of a whole prefill over that of its layers' products. It decides how many layers a
// trial has, and so how long it takes, and no figure that is shown.
constexpr double kTrialOverhead = 1.5;
constexpr int kAsks = 4;  // questions of a trial, whose median counts
// Share of the clustering time at the trial's size that grows linearly with the tokens (codes,
// writing); the rest grows with tokens times clusters. A guess that was not measured:
// it matters for documents much longer than the trial's.
constexpr double kLinearClustering = 0.5;

// The least seconds of some tries within a quarter of a second: other work on the machine only adds
// time. Before each try 48 MiB are written, so that the caches hold other things, as they would
// with the rest of the model.
template <typename Work>
double BestSeconds(Work work) {
  std::vector<char> other(size_t{48} << 20);  // more than the last cache of most processors
  double best = 1e9;
  const auto begin = std::chrono::steady_clock::now();
  // At least two tries, as the first one meets pages that are not mapped yet.
  for (int i = 0; i < 2 || (i < 10 && SecondsSince(begin) < 0.25); ++i) {
    for (size_t at = 0; at < other.size(); at += 64) ++other[at];
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, SecondsSince(start));
  }
  return best;
}

// Operations (a multiplication and an addition are two) of one token's products in one layer.
double LayerFlops(const ModelConfig& c) {
  const double q = double{1} * c.num_heads * c.head_dim,
               kv = double{2} * c.num_kv_heads * c.head_dim;
  return 2.0 * c.hidden_size * (2 * q + kv + 3.0 * c.active_mlp());
}

// Operations of causal attention of `tokens` tokens among themselves in one layer: two products of
// head_dim for each pair of a token and one that it sees.
double AttentionFlops(const ModelConfig& c, size_t layer, double tokens) {
  const double seen = c.is_windowed(layer) ? std::min<double>(c.window, tokens) : tokens;
  const double pairs = tokens * seen - seen * seen / 2;
  return 4.0 * c.num_heads * c.head_dim * pairs;
}

// Seconds of a prefill at the probe's speed. The last layer ends with its keys and values: nothing
// reads its output.
double PrefillSeconds(const ModelConfig& c, size_t num_layers, double tokens, const Probe& probe) {
  const double second = LayerFlops(c) / probe.layer_of_many;  // operations in one
  const double kv = double{2} * c.num_kv_heads * c.head_dim * 2 * c.hidden_size;
  double seconds = tokens * kv / second;
  for (size_t layer = 0; layer + 1 < num_layers; ++layer) {
    seconds +=
        (tokens * LayerFlops(c) + probe.attention * AttentionFlops(c, layer, tokens)) / second;
  }
  return seconds;
}

// How many of the first layers see the whole document, as a double for the formulas here.
double NumFull(const ModelConfig& c, size_t num_layers) {
  double count = 0;
  for (size_t layer = 0; layer < num_layers; ++layer) count += c.is_windowed(layer) ? 0 : 1;
  return count;
}

// Clusters that a key is compared with while clustering, which index_cost counts as operations.
double ClustersMet(const ModelConfig& c, double tokens) {
  ModelConfig one = c;
  one.num_layers = one.num_kv_heads = one.head_dim = 1;
  return ClusterFlops(one, tokens) / tokens;
}

// Estimates in seconds. `index`: of the document. `question`: until an answer begins; `first`: the
// same for the question that meets a document first, whose rows are read from disk and verified.
// `token`: of one token of an answer.
struct Speeds {
  double index = 0, first = 0, question = 0, token = 0;
};

// Estimates from the probe of one layer alone. Rows of the document are taken to be read as fast as
// the bytes of weights that a single token's products read.
Speeds FromProbe(const SpeedQuestion& q, const Probe& probe) {
  const ModelConfig& c = q.config;
  const auto n = static_cast<double>(q.tokens);
  ModelConfig full = c;
  full.num_layers = static_cast<uint32_t>(NumFull(c, c.num_layers));
  const double read = full.num_layers == 0
                          ? 0
                          : kBudget * static_cast<double>(SpillBytes(full, Dtype::kF16, q.tokens)) *
                                probe.layer_of_one / q.layer_bytes;
  const double question =
      c.num_layers * double{kQuestionTokens} * probe.layer_of_many + read + probe.output;
  return {.index = PrefillSeconds(c, c.num_layers, n, probe),
          .first = question + read,
          .question = question,
          .token = c.num_layers * probe.layer_of_one + probe.output + read};
}

// --- the trial ---

// A folder that is removed at the end with everything in it. path() is empty where none could be
// made.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    const auto parent = std::filesystem::temp_directory_path(error);
    if (error) return;
    std::string path = (parent / "lectern-doctor-XXXXXX").string();
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A text of at least `tokens` tokens: sentences of the paragraph in changing order, so that neither
// the prefill nor the clusters see one paragraph repeated.
Result<std::string> TrialText(const Tokenizer& tokenizer, uint64_t tokens) {
  std::vector<std::string_view> sentences;
  const std::string_view all = ReadingParagraph();
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(". ", begin), all.size() - 1) + 1;
    sentences.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  LECTERN_ASSIGN(const TokenizedText once, tokenizer.Encode(all));
  const uint64_t rounds = tokens / std::max<uint64_t>(1, once.ids.size()) + 1;
  std::string text;
  for (uint64_t i = 0, at = 0; i < rounds * sentences.size(); ++i) {
    at = (at + 1 + i * i % 7) % sentences.size();
    text += (text.empty() ? "" : " ") + std::string(sentences[at]);
  }
  return text;
}

// Seconds that a trial measured: of indexing, by stages, and of asking. `cluster`, `calibrate` and
// `write` are of the whole document.
struct Trial {
  size_t num_layers = 0;
  double tokens = 0;
  double prefill = 0, cluster = 0, calibrate = 0, write = 0;
  double question = 0, token = 0;  // 0: it was too short to tell
  double first_extra = 0;          // of the question that meets the document first
};

// 0 of none.
double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Asks the trial's document some times and fills in the trial's seconds of asking.
Status AskTrial(const SpeedQuestion& q, const std::string& store,
                std::shared_ptr<const Model> model, const Backend& backend, ThreadPool& threads,
                Trial& trial) {
  LECTERN_ASSIGN(const auto catalog,
                 Catalog::Open(q.env, CatalogPath(store), Catalog::Mode::kReadOnly));
  LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog->List());
  if (rows.size() != 1) return {Code::kInternal, "the trial's store has another document"};
  LECTERN_ASSIGN(const std::vector<ShardSummary> shards, catalog->Shards(rows[0].generation));
  const std::shared_ptr<void> nothing;  // owns the pool that is the caller's
  // About as long as the question that is asked about, without what a template puts around it.
  const std::string_view text = ReadingParagraph().substr(0, 4 * kQuestionTokens);
  AskOptions options;
  options.max_tokens = 12;  // an answer of fewer than 4 gives no figure for a token
  options.kv_budget = static_cast<float>(kBudget);
  std::vector<double> questions, tokens, extras;
  for (int i = 0; i < kAsks; ++i) {
    // Opened anew, as by a process that asks one question.
    LECTERN_ASSIGN(
        const auto document,
        Document::Open(q.env, DocumentDirectory(store, rows[0].id, rows[0].generation), rows[0],
                       shards));
    LECTERN_ASSIGN(const auto session,
                   DocumentSession::Create(document, model, backend,
                                           std::shared_ptr<ThreadPool>(nothing, &threads), 0));
    LECTERN_ASSIGN(const Answer first, session->Ask(text, options));
    session->Forget();  // the next question has no turns before it, but open and verified files
    LECTERN_ASSIGN(const Answer answer, session->Ask(text, options));
    extras.push_back((first.timings_ms.first_token - answer.timings_ms.first_token) / 1000);
    questions.push_back(answer.timings_ms.first_token / 1000 * double{kQuestionTokens} /
                        static_cast<double>(std::max<uint64_t>(1, answer.question_tokens)));
    if (answer.answer_tokens >= 4) tokens.push_back(answer.timings_ms.per_token / 1000);
  }
  trial.first_extra = std::max(0.0, Median(extras));
  trial.question = Median(questions);
  trial.token = Median(tokens);
  return {};
}

// Indexes and asks a short document with the model's first layers. kIoError: there is no temporary
// folder. Errors of loading, indexing and asking.
Result<Trial> RunTrial(const SpeedQuestion& q, size_t num_layers, const Backend& backend,
                       ThreadPool& threads) {
  const TemporaryFolder folder;
  if (folder.path().empty()) return Status(Code::kIoError, "no temporary folder");
  ModelOptions options = q.options;
  options.first_layers = static_cast<uint32_t>(num_layers);
  options.threads = &threads;
  LECTERN_ASSIGN(const auto model, Model::Load(q.env, q.path, options));
  LECTERN_ASSIGN(const std::string text,
                 TrialText(model->tokenizer(), std::min(q.tokens, kTrialTokens)));
  const std::string store = folder.path() + "/store";
  const IndexContext context = {.env = q.env,
                                .store = store,
                                .model = *model,
                                .backend = backend,
                                .threads = threads,
                                .io = q.options.io};
  LECTERN_ASSIGN(const IndexReport report, IndexDocument(context, text, {}));
  Trial trial{.num_layers = num_layers,
              .tokens = static_cast<double>(report.tokens),
              .prefill = report.seconds.prefill,
              .cluster = report.seconds.cluster,
              .calibrate = report.seconds.calibrate,
              .write = std::max(0.0, report.seconds.write - report.seconds.calibrate)};
  LECTERN_RETURN_IF_ERROR(AskTrial(q, store, model, backend, threads, trial));
  return trial;
}

// How many of the first layers the trial takes: whole periods of full and windowed layers, so that
// both kinds have the share that they have in the model; 0: none, because even the least would take
// too long.
size_t TrialLayers(const SpeedQuestion& q, const Probe& probe) {
  const ModelConfig& c = q.config;
  size_t period = 1;
  while (period < c.num_layers && c.is_windowed(period - 1)) ++period;
  if (c.num_full_layers() == 0) period = 1;
  size_t layers = std::min<size_t>(std::max<size_t>(period, 2), c.num_layers);
  const auto tokens = static_cast<double>(std::min(q.tokens, kTrialTokens));
  const auto seconds = [&](size_t count) {
    return kTrialOverhead * PrefillSeconds(c, count + 1, tokens, probe);
  };
  if (seconds(layers) > kMostTrialSeconds) return 0;
  while (layers < c.num_layers &&
         seconds(std::min<size_t>(layers + period, c.num_layers)) <= kTrialSeconds) {
    layers = std::min<size_t>(layers + period, c.num_layers);
  }
  return layers;
}

// Seconds of a step that do not depend on the number of layers (output matrix, sampling, evidence):
// those of a trial with one layer, less that layer's products.
struct Fixed {
  double question = 0, token = 0;
};
Fixed FixedParts(const Probe& probe, const Trial& one) {
  const double question = one.question - double{kQuestionTokens} * probe.layer_of_many;
  return {.question = std::max(probe.output, question),
          .token = std::max(probe.output, one.token - probe.layer_of_one)};
}

// Estimates for the whole model and document from a trial with some of the layers. Each stage is
// scaled by what it depends on: the prefill by its operations, clustering by full layers, tokens
// and clusters met, writing by layers and tokens, questions by layers and by the rows that they
// read.
Speeds Extrapolate(const SpeedQuestion& q, const Probe& probe, const Trial& trial,
                   const Fixed& fixed) {
  const ModelConfig& c = q.config;
  const auto n = static_cast<double>(q.tokens);
  const double layers = static_cast<double>(c.num_layers) / static_cast<double>(trial.num_layers);
  const double full_of_trial = NumFull(c, trial.num_layers);
  const double full = full_of_trial > 0 ? NumFull(c, c.num_layers) / full_of_trial : 1;
  const double more = n / trial.tokens;

  const double prefill = trial.prefill * PrefillSeconds(c, c.num_layers, n, probe) /
                         PrefillSeconds(c, trial.num_layers, trial.tokens, probe);
  const double met = ClustersMet(c, n) / ClustersMet(c, trial.tokens);
  const double cluster =
      trial.cluster * full * more * (kLinearClustering + (1 - kLinearClustering) * met);
  // Rows beyond the trial's document: a step reads a tenth of them; the exact step that it is
  // compared with reads all.
  ModelConfig of_full = c;
  of_full.num_layers = static_cast<uint32_t>(NumFull(c, c.num_layers));
  const auto bytes = [&](double tokens) {
    return static_cast<double>(SpillBytes(of_full, Dtype::kF16, static_cast<uint64_t>(tokens)));
  };
  const double byte = probe.layer_of_one / q.layer_bytes;
  const double further =
      of_full.num_layers == 0 ? 0 : std::max(0.0, bytes(n) - bytes(trial.tokens)) * byte;
  // Four questions, each answered three times by about four tokens
  // (engine/indexing/calibrate_document.cc).
  constexpr double kCalibrationSteps = 4 * 3 * 4;
  const double outputs = kCalibrationSteps * fixed.token;
  const double calibrate = trial.calibrate == 0
                               ? 0
                               : std::max(0.0, trial.calibrate - outputs) * layers + outputs +
                                     kCalibrationSteps * further;
  const double question = std::max(0.0, trial.question - fixed.question) * layers +
                          fixed.question + kBudget * further;
  // A few layers' weights may stay in the caches, where all of them do not.
  const double cold = c.num_layers * probe.layer_of_one + fixed.token;
  const double warm = std::max(0.0, trial.token - fixed.token) * layers + fixed.token;
  return {.index = prefill + cluster + calibrate + trial.write * more * layers,
          .first = question + trial.first_extra * full * more,
          .question = question,
          .token = std::max(cold, warm) + kBudget * further};
}

}  // namespace

Probe MeasureLayer(const Model& model, const Backend& backend, ThreadPool& threads) {
  constexpr size_t kMany = 128;  // enough that arithmetic is the limit, as in a prefill
  const ModelConfig& c = model.config();
  const Transformer transformer(model, backend, threads, kMany);
  Activations a(c, kMany, threads.num_threads());
  const std::vector<int32_t> ids(kMany, 1);
  transformer.Embed(ids, 0, a);
  const auto layer = [&](size_t n) {
    (void)transformer.Project(0, n, a);  // on the CPU nothing fails
    (void)transformer.Finish(0, n, a);
  };
  std::vector<float> logits(c.vocab_size);
  Probe probe;
  probe.layer_of_many = BestSeconds([&] { layer(kMany); }) / kMany;
  probe.layer_of_one = BestSeconds([&] { layer(1); });
  probe.output = BestSeconds([&] {
    (void)transformer.Logits(0, 1, a, {logits.data(), 1, logits.size()});
  });

  // Blocks of query rows, as a prefill has them, over keys of 16 bits.
  constexpr size_t kRows = kQueryRowsPerItem, kKeys = 1024;
  const size_t dim = c.head_dim, items = threads.num_threads();
  const std::vector<f16> rows(kKeys * dim, ToF16(0.01f));
  const TypedRows keys = {reinterpret_cast<const std::byte*>(rows.data()), Dtype::kF16, kKeys, dim};
  struct Slot {
    std::vector<float> queries, out, max, sum, scratch;
  };
  std::vector<Slot> slots(items, {std::vector<float>(kRows * dim, 0.01f),
                                  std::vector<float>(kRows * dim), std::vector<float>(kRows),
                                  std::vector<float>(kRows),
                                  std::vector<float>(AttendScratch(kRows, dim))});
  const double seconds = BestSeconds([&] {
    threads.ParallelFor(items, [&](size_t item, size_t) {
      Slot& slot = slots[item];
      const AttentionState state = {{slot.out.data(), kRows, dim}, slot.max, slot.sum};
      ResetState(state);
      backend.attend({.queries = {slot.queries.data(), kRows, dim},
                      .keys = keys,
                      .values = keys,
                      .scale = 1,
                      .softcap = c.attention_softcap,
                      .visible = {},
                      .state = state,
                      .logits = {},
                      .scratch = slot.scratch});
    });
  });
  const double flops = 4.0 * kRows * kKeys * static_cast<double>(dim * items);
  probe.attention = seconds / flops / (probe.layer_of_many / LayerFlops(c));
  return probe;
}

Finding EstimateSpeed(const SpeedQuestion& question, const Probe& probe, const Backend& backend,
                      ThreadPool& threads) {
  const size_t layers = TrialLayers(question, probe);
  Speeds speeds = FromProbe(question, probe);
  std::string how = "from one layer", why;
  Json::Object values;
  if (layers > 0) {
    const auto trial = RunTrial(question, layers, backend, threads);
    const bool is_whole = layers == question.config.num_layers;
    const auto one = trial.ok() && !is_whole ? RunTrial(question, 1, backend, threads) : trial;
    if (trial.ok() && one.ok()) {
      const Fixed fixed = is_whole ? Fixed{probe.output, probe.output} : FixedParts(probe, *one);
      speeds = Extrapolate(question, probe, *trial, fixed);
      values["fixed"] = Json::Object{{"question", fixed.question}, {"token", fixed.token}};
      how = "from a document of " + Grouped(static_cast<uint64_t>(trial->tokens)) + " tokens and " +
            std::to_string(layers) + " of the " + std::to_string(question.config.num_layers) +
            " layers";
      values["trial"] = Json::Object{{"layers", uint64_t{layers}},
                                     {"tokens", trial->tokens},
                                     {"prefill", trial->prefill},
                                     {"cluster", trial->cluster},
                                     {"calibrate", trial->calibrate},
                                     {"write", trial->write},
                                     {"question", trial->question},
                                     {"first_extra", trial->first_extra},
                                     {"token", trial->token}};
    } else {
      why = (trial.ok() ? one : trial).status().message();
    }
  }
  const auto n = static_cast<double>(question.tokens);
  Finding finding{.name = "speed",
                  .text = "indexing " + Grouped(question.tokens) + " tokens takes about " +
                          Duration(speeds.index) + " (" + Short(n / speeds.index) +
                          " tokens/s); to questions of " + std::to_string(kQuestionTokens) +
                          " tokens the first answer begins after about " + Duration(speeds.first) +
                          ", later ones after " + Duration(speeds.question) + ", with " +
                          Short(1 / speeds.token) + " tokens/s (estimated " + how + ")"};
  values["is_estimate"] = true;
  values["how"] = how;
  if (!why.empty()) values["no_trial"] = why;
  values["tokens"] = question.tokens;
  values["index_seconds"] = speeds.index;
  values["index_tokens_per_second"] = n / speeds.index;
  values["question_tokens"] = kQuestionTokens;
  values["first_question_seconds"] = speeds.first;
  values["question_seconds"] = speeds.question;
  values["decode_tokens_per_second"] = 1 / speeds.token;
  values["attention_cost"] = probe.attention;
  finding.values = std::move(values);
  return finding;
}

}  // namespace lectern::doctor
