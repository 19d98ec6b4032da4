#include "tools/evaluate/continuation.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <vector>

#include "engine/asking/ask.h"
#include "engine/indexing/teacher_forcing.h"

namespace lectern::evaluate {
namespace {

using Logits = std::span<const float>;

// A session whose steps this file runs one by one. Codes of Engine::Open and AsDocumentSession.
Result<std::unique_ptr<DocumentSession>> Open(Engine& engine, const std::string& name) {
  LECTERN_ASSIGN(std::unique_ptr<Session> session, engine.Open(name));
  return AsDocumentSession(std::move(session));
}

// Negative log-likelihood of a token, in nats.
double Nats(Logits logits, int32_t id) {
  const double largest = double{*std::ranges::max_element(logits)};
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - largest);
  return largest + std::log(sum) - double{logits[static_cast<size_t>(id)]};
}

// One reading of the text's end at one budget, and the sums of its figures over the predictions.
struct Reading {
  Measurement measurement;
  double kv_budget;
  std::unique_ptr<DocumentSession> session;
  double nats = 0, divergence = 0;
  uint64_t num_same = 0;
};

// A document without its last tokens, and these tokens.
struct Cut {
  std::string name;
  std::vector<int32_t> ids;  // of the end
};
// Cuts the text before its last tokens and indexes the document that is left, unless the store has
// it from an earlier run. The end is tokenised anew, on its own: its tokens may differ from those
// that it has within the whole text.
Result<Cut> CutEnd(Engine& engine, const std::string& name, uint32_t num_tokens) {
  LECTERN_ASSIGN(const auto whole, Open(engine, name));
  const auto ranges = whole->indexed().ranges();
  const std::string_view text = whole->text();
  // The template's tokens before and after the text have empty ranges.
  std::vector<uint64_t> begins;
  for (const auto& range : ranges) {
    if (range.end > range.begin && (begins.empty() || range.begin > begins.back())) {
      begins.push_back(range.begin);
    }
  }
  if (begins.size() <= num_tokens) {
    return Status(Code::kInvalidArgument, "document \"" + name + "\" has " +
                                              std::to_string(begins.size()) +
                                              " tokens; nothing would be left of it");
  }
  const uint64_t at = begins[begins.size() - num_tokens];
  Cut cut = {name + " without its last " + std::to_string(num_tokens) + " tokens", {}};
  LECTERN_ASSIGN(TokenizedText end, whole->Tokenize(text.substr(at)));
  cut.ids = std::move(end.ids);
  if (!engine.Find(cut.name).ok()) {
    IndexOptions options;
    options.name = cut.name;
    std::cerr << cut.name << ": indexing\n";
    LECTERN_RETURN_IF_ERROR(engine.Index(text.substr(0, at), options).status());
  }
  return cut;
}

}  // namespace

Status MeasureContinuation(Engine& engine, const std::string& name, uint32_t num_tokens,
                           std::span<const double> budgets, RawResults& results) {
  std::vector<Reading> readings;
  for (const double budget : budgets) {
    const Measurement measurement = {
        Measurement::What::kContinuation, name, num_tokens, "default", 0, budget};
    if (!results.Has(measurement)) readings.push_back({measurement, budget, nullptr});
  }
  if (readings.empty()) return {};
  LECTERN_ASSIGN(const Cut cut, CutEnd(engine, name, num_tokens));
  LECTERN_ASSIGN(const auto exact, Open(engine, cut.name));
  for (Reading& reading : readings) {
    LECTERN_ASSIGN(reading.session, Open(engine, cut.name));
    if (reading.kv_budget == 0) {
      reading.kv_budget = reading.session->indexed().ChooseBudget(kAutoBudget, 0).kv_budget;
    }
  }
  double exact_nats = 0;
  const size_t count = cut.ids.size() - 1;  // predictions; the first token is given
  // All readings take each token in turn, so that only one prediction of exact mode is held.
  for (size_t i = 0; i < count; ++i) {
    LECTERN_ASSIGN(const Logits truth, exact->Step({&cut.ids[i], 1}, 1, true, nullptr));
    exact_nats += Nats(truth, cut.ids[i + 1]);
    for (Reading& reading : readings) {
      LECTERN_ASSIGN(const Logits logits,
                     reading.session->Step({&cut.ids[i], 1}, reading.kv_budget, true, nullptr));
      reading.nats += Nats(logits, cut.ids[i + 1]);
      reading.divergence += Divergence(exact->backend(), truth, logits);
      reading.num_same += std::ranges::max_element(truth) - truth.begin() ==
                          std::ranges::max_element(logits) - logits.begin();
    }
    if (i % 64 == 0) std::cerr << '\r' << cut.name << ": " << i << std::flush;
  }
  std::cerr << '\n';
  const double n = static_cast<double>(count);
  for (const Reading& reading : readings) {
    Json::Object figures = {{"continuation_nats", Json(reading.nats / n)},
                            {"exact_nats", Json(exact_nats / n)},
                            {"kl", Json(reading.divergence / n)},
                            {"same", Json(static_cast<double>(reading.num_same) / n)},
                            {"tokens", Json(uint64_t{exact->indexed().tokens().size()})},
                            {"kv_budget", Json(reading.kv_budget)}};
    LECTERN_RETURN_IF_ERROR(results.Add(reading.measurement, std::move(figures)));
  }
  return {};
}

}  // namespace lectern::evaluate
