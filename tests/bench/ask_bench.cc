// Our side of compare_llama_cpp.py: the flows with a clock around them, commands on standard input.
// WEIGHTS: stored, q8 or q4 (engine/model/weights/weights.h). One thread but where THREADS says
// otherwise, and in `index`, which has all: its report's times are nobody's figures.
//
//   ask_bench index MODEL STORE WEIGHTS TOKENS [PREFILLED [TEXT]]
//     Indexes a text of TOKENS tokens under that name, or the first ones of a file, at most TOKENS.
//     Only the first PREFILLED of the tokens (default: all) and the last chunk run through the
//     model; the KV of those between repeats the first, each row with noise of a quarter of its
//     size, so that great depths cost minutes, not hours. Prints {"tokens":[…],"report":{…}};
//     tokens: of generated texts at most 4096.
//   ask_bench prefill MODEL STORE WEIGHTS TOKENS STRIDE [BUDGET]
//     Runs the chunks of 512 tokens that begin at 0, STRIDE, 2 STRIDE, … and the last of TOKENS,
//     the KV between them as above: all of them, a real prefill, where STRIDE is 512. STORE is for
//     quantised weights alone. Prints {"tokens":[…],"cpu_s":[…]}: of each chunk that ran. With a
//     BUDGET below 1 they are sparse, and "cluster_cpu_s" says what making the clusters took that
//     each of them reads (all of them: engine/indexing/prefill_clusters.h makes fewer).
//   ask_bench ask MODEL STORE TOKENS THREADS [MAX_RAM_MIB [DEVICE [DEVICE_MEMORY_MIB]]]
//     For each line "BUDGET QUESTION_TOKENS ANSWER_TOKENS [LOOKUP [QUESTION]]" asks a question of
//     so many tokens, template included, or the given one, with lookup decoding or without ("auto",
//     "off", the default), and prints {"question":[ids],"prefill_ms","prefill_cpu_ms","token_ms",
//     "token_cpu_ms","steps","read_prefill","read_decode","first":{"clock_s","cpu_s","rss_kb",
//     "anonymous_kb"},"anonymous_kb"}; times of a token are means over `steps`. `first`: when the
//     first token is known, on the steady clock, and what the process has used up to it, at most of
//     resident memory; the other anonymous_kb: at most, from then on (0 with a DEVICE, whose steps
//     nothing looks into). A limit of 0 is none.
//   ask_bench serve MODEL STORE TOKENS THREADS
//     For each line "SHARED BUDGET QUESTION_TOKENS ANSWER_TOKENS SESSIONS" asks so many different
//     questions at the same time, steps taken together where SHARED is 1 and each alone where it is
//     0, and prints {"tokens","passes","cpu_s","clock_s"}: tokens generated after all first ones
//     were known, passes over the weights for them (0 where they are not shared), and the times.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>
#include <thread>

#include "engine/asking/ask.h"
#include "engine/document/layer_shard.h"
#include "engine/engine.h"
#include "engine/indexing/index_document.h"
#include "engine/requests/report_json.h"
#include "store/store.h"

namespace lectern {
namespace {

double Seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double CpuSeconds() { return Seconds(CLOCK_PROCESS_CPUTIME_ID); }

// A field of /proc/self/status, in KiB; 0 if there is none of that name.
uint64_t StatusKb(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string name;
  uint64_t value = 0;
  while (status >> name) {
    if (name == key + ":" && status >> value) return value;
    std::getline(status, name);
  }
  return 0;
}

template <typename Number>
Json Numbers(const std::vector<Number>& values) {
  Json::Array array;
  for (const Number value : values) array.push_back(Json(value));
  return Json(std::move(array));
}

// Words, as `encode` counts them `tokens` tokens long. Most words are one token; the last ones are
// single letters, so that the count can be met. Other ones for another `seed`.
template <typename Encode>
Result<std::string> TextOf(size_t tokens, const Encode& encode, uint64_t seed = 1) {
  static const char* const kWords[] = {"the", "of", "and", "in",   "to", "was",  "is", "for",
                                       "on",  "as", "by",  "with", "at", "from", "it", "an"};
  uint64_t random = seed;
  const auto word = [&] {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return std::string(kWords[random >> 60]) + " ";
  };
  LECTERN_ASSIGN(const size_t empty, encode("it"));
  if (tokens < empty + 8) return Status(Code::kInvalidArgument, "too few tokens");
  std::string text;
  for (size_t i = 0; i < tokens - empty - 8; ++i) text += word();
  for (;;) {
    LECTERN_ASSIGN(const size_t count, encode(text + "it"));
    if (count == tokens) return text + "it";
    if (count > tokens) {
      return Status(Code::kInvalidArgument, "the tokenizer splits small words");
    }
    text += word();
  }
}

// Rows [begin, end) of a layer's keys or values, all kv heads side by side: those of the first
// `period` tokens over again, with noise.
std::vector<float> NoisyRows(const KvSpill& spill, uint32_t layer, bool values, uint64_t period,
                             uint64_t begin, uint64_t end) {
  const SpillShape& shape = spill.shape();
  const size_t cols = size_t{shape.num_kv_heads} * shape.head_dim;
  std::vector<float> rows((end - begin) * cols);
  uint64_t random = begin * 2654435761u + layer * 97 + values;
  for (uint32_t head = 0; head < shape.num_kv_heads; ++head) {
    const TypedRows from =
        values ? spill.Values(layer, head, period) : spill.Keys(layer, head, period);
    std::vector<float> source(period * shape.head_dim);
    ToFloatRowsScalar(from, Rows<float>(source.data(), period, shape.head_dim));
    for (uint64_t t = begin; t < end; ++t) {
      const float* row = source.data() + t % period * shape.head_dim;
      float squares = 0;
      for (size_t i = 0; i < shape.head_dim; ++i) squares += row[i] * row[i];
      const float step = 0.25f * std::sqrt(12 * squares / static_cast<float>(shape.head_dim));
      for (size_t i = 0; i < shape.head_dim; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const float uniform = static_cast<float>(random >> 40) * 0x1p-24f - 0.5f;
        rows[(t - begin) * cols + head * shape.head_dim + i] = row[i] + step * uniform;
      }
    }
  }
  return rows;
}

// Tokens from where the spill stands up to `end`.
Status Repeat(const Backend& backend, KvSpill& spill, uint64_t period, uint64_t end) {
  const SpillShape& shape = spill.shape();
  const size_t cols = size_t{shape.num_kv_heads} * shape.head_dim;
  for (uint64_t begin = spill.tokens_done(); begin < end; begin += 16 * kChunkTokens) {
    const uint64_t stop = std::min<uint64_t>(begin + 16 * kChunkTokens, end);
    for (uint32_t layer = 0; layer < shape.num_layers; ++layer) {
      std::vector<float> keys = NoisyRows(spill, layer, false, period, begin, stop);
      std::vector<float> values = NoisyRows(spill, layer, true, period, begin, stop);
      LECTERN_RETURN_IF_ERROR(spill.Append(backend, layer, begin, {keys.data(), stop - begin, cols},
                                           {values.data(), stop - begin, cols}));
      for (uint64_t t = begin; t < stop; ++t) spill.AddCosine(layer, 0.9);
    }
    for (uint64_t done = begin; done < stop; done += kChunkTokens) {
      spill.Advance(std::min<uint64_t>(done + kChunkTokens, stop));
    }
  }
  return {};
}

Result<std::shared_ptr<const Model>> LoadModel(const std::string& folder, const std::string& store,
                                               const std::string& weights) {
  const auto type = ParseWeightsName(weights);
  if (!type) return Status(Code::kInvalidArgument, "WEIGHTS is stored, q8 or q4");
  LECTERN_RETURN_IF_ERROR(LockStore(Env::Default(), store).status());  // for quantised weights
  return Model::Load(Env::Default(), folder, {.store = store, .weights = *type});
}

Result<std::string> DocumentOf(const Model& model, uint64_t tokens) {
  return TextOf(tokens, [&](const std::string& text) -> Result<size_t> {
    LECTERN_ASSIGN(const FixedContext context, model.EncodeDocument(text));
    return context.ids.size();
  });
}

// The first words of a file: as many as make at most `tokens` tokens.
Result<std::string> BeginningOf(const Model& model, const std::string& path, uint64_t tokens) {
  std::ifstream file(path);
  const std::string all(std::istreambuf_iterator<char>(file), {});
  std::vector<size_t> ends;
  for (size_t i = all.find(' '); i != std::string::npos; i = all.find(' ', i + 1))
    ends.push_back(i);
  ends.push_back(all.size());
  Status failed;
  const auto fits = [&](size_t end) {
    const auto context = model.EncodeDocument(all.substr(0, end));
    if (!context.ok()) failed = context.status();
    return context.ok() && context->ids.size() <= tokens;
  };
  const auto past = std::partition_point(ends.begin(), ends.end(), fits);
  LECTERN_RETURN_IF_ERROR(failed);
  if (past == ends.begin()) return Status(Code::kInvalidArgument, "no text in " + path);
  return all.substr(0, *std::prev(past));
}

Status Index(const Model& model, const std::string& store, uint64_t tokens, uint64_t prefilled,
             const std::string& file) {
  LECTERN_ASSIGN(const std::string text,
                 file.empty() ? DocumentOf(model, tokens) : BeginningOf(model, file, tokens));
  ThreadPool threads(DefaultThreads());  // nothing is timed here
  IndexContext context{.env = Env::Default(),
                       .store = store,
                       .model = model,
                       .backend = *DefaultBackend(),
                       .threads = threads};
  std::vector<int32_t> ids;
  const uint64_t last = (tokens - kChunkTokens) / kChunkTokens * kChunkTokens;
  context.prefill = [&](const Transformer& transformer, std::span<const int32_t> all,
                        KvSpill& spill, const PrefillOptions& options) -> Status {
    const size_t num_told = file.empty() ? std::min<size_t>(all.size(), 4096) : all.size();
    ids.assign(all.begin(), all.begin() + static_cast<ptrdiff_t>(num_told));
    PrefillOptions first = options;
    first.is_cancelled = [&] { return prefilled < tokens && spill.tokens_done() >= prefilled; };
    const Status status = Prefill(transformer, all, spill, first);
    if (status.code() != Code::kCancelled) return status;
    LECTERN_RETURN_IF_ERROR(Repeat(transformer.backend(), spill, prefilled, last));
    return Prefill(transformer, all, spill, options);
  };
  IndexOptions options;
  options.name = std::to_string(tokens);
  LECTERN_ASSIGN(const IndexReport report, IndexDocument(context, text, options));
  LECTERN_ASSIGN(Json json, ParseJson(IndexReportJson(report)));
  std::cout << Json(Json::Object{{"tokens", Numbers(ids)}, {"report", std::move(json)}}).Dump()
            << std::endl;
  return {};
}

Status MeasurePrefill(const Model& model, const std::string& store, uint64_t tokens,
                      uint64_t stride, double budget) {
  LECTERN_ASSIGN(const std::string text, DocumentOf(model, tokens));
  LECTERN_ASSIGN(const FixedContext context, model.EncodeDocument(text));
  const ModelConfig& config = model.config();
  SpillShape shape;
  shape.num_tokens = tokens;
  shape.num_layers = config.num_layers;
  shape.num_kv_heads = config.num_kv_heads;
  shape.head_dim = config.head_dim;
  shape.query_cols = config.num_heads * config.head_dim;
  shape.num_calibration = kWindowTokens;
  const std::string directory = store + "-prefill";  // in the store it would be rubbish
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  LECTERN_ASSIGN(const auto spill, KvSpill::Open(Env::Default(), directory, directory, shape));
  ThreadPool threads(1);
  const Transformer transformer(model, *DefaultBackend(), threads);
  std::vector<double> seconds, cluster_seconds;
  uint64_t begin = 0;
  double start = 0;
  PrefillOptions options;
  if (budget < 1) {
    options.sparse.emplace(
        SparsePrefill{Env::Default(), directory + "/prefill", directory, budget});
  }
  options.on_clusters = [&](uint64_t) {
    const double now = CpuSeconds();
    cluster_seconds.push_back(now - start);
    start = now;
  };
  options.on_chunk = [&](uint64_t) {
    const double now = CpuSeconds();
    seconds.push_back(now - start);
    start = now;
  };
  options.is_cancelled = [&] { return stride > kChunkTokens && spill->tokens_done() > begin; };
  for (Status status(Code::kCancelled, ""); !status.ok();) {
    LECTERN_RETURN_IF_ERROR(Repeat(transformer.backend(), *spill, kChunkTokens, begin));
    start = CpuSeconds();
    status = Prefill(transformer, context.ids, *spill, options);
    if (!status.ok() && status.code() != Code::kCancelled) return status;
    begin = std::min(begin + stride, tokens - kChunkTokens);
  }
  std::filesystem::remove_all(directory);
  std::cout << Json(Json::Object{{"tokens", Numbers(context.ids)},
                                 {"cpu_s", Numbers(seconds)},
                                 {"cluster_cpu_s", Numbers(cluster_seconds)}})
                   .Dump()
            << std::endl;
  return {};
}

// Time and memory that the process has used so far.
Json Used() {
  return Json(Json::Object{{"clock_s", Json(Seconds(CLOCK_MONOTONIC))},
                           {"cpu_s", Json(CpuSeconds())},
                           {"rss_kb", Json(StatusKb("VmHWM"))},
                           {"anonymous_kb", Json(StatusKb("RssAnon"))}});
}

// One line of `ask`.
struct BenchQuestion {
  double budget = 0;
  size_t question_tokens = 0, answer_tokens = 0;
  std::string lookup = "off", text;  // text: instead of one of so many tokens
};

Status AskOnce(const Model& model, DocumentSession& session, const BenchQuestion& asked,
               bool is_here) {
  std::vector<int32_t> ids;
  const auto encode = [&](const std::string& t) -> Result<size_t> {
    LECTERN_ASSIGN(ids, model.EncodeQuestion(t));
    return ids.size();
  };
  std::string question = asked.text;
  if (question.empty()) {
    LECTERN_ASSIGN(question, TextOf(asked.question_tokens, encode));
  } else {
    LECTERN_RETURN_IF_ERROR(encode(question).status());
  }
  session.Forget();
  AskOptions options;
  options.kv_budget = static_cast<float>(asked.budget);
  options.max_tokens = static_cast<uint32_t>(asked.answer_tokens) + 1;
  options.lookup_decoding = asked.lookup;
  double first = 0;
  Json used;
  uint64_t anonymous = 0;
  session.probe().on_first_logits = [&](std::span<const float>) {
    used = Used();
    first = CpuSeconds();
  };
  if (is_here) {
    session.probe().on_layer = [&](const LayerStep& step) {
      if (first > 0 && step.layer == 0) anonymous = std::max(anonymous, StatusKb("RssAnon"));
    };
  }
  const double start = CpuSeconds();
  LECTERN_ASSIGN(const Answer answer, session.Ask(question, options));
  const double end = CpuSeconds();
  const double steps = std::max(1.0, static_cast<double>(answer.answer_tokens) - 1);
  std::cout << Json(Json::Object{{"question", Numbers(ids)},
                                 {"prefill_ms", Json(answer.timings_ms.prefill)},
                                 {"prefill_cpu_ms", Json(1000 * (first - start))},
                                 {"token_ms", Json(answer.timings_ms.per_token)},
                                 {"token_cpu_ms", Json(1000 * (end - first) / steps)},
                                 {"steps", Json(steps)},
                                 {"read_prefill", Json(answer.kv.read_fraction_prefill)},
                                 {"read_decode", Json(answer.kv.read_fraction_decode.value_or(0))},
                                 {"first", std::move(used)},
                                 {"anonymous_kb", Json(anonymous)}})
                   .Dump()
            << std::endl;
  return {};
}

Status Ask(const EngineOptions& options, const std::string& name) {
  LECTERN_ASSIGN(const auto engine, Engine::Create(options));
  LECTERN_ASSIGN(const std::unique_ptr<Session> opened, engine->Open(name));
  auto& session = static_cast<DocumentSession&>(*opened);
  LECTERN_ASSIGN(const auto model,
                 Model::Load(Env::Default(), options.model, {.store = options.store}));
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    BenchQuestion asked;
    words >> asked.budget >> asked.question_tokens >> asked.answer_tokens;
    if (!(words >> asked.lookup)) asked.lookup = "off";
    std::getline(words >> std::ws, asked.text);
    LECTERN_RETURN_IF_ERROR(AskOnce(*model, session, asked, options.device.empty()));
  }
  return {};
}

Status ServeOnce(const Model& model, std::span<const std::unique_ptr<Session>> opened,
                 const std::shared_ptr<StepBatch>& batch, bool is_shared, AskOptions options,
                 size_t question_tokens) {
  std::vector<std::string> questions;
  for (size_t i = 0; i < opened.size(); ++i) {
    const auto encode = [&](const std::string& text) -> Result<size_t> {
      LECTERN_ASSIGN(const auto ids, model.EncodeQuestion(text));
      return ids.size();
    };
    LECTERN_ASSIGN(questions.emplace_back(), TextOf(question_tokens, encode, i + 1));
  }
  double cpu = 0, clock = 0;
  uint64_t passes = 0;
  std::barrier all_first(std::ssize(opened), [&]() noexcept {
    passes = batch->counts().passes;
    clock = Seconds(CLOCK_MONOTONIC);
    cpu = CpuSeconds();
  });
  std::vector<std::jthread> threads;
  std::vector<Status> failed(opened.size());
  std::vector<uint64_t> tokens(opened.size());
  for (size_t i = 0; i < opened.size(); ++i) {
    auto& session = static_cast<DocumentSession&>(*opened[i]);
    session.Forget();
    session.ShareSteps(is_shared ? batch : nullptr);
    session.probe().on_first_logits = [&](std::span<const float>) { all_first.arrive_and_wait(); };
    threads.emplace_back([&, i] {
      const Result<Answer> answer = opened[i]->Ask(questions[i], options);
      if (!answer.ok()) all_first.arrive_and_drop();
      failed[i] = answer.status();
      if (answer.ok()) tokens[i] = answer->answer_tokens - 1;
    });
  }
  threads.clear();
  cpu = CpuSeconds() - cpu;
  clock = Seconds(CLOCK_MONOTONIC) - clock;
  for (const Status& status : failed) LECTERN_RETURN_IF_ERROR(status);
  std::cout << Json(Json::Object{
                        {"tokens", Json(std::accumulate(tokens.begin(), tokens.end(), 0ul))},
                        {"passes", Json(batch->counts().passes - passes)},
                        {"cpu_s", Json(cpu)},
                        {"clock_s", Json(clock)}})
                   .Dump()
            << std::endl;
  return {};
}

Status Serve(const std::string& folder, const std::string& store, const std::string& name,
             size_t num_threads) {
  LECTERN_ASSIGN(const auto engine,
                 Engine::Create({.store = store, .model = folder, .num_threads = num_threads}));
  LECTERN_ASSIGN(const auto model, Model::Load(Env::Default(), folder, {.store = store}));
  std::vector<std::unique_ptr<Session>> sessions;
  std::shared_ptr<StepBatch> batch;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    bool is_shared = false;
    size_t question = 0, count = 0;
    AskOptions options;
    words >> is_shared >> options.kv_budget >> question >> options.max_tokens >> count;
    ++options.max_tokens;
    while (sessions.size() < count) {
      LECTERN_ASSIGN(sessions.emplace_back(), engine->Open(name));
      if (!batch) batch = static_cast<DocumentSession&>(*sessions.back()).step_batch();
    }
    LECTERN_RETURN_IF_ERROR(
        ServeOnce(*model, std::span(sessions).first(count), batch, is_shared, options, question));
  }
  return {};
}

Status Main(std::span<char*> args) {
  const std::string command = args.empty() ? "" : args[0];
  const bool has_budget = command == "prefill" && args.size() == 7;
  const double budget = has_budget ? std::strtod(args[6], nullptr) : 1;
  if (has_budget) args = args.first(6);
  const std::string file = command == "index" && args.size() == 7 ? args[6] : "";
  if (!file.empty()) args = args.first(6);
  if ((command == "index" || command == "prefill") && (args.size() == 5 || args.size() == 6)) {
    const uint64_t tokens = std::strtoull(args[4], nullptr, 10);
    const uint64_t last = args.size() == 6 ? std::strtoull(args[5], nullptr, 10) : tokens;
    LECTERN_ASSIGN(const auto model, LoadModel(args[1], args[2], args[3]));
    if (command == "prefill") {
      if (last == 0 || last % kChunkTokens != 0 || tokens % kChunkTokens != 0 || tokens == 0) {
        return {Code::kInvalidArgument, "TOKENS and STRIDE are multiples of 512"};
      }
      return MeasurePrefill(*model, args[2], tokens, last, budget);
    }
    if (last != tokens && (last % kChunkTokens != 0 || last + 1024 > tokens)) {
      return {Code::kInvalidArgument, "PREFILLED is a multiple of 512, 1024 below TOKENS"};
    }
    return Index(*model, args[2], tokens, last, file);
  }
  if (command == "ask" && args.size() >= 5 && args.size() <= 8) {
    const auto number = [&](size_t i) -> uint64_t {
      return i < args.size() ? std::strtoull(args[i], nullptr, 10) : 0;
    };
    return Ask({.store = args[2],
                .model = args[1],
                .num_threads = number(4),
                .max_ram_bytes = number(5) << 20,
                .device = args.size() > 6 ? args[6] : "",
                .device_memory_bytes = number(7) << 20},
               args[3]);
  }
  if (command == "serve" && args.size() == 5) {
    return Serve(args[1], args[2], args[3], std::strtoull(args[4], nullptr, 10));
  }
  return {
      Code::kInvalidArgument,
      "usage: ask_bench index MODEL STORE WEIGHTS TOKENS [PREFILLED [TEXT]] | prefill MODEL STORE "
      "WEIGHTS TOKENS STRIDE [BUDGET] | ask MODEL STORE TOKENS THREADS [MAX_RAM_MIB [DEVICE "
      "[DEVICE_MEMORY_MIB]]] | serve MODEL STORE TOKENS THREADS"};
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) {
  const lectern::Status status = lectern::Main(std::span(argv + 1, static_cast<size_t>(argc) - 1));
  if (status.ok()) return 0;
  std::fprintf(stderr, "ask_bench: %s\n", status.message().c_str());
  return 1;
}
