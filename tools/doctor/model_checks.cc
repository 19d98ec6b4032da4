#include "tools/doctor/model_checks.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "engine/indexing/index_cost.h"
#include "engine/indexing/index_input.h"
#include "engine/model/model_source.h"
#include "engine/model/ollama.h"
#include "engine/requests/seconds.h"
#include "tools/doctor/kernel_test.h"
#include "tools/doctor/reading_test.h"
#include "tools/doctor/self_test.h"
#include "tools/doctor/size_estimate.h"
#include "tools/doctor/speed_trial.h"
#include "tools/doctor/weights_scan.h"
#include "tools/quantities.h"
#include "tools/terminal.h"

namespace lectern::doctor {
namespace {

constexpr uint64_t kSmallModel = 500'000'000;  // parameters; with fewer, simple questions go wrong
constexpr uint64_t kUsualTokens = 32768;       // of a document, where nobody says how many

using tools::Bytes;
using tools::Duration;
using tools::Grouped;
using tools::Short;

// Names of RopeRecipe::Kind, in its order; those of config.json's rope_type.
std::string_view RopeName(RopeRecipe::Kind kind) {
  constexpr std::string_view kNames[] = {"default", "llama3", "linear",
                                         "dynamic", "yarn",   "longrope"};
  return kNames[static_cast<size_t>(kind)];
}

// Where a model is, and in which of the three forms.
struct Located {
  std::string path, kind;  // "folder", "gguf", "ollama"
};
// Finds the model as the engine would. A path that does not exist is taken for a folder, so that
// opening it gives the engine's own error; so is a name where no models of Ollama are known. Errors
// of FindOllamaModel.
Result<Located> Locate(Env& env, const ModelQuestion& question) {
  LECTERN_ASSIGN(const FileInfo info, env.Info(env.Resolve(question.model)));
  if (info.type == FileInfo::Type::kDirectory) return Located{question.model, "folder"};
  if (info.type == FileInfo::Type::kRegular) return Located{question.model, "gguf"};
  if (question.ollama_models.empty() || !IsOllamaName(question.model))
    return Located{question.model, "folder"};
  LECTERN_ASSIGN(std::string path, FindOllamaModel(env, question.ollama_models, question.model));
  return Located{std::move(path), "ollama"};
}

std::string KindName(const std::string& kind) {
  if (kind == "folder") return "a Hugging Face folder";
  return kind == "gguf" ? "a GGUF file" : "a model of Ollama";
}

// The line "model".
Finding DescribeArchitecture(const Located& located, const ModelConfig& config) {
  const uint32_t windowed = config.num_layers - config.num_full_layers();
  Finding finding{.name = "model",
                  .text = located.path + " (" + KindName(located.kind) + "): architecture " +
                          config.architecture + ", " + std::to_string(config.num_layers) +
                          " layers, " + std::to_string(config.num_heads) +
                          " attention heads of size " + std::to_string(config.head_dim) + ", " +
                          std::to_string(config.num_kv_heads) + " for keys and values"};
  finding.values = {{"kind", located.kind},
                    {"path", located.path},
                    {"architecture", config.architecture},
                    {"layers", uint64_t{config.num_layers}},
                    {"hidden", uint64_t{config.hidden_size}},
                    {"heads", uint64_t{config.num_heads}},
                    {"kv_heads", uint64_t{config.num_kv_heads}},
                    {"head_dim", uint64_t{config.head_dim}},
                    {"vocabulary", uint64_t{config.vocab_size}},
                    {"windowed_layers", uint64_t{windowed}},
                    {"window", uint64_t{config.window}}};
  if (windowed > 0) {
    finding.text += ", " + std::to_string(windowed) + " of the layers see only the last " +
                    Grouped(config.window) + " tokens";
  }
  return finding;
}

// The line "context"; warns where a document of `tokens` alone fills it.
Finding DescribeContext(const ModelConfig& config, uint64_t tokens) {
  const auto unturned = std::ranges::count(config.unturned, true);
  Finding finding{.name = "context",
                  .text = "up to " + Grouped(config.max_positions) +
                          " tokens for document, questions and answers (RoPE: " +
                          std::string(RopeName(config.rope.kind)) +
                          (unturned == 0 ? ""
                                         : ", not in " + std::to_string(unturned) + " of " +
                                               std::to_string(config.num_layers) + " layers") +
                          ")"};
  finding.values = {{"max_tokens", uint64_t{config.max_positions}},
                    {"rope", RopeName(config.rope.kind)},
                    {"rope_theta", config.rope.theta}};
  if (tokens >= config.max_positions) {
    finding.Worsen(Verdict::kWarn, "a document of " + Grouped(tokens) +
                                       " tokens is refused: take a shorter one, or a model with "
                                       "a longer context");
  }
  return finding;
}

// The line "weights": the parameters, and the types in which they are stored, by their share (types
// of less than 0.1 %, norms mostly, are in the JSON alone).
Finding DescribeTensors(const TensorFiles& files, const ModelConfig& config,
                        uint64_t weights_bytes) {
  uint64_t parameters = 0;
  std::map<std::string, uint64_t> by_type;  // parameters
  for (const auto& [name, tensor] : files.tensors) {
    uint64_t count = 1;
    for (const uint64_t size : tensor.shape) count *= size;
    parameters += count;
    by_type[tensor.type_name] += count;
  }
  Finding finding{.name = "weights",
                  .text = Short(static_cast<double>(parameters) / 1e6) + " million parameters"};
  Json::Object types;
  std::string list;
  for (const auto& [type, count] : by_type) {
    const double share = static_cast<double>(count) / static_cast<double>(parameters);
    if (share >= 0.001) list += (list.empty() ? "" : ", ") + type + " " + tools::Percent(share);
    types[type] = count;
  }
  finding.text += " (" + list + "), ";
  const ExpertsConfig& experts = config.experts;
  if (experts.count > 0) {
    // All are on disk and mapped; a token is multiplied with those of its experts.
    const double unused = 3.0 * config.num_expert_layers() * (experts.count - experts.used) *
                          experts.width * config.hidden_size;
    const double active = std::max(0.0, static_cast<double>(parameters) - unused);
    finding.text += Short(active / 1e6) + " million of them for a token (" +
                    std::to_string(experts.used) + " of " + std::to_string(experts.count) +
                    " experts), ";
    finding.values["active_parameters"] = static_cast<uint64_t>(active);
  }
  finding.text += Bytes(weights_bytes) + (experts.count > 0 ? " mapped" : " in memory");
  if (parameters < kSmallModel) finding.text += "; a small model: expect mistakes";
  finding.values["parameters"] = parameters;
  finding.values["parameters_by_type"] = types;
  finding.values["bytes_in_use"] = weights_bytes;
  return finding;
}

// The line "assumed": where the model's files leave something open, what the reader took it to be.
Finding DescribeAssumptions(const std::vector<std::string>& sentences) {
  Finding finding{.name = "assumed", .text = ""};
  Json::Array all;
  for (const std::string& sentence : sentences) {
    finding.text += (finding.text.empty() ? "" : "; ") + sentence;
    all.emplace_back(sentence);
  }
  finding.values["assumptions"] = Json(std::move(all));
  return finding;
}

// The line "needs": disk space and memory for a document of question.tokens, beside the weights.
// The text is taken as 4 bytes a token, which is usual for English. The peak on disk is either the
// finished document, or the prefill's rows (the spill) with one layer's shard beside them, as
// index_document writes them.
Finding CheckNeeds(const ModelConfig& config, const ModelQuestion& question, uint64_t weights_bytes,
                   size_t num_threads) {
  const uint64_t n = question.tokens, layer = ShardBytes(config, Dtype::kF16, n);
  const uint64_t document = DocumentShardBytes(config, n, 4 * n);
  const uint64_t disk = config.num_layers * layer + document;
  const uint64_t peak = std::max(disk, SpillBytes(config, Dtype::kF16, n) + layer + document);
  const uint64_t indexing = IndexingBytes(config, n, num_threads) + TextBytes(4 * n, n);
  const uint64_t asking =
      ActivationBytes(config, kQuestionTokens) + LookupBytes(config, kQuestionTokens, n);
  Finding finding{.name = "needs",
                  .text = "a document of " + Grouped(n) + " tokens takes " + Bytes(disk) +
                          " of disk space (" + Bytes(peak) + " while it is indexed) and, beside " +
                          Bytes(weights_bytes) + " for the weights, " + Bytes(indexing) +
                          " of memory to index and " + Bytes(asking) + " to ask"};
  finding.values = {{"tokens", n},
                    {"disk_bytes", disk},
                    {"peak_disk_bytes", peak},
                    {"indexing_bytes", indexing},
                    {"asking_bytes", asking},
                    {"weights_bytes", weights_bytes}};
  if (weights_bytes > question.memory.available) {
    finding.Worsen(Verdict::kWarn,
                   "the weights do not fit into memory and would be read from "
                   "disk for every token: --weights q4, or a smaller model");
  }
  if (indexing > question.memory.available) {
    finding.Worsen(Verdict::kWarn,
                   "indexing takes more memory than there is: fewer --threads, or "
                   "a shorter document");
  }
  if (peak > question.free_disk) {
    finding.Worsen(Verdict::kWarn,
                   "the disk has too little room: --kv-type q8, --keep, or "
                   "--store elsewhere");
  }
  return finding;
}

// Runs the checks in their order and collects the findings. One use.
class ModelChecks {
 public:
  ModelChecks(Env& env, const ModelQuestion& question, const Backend& backend, ThreadPool& threads)
      : env_(env), question_(question), backend_(backend), threads_(threads) {}

  Findings Run() {
    // The first error ends the checks, with a failure of the stage at which it came. The findings
    // before it stay.
    if (Status status = Look(); !status.ok()) {
      findings_.push_back(Finding::Failed(
          stage_, status, "use another model, or repair this one; indexing would refuse it, too"));
    }
    return std::move(findings_);
  }

 private:
  // The checks that read the files alone; then Try, which loads layers. Errors become a failure of
  // stage_.
  Status Look() {
    stage_ = "model";
    LECTERN_ASSIGN(const Located located, Locate(env_, question_));
    LECTERN_ASSIGN(const auto source, OpenModelSource(env_, located.path, question_.io));
    const ModelConfig& config = source->config();
    findings_.push_back(DescribeArchitecture(located, config));
    // An eighth of the context is left for questions and answers.
    if (question_.tokens == 0) {
      question_.tokens = std::clamp<uint64_t>(config.max_positions / 8 * 7, 1, kUsualTokens);
    }
    max_positions_ = config.max_positions;
    findings_.push_back(DescribeContext(config, question_.tokens));
    LECTERN_ASSIGN(const bool is_config_alone, IsConfigAlone(located));
    if (is_config_alone) {
      findings_.push_back(EstimateSize(config, threads_));
      const auto q4 = findings_.back().values["q4_bytes"].number().value_or(0);
      findings_.push_back(
          CheckNeeds(config, question_, static_cast<uint64_t>(q4), threads_.num_threads()));
      return {};
    }
    stage_ = "tokenizer";
    LECTERN_ASSIGN(const auto tokenizer, source->MakeTokenizer());
    Finding kind{.name = "tokenizer",
                 .text = std::string(tokenizer->kind()) + ", " + Grouped(tokenizer->vocab_size()) +
                         " tokens in its vocabulary"};
    kind.values = {{"kind", tokenizer->kind()}, {"pieces", uint64_t{tokenizer->vocab_size()}}};
    findings_.push_back(std::move(kind));
    findings_.push_back(TestTokenizer(*tokenizer));
    const bool has_template = CheckTemplate(*source, *tokenizer, located.path);
    stage_ = "weights";
    LECTERN_ASSIGN(const TensorFiles* const files, source->Tensors());
    LECTERN_ASSIGN(const uint64_t bytes, Weights::BytesInUse(*files, config, question_.weights));
    findings_.push_back(DescribeTensors(*files, config, bytes));
    std::vector<std::string> assumed = source->assumptions();
    const std::vector<std::string>& more = tokenizer->assumptions();
    assumed.insert(assumed.end(), more.begin(), more.end());
    if (!assumed.empty()) {
      findings_.push_back(DescribeAssumptions(assumed));
    }
    weights_bytes_ = bytes;
    findings_.push_back(CheckNeeds(config, question_, bytes, threads_.num_threads()));
    return Try(located.path, config, has_template);
  }

  // Whether a folder has a config.json and neither weights nor a tokenizer: then sizes are told.
  Result<bool> IsConfigAlone(const Located& located) const {
    if (located.kind != "folder") return false;
    LECTERN_ASSIGN(const std::vector<std::string> names, env_.List(located.path));
    return std::ranges::none_of(names, [](const std::string& name) {
      return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") ||
             name.ends_with(".bin") || name.starts_with("tokenizer.");
    });
  }

  // Adds the line "chat template". False: the template that was asked for, or the model's own, does
  // not work; the later checks go on with the plain one.
  bool CheckTemplate(const ModelSource& source, const Tokenizer& tokenizer,
                     const std::string& path) {
    const auto found = FindTemplate(source);
    const auto made = found.ok()
                          ? ChatTemplate::Make(*found, tokenizer, path)
                          : Result<ChatTemplate>(found.status());
    if (!made.ok()) {
      findings_.push_back(
          Finding::Failed("chat template", made.status(),
                          "give --chat-template the one that the model was trained with, or "
                          "plain"));
      return false;
    }
    CheckRoom(*made, tokenizer);
    const bool is_own = made->name() == kOwnTemplate;
    Finding finding{.name = "chat template",
                    .text = is_own ? "the model's own, a Jinja program of " +
                                         Grouped(made->jinja().size()) + " bytes"
                                   : made->name()};
    if (!is_own && question_.chat_template.empty()) {
      finding.text = AskedPlainly(SuggestedChatFormat(tokenizer)).cli_text();
    }
    for (const std::string& assumption : made->assumptions()) finding.text += "; " + assumption;
    finding.values["name"] = made->name();
    if (!made->thinking().begin.empty()) finding.values["thinking"] = made->thinking().begin;
    findings_.push_back(std::move(finding));
    return true;
  }

  // Warns in the line "context" where the document would leave fewer positions than a question and
  // its answer need, because indexing refuses it then.
  void CheckRoom(const ChatTemplate& chat, const Tokenizer& tokenizer) {
    const auto room = LeastRoom(chat, tokenizer, chat.has_date() ? Today() : "");
    const auto context = std::ranges::find(findings_, "context", &Finding::name);
    if (!room.ok() || context == findings_.end() || question_.tokens >= max_positions_) return;
    const uint64_t left = max_positions_ - question_.tokens;
    if (left >= *room) return;
    context->Worsen(Verdict::kWarn, "a document of " + Grouped(question_.tokens) + " tokens leaves " +
                                        Grouped(left) + " positions and is refused: a question and "
                                        "its answer take " + Grouped(*room) +
                                        "; take a shorter one, or a model with a longer context");
  }

  // The template that was asked for, else the model's own, else the plain one.
  Result<ChatSource> FindTemplate(const ModelSource& source) const {
    if (!question_.chat_template.empty()) return FindChatSource(env_, question_.chat_template);
    LECTERN_ASSIGN(ChatSource own, source.FindChatTemplate());
    if (own.jinja.empty()) return ChatFormatNamed(kPlainTemplate);
    return own;
  }

  // The checks that load the model: first one layer, to test its kernels and to estimate how long
  // the others take, then all layers where that is short, and at last the speed.
  Status Try(const std::string& path, const ModelConfig& config, bool has_template) {
    ModelOptions options{
        .io = question_.io, .weights = question_.weights, .threads = &threads_, .first_layers = 1};
    if (has_template && !question_.chat_template.empty()) {
      LECTERN_ASSIGN(options.chat_template, FindChatSource(env_, question_.chat_template));
    } else if (!has_template) {
      LECTERN_ASSIGN(options.chat_template, ChatFormatNamed(kPlainTemplate));
    }
    const auto start = std::chrono::steady_clock::now();
    LECTERN_ASSIGN(const auto model, Model::Load(env_, path, options));
    // Loading takes time by the bytes, of which the embedding and one layer were loaded.
    const double loading = SecondsSince(start) * static_cast<double>(weights_bytes_) /
                           static_cast<double>(model->weights().bytes());
    findings_.push_back(TestKernels(*model, backend_, threads_));
    const Probe probe = MeasureLayer(*model, backend_, threads_);
    LECTERN_RETURN_IF_ERROR(TryWhole(path, options, loading + SecondsToRead(config, probe)));
    const SpeedQuestion speed = {.env = env_,
                                 .path = path,
                                 .options = options,
                                 .config = config,
                                 .tokens = question_.tokens,
                                 .layer_bytes = LayerBytes(*model)};
    findings_.push_back(EstimateSpeed(speed, probe, backend_, threads_));
    return {};
  }

  // Estimated seconds of TestReading.
  static double SecondsToRead(const ModelConfig& config, const Probe& probe) {
    return kReadingTokens * (config.num_layers * probe.layer_of_many + probe.output);
  }

  // The tests that need all layers. Where they would take more than a minute, or the weights do not
  // fit into memory, a finding says so instead.
  Status TryWhole(const std::string& path, ModelOptions options, double seconds) {
    constexpr double kMostSeconds = 60;  // chosen: a user waits for it
    const bool fits = weights_bytes_ <= question_.memory.available;
    if (seconds > kMostSeconds || !fits) {
      Finding skipped{.name = "reads",
                      .text = "not tried: " + (fits ? "it would take about " + Duration(seconds)
                                                    : "the weights do not fit into memory")};
      skipped.values["is_tried"] = false;
      findings_.push_back(std::move(skipped));
      return {};
    }
    options.first_layers = 0;
    LECTERN_ASSIGN(const auto model, Model::Load(env_, path, options));
    findings_.push_back(ScanWeights(*model, threads_));
    LECTERN_ASSIGN(Finding reads, TestReading(*model, backend_, threads_));
    findings_.push_back(std::move(reads));
    return {};
  }

  // Bytes of the first layer's matrices that a token is multiplied with, in the form in which they
  // are: packed ones as one byte a value. Of experts those that a token goes through.
  static double LayerBytes(const Model& model) {
    const LayerWeights& layer = model.weights().layer(0);
    double bytes = 0;
    const auto add = [&](const WeightMatrix& matrix) {
      const double values = static_cast<double>(matrix.num_rows() * matrix.num_cols());
      bytes += matrix.is_packed() ? values : values * RowBytes(matrix.rows.dtype, 32) / 32.0;
    };
    for (const WeightMatrix* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      add(*matrix);
    }
    for (size_t i = 0; i < std::min<size_t>(layer.experts.size(), model.config().experts.used);
         ++i) {
      for (const auto matrix : {&ExpertWeights::gate, &ExpertWeights::up, &ExpertWeights::down}) {
        add(layer.experts[i].*matrix);
      }
    }
    return bytes;
  }

  Env& env_;
  ModelQuestion question_;
  const Backend& backend_;
  ThreadPool& threads_;
  const char* stage_ = "model";
  uint64_t max_positions_ = 0;
  uint64_t weights_bytes_ = 0;  // of all layers
  Findings findings_;
};

}  // namespace

Findings CheckModel(Env& env, const ModelQuestion& question, const Backend& backend,
                    ThreadPool& threads) {
  return ModelChecks(env, question, backend, threads).Run();
}

}  // namespace lectern::doctor
