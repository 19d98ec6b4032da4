#include "engine/asking/ask.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <new>

#include "engine/asking/evidence.h"
#include "engine/asking/object_answer.h"
#include "engine/forward/sampler.h"
#include "engine/forward/step_memory.h"
#include "engine/model/template/answer_text.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "engine/requests/options.h"

namespace lectern {
namespace {

using Clock = std::chrono::steady_clock;
double Since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}
std::string Percent(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

// "0.0123", three digits.
std::string Digits(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", number);
  return text;
}

// Memory is taken before an answer begins for so many of its tokens, with so many bytes of text
// each; longer answers take more later. Chosen without measurement.
constexpr uint64_t kReservedTokens = 1024, kReservedBytes = 8;

Status InvalidOption(const char* param, const Message& message) {
  return Status(Code::kInvalidArgument, message).WithParam(param);
}

// The options are checked.
Result<SelectionRule> ReadRule(const AskOptions& options) {
  static const std::map<std::string_view, Rule> kRules = {{"default", Rule::kDefault},
                                                          {"threshold", Rule::kThreshold},
                                                          {"cap", Rule::kCap},
                                                          {"top-p", Rule::kTopP}};
  SelectionRule rule = {.kind = kRules.at(options.rule)};
  if (options.mass == 0) return rule;
  if (rule.kind != Rule::kTopP) {
    return InvalidOption("mass",
                         OptionName("mass") + " goes with " + OptionName("rule") + " top-p alone");
  }
  rule.mass = options.mass;
  return rule;
}

// Checks that biases are of tokens that the model has, and that each is a number that bans a token
// or forces it at most.
Status CheckLogitBias(const SamplingOptions& sampling, uint32_t vocab_size) {
  for (const auto& [id, bias] : sampling.logit_bias) {
    if (id < 0 || static_cast<uint32_t>(id) >= vocab_size) {
      return InvalidOption("logit_bias", "logit_bias names token " + std::to_string(id) +
                                             "; the document's model has the tokens 0 to " +
                                             std::to_string(vocab_size - 1));
    }
    if (!(bias >= -100 && bias <= 100)) {
      return InvalidOption("logit_bias", "logit_bias must be in [-100, 100]");
    }
  }
  return {};
}

// Tells the user what the budget means for a rule that does not keep it.
void AddRuleNote(const SelectionRule& rule, Answer& answer) {
  if (rule.kind == Rule::kThreshold) {
    AddNote(answer,
            "rule threshold meets the budget only in the mean over many questions, and roughly");
  } else if (rule.kind == Rule::kTopP) {
    char percent[16];
    std::snprintf(percent, sizeof percent, "%g", 100 * rule.mass);
    AddNote(answer, "rule top-p has no budget: it reads what holds " + std::string(percent) +
                        " % of each head's attention, as centroids estimate it");
  }
}

Status OutOfMemory() {
  return {Code::kOutOfMemory,
          "not enough memory to answer; close other sessions or ask a shorter question"};
}

std::string WithAdapter(const std::string& path) { return path.empty() ? "" : ", adapter " + path; }

Status Mismatch(const Document& document, const Model& model) {
  return {Code::kModelMismatch,
          "document \"" + document.row().name + "\" was indexed with model " +
              ToHex(document.row().fingerprint).substr(0, 16) + " (" + document.row().model_path +
              ", weights " + std::string(WeightsName(document.weights())) +
              WithAdapter(document.adapter()) + "), but " + model.folder() + ", weights " +
              std::string(WeightsName(model.weights().type())) +
              WithAdapter(model.adapter() ? model.adapter()->path() : "") + ", is " +
              ToHex(model.fingerprint()).substr(0, 16) +
              "; give that model, or index the document again with this one"};
}

}  // namespace

// Makes the parts of a session in the order in which they depend on one another: the conversation's
// rows live on the device, too, if the document does. Only documents' rows are quantised, so the
// conversation of a q8 document has f16 rows.
DocumentSession::DocumentSession(std::shared_ptr<const Document> document,
                                 std::shared_ptr<const Model> model, const Backend& backend,
                                 std::shared_ptr<ThreadPool> threads, const Placement& placement,
                                 std::shared_ptr<DeviceStream> stream,
                                 std::unique_ptr<SharedRows> ranks, double open_ms)
    : document_(std::move(document)),
      model_(std::move(model)),
      threads_(std::move(threads)),
      placement_(placement),
      transformer_(*model_, backend, *threads_, document_->shape().num_tokens,
                   placement_.transformer.get()),
      stream_(std::move(stream)),
      conversation_(model_->config(), backend, *threads_, arena_,
                    document_->kv_dtype() == Dtype::kQ8 ? Dtype::kF16 : document_->kv_dtype()),
      settings_{.policies = document_->policies()},
      attention_(placement_, stream_, std::move(ranks), *document_, transformer_, model_->config(),
                 arena_, probe_, conversation_),
      open_ms_(open_ms) {
  buffers_.logits.resize(model_->config().vocab_size);
  if (const auto& heads = document_->retrieval_heads();
      heads && !heads->heads.empty() && !placement_.document) {
    const ModelConfig& config = model_->config();
    focus_.heads = WeightsByLayer(*heads, config.num_layers, config.num_heads);
    sums_.heads = focus_.heads;
  }
}

// Checks that the document and the model belong together before anything is computed: shards that
// pass their checksums may still be of another model's shape.
Result<std::unique_ptr<DocumentSession>> DocumentSession::Create(
    std::shared_ptr<const Document> document, std::shared_ptr<const Model> model,
    const Backend& backend, std::shared_ptr<ThreadPool> threads, double open_ms,
    const Placement& placement, std::unique_ptr<SharedRows> ranks) {
  const ModelConfig& config = model->config();
  const ShardHeader& shape = document->shape();
  if (model->fingerprint() != document->row().fingerprint) return Mismatch(*document, *model);
  if (shape.num_layers != config.num_layers || shape.num_kv_heads != config.num_kv_heads ||
      shape.head_dim != config.head_dim) {
    return Status(Code::kCorrupt, "document \"" + document->row().name +
                                      "\": its shards have another shape than its model; index "
                                      "it again");
  }
  if (const auto& found = document->retrieval_heads()) {
    for (const RetrievalHead& head : found->heads) {
      if (head.head < config.num_heads && !document->is_windowed(head.layer)) continue;
      return Status(Code::kCorrupt, "document \"" + document->row().name +
                                        "\": it names attention heads that its model does not "
                                        "have; index it again");
    }
  }
  for (const int32_t id : document->tokens()) {
    if (id < 0 || static_cast<uint32_t>(id) >= config.vocab_size) {
      return Status(Code::kCorrupt, "document \"" + document->row().name +
                                        "\" holds a token that its model does not have; index it "
                                        "again");
    }
  }
  std::shared_ptr<DeviceStream> stream;
  if (placement.transformer) {
    LECTERN_ASSIGN(stream, DeviceStream::Create(placement.transformer->device()));
  }
  return std::unique_ptr<DocumentSession>(
      new DocumentSession(std::move(document), std::move(model), backend, std::move(threads),
                          placement, std::move(stream), std::move(ranks), open_ms));
}

// --- one question -----------------------------------------------------------------------------

Status DocumentSession::CheckOptions(const AskOptions& options) const {
  LECTERN_RETURN_IF_ERROR(lectern::CheckOptions(AskOptionRows(), options));
  return CheckLogitBias(options.sampling, model_->config().vocab_size);
}

// Counts what the question will use and reserves it in the limit on memory, if there is one.
Status DocumentSession::ReserveRam(size_t num_tokens, uint64_t num_rows, double kv_budget) {
  reserved_.num_tokens = num_tokens, reserved_.num_rows = num_rows;
  if (!document_->ram()) return {};
  const ModelConfig& config = model_->config();
  const Dtype dtype = document_->kv_dtype() == Dtype::kQ8 ? Dtype::kF16 : document_->kv_dtype();
  const uint64_t num_layer_heads = uint64_t{config.num_layers} * config.num_kv_heads;
  const uint64_t conversation = num_rows * num_layer_heads * 2 * RowBytes(dtype, config.head_dim);
  const bool looks_up = kv_budget < 1 && document_->has_clusters();
  const uint64_t num_document_tokens = document_->tokens().size();
  const uint64_t lookups = looks_up ? LookupBytes(config, num_tokens, num_document_tokens) : 0;
  // Sums of masses, squares and retrieval heads per token, and the logits of the running layer with
  // the last token.
  const uint64_t evidence =
      num_document_tokens * (3 * sizeof(double) + config.num_heads * sizeof(float));
  // The activations hold one token more, because steps of one token that sessions share need a row
  // there.
  const uint64_t activations = ActivationBytes(config, num_tokens + 1) +
                               reserved_.num_logits * config.vocab_size * sizeof(float);
  const uint64_t bytes = document_->layer_ram() + conversation + activations + lookups + evidence;
  return document_->ram()->Change(reserved_.share, bytes, "the question",
                                  "index the document with q8 keys and values");
}

bool DocumentSession::ReserveNextRows(size_t count, double kv_budget) {
  return num_past() + count <= reserved_.num_rows ||
         ReserveRam(reserved_.num_tokens, reserved_.num_rows + kReservedTokens, kv_budget).ok();
}

// A budget that somebody fixed may be too small for this document: says so before the answer, and
// which budget would do.
void DocumentSession::WarnOfLowBudget(const ChosenBudget& chosen, const AskOptions& options,
                                      Answer& answer) const {
  if (chosen.is_auto || !chosen.divergence || *chosen.divergence <= chosen.max_divergence) return;
  const double enough = document_->divergence_curve().SmallestBudget(chosen.max_divergence);
  Warn(options, "low_budget",
       "at a budget of " + Digits(chosen.kv_budget) +
           " the answer's tokens are predicted to diverge by " + Digits(*chosen.divergence) +
           " nats from exact ones, above " + Digits(chosen.max_divergence) + "; " +
           OptionName("kv_budget") + " " + Digits(enough) + " would do, or auto",
       answer);
}

// Runs the question as one step and sees how its attention spreads over the document: sums_.masses
// is the attention on each token, document_mass all of it. If it spreads widely, a sparse reading
// may miss much, and AnswerWideQuestion warns or repeats the step with everything read.
Result<std::span<const float>> DocumentSession::Prefill(std::span<const int32_t> ids,
                                                        const AskOptions& options, double& budget,
                                                        Answer& answer) {
  totals_.in_prefill = true;
  const bool exact = ReadsAll(budget);
  sums_.masses.assign(exact ? 0 : document_->tokens().size(), 0.0);
  sums_.document_mass = 0;
  auto logits = Step(ids, budget, options.tail, options.cancel);
  if (logits.ok() && !exact && !focus_.rows) {
    // Unread mass is part of document_mass through the tail; without a tail the lookup's estimate
    // stands in, over all rows of the question.
    if (!options.tail) {
      sums_.document_mass +=
          totals_.all.missed * document_->num_full_layers() * model_->config().num_heads;
    }
    const Spread spread =
        FindSpread(document_->passages(), document_->ranges(), sums_.masses, sums_.document_mass);
    sums_.masses.clear();
    if (spread.IsWide()) logits = AnswerWideQuestion(spread, ids, options, budget, answer);
  }
  sums_.masses.clear();
  totals_.in_prefill = false;
  return logits;
}

// The question draws on much of the document: warns, or repeats the prefill with everything read.
Result<std::span<const float>> DocumentSession::AnswerWideQuestion(const Spread& spread,
                                                                   std::span<const int32_t> ids,
                                                                   const AskOptions& options,
                                                                   double& budget, Answer& answer) {
  const std::string found = "the question draws on much of the text (best passage " +
                            Percent(spread.best_passage) + " of the attention, " +
                            Percent(spread.missed) + " on what was not read)";
  if (options.fallback == Fallback::kWarn) {
    Warn(options, "whole_document", found + ": an exact answer may differ", answer);
    return std::span<const float>(buffers_.logits);
  }
  AddNote(answer, found + ": everything was read instead");
  answer.kv.fallback = true;
  budget = 1;
  conversation_.Truncate(conversation_.num_tokens() - ids.size());
  std::fill(sums_.squares.begin(), sums_.squares.end(), 0.0);
  std::fill(sums_.retrieved.begin(), sums_.retrieved.end(), 0.0);
  totals_.all.missed = totals_.all.missed_bound = 0;
  return Step(ids, budget, options.tail, options.cancel);
}

Result<Answer> DocumentSession::Ask(std::string_view question, const AskOptions& options) try {
  LECTERN_ASSIGN(const auto plain, PlainModel(options));
  const auto fields = plain ? FieldsOf(question, options) : std::vector<AnswerField>();
  return fields.empty() ? AskOnce(question, options) : AskFields(fields, question, options);
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Result<Answer> DocumentSession::AskOnce(std::string_view question, const AskOptions& options) {
  attention_.ReleaseDevice();
  // Without an answer the session returns to where it stood, and no other one waits for its tokens.
  const auto end = [&](bool is_answered) {
    if (shared_.batch) shared_.batch->Leave(shared_.seat);
    attention_.ReleaseDevice();
    shared_.ahead.End();
    settings_.wanted = {};
    if (!is_answered) GiveUpTurn();
  };
  try {
    auto answer = Generate(question, options);
    end(answer.ok());
    return answer;
  } catch (const std::bad_alloc&) {
    end(false);
    return OutOfMemory();
  } catch (...) {  // of a callback
    end(false);
    throw;
  }
}

Result<DocumentSession::NextPrompt> DocumentSession::PrepareNext(const ChatHistory& history,
                                                                 std::string_view question) const {
  const ChatTemplate& chat = model_->chat_template();
  LECTERN_ASSIGN(const jinja::Rendered rendered,
                 chat.Render(history, question, document_->template_date()));
  // A template may render an earlier turn differently than when it was the last one, for example
  // without the model's thinking. From the first difference on, rows are computed again.
  NextPrompt next;
  next.num_kept = said_.fed.TokensBefore(rendered.text);
  const size_t begin = next.num_kept > 0 ? said_.fed.ends[next.num_kept - 1] : 0;
  LECTERN_ASSIGN(next.rest, chat.Encode(model_->tokenizer(), rendered, begin));
  next.is_thinking = chat.BeginsThinking(rendered.text);
  if (!next.rest.ids.empty()) return next;
  return Status(Code::kInvalidArgument, "the question has no text that the model can read")
      .WithParam("question");
}

Status DocumentSession::Decode(std::span<const float> logits, const NextPrompt& next, uint64_t room,
                               double budget, const AskOptions& options, Answer& answer,
                               std::vector<int32_t>* sampled) {
  const auto start = Clock::now();
  answer.text.reserve(std::min(room, kReservedTokens) * kReservedBytes);
  Sampler sampler(options.sampling);
  const Tokenizer& tokenizer = model_->tokenizer();
  std::vector<std::string> stops = options.stop_texts;
  const std::string next_turn(NextTurnOf(model_->chat_template()));
  if (!next_turn.empty()) stops.push_back(next_turn);
  AnswerText text(tokenizer, model_->chat_template().thinking(), next.is_thinking, stops);
  SampledTokens tokens(tokenizer, text, options.top_logprobs, options.on_token);
  LoopGuard loops;
  const auto show = [&](const ShownText& shown) {
    answer.text += shown.answer;
    answer.reasoning += shown.reasoning;
    const auto tell = [](const auto& receiver, const std::string& piece) {
      return piece.empty() || !receiver || receiver(piece);
    };
    return tell(options.on_reasoning, shown.reasoning) && tell(options.on_text, shown.answer);
  };
  answer.finish_reason = "length", answer.stopped_by = "max_tokens";
  const bool is_refused = !next.refusal.empty();
  const std::span<const int32_t> given = is_refused ? next.refusal : probe_.answer;
  AnswerConstraint* const constraint = next.constraint.get();
  std::vector<int32_t> unfed;  // several where a constraint forces the next token
  // Each round draws a token, shows its text, and stops or runs the next step.
  for (uint64_t i = 0; i < room; ++i) {
    AnswerConstraint::Drawn drawn = {i < given.size() ? given[i] : 0, logits};
    const bool is_unseen = constraint && constraint->is_unseen();
    if (constraint) {
      LECTERN_ASSIGN(drawn, DrawConstrained(logits, next, sampler, budget, options));
      answer.forced_tokens += drawn.logits.empty();
    } else if (i >= given.size()) {
      drawn.id = sampler.Sample(next.ConditionOf(logits));
    }
    const int32_t id = drawn.id;
    if (probe_.on_token) probe_.on_token(logits, id);
    if (i == 0) answer.timings_ms.first_token = answer.timings_ms.prefill + Since(start);
    sampled->push_back(id);
    if (model_->IsEndOfText(id)) {
      answer.finish_reason = "stop", answer.stopped_by = "end";
      break;
    }
    ++answer.answer_tokens;
    const bool was_thinking = text.is_thinking();
    const uint64_t brought_before = text.num_brought();
    const ShownText shown = text.Push(id);
    tokens.Push(id, drawn.logits, was_thinking, brought_before);
    if (constraint) constraint->Push(id, text);
    if (next.barred && !is_unseen) {
      next.barred->Push(constraint ? drawn.said : id);
      settings_.wanted = WantedOf(next, options);
    }
    if (!show(shown) || IsSet(options.cancel)) {
      answer.finish_reason = answer.stopped_by = "cancelled";
      break;
    }
    if (text.is_stopped()) {
      answer.finish_reason = "stop";
      answer.stopped_by = *text.stop() == next_turn ? "end" : "stop_sequence";
      break;
    }
    if ((is_refused && i + 1 == given.size()) || (constraint && constraint->is_done())) {
      answer.finish_reason = "stop", answer.stopped_by = "end";
      break;
    }
    if (loops.Push(id, constraint)) {
      // JSON that is not whole is as good as cut.
      answer.finish_reason = constraint ? "length" : "stop", answer.stopped_by = "repetition";
      break;
    }
    if (i + 1 == room) break;
    if (!is_unseen) unfed.push_back(constraint ? drawn.said : id);
    if (unfed.empty()) continue;
    const bool waits = constraint && constraint->has_forced();
    if (waits && unfed.size() < AnswerConstraint::kMostAtOnce) continue;
    if (!ReserveNextRows(unfed.size(), budget)) {
      AddNote(answer, "the memory limit left no room for more of the answer");
      break;
    }
    // The step of the last token is not needed, and not that of the last given one of a refusal.
    const std::span<const int32_t> known = given.subspan(std::min<size_t>(i + 1, given.size()));
    const uint64_t most = std::min<uint64_t>(room - 2 - i, is_refused ? known.size() - 1 : room);
    const auto step = constraint ? Step(unfed, budget, options.tail, options.cancel)
                                 : NextLogits(id, most, known, budget, options);
    unfed.clear();
    if (step.status().code() == Code::kCancelled) {
      answer.finish_reason = answer.stopped_by = "cancelled";
      break;
    }
    LECTERN_RETURN_IF_ERROR(step.status());
    logits = *step;
  }
  if (loops.has_looped()) Warn(options, "repetition", LoopGuard::kWarning, answer);
  DropAhead();
  const ShownText last = text.Flush();
  tokens.Flush();
  (void)show(last);
  answer.reasoning_tokens = text.reasoning_tokens();
  if (shared_.ahead.is_on()) {
    answer.proposed_tokens = shared_.ahead.num_proposed();
    answer.accepted_tokens = shared_.ahead.num_accepted();
  }
  return {};
}

Result<Answer> DocumentSession::Generate(std::string_view question, const AskOptions& options) {
  // 1. Check options, choose rule and plan.
  const auto start = Clock::now();
  LECTERN_RETURN_IF_ERROR(CheckOptions(options));
  LECTERN_ASSIGN(settings_.rule, ReadRule(options));
  ChosenBudget chosen = document_->ChooseBudget(options.kv_budget, options.max_divergence);
  PlanPolicies& policies = settings_.policies;
  policies = document_->policies();
  if (!options.layer_budget.empty()) policies.layers = options.layer_budget;
  if (!options.head_budget.empty()) policies.heads = options.head_budget;
  LECTERN_RETURN_IF_ERROR(CheckPolicies(policies));
  Answer answer;
  LECTERN_RETURN_IF_ERROR(MakePassPlan(chosen, options.tail));
  double budget = chosen.kv_budget;
  LECTERN_ASSIGN(const bool is_focused, WantsFocus(options, budget));
  if (!is_focused) focus_.rows.reset();
  const bool is_first = said_.history.is_empty();
  if (!is_first && !options.history.is_empty()) {
    return InvalidOption("turns",
                         "earlier turns and instructions come with a session's first question");
  }
  // 2. Render and tokenize the question, and see which rows of the conversation it can use.
  LECTERN_ASSIGN(NextPrompt next,
                 PrepareNext(is_first ? options.history : said_.history, question));
  LECTERN_RETURN_IF_ERROR(Constrain(options, next, answer));
  const size_t num_rows_kept = std::min(next.num_kept, num_past());
  const size_t num_new = next.num_kept - num_rows_kept + next.rest.ids.size();
  const uint64_t used = document_->shape().num_tokens + num_rows_kept + num_new;
  const uint64_t limit = model_->config().max_positions;
  if (num_new > kMaxQuestionTokens || used + 1 > limit) {
    return Status(
        Code::kContextTooLong,
        "document (" + std::to_string(document_->shape().num_tokens) + " tokens), conversation (" +
            std::to_string(num_rows_kept) + ") and question (" + std::to_string(num_new) +
            ") need more than the model's " + std::to_string(limit) +
            " positions, or the question more than " + std::to_string(kMaxQuestionTokens) +
            " tokens; shorten the question or begin a new conversation");
  }
  const uint64_t room = std::min<uint64_t>(options.max_tokens, limit - used);
  LECTERN_ASSIGN(std::vector<int32_t> refusal, RefusalTokens(next, limit - used));
  const size_t num_reserved =
      num_new + std::max<size_t>(std::min(room, kReservedTokens), refusal.size());
  // 3. Reserve memory and places, then prefill.
  reserved_.num_logits = 1 + refusal.size();
  const size_t num_at_once =
      std::max(refusal.size(), next.constraint ? AnswerConstraint::kMostAtOnce : 0);
  LECTERN_RETURN_IF_ERROR(
      ReserveRam(std::max(num_new, num_at_once), num_past() + num_reserved, budget));
  const std::vector<int32_t> ids = BeginTurn(next);
  totals_ = {};
  settings_.max_missed = options.max_missed.value_or(-1);
  settings_.max_session_rows = options.max_session_rows;
  const size_t num_rows = num_past() + num_reserved;
  LECTERN_RETURN_IF_ERROR(conversation_.Place(num_rows, settings_.max_session_rows == 0));
  if (!conversation_.is_there()) conversation_.rows().Reserve(num_rows);
  const bool retrieves = !focus_.heads.empty() && (options.max_evidence > 0 || is_focused);
  sums_.retrieved.assign(retrieves ? document_->tokens().size() : 0, 0.0);
  if (is_focused) LECTERN_RETURN_IF_ERROR(Focus(question, ids, refusal, options, budget, answer));
  sums_.squares.assign(options.max_evidence > 0 ? document_->tokens().size() : 0, 0.0);

  answer.document = ToHex(document_->row().id);
  answer.document_tokens = document_->shape().num_tokens;
  // Tokens of the question itself; the last token of the answer before, fed now too, is not among
  // them.
  answer.question_tokens = next.rest.ids.size();
  answer.timings_ms.open = open_ms_;
  if (!ReadsAll(budget) && !IsMeasured(*document_, options.tail)) {
    chosen.divergence.reset();
  }
  if (options.kv_budget == kAutoBudget && !chosen.is_auto && !focus_.rows) {
    AddNote(answer,
            "the document was indexed before budgets were measured and is read at its own, " +
                Digits(budget) + "; a change of its plan to " + OptionName("kv_budget", "auto") +
                " measures it");
  }
  answer.kv.is_auto = chosen.is_auto && !focus_.rows;
  answer.kv.max_divergence = chosen.max_divergence;
  WarnOfLowBudget(chosen, options, answer);
  settings_.wanted =
      refusal.empty() && !probe_.on_first_logits ? WantedOf(next, options) : WantedLogits();
  auto logits = Prefill(ids, options, budget, answer);
  if (!logits.ok()) return std::move(logits).status();
  if (probe_.on_first_logits) probe_.on_first_logits(logits.value());
  if (!refusal.empty()) {
    LECTERN_RETURN_IF_ERROR(DecideRefusal(std::move(refusal), budget, options, next, answer));
  }
  answer.timings_ms.prefill = Since(start);
  settings_.wanted = WantedOf(next, options);

  // 4. Decode the answer.
  std::vector<int32_t> sampled;
  sampled.reserve(std::min(room, kReservedTokens));
  BeginAhead(options, next, std::min(room, kReservedTokens));
  Status decoded = Decode(logits.value(), next, room, budget, options, answer, &sampled);
  if (shared_.batch) shared_.batch->Leave(shared_.seat);
  if (decoded.ok()) decoded = attention_.CollectSums();
  if (!decoded.ok()) return decoded;
  CompressRows();
  const uint64_t heads = uint64_t{model_->config().num_layers} * model_->config().num_kv_heads;
  answer.kv.session_rows =
      conversation_.is_there() ? num_past() : (rows().total_rows() + heads - 1) / heads;

  // 5. Fill the receipt.
  answer.timings_ms.total = Since(start);
  const double steps = static_cast<double>(totals_.decode_steps);
  if (totals_.decode_steps > 0) {
    answer.timings_ms.per_token = (answer.timings_ms.total - answer.timings_ms.first_token) / steps;
    answer.kv.read_fraction_decode = totals_.decode_fraction / steps;
  }
  const bool exact = ReadsAll(budget);
  answer.kv.budget =
      exact && document_->retention().keeps_all() ? 1.0f : static_cast<float>(budget);
  answer.kv.rule = exact ? "exact" : focus_.rows ? FocusRule() : options.rule;
  answer.kv.divergence = exact ? 0 : chosen.divergence;
  if (focus_.rows) {
    answer.kv.budget = static_cast<float>(totals_.prefill_fraction);
  } else if (!exact) {
    answer.kv.layer_budget = policies.layers;
    answer.kv.head_budget = policies.heads;
    AddRuleNote(settings_.rule, answer);
  }
  answer.kv.read_fraction_prefill = totals_.prefill_fraction;
  answer.kv.bytes_read = totals_.all.bytes;
  answer.kv.window_bytes = totals_.all.window_bytes;
  if (!focus_.rows) answer.kv.missed_mass_estimate = totals_.all.missed / (steps + 1);
  if (options.max_missed && !exact) {
    answer.kv.missed_mass_bound = totals_.all.missed_bound / (steps + 1);
    answer.kv.max_missed_by = totals_.all.bound_holds ? "bound" : "estimate";
  }
  answer.kv.keep = document_->retention().keep;
  answer.kv.prefill_budget = document_->prefill_budget();
  if (answer.kv.keep < 1) answer.kv.retention = document_->retention().method;
  if (exact && budget < 1 && document_->has_clusters()) {
    AddNote(answer, "the document keeps " + Percent(document_->kept_share()) +
                        " of its rows, and all of them were read");
  } else if (exact && budget < 1) {
    AddNote(answer, document_->num_full_layers() == 0
                        ? "every layer of the model sees a window only, which was read whole"
                        : "the document is under 2,048 tokens: it has no clusters and was read "
                          "densely");
  }
  AddEvidence(question, options, answer);
  if (!placement_.fallback.empty()) Warn(options, "cpu_fallback", placement_.fallback, answer);
  // An answer of which the model has not seen all is fed by the next question's turn.
  const bool is_seen = !next.constraint || !next.constraint->has_plain();
  if (!is_seen) sampled.clear();
  // Last, because memory may run out before; then nothing counts as said.
  KeepTurn(std::move(next.rest), sampled, question, options, answer);
  if (!is_seen) GiveUpTurn();
  return answer;
}

}  // namespace lectern
