#include "tools/evaluate/document_evaluation.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "engine/asking/ask.h"
#include "engine/indexing/calibration_questions.h"
#include "engine/indexing/teacher_forcing.h"
#include "engine/model/formats/json.h"
#include "tools/evaluate/continuation.h"
#include "tools/evaluate/evicted_tail.h"
#include "tools/evaluate/modes.h"
#include "tools/evaluate/paper_lookup.h"
#include "tools/evaluate/true_mass.h"

namespace lectern::evaluate {
namespace {

// Errors are counted where a layer's heads pay at least this share of their attention to the
// document: where nearly all of it is on the question, the error is next to nothing whatever is
// read.
constexpr double kLeastDocumentMass = 0.1;
constexpr uint32_t kMaxAnswerTokens = 48;  // the questions' answers are names, numbers and lists

// Evaluates one document. Things that several methods share (exact answers, the paper's clusters,
// documents of fewer rows) are made when they are first needed and kept.
class DocumentEvaluation {
 public:
  DocumentEvaluation(const EvaluationOptions& options, Engine& engine, std::string name,
                     RawResults& results)
      : options_(options), engine_(engine), name_(std::move(name)), results_(results) {}

  // Measures errors before answers: the paper's lookup answers with the seed of least error.
  Status Run(const std::vector<Question>& questions) {
    LECTERN_ASSIGN(const DocumentRow row, engine_.Find(name_));
    num_tokens_ = row.num_tokens;
    bytes_on_disk_ = row.bytes_on_disk;
    LECTERN_ASSIGN(const auto session, Open());
    if (!session->indexed().has_clusters()) {
      return {Code::kInvalidArgument, "document \"" + name_ +
                                          "\" has no clusters and is always read whole: there is "
                                          "nothing to compare; give one of 2,048 tokens or more"};
    }
    group_ = session->query_group();
    const size_t num_errors = std::min<size_t>(options_.error_questions, questions.size());
    const size_t num_answers =
        options_.limit ? std::min<size_t>(options_.limit, questions.size()) : questions.size();
    for (size_t i = 0; i < num_errors; ++i) {
      LECTERN_RETURN_IF_ERROR(MeasureErrors(questions, i));
      std::cerr << '\r' << name_ << ": errors " << i + 1 << " of " << num_errors << std::flush;
    }
    for (size_t i = 0; i < num_answers; ++i) {
      LECTERN_RETURN_IF_ERROR(MeasureAnswers(questions, i));
      std::cerr << '\r' << name_ << ": answers " << i + 1 << " of " << num_answers << std::flush;
    }
    std::cerr << '\n';
    if (options_.continuation == 0) return {};
    return MeasureContinuation(engine_, name_, options_.continuation, AnswerBudgets(), results_);
  }

 private:
  // A mode, and the seed of its K-means if it is the paper's.
  struct Method {
    std::string mode;
    uint64_t seed = 0;
    bool is_paper() const { return mode.starts_with("paper"); }
    uint32_t num_levels() const { return mode == "paper-1" ? 1 : 2; }
  };

  // Opens a session on the document that a mode attends to: the one of fewer rows for METHOD@KEEP,
  // else the document itself, also for METHOD+tail@KEEP, whose selector reads parts of the whole.
  Result<std::unique_ptr<DocumentSession>> Open(const std::string& mode = "") {
    if (RetentionOfMode(mode) && !HasEvictedTail(mode)) return OpenKept(mode);
    return OpenByName(name_);
  }

  Result<std::unique_ptr<DocumentSession>> OpenByName(const std::string& name) {
    LECTERN_ASSIGN(std::unique_ptr<Session> session, engine_.Open(name));
    return AsDocumentSession(std::move(session));
  }

  // Opens a session on the document as a mode's retention leaves it, "NAME METHOD@KEEP", which is
  // made when it is first asked for.
  Result<std::unique_ptr<DocumentSession>> OpenKept(const std::string& mode) {
    IndexOptions options;
    options.retention = *RetentionOfMode(mode);
    const bool tail = HasEvictedTail(mode);
    if (tail && options.retention.keeps_all()) return Open();  // no row goes for clusters
    options.name = name_ + " " + KeptName(mode);
    if (!engine_.Find(options.name).ok()) {
      LECTERN_ASSIGN(const auto whole, Open());
      if (tail) {
        LECTERN_ASSIGN(options.retention.keep,
                       KeepBesideClusters(whole->indexed(), options.retention.keep));
      }
      std::cerr << options.name << ": indexing\n";
      LECTERN_RETURN_IF_ERROR(engine_.Index(whole->text(), options).status());
    }
    return OpenByName(options.name);
  }

  // The document of fewer rows of a mode; nullptr where the mode has no retention.
  Result<const Document*> Kept(const Method& method) {
    if (!RetentionOfMode(method.mode)) return nullptr;
    std::unique_ptr<DocumentSession>& kept = kept_[KeptName(method.mode)];
    if (!kept) {
      LECTERN_ASSIGN(kept, OpenKept(method.mode));
    }
    return &kept->indexed();
  }

  // Returns the evicted document, if the selector of the whole document needs it.
  Result<const Document*> Evicted(const Method& method) {
    return HasEvictedTail(method.mode) ? Kept(method) : nullptr;
  }

  // Exact mode: everything is read. No passages: they take time and are not compared.
  static AskOptions Exact() {
    AskOptions options;
    options.kv_budget = 1;
    options.max_tokens = kMaxAnswerTokens;
    options.max_evidence = 0;
    return options;
  }

  // The methods whose errors are measured: the paper's modes with each seed.
  std::vector<Method> ErrorMethods() const {
    std::vector<Method> methods;
    for (const std::string& mode : options_.modes) {
      const uint32_t num_seeds = mode.starts_with("paper") ? options_.paper_seeds : 1;
      for (uint32_t seed = 0; seed < num_seeds; ++seed) methods.push_back({mode, seed});
    }
    return methods;
  }

  // The method that answers in a mode: the paper's with the seed whose measured error is least at
  // this budget, which is to its advantage; without any measurement, with the first seed.
  Method AnswerMethod(const std::string& mode, double budget) const {
    Method best = {mode};
    if (!best.is_paper()) return best;
    double least = INFINITY;
    for (uint32_t seed = 0; seed < options_.paper_seeds; ++seed) {
      const double error = results_.MeanError(name_, mode, seed, budget);
      if (error < least) {
        least = error;
        best.seed = seed;
      }
    }
    return best;
  }

  // The key of a measurement in the results.
  Measurement Of(Measurement::What what, const Method& method, size_t question,
                 double budget) const {
    return {what, name_, question, method.mode, method.seed, budget};
  }

  // --- the paper's way ---

  // The paper's clusters of this document by this seed.
  Result<const PaperLookup*> Paper(uint64_t seed) {
    auto& lookup = paper_[seed];
    if (!lookup) {
      LECTERN_ASSIGN(const auto session, Open());
      LECTERN_ASSIGN(lookup, PaperLookup::Build(session->indexed(), session->backend(),
                                                session->threads(), seed));
    }
    return lookup.get();
  }

  // Makes ready what PaperSelect needs for a method of the paper (Squeezed Attention,
  // paper_lookup.h): the clusters of its mode and seed, and the thresholds with which the queries of
  // the first options_.calibration questions spend each budget. Does nothing for other methods, or
  // the second time; the queries are collected once, from exact answers. Errors of Ask and
  // PaperLookup.
  Status PreparePaper(const Method& method, const std::vector<Question>& questions) {
    if (!method.is_paper() || thresholds_.contains({method.mode, method.seed})) return {};
    if (steps_.empty()) {
      const size_t count = std::min<size_t>(options_.calibration, questions.size());
      for (size_t i = 0; i < count; ++i) {
        LECTERN_RETURN_IF_ERROR(CollectSteps(questions[i].text, steps_));
      }
    }
    LECTERN_ASSIGN(const PaperLookup* const lookup, Paper(method.seed));
    LECTERN_ASSIGN(const auto session, Open());
    LECTERN_ASSIGN(thresholds_[std::pair(method.mode, method.seed)],
                   lookup->Calibrate(session->indexed(), session->backend(), session->threads(),
                                     steps_, method.num_levels(), options_.budgets));
    return {};
  }

  // Adds the queries of every layer and step of an exact answer to `steps`. It asks exactly, and
  // lets each layer attend a second time with a selector that takes a copy of its arguments and
  // selects nothing; the second output is thrown away, so that the answer stays exact.
  Status CollectSteps(const std::string& question, std::vector<PaperLookup::Step>& steps) {
    LECTERN_ASSIGN(const auto session, Open());
    session->probe().on_layer = [&](const LayerStep& step) {
      session->probe().selector = [&](uint32_t layer, const LookupArgs& args) {
        steps.push_back(PaperLookup::CopyStep(layer, args, step.num_tokens > 1));
        return Result<std::vector<HeadSelection>>(std::vector<HeadSelection>(args.heads.size()));
      };
      // An error of reading comes up again in the exact answer, which reads everything.
      std::vector<float> ignored;
      (void)session->AttendAgain(0.5, false, ignored);
      session->probe().selector = {};
    };
    return session->Ask(question, Exact()).status();
  }

  // Finds thresholds from generic questions for the mode that wants them.
  Status PrepareThresholds(const Method& method) {
    if (!NeedsThresholds(method.mode) || !recalibrated_.layers.empty()) return {};
    std::vector<PaperLookup::Step> steps;
    for (const char* question : GenericQuestions()) {
      LECTERN_RETURN_IF_ERROR(CollectSteps(question, steps));
    }
    LECTERN_ASSIGN(document_, Open());
    LECTERN_ASSIGN(recalibrated_,
                   CalibrateOnSteps(document_->indexed(), document_->backend(), steps));
    return {};
  }

  using Candidates = std::vector<PaperLookup::Candidates>;

  // Selects the rows that the paper's lookup reads in one step of one layer. `scored`: the
  // candidates, which are the same at every budget; filled in by the first.
  Result<std::vector<HeadSelection>> PaperSelect(const Method& method, size_t budget,
                                                 uint32_t layer, const LookupArgs& args,
                                                 std::optional<Candidates>& scored) const {
    const bool is_prefill = args.queries[0].num_rows > group_;
    const PaperLookup& lookup = *paper_.at(method.seed);
    const auto& thresholds = thresholds_.at({method.mode, method.seed});
    if (!scored) {
      scored = lookup.Score(layer, args, method.num_levels(), thresholds.top[is_prefill]);
    }
    return lookup.Select(layer, args, *scored, thresholds.finest[budget][is_prefill]);
  }

  // --- answers ---

  // The budgets at which answers are measured; 0: the document's automatic one.
  std::vector<double> AnswerBudgets() const {
    std::vector<double> budgets = options_.budgets;
    if (options_.has_auto) budgets.push_back(0);
    return budgets;
  }

  // Measures the answers to one question by every method and budget that the results lack.
  Status MeasureAnswers(const std::vector<Question>& questions, size_t number) {
    const std::vector<double> budgets = AnswerBudgets();
    for (const std::string& mode : options_.answers) {
      for (size_t budget = 0; budget < budgets.size(); ++budget) {
        if (budgets[budget] == 0 && mode != "default") continue;
        const Method method = AnswerMethod(mode, budgets[budget]);
        const Measurement measurement =
            Of(Measurement::What::kAnswer, method, number, budgets[budget]);
        if (results_.Has(measurement)) continue;
        ExactAnswer& exact = exact_[number];
        if (exact.ids.empty()) {
          LECTERN_ASSIGN(const auto session, Open());
          LECTERN_ASSIGN(exact, AskExactly(*session, questions[number].text, Exact()));
        }
        LECTERN_RETURN_IF_ERROR(PreparePaper(method, questions));
        LECTERN_ASSIGN(Json::Object figures,
                       MeasureAnswer(questions[number], exact, method, budget));
        LECTERN_RETURN_IF_ERROR(results_.Add(measurement, std::move(figures)));
      }
    }
    exact_.erase(number);
    return {};
  }

  // Opens a session that answers by this method. `method` and `scored` must outlive it.
  Result<std::unique_ptr<DocumentSession>> OpenFor(const Method& method, size_t budget,
                                                   std::optional<Candidates>& scored) {
    LECTERN_ASSIGN(auto session, Open(method.mode));
    if (method.is_paper()) {
      session->probe().selector = [this, &method, &scored, budget](uint32_t layer,
                                                                   const LookupArgs& args) {
        scored.reset();
        return PaperSelect(method, budget, layer, args, scored);
      };
      return session;
    }
    LECTERN_RETURN_IF_ERROR(PrepareThresholds(method));
    LECTERN_ASSIGN(const Document* const evicted, Evicted(method));
    session->probe().selector = MakeSelector(
        method.mode, {.group = group_, .recalibrated = &recalibrated_, .evicted = evicted});
    return session;
  }

  // First says the exact answer at the budget (teacher forcing). Only where a token was likelier
  // than the exact one does the answer of its own differ, and is asked for.
  Result<Json::Object> MeasureAnswer(const Question& question, const ExactAnswer& exact,
                                     const Method& method, size_t budget) {
    AskOptions options = Exact();
    const bool is_auto = budget == options_.budgets.size();
    options.kv_budget = is_auto ? kAutoBudget : static_cast<float>(options_.budgets[budget]);
    options.tail = HasTail(method.mode);
    options.max_evidence = 3;
    if (const auto policies = PoliciesOf(method.mode)) {
      options.layer_budget = policies->layers;
      options.head_budget = policies->heads;
    }
    std::optional<Candidates> scored;
    LECTERN_ASSIGN(const auto session, OpenFor(method, budget, scored));
    LECTERN_ASSIGN(const ForcedAnswer forced, AskForced(*session, question.text, exact, options));
    Answer answer = forced.answer;
    if (forced.num_same < exact.ids.size()) {
      LECTERN_ASSIGN(const auto free, OpenFor(method, budget, scored));
      LECTERN_ASSIGN(answer, free->Ask(question.text, options));
    }
    const bool is_right = answer.text == question.answer;
    Json::Object figures = {
        {"tokens", Json(num_tokens_)},
        {"kind", Json(question.kind)},
        {"exact_right", Json(exact.answer.text == question.answer)},
        {"right", Json(is_right)},
        {"same", Json(answer.text == exact.answer.text)},
        {"kv_budget", Json(double{forced.answer.kv.budget})},
        {"predicted", forced.answer.kv.divergence ? Json(*forced.answer.kv.divergence) : Json()},
        {"kl", Json(forced.divergences.front())},
        {"kl_tokens", Json(Json::Array(forced.divergences.begin(), forced.divergences.end()))},
        {"same_tokens", Json(uint64_t{forced.num_same})},
        {"read_question", Json(answer.kv.read_fraction_prefill)}};
    if (!HasEvictedTail(method.mode)) {  // which nothing stores as it would be
      figures["on_disk"] = Json(static_cast<double>(session->document().bytes_on_disk) /
                                static_cast<double>(bytes_on_disk_));
    }
    if (answer.kv.read_fraction_decode) figures["read_answer"] = *answer.kv.read_fraction_decode;
    if (question.kind == "fact" && is_right && !question.passages.empty()) {
      const auto [begin, end] = question.passages.front();
      const auto states = [begin = begin, end = end](const Evidence& e) {
        const auto overlaps = [&](const auto& place) {
          return place.begin < end && begin < place.end;
        };
        return overlaps(e) || std::any_of(e.places.begin(), e.places.end(), overlaps);
      };
      figures["first_passage"] = !answer.evidence.empty() && states(answer.evidence.front());
      figures["any_passage"] = std::any_of(answer.evidence.begin(), answer.evidence.end(), states);
    }
    return figures;
  }

  // --- errors ---

  // The figures of one method at one budget over the steps and layers of one question.
  struct ErrorFigures {
    Method method;
    size_t budget;
    Selector selector = {};  // of the modes that are not the paper's
    KeptSteps kept = {};     // of reuse-C
    Errors errors = {};
    // Per layer and step: the share of the exact attention on the rows that were read, and the
    // share of the bytes.
    std::vector<double> recalled = {}, read = {};

    // Means over layers and steps, and the extremes of what was read. Not for no steps.
    Json::Object ToJson() const {
      double recalled_sum = 0, read_sum = 0;
      for (const double x : recalled) recalled_sum += x;
      for (const double x : read) read_sum += x;
      const auto [least, most] = std::minmax_element(read.begin(), read.end());
      const auto steps = static_cast<double>(read.size());
      Json::Object json = {{"layer_steps", Json(static_cast<uint64_t>(read.size()))},
                           {"recalled", Json(recalled_sum / steps)},
                           {"read", Json(read_sum / steps)},
                           {"read_least", Json(*least)},
                           {"read_most", Json(*most)}};
      if (kept.all > 0) {
        json["kept"] = Json(static_cast<double>(kept.kept) / static_cast<double>(kept.all));
      }
      return json;
    }
  };

  // Measures the attention errors of all methods and budgets that the results lack, during one
  // exact answer to the question. The answer is kept for MeasureAnswers.
  Status MeasureErrors(const std::vector<Question>& questions, size_t number) {
    std::vector<ErrorFigures> missing;  // by method, so that budgets stand together
    for (const Method& method : ErrorMethods()) {
      for (size_t budget = 0; budget < options_.budgets.size(); ++budget) {
        if (results_.Has(
                Of(Measurement::What::kErrors, method, number, options_.budgets[budget]))) {
          continue;
        }
        LECTERN_RETURN_IF_ERROR(PreparePaper(method, questions));
        missing.push_back({method, budget});
      }
    }
    if (missing.empty()) return {};
    TrueMass truth;
    for (ErrorFigures& figures : missing) {
      LECTERN_RETURN_IF_ERROR(PrepareThresholds(figures.method));
      LECTERN_ASSIGN(const Document* const evicted, Evicted(figures.method));
      figures.selector = MakeSelector(figures.method.mode,
                                      {group_, &truth, &figures.kept, &recalibrated_, evicted});
    }
    LECTERN_ASSIGN(const auto session, Open());
    Status failed;
    session->probe().on_layer = [&](const LayerStep& step) {
      if (Status status = MeasureLayer(*session, step, truth, missing); !status.ok())
        failed = status;
    };
    LECTERN_ASSIGN(exact_[number], AskExactly(*session, questions[number].text, Exact()));
    LECTERN_RETURN_IF_ERROR(failed);
    for (const ErrorFigures& figures : missing) {
      Json::Object json = figures.ToJson();
      json["tokens"] = Json(num_tokens_);
      json["kind"] = Json(questions[number].kind);
      LECTERN_RETURN_IF_ERROR(results_.AddErrors(
          Of(Measurement::What::kErrors, figures.method, number, options_.budgets[figures.budget]),
          figures.errors, std::move(json)));
    }
    return {};
  }

  // Lets one layer of the exact run attend again by every method at every budget, on the exact
  // run's queries, and adds up the errors. The first of these runs finds the true mass of every
  // row. Its budget is half of every layer, without policies, so that no layer is read whole
  // without asking the selector.
  Status MeasureLayer(DocumentSession& session, const LayerStep& step, TrueMass& truth,
                      std::vector<ErrorFigures>& missing) {
    session.settings().policies = {};
    session.probe().selector = [&](uint32_t, const LookupArgs& args) {
      auto mass = TrueMass::Of(args, step.lse);
      if (!mass.ok()) return Result<std::vector<HeadSelection>>(mass.status());
      truth = std::move(mass).value();
      return Result<std::vector<HeadSelection>>(std::vector<HeadSelection>(args.heads.size()));
    };
    std::vector<float> output;
    LECTERN_RETURN_IF_ERROR(session.AttendAgain(0.5, false, output).status());
    LECTERN_ASSIGN(const std::span<const HeadIndex> heads, session.indexed().Heads(step.layer));
    std::map<std::pair<std::string, uint64_t>, std::optional<Candidates>> scored;
    std::map<size_t, double> read_by_default;  // by budget
    for (ErrorFigures& figures : missing) {
      const Method& method = figures.method;
      double budget = options_.budgets[figures.budget];
      if (method.mode == kEqualOracle) {
        const auto found = read_by_default.find(figures.budget);
        if (found == read_by_default.end()) {
          return {Code::kInvalidArgument, "mode oracle-equal goes behind mode default"};
        }
        budget = found->second;
      }
      if (method.is_paper()) {
        session.probe().selector = [&](uint32_t layer, const LookupArgs& args) {
          return PaperSelect(method, figures.budget, layer, args,
                             scored[{method.mode, method.seed}]);
        };
      } else {
        session.probe().selector = figures.selector;
      }
      session.settings().policies = PoliciesOf(method.mode).value_or(session.indexed().policies());
      LECTERN_ASSIGN(const Document* const kept, Kept(method));
      session.probe().attended_again = HasEvictedTail(method.mode) ? nullptr : kept;
      LECTERN_ASSIGN(const DocumentRead read,
                     session.AttendAgain(budget, HasTail(method.mode), output));
      AddErrors(step, output,
                step.num_tokens == 1 ? figures.errors.answer : figures.errors.question);
      LECTERN_ASSIGN(
          const std::span<const HeadIndex> attended,
          (session.probe().attended_again ? *kept : session.indexed()).Heads(step.layer));
      figures.recalled.push_back(truth.Recalled(heads, attended, read.heads));
      figures.read.push_back(static_cast<double>(read.bytes) /
                             static_cast<double>(read.dense_bytes));
      if (method.mode == "default") read_by_default[figures.budget] = figures.read.back();
    }
    session.probe().selector = {};
    session.probe().attended_again = nullptr;
    return {};
  }

  // Adds, for each token of the step, the relative L2 error of the attention output of all query
  // heads together, where they pay enough attention to the document (kLeastDocumentMass).
  static void AddErrors(const LayerStep& step, const std::vector<float>& output,
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

  const EvaluationOptions& options_;
  Engine& engine_;
  const std::string name_;
  RawResults& results_;
  uint64_t num_tokens_ = 0, bytes_on_disk_ = 0;
  size_t group_ = 1;
  std::map<size_t, ExactAnswer> exact_;   // of questions whose errors were measured
  std::vector<PaperLookup::Step> steps_;  // of the questions that choose the paper's thresholds
  std::unique_ptr<DocumentSession> document_;                     // that recalibrated_ borrows
  RecalibratedHeads recalibrated_;                                // made when first asked for
  std::map<uint64_t, std::unique_ptr<PaperLookup>> paper_;        // by seed
  std::map<std::string, std::unique_ptr<DocumentSession>> kept_;  // by KeptName
  std::map<std::pair<std::string, uint64_t>, PaperLookup::Thresholds> thresholds_;  // mode, seed
};

}  // namespace

Status EvaluateDocument(const EvaluationOptions& options, Engine& engine, const std::string& name,
                        const std::vector<Question>& questions, RawResults& results) {
  return DocumentEvaluation(options, engine, name, results).Run(questions);
}

}  // namespace lectern::evaluate
