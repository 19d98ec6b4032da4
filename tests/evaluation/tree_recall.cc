// Do blocks and upper levels cost recall against flat K-means, and what time do they save?
//
//   tree_recall MODEL TEXT [QUESTIONS.jsonl]
//
// Prefills the text, then clusters the keys of every layer and kv head: our tree of two levels; our
// tree of one level; and one K-means into as many clusters over all keys. Of each, the best finest
// clusters by S (index/lookup.h) are taken whole, up to 10 % of the keys, for one token's query
// group at a time; recall is the exact attention mass of what was taken, as a share of the mass on
// all clustered keys (sinks and window are read anyway), mean over query heads and tokens.
// `searched`: two levels (0.2 % and 2 % of the keys), of which only the best top clusters are
// opened until this share of the bytes of all finest centroids is touched, top level included.
// Queries: the document's last 100 tokens, and the questions, which follow the document one after
// another. Prints a Markdown table; times are of one thread.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "engine/document/layer_shard.h"
#include "engine/indexing/index_document.h"
#include "engine/indexing/prefill.h"
#include "engine/model/formats/json.h"
#include "index/build.h"
#include "index/kmeans.h"
#include "kernels/second_order.h"

namespace lectern {
namespace {

constexpr double kKeptShare = 0.1;

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "tree_recall: %s\n", status.message().c_str());
  std::exit(1);
}
template <typename T>
T Take(Result<T> result) {
  Check(result.status());
  return std::move(result).value();
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One level of one kv head.
struct Level {
  std::vector<float> centroids;   // [clusters, head_dim]
  std::vector<float> log_counts;  // [clusters]
  std::vector<float> deviations;  // [clusters]: sqrt of the variances
  size_t num_clusters() const { return log_counts.size(); }
};

struct Clusters {
  Level finest, top;                           // top: empty where there is one level
  std::vector<uint32_t> children;              // [top clusters + 1]
  std::vector<std::vector<uint32_t>> members;  // keys of the finest clusters
  // Finest clusters of the best top ones alone, to this share of all; 1: all.
  double searched = 1;
  double seconds = 0;
};

Level ToLevel(const TreeLevel& stored, size_t dim) {
  Level level;
  level.centroids.resize(stored.num_clusters() * dim);
  ToFloatRowsScalar(stored.Centroids(dim), {level.centroids.data(), stored.num_clusters(), dim});
  for (const uint32_t count : stored.key_counts) {
    level.log_counts.push_back(std::log(static_cast<float>(count)));
  }
  for (const float variance : stored.variances) level.deviations.push_back(std::sqrt(variance));
  return level;
}

Clusters OurTree(const Backend& backend, Rows<const float> keys, std::vector<double> fractions) {
  const auto start = std::chrono::steady_clock::now();
  BuildOptions options;
  options.fractions = std::move(fractions);
  options.row_codes = false;
  CentroidTree tree = Take(BuildTree(backend, keys, keys, options));
  Clusters result;
  result.seconds = SecondsSince(start);
  const TreeLevel& finest = tree.levels.back();
  for (size_t i = 0; i < finest.num_clusters(); ++i) {
    result.members.emplace_back(tree.order.begin() + finest.children[i],
                                tree.order.begin() + finest.children[i + 1]);
  }
  result.finest = ToLevel(finest, keys.num_cols);
  if (tree.levels.size() > 1) {
    result.top = ToLevel(tree.levels.front(), keys.num_cols);
    result.children = tree.levels.front().children;
  }
  return result;
}

Clusters Searched(Clusters clusters, double share) {
  clusters.searched = share;
  return clusters;
}

Clusters Flat(const Backend& backend, Rows<const float> keys) {
  const auto start = std::chrono::steady_clock::now();
  const size_t dim = keys.num_cols;
  std::vector<float> unit(keys.num_rows * dim);
  for (size_t i = 0; i < keys.num_rows; ++i) {
    const double squares = std::inner_product(keys[i], keys[i] + dim, keys[i], 0.0);
    for (size_t c = 0; c < dim; ++c) {
      unit[i * dim + c] = squares > 0 ? static_cast<float>(keys[i][c] / std::sqrt(squares)) : 0;
    }
  }
  KMeansOptions options;
  options.num_clusters =
      static_cast<uint32_t>(LevelFractions(1).back() * static_cast<double>(keys.num_rows));
  const auto labels = Take(KMeans(backend, {unit.data(), keys.num_rows, dim}, options));
  Clusters result;
  result.members.resize(options.num_clusters);
  for (uint32_t i = 0; i < labels.size(); ++i) result.members[labels[i]].push_back(i);
  std::erase_if(result.members, [](const auto& members) { return members.empty(); });
  for (const auto& members : result.members) {
    std::vector<double> sum(dim);
    for (const uint32_t i : members) {
      for (size_t c = 0; c < dim; ++c) sum[c] += keys[i][c];
    }
    for (const double x : sum) {
      result.finest.centroids.push_back(
          static_cast<float>(x / static_cast<double>(members.size())));
    }
    const float* centroid = &result.finest.centroids[result.finest.centroids.size() - dim];
    double squares = 0;
    for (const uint32_t i : members) {
      for (size_t c = 0; c < dim; ++c) {
        squares += (double{keys[i][c]} - centroid[c]) * (double{keys[i][c]} - centroid[c]);
      }
    }
    const auto count = static_cast<double>(members.size());
    result.finest.log_counts.push_back(static_cast<float>(std::log(count)));
    result.finest.deviations.push_back(
        static_cast<float>(std::sqrt(squares / count / static_cast<double>(dim))));
  }
  result.seconds = SecondsSince(start);
  return result;
}

// logits[i] <- exp(logits[i]) / sum_j exp(logits[j]).
void Softmax(std::vector<float>& logits) {
  float largest = -INFINITY;
  for (const float x : logits) largest = std::max(largest, x);
  double sum = 0;
  for (float& x : logits) sum += x = std::exp(x - largest);
  for (float& x : logits) x = static_cast<float>(x / sum);
}

std::vector<float> Logits(const Backend& backend, Rows<const float> queries, TypedRows keys) {
  std::vector<float> logits(queries.num_rows * keys.num_rows);
  std::vector<float> scratch(AttendScratch(queries.num_rows, queries.num_cols));
  backend.key_logits({.queries = queries,
                      .keys = keys,
                      .scale = 1 / std::sqrt(static_cast<float>(queries.num_cols)),
                      .logits = {logits.data(), queries.num_rows, keys.num_rows},
                      .scratch = scratch});
  return logits;
}

// Log mass of a key of each cluster, by centroid and variance.
std::vector<float> MassLogits(const Backend& backend, Rows<const float> queries,
                              const Level& level) {
  std::vector<float> logits = Logits(backend, queries,
                                     {reinterpret_cast<const std::byte*>(level.centroids.data()),
                                      Dtype::kF32, level.num_clusters(), queries.num_cols});
  for (size_t r = 0, at = 0; r < queries.num_rows; ++r) {
    const float norm =
        Norm({queries[r], queries.num_cols}) / std::sqrt(static_cast<float>(queries.num_cols));
    for (size_t i = 0; i < level.num_clusters(); ++i, ++at) {
      logits[at] += LogMeanExp(norm * level.deviations[i], level.log_counts[i]);
    }
  }
  return logits;
}

// S of each cluster of which `is_open`, 0 of the others; `rest` [rows]: mass besides, on the scale
// of exp(logits - largest of the row) with the same `largest` [rows].
std::vector<double> Scores(const std::vector<float>& logits, const std::vector<float>& log_counts,
                           const std::vector<bool>& is_open, const std::vector<float>& largest,
                           const std::vector<double>& rest) {
  const size_t num_clusters = log_counts.size();
  std::vector<double> scores(num_clusters);
  for (size_t r = 0; r < largest.size(); ++r) {
    const float* row = &logits[r * num_clusters];
    double total = rest[r];
    for (size_t i = 0; i < num_clusters; ++i) {
      if (is_open[i]) total += std::exp(double{row[i]} + log_counts[i] - largest[r]);
    }
    for (size_t i = 0; i < num_clusters; ++i) {
      if (is_open[i]) scores[i] += std::exp(double{row[i]} - largest[r]) / total;
    }
  }
  return scores;
}

std::vector<uint32_t> BestFirst(const std::vector<double>& scores) {
  std::vector<uint32_t> best(scores.size());
  std::iota(best.begin(), best.end(), 0u);
  std::sort(best.begin(), best.end(),
            [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  return best;
}

// S of the finest clusters; of those not looked up, 0.
std::vector<double> FinestScores(const Backend& backend, const Clusters& clusters,
                                 Rows<const float> queries) {
  const size_t num_finest = clusters.finest.num_clusters();
  std::vector<bool> is_open(num_finest, true);
  std::vector<double> rest(queries.num_rows);
  const std::vector<float> logits = MassLogits(backend, queries, clusters.finest);
  std::vector<float> largest;
  for (size_t r = 0; r < queries.num_rows; ++r) {
    const auto row = logits.begin() + static_cast<ptrdiff_t>(r * num_finest);
    largest.push_back(*std::max_element(row, row + static_cast<ptrdiff_t>(num_finest)));
  }
  if (clusters.searched < 1) {
    const size_t num_top = clusters.top.num_clusters();
    const std::vector<float> top = MassLogits(backend, queries, clusters.top);
    const std::vector<double> scores =
        Scores(top, clusters.top.log_counts, std::vector<bool>(num_top, true), largest, rest);
    is_open.assign(num_finest, false);
    double left =
        clusters.searched * static_cast<double>(num_finest) - static_cast<double>(num_top);
    for (const uint32_t i : BestFirst(scores)) {
      const uint32_t begin = clusters.children[i], end = clusters.children[i + 1];
      const bool fits = end - begin <= left;
      if (fits) left -= end - begin;
      for (uint32_t j = begin; j < end; ++j) is_open[j] = fits;
      for (size_t r = 0; r < queries.num_rows && !fits; ++r) {
        rest[r] += std::exp(double{top[r * num_top + i]} + clusters.top.log_counts[i] - largest[r]);
      }
    }
  }
  return Scores(logits, clusters.finest.log_counts, is_open, largest, rest);
}

// Mass recalled of one token's query group, mean over its rows. `weights` [group, keys]: exact.
double Recall(const Backend& backend, const Clusters& clusters, Rows<const float> queries,
              Rows<const float> weights) {
  const std::vector<double> scores = FinestScores(backend, clusters, queries);
  auto left = static_cast<size_t>(kKeptShare * static_cast<double>(weights.num_cols));
  double mass = 0;
  for (const uint32_t cluster : BestFirst(scores)) {
    const auto& members = clusters.members[cluster];
    if (members.size() > left || scores[cluster] == 0) continue;
    left -= members.size();
    for (size_t r = 0; r < queries.num_rows; ++r) {
      for (const uint32_t key : members) mass += weights[r][key];
    }
  }
  return mass / static_cast<double>(queries.num_rows);
}

constexpr const char* kWays[] = {"two levels", "searched to 40 %", "searched to 60 %", "one level",
                                 "flat"};
constexpr size_t kNumWays = std::size(kWays), kFlat = kNumWays - 1;

struct Figures {
  std::array<double, kNumWays> recall{};  // sums over tokens
  size_t tokens = 0;

  void Add(const std::array<double, kNumWays>& more) {
    for (size_t way = 0; way < kNumWays; ++way) recall[way] += more[way];
    ++tokens;
  }
  double Mean(size_t way) const { return recall[way] / static_cast<double>(tokens); }
};

struct Prefilled {
  std::filesystem::path folder;
  std::unique_ptr<KvSpill> spill;
  size_t document_tokens, query_tokens;  // the last of the former are among the latter
};

Prefilled PrefillText(const Model& model, const Backend& backend, ThreadPool& threads,
                      const std::string& text, const std::vector<std::string>& questions) {
  std::vector<int32_t> ids = Take(model.EncodeDocument(text)).ids;
  Prefilled result;
  result.document_tokens = ids.size();
  for (const std::string& question : questions) {
    const std::vector<int32_t> more = Take(model.EncodeQuestion(question));
    ids.insert(ids.end(), more.begin(), more.end());
  }
  result.query_tokens = ids.size() - result.document_tokens + kWindowTokens;
  std::string name = (std::filesystem::temp_directory_path() / "tree-recall-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) Check({Code::kIoError, "cannot make " + name});
  result.folder = name;
  const ModelConfig& config = model.config();
  SpillShape shape;
  shape.generation = 1;
  shape.num_tokens = ids.size();
  shape.num_layers = config.num_layers;
  shape.num_kv_heads = config.num_kv_heads;
  shape.head_dim = config.head_dim;
  shape.query_cols = config.num_heads * config.head_dim;
  shape.num_calibration = static_cast<uint32_t>(result.query_tokens);
  Check(Env::Default().MakeDirectory(name + "/tmp"));
  result.spill = Take(KvSpill::Open(Env::Default(), name + "/spill", name + "/tmp", shape));
  Check(Prefill(Transformer(model, backend, threads), ids, *result.spill, {}));
  return result;
}

// Recalls of one kv head: of the document's own queries, of the questions' and of both.
void Evaluate(const Backend& backend, const Prefilled& prefilled, uint32_t layer, uint32_t kv_head,
              Figures& own, Figures& asked, Figures& both) {
  const KvSpill& spill = *prefilled.spill;
  const size_t dim = spill.shape().head_dim;
  const TypedRows stored = spill.Keys(layer, kv_head, prefilled.document_tokens)
                               .Slice(kSinkTokens, prefilled.document_tokens - kWindowTokens);
  std::vector<float> keys(stored.num_rows * dim);
  backend.to_float_rows(stored, {keys.data(), stored.num_rows, dim});
  const Rows<const float> key_rows(keys.data(), stored.num_rows, dim);
  const Clusters small_top = OurTree(backend, key_rows, {0.002, 0.02});
  const std::array<Clusters, kNumWays> ways = {OurTree(backend, key_rows, LevelFractions(2)),
                                               Searched(small_top, 0.4), Searched(small_top, 0.6),
                                               OurTree(backend, key_rows, LevelFractions(1)),
                                               Flat(backend, key_rows)};

  const Rows<const float> all = spill.Queries(layer);
  const size_t group = all.num_cols / dim / spill.shape().num_kv_heads;
  Figures head;
  for (size_t t = 0; t < all.num_rows; ++t) {
    const Rows<const float> queries(all[t] + kv_head * group * dim, group, dim);
    std::vector<float> weights;
    const std::vector<float> logits = Logits(backend, queries, stored);
    for (size_t r = 0; r < group; ++r) {
      const auto row = logits.begin() + static_cast<ptrdiff_t>(r * stored.num_rows);
      std::vector<float> weight(row, row + static_cast<ptrdiff_t>(stored.num_rows));
      Softmax(weight);
      weights.insert(weights.end(), weight.begin(), weight.end());
    }
    const Rows<const float> exact(weights.data(), group, stored.num_rows);
    std::array<double, kNumWays> recall;
    for (size_t way = 0; way < kNumWays; ++way) {
      recall[way] = Recall(backend, ways[way], queries, exact);
    }
    head.Add(recall);
    (t < kWindowTokens ? own : asked).Add(recall);
    both.Add(recall);
  }
  std::printf("| %u | %u |", layer, kv_head);
  for (size_t way = 0; way < kNumWays; ++way) {
    std::printf(" %zu | %.4f | %.2f |", ways[way].members.size(), head.Mean(way),
                ways[way].seconds);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void PrintMean(const char* what, const Figures& figures) {
  if (figures.tokens == 0) return;
  std::printf("mean over %s:", what);
  for (size_t way = 0; way < kNumWays; ++way) {
    std::printf(" %s %.4f (%.4f of flat)", kWays[way], figures.Mean(way),
                figures.Mean(way) / figures.Mean(kFlat));
  }
  std::printf("\n");
}

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: tree_recall MODEL TEXT [QUESTIONS.jsonl]\n");
    return 2;
  }
  std::ifstream text_file(argv[2], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(text_file), {}};
  std::vector<std::string> questions;
  if (argc > 3) {
    std::ifstream file(argv[3]);
    for (std::string line; std::getline(file, line);) {
      const Result<Json> json = ParseJson(line);
      if (!json.ok() || json->Find("question") == nullptr) continue;
      questions.push_back(*json->Find("question")->string());
    }
  }
  const auto model = Take(Model::Load(Env::Default(), argv[1]));
  const Backend& backend = *DefaultBackend();
  ThreadPool threads(DefaultThreads());
  const Prefilled prefilled = PrefillText(*model, backend, threads, text, questions);
  std::printf("%s: %zu tokens, %zu questions, %zu query tokens, backend %s\n\n", argv[2],
              prefilled.document_tokens, questions.size(), prefilled.query_tokens, backend.name);
  std::printf("| layer | kv head |");
  for (const char* way : kWays) std::printf(" %s: clusters | recall | s |", way);
  std::printf("\n|---|---|");
  for (size_t way = 0; way < kNumWays; ++way) std::printf("---|---|---|");
  std::printf("\n");
  Figures own, asked, both;
  for (uint32_t layer = 0; layer < model->config().num_layers; ++layer) {
    for (uint32_t head = 0; head < model->config().num_kv_heads; ++head) {
      Evaluate(backend, prefilled, layer, head, own, asked, both);
    }
  }
  std::printf("\n");
  PrintMean("the document's own queries", own);
  PrintMean("the questions'", asked);
  PrintMean("all queries", both);
  std::error_code error;
  std::filesystem::remove_all(prefilled.folder, error);
  return 0;
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) { return lectern::Main(argc, argv); }
