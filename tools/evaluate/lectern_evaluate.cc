// lectern-evaluate: how close answers at a budget come to exact ones, over many questions, for
// Lectern's own lookup, its parts, an oracle, and the lookup of the Squeezed Attention paper.
//
// Every method sees the same document, model, questions and byte budget. Attention errors are
// measured inside an exact run: each layer is fed with the exact run's input and attends a second
// time by each method. Answers are measured by running each method on its own.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "engine/ask.h"
#include "engine/engine.h"
#include "engine/json.h"
#include "tools/command_line.h"
#include "tools/evaluate/paper_lookup.h"
#include "tools/evaluate/true_mass.h"

namespace lectern::evaluate {
namespace {

constexpr char kTool[] = "lectern-evaluate";
constexpr double kLeastDocumentMass = 0.1;  // where errors are counted
constexpr uint32_t kMaxAnswerTokens = 48;

struct Flags {
  tools::EngineFlags engine;
  std::vector<double> budgets = {0.2, 0.125, 0.1, 0.05};
  std::vector<std::string> modes = {"default"}, answers = {"default"};
  std::vector<std::string> files;
  uint32_t limit = 0;         // questions per document; 0: all
  uint32_t calibration = 8;   // questions that choose the paper's thresholds
  std::string json;
};

const std::map<std::string, std::string> kModes = {
    {"default", "Lectern as it ships"},
    {"no-tail", "without the tail: what is not read does not count"},
    {"no-codes", "without row codes: whole clusters"},
    {"oracle", "the rows of most attention mass, and nothing else"},
    {"paper-1", "Squeezed Attention, one level"},
    {"paper-2", "Squeezed Attention, two levels"}};

// --- figures ------------------------------------------------------------------------------------

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return NAN;
  const auto at = static_cast<ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? NAN : sum / static_cast<double>(values.size());
}

struct Figures {
  // Relative L2 errors of a layer's attention output per token: question, answer.
  std::array<std::vector<double>, 2> errors;
  std::vector<double> recalled, read, kl;
  size_t questions = 0, right = 0, same = 0, exact_right = 0, same_where_right = 0;
  size_t facts = 0, first_passage = 0, any_passage = 0;  // of rightly answered single facts
};

// Length class in K tokens, mode, budget.
using Key = std::tuple<uint64_t, std::string, double>;
using Results = std::map<Key, Figures>;

std::vector<double> LogSoftmax(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - largest);
  std::vector<double> result;
  for (const float x : logits) result.push_back(x - largest - std::log(sum));
  return result;
}

double Divergence(std::span<const float> exact, std::span<const float> other) {
  const auto p = LogSoftmax(exact), q = LogSoftmax(other);
  double kl = 0;
  for (size_t i = 0; i < p.size(); ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
  return kl;
}

// --- questions ----------------------------------------------------------------------------------

struct Question {
  std::string text, answer, kind;
  std::vector<std::pair<uint64_t, uint64_t>> passages;
};

Result<std::vector<Question>> ReadQuestions(const std::string& path, uint32_t limit) {
  std::ifstream file(path);
  if (!file) return Status(Code::kNotFound, "cannot read " + path);
  std::vector<Question> questions;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    LECTERN_ASSIGN(const Json json, ParseJson(line));
    const auto text = [&](const char* key) {
      const Json* value = json.Find(key);
      return value && value->string() ? *value->string() : std::string();
    };
    Question question = {text("question"), text("answer"), text("kind"), {}};
    if (question.text.empty() || question.answer.empty()) {
      return Status(Code::kInvalidArgument,
                    path + ": every line needs \"question\" and \"answer\"");
    }
    if (const Json* passages = json.Find("passages"); passages && passages->array()) {
      for (const Json& passage : *passages->array()) {
        const Json *begin = passage.Find("begin"), *end = passage.Find("end");
        if (!begin || !end) continue;
        question.passages.emplace_back(begin->unsigned_integer().value_or(0),
                                       end->unsigned_integer().value_or(0));
      }
    }
    questions.push_back(std::move(question));
    if (questions.size() == limit) break;
  }
  return questions;
}

// --- one document -------------------------------------------------------------------------------

class DocumentEvaluation {
 public:
  DocumentEvaluation(const Flags& flags, Engine& engine, std::string name, Results& results)
      : flags_(flags), engine_(engine), name_(std::move(name)), results_(results) {}

  Status Run(const std::vector<Question>& questions) {
    LECTERN_ASSIGN(const DocumentRow row, engine_.Find(name_));
    length_ = LengthClass(row.num_tokens);
    LECTERN_ASSIGN(const auto session, Open());
    if (!session->indexed().has_clusters()) {
      return {Code::kInvalidArgument, "document \"" + name_ +
                                          "\" has no clusters and is always read whole: there is "
                                          "nothing to compare; give one of 2,048 tokens or more"};
    }
    LECTERN_RETURN_IF_ERROR(PreparePaper(questions));
    for (size_t i = 0; i < questions.size(); ++i) {
      LECTERN_RETURN_IF_ERROR(Measure(questions[i]));
      std::cerr << '\r' << name_ << ": " << i + 1 << " of " << questions.size() << std::flush;
    }
    std::cerr << '\n';
    return {};
  }

 private:
  static uint64_t LengthClass(uint64_t tokens) {
    return static_cast<uint64_t>(std::exp2(std::round(std::log2(static_cast<double>(tokens) / 1024))));
  }

  Result<std::unique_ptr<DocumentSession>> Open() {
    LECTERN_ASSIGN(std::unique_ptr<Session> session, engine_.Open(name_));
    return std::unique_ptr<DocumentSession>(static_cast<DocumentSession*>(session.release()));
  }

  bool Uses(std::string_view mode) const {
    const auto in = [&](const std::vector<std::string>& list) {
      return std::find(list.begin(), list.end(), mode) != list.end();
    };
    return in(flags_.modes) || in(flags_.answers);
  }

  // K-means of the paper's way, and thresholds from the queries of some questions.
  Status PreparePaper(const std::vector<Question>& questions) {
    for (const uint32_t levels : {1u, 2u}) {
      if (!Uses("paper-" + std::to_string(levels))) continue;
      if (steps_.empty()) LECTERN_RETURN_IF_ERROR(CollectSteps(questions));
      LECTERN_ASSIGN(const auto session, Open());
      const std::string mode = "paper-" + std::to_string(levels);
      LECTERN_ASSIGN(paper_[mode],
                     PaperLookup::Build(session->indexed(), session->backend(), session->threads(),
                                        levels, 0));
      for (const double budget : flags_.budgets) {
        const auto thresholds = paper_[mode]->Calibrate(session->indexed(), session->backend(),
                                                        session->threads(), steps_, budget);
        LECTERN_RETURN_IF_ERROR(thresholds.status());
        thresholds_[{mode, budget}] = *thresholds;
      }
    }
    return {};
  }

  Status CollectSteps(const std::vector<Question>& questions) {
    const size_t count = std::min<size_t>(flags_.calibration, questions.size());
    for (size_t i = 0; i < count; ++i) {
      LECTERN_ASSIGN(const auto session, Open());
      session->on_layer = [&](const DocumentSession::LayerStep& step) {
        session->selector = [&](uint32_t layer, const LookupArgs& args) {
          steps_.push_back(PaperLookup::CopyStep(layer, args, step.num_tokens > 1));
          return Result<std::vector<HeadSelection>>(
              std::vector<HeadSelection>(args.heads.size()));
        };
        std::vector<float> ignored;
        (void)session->AttendAgain(step.layer, step.num_tokens, 0.5, false, ignored);
        session->selector = {};
      };
      LECTERN_RETURN_IF_ERROR(session->Ask(questions[i].text, Exact()).status());
    }
    return {};
  }

  static AskOptions Exact() {
    AskOptions options;
    options.kv_budget = 1;
    options.max_tokens = kMaxAnswerTokens;
    options.max_evidence = 0;
    return options;
  }

  // What `mode` chooses in the place of Lookup; empty: Lookup itself.
  Selector SelectorOf(const std::string& mode, double budget, const TrueMass* truth) {
    if (mode == "oracle") {
      return [truth](uint32_t, const LookupArgs& args) {
        return Result<std::vector<HeadSelection>>(truth->BestRows(args));
      };
    }
    if (mode == "no-codes") {
      return [](uint32_t, const LookupArgs& args) {
        LookupArgs without = args;
        without.row_codes = false;
        return Lookup(without);
      };
    }
    if (mode.starts_with("paper")) {
      return [this, mode, budget](uint32_t layer, const LookupArgs& args) {
        const bool is_prefill = args.queries[0].num_rows > group_;
        return Result<std::vector<HeadSelection>>(paper_.at(mode)->Select(
            layer, args, is_prefill, thresholds_.at({mode, budget})));
      };
    }
    return {};
  }

  static bool HasTail(const std::string& mode) { return mode == "default" || mode == "no-codes"; }

  Status Measure(const Question& question) {
    LECTERN_ASSIGN(const auto session, Open());
    group_ = session->query_group();
    Status failed;
    session->on_layer = [&](const DocumentSession::LayerStep& step) {
      if (Status status = MeasureLayer(*session, step); !status.ok()) failed = status;
    };
    std::vector<float> exact_logits;
    session->on_first_logits = [&](std::span<const float> logits) {
      exact_logits.assign(logits.begin(), logits.end());
    };
    LECTERN_ASSIGN(const Answer exact, session->Ask(question.text, Exact()));
    LECTERN_RETURN_IF_ERROR(failed);
    for (const std::string& mode : flags_.answers) {
      for (const double budget : flags_.budgets) {
        LECTERN_RETURN_IF_ERROR(MeasureAnswer(question, exact, exact_logits, mode, budget));
      }
    }
    return {};
  }

  Status MeasureAnswer(const Question& question, const Answer& exact,
                       std::span<const float> exact_logits, const std::string& mode,
                       double budget) {
    LECTERN_ASSIGN(const auto session, Open());
    Figures& figures = results_[{length_, mode, budget}];
    session->selector = SelectorOf(mode, budget, nullptr);
    session->on_first_logits = [&](std::span<const float> logits) {
      figures.kl.push_back(Divergence(exact_logits, logits));
    };
    AskOptions options = Exact();
    options.kv_budget = static_cast<float>(budget);
    options.tail = HasTail(mode);
    options.max_evidence = 3;
    LECTERN_ASSIGN(const Answer answer, session->Ask(question.text, options));
    const bool exact_right = exact.text == question.answer, same = answer.text == exact.text;
    ++figures.questions;
    figures.right += answer.text == question.answer;
    figures.same += same;
    figures.exact_right += exact_right;
    figures.same_where_right += exact_right && same;
    if (question.kind == "fact" && answer.text == question.answer && !question.passages.empty()) {
      const auto [begin, end] = question.passages.front();
      const auto states = [begin = begin, end = end](const Evidence& e) {
        return e.begin < end && begin < e.end;
      };
      ++figures.facts;
      figures.first_passage += !answer.evidence.empty() && states(answer.evidence.front());
      figures.any_passage += std::any_of(answer.evidence.begin(), answer.evidence.end(), states);
    }
    return {};
  }

  // Every method at every budget, on the exact run's queries.
  Status MeasureLayer(DocumentSession& session, const DocumentSession::LayerStep& step) {
    TrueMass truth;
    session.selector = [&](uint32_t, const LookupArgs& args) {
      auto mass = TrueMass::Of(args, step.lse);
      if (!mass.ok()) return Result<std::vector<HeadSelection>>(mass.status());
      truth = std::move(mass).value();
      return Result<std::vector<HeadSelection>>(std::vector<HeadSelection>(args.heads.size()));
    };
    std::vector<float> output;
    LECTERN_RETURN_IF_ERROR(
        session.AttendAgain(step.layer, step.num_tokens, 0.5, false, output).status());
    LECTERN_ASSIGN(const std::span<const HeadIndex> heads, session.indexed().Heads(step.layer));
    for (const std::string& mode : flags_.modes) {
      for (const double budget : flags_.budgets) {
        session.selector = SelectorOf(mode, budget, &truth);
        LECTERN_ASSIGN(const DocumentRead read,
                       session.AttendAgain(step.layer, step.num_tokens, budget, HasTail(mode),
                                           output));
        Figures& figures = results_[{length_, mode, budget}];
        AddErrors(step, output, figures.errors[step.num_tokens == 1]);
        figures.recalled.push_back(truth.Recalled(heads, read.heads));
        figures.read.push_back(static_cast<double>(read.bytes) /
                               static_cast<double>(read.dense_bytes));
      }
    }
    session.selector = {};
    return {};
  }

  // Of all query heads of one token together, where the document draws some of the mass.
  static void AddErrors(const DocumentSession::LayerStep& step, const std::vector<float>& output,
                        std::vector<double>& errors) {
    const size_t rows = step.attended[0].num_rows, dim = step.attended[0].num_cols;
    const size_t group = rows / step.num_tokens;
    for (size_t t = 0; t < step.num_tokens; ++t) {
      double difference = 0, norm = 0, document = 0;
      for (size_t head = 0; head < step.attended.size(); ++head) {
        for (size_t r = t * group; r < (t + 1) * group; ++r) {
          document += std::exp(step.document_lse[head][r] - step.lse[head][r]);
          for (size_t c = 0; c < dim; ++c) {
            const double exact = step.attended[head][r][c];
            const double other = output[(head * rows + r) * dim + c];
            difference += (exact - other) * (exact - other);
            norm += exact * exact;
          }
        }
      }
      document /= static_cast<double>(step.attended.size() * group);
      if (document >= kLeastDocumentMass) errors.push_back(std::sqrt(difference / norm));
    }
  }

  const Flags& flags_;
  Engine& engine_;
  const std::string name_;
  Results& results_;
  uint64_t length_ = 0;
  size_t group_ = 1;
  std::vector<PaperLookup::Step> steps_;
  std::map<std::string, std::unique_ptr<PaperLookup>> paper_;
  std::map<std::pair<std::string, double>, PaperLookup::Thresholds> thresholds_;
};

// --- the tables ---------------------------------------------------------------------------------

std::string Number(double value, int digits) {
  if (std::isnan(value)) return "";
  std::ostringstream text;
  text.precision(digits);
  text << std::fixed << value;
  return text.str();
}

std::string Percent(size_t part, size_t whole) {
  return whole == 0 ? "" : Number(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1);
}

std::vector<std::pair<std::string, std::string>> Columns(const Figures& f) {
  std::vector<double> errors = f.errors[0];
  errors.insert(errors.end(), f.errors[1].begin(), f.errors[1].end());
  return {{"error, mean", Number(Mean(errors), 4)},
          {"median", Number(Quantile(errors, 0.5), 4)},
          {"question, mean", Number(Mean(f.errors[0]), 4)},
          {"answer, mean", Number(Mean(f.errors[1]), 4)},
          {"mass recalled", Number(Mean(f.recalled), 4)},
          {"read", Number(Mean(f.read), 4)},
          {"read, least", Number(Quantile(f.read, 0), 4)},
          {"read, most", Number(Quantile(f.read, 1), 4)},
          {"questions", f.questions ? std::to_string(f.questions) : ""},
          {"exact right %", Percent(f.exact_right, f.questions)},
          {"right %", Percent(f.right, f.questions)},
          {"same %", Percent(f.same, f.questions)},
          {"same where right %", Percent(f.same_where_right, f.exact_right)},
          {"KL, mean", Number(Mean(f.kl), 4)},
          {"KL, median", Number(Quantile(f.kl, 0.5), 4)},
          {"first passage %", Percent(f.first_passage, f.facts)},
          {"a passage %", Percent(f.any_passage, f.facts)}};
}

void PrintMarkdown(const Results& results) {
  bool has_head = false;
  for (const auto& [key, figures] : results) {
    const auto columns = Columns(figures);
    if (!has_head) {
      std::cout << "| tokens | method | budget |";
      for (const auto& column : columns) std::cout << ' ' << column.first << " |";
      std::cout << "\n|";
      for (size_t i = 0; i < columns.size() + 3; ++i) std::cout << "---|";
      std::cout << '\n';
      has_head = true;
    }
    std::cout << "| " << std::get<0>(key) << "K | " << std::get<1>(key) << " | "
              << std::get<2>(key) << " |";
    for (const auto& column : columns) std::cout << ' ' << column.second << " |";
    std::cout << '\n';
  }
}

Status WriteJson(const Results& results, const std::string& path) {
  Json::Array rows;
  for (const auto& [key, figures] : results) {
    Json::Object row = {{"tokens", Json(std::get<0>(key) * 1024)},
                        {"method", Json(std::get<1>(key))},
                        {"budget", Json(std::get<2>(key))}};
    for (const auto& [name, value] : Columns(figures)) {
      row[name] = value.empty() ? Json(nullptr) : Json(std::stod(value));
    }
    rows.push_back(Json(std::move(row)));
  }
  std::ofstream file(path);
  file << Json(std::move(rows)).Dump() << '\n';
  if (!file.flush()) return {Code::kIoError, "cannot write " + path};
  return {};
}

// --- main ---------------------------------------------------------------------------------------

// The document of FILE.jsonl: FILE in the store; made from FILE.txt when it is not there yet.
Result<std::string> EnsureIndexed(Engine& engine, const std::string& file) {
  const std::filesystem::path path(file);
  const std::string name = path.stem().string();
  if (engine.Find(name).ok()) return name;
  const std::string text_path = std::filesystem::path(path).replace_extension(".txt").string();
  std::ifstream text(text_path, std::ios::binary);
  if (!text) {
    return Status(Code::kNotFound,
                  "no document \"" + name + "\" in the store, and cannot read " + text_path);
  }
  std::ostringstream bytes;
  bytes << text.rdbuf();
  IndexOptions options;
  options.name = name;
  std::cerr << name << ": indexing\n";
  LECTERN_RETURN_IF_ERROR(engine.Index(bytes.str(), options).status());
  return name;
}

Status Evaluate(const Flags& flags, const tools::EngineFlags& engine_flags) {
  LECTERN_ASSIGN(const auto engine, Engine::Create({.store = engine_flags.store,
                                                    .model = engine_flags.model,
                                                    .num_threads = engine_flags.num_threads}));
  Results results;
  for (const std::string& file : flags.files) {
    LECTERN_ASSIGN(const std::vector<Question> questions, ReadQuestions(file, flags.limit));
    LECTERN_ASSIGN(const std::string name, EnsureIndexed(*engine, file));
    LECTERN_RETURN_IF_ERROR(DocumentEvaluation(flags, *engine, name, results).Run(questions));
  }
  PrintMarkdown(results);
  return flags.json.empty() ? Status() : WriteJson(results, flags.json);
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("How close answers at a budget come to exact ones.", kTool);
  tools::AddStoreFlags(app, flags.engine);
  tools::AddModelFlags(app, flags.engine);
  std::string list;
  for (const auto& [mode, meaning] : kModes) list += "\n  " + mode + ": " + meaning;
  std::map<std::string, std::string> runnable = kModes;
  runnable.erase("oracle");  // knows the exact run's attention, not that of its own
  app.add_option("--budgets", flags.budgets, "KV budgets, each in [0.001, 0.999]: 1 is exact")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(tools::NumberBetween(0.001, 0.999));
  app.add_option("--modes", flags.modes, "methods whose attention errors are measured:" + list)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(tools::OneOf(kModes));
  app.add_option("--answers", flags.answers, "methods whose answers are measured")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(tools::OneOf(runnable));
  app.add_option("--limit", flags.limit, "questions per document; 0: all");
  app.add_option("--calibration", flags.calibration,
                 "questions of each document that choose the paper's thresholds")
      ->check(CLI::PositiveNumber);
  app.add_option("--json-file", flags.json, "writes the figures there too");
  app.add_option("FILE.jsonl", flags.files,
                 "questions; the document is of the same name in the store, or FILE.txt")
      ->required();
  if (const auto status = tools::ParseCommandLine(app, argc, argv)) return *status;
  auto with_environment = tools::WithEnvironment(flags.engine);
  if (!with_environment.ok()) {
    return tools::PrintError(kTool, with_environment.error(), flags.engine.style);
  }
  const Status status = Evaluate(flags, *with_environment);
  if (status.ok()) return 0;
  std::cerr << kTool << ": " << status.message() << '\n';
  return ExitStatus(status.code());
}

}  // namespace
}  // namespace lectern::evaluate

int main(int argc, char** argv) {
  return lectern::tools::RunTool("lectern-evaluate",
                                 [&] { return lectern::evaluate::Main(argc, argv); });
}
