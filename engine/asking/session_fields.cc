// Answers with a JSON object by asking for each of its values, where the model knows plain answers
// alone.
#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "engine/asking/answer_fields.h"
#include "engine/asking/ask.h"
#include "engine/constraint/ordered_json.h"
#include "engine/model/template/sampled_tokens.h"

namespace lectern {
namespace {

// Tokens and warnings that the answer for a value told while it was made.
struct ToldTokens {
  struct Token {
    LikelyToken token;
    std::vector<LikelyToken> likeliest;
  };
  std::vector<Token> tokens;
  std::vector<std::pair<std::string, Message>> warnings;
};

bool HasWarning(const Answer& answer, std::string_view warning) {
  return std::ranges::find(answer.warnings, warning) != answer.warnings.end();
}

// Warnings that speak of one value's answer, not of all.
bool IsOfOneValue(std::string_view warning) {
  return warning == "no_evidence" || warning == "refusal_likely";
}

// Writes the object's text and puts the answers for its values together. Borrows its arguments.
class ObjectAnswer {
 public:
  ObjectAnswer(const Tokenizer& tokenizer, const AskOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  uint64_t room() const {
    return options_.max_tokens - std::min<uint64_t>(options_.max_tokens, answer_.answer_tokens);
  }
  // The tokens that are left for a value behind this text; 0: none.
  uint64_t RoomBehind(std::string_view text) const {
    const auto tokens = tokenizer_.EncodeContinuation(text);
    return tokens.ok() ? room() - std::min<uint64_t>(room(), tokens->ids.size()) : room();
  }
  // Whether nothing more can be written.
  bool is_ended() const { return !answer_.finish_reason.empty(); }
  void End(const char* finish_reason, const char* stopped_by) {
    answer_.finish_reason = finish_reason, answer_.stopped_by = stopped_by;
  }

  // Writes a text of which the schema leaves no choice.
  void WriteForced(std::string_view text) {
    const auto tokens = tokenizer_.EncodeContinuation(text);
    if (!tokens.ok()) return Write(text, {});
    std::vector<ToldTokens::Token> told;
    std::string written;
    for (const int32_t id : tokens->ids) {
      if (told.size() == room()) break;
      const LikelyToken token = {id, 0, tokenizer_.TokenBytes(id)};
      written += token.bytes;
      told.push_back({token, {}});
      if (options_.top_logprobs > 0) told.back().likeliest = {token};
    }
    const bool is_cut = told.size() < tokens->ids.size();
    answer_.answer_tokens += told.size();
    answer_.forced_tokens += told.size();
    // A normaliser may have changed the text.
    Write(is_cut ? std::string_view(written) : text, told);
    if (is_cut && !is_ended()) End("length", "max_tokens");
  }

  // Takes the answer for a value and writes `value`, which is the answer's text or what stands for
  // it; `before` comes first.
  void WriteValue(std::string_view before, std::string_view value, Answer answer,
                  const ToldTokens& told) {
    WriteForced(before);
    if (is_ended()) return Take(std::move(answer), told);
    if (value == answer.text) {
      answer_.answer_tokens += answer.answer_tokens;
      answer_.forced_tokens += answer.forced_tokens;
      Write(value, told.tokens);
    } else {
      WriteForced(value);
    }
    const std::string reason = answer.finish_reason, by = answer.stopped_by;
    Take(std::move(answer), told);
    if (reason != "stop" && !is_ended()) End(reason.c_str(), by.c_str());
  }
  bool has_begun() const { return !answer_.text.empty() || !answers_.empty(); }
  void WarnOf(const char* warning, const Message& note) { Warn(options_, warning, note, answer_); }
  // Takes an answer of which nothing is written.
  void Take(Answer answer, const ToldTokens& told);
  void AddUnanswered(const std::string& key) { unanswered_.push_back(QuotedJson(key)); }
  // The answer for the whole object; call it once, at the end.
  Answer Finish();

 private:
  void Write(std::string_view text, std::span<const ToldTokens::Token> tokens) {
    answer_.text += text;
    if (options_.on_token) {
      for (const auto& [token, likeliest] : tokens) options_.on_token({token, likeliest});
    }
    const bool goes_on = text.empty() || !options_.on_text || options_.on_text(std::string(text));
    if (!goes_on || IsSet(options_.cancel)) End("cancelled", "cancelled");
  }
  void MergeEvidence();
  void MergeWarnings();

  const Tokenizer& tokenizer_;
  const AskOptions& options_;
  Answer answer_;  // text, counts and reasons; the rest comes from answers_
  std::deque<std::pair<Answer, ToldTokens>> answers_;
  std::vector<std::string> unanswered_;  // keys of values that the model would rather not say
};

void ObjectAnswer::Take(Answer answer, const ToldTokens& told) {
  answers_.emplace_back(std::move(answer), ToldTokens{{}, told.warnings});
}

// Passages that come first for a value go before those that come second for another one.
void ObjectAnswer::MergeEvidence() {
  struct Ranked {
    size_t rank;
    Evidence evidence;
  };
  std::vector<Ranked> all;
  const auto share = 1 / static_cast<float>(answers_.size());
  for (auto& [one, told] : answers_) {
    for (size_t rank = 0; rank < one.evidence.size(); ++rank) {
      Evidence& evidence = one.evidence[rank];
      evidence.mass *= share;
      const auto same = std::ranges::find_if(all, [&](const Ranked& other) {
        return other.evidence.begin == evidence.begin && other.evidence.end == evidence.end;
      });
      if (same == all.end()) {
        all.push_back({rank, std::move(evidence)});
        continue;
      }
      const float mass = same->evidence.mass + evidence.mass;
      if (evidence.score > same->evidence.score) same->evidence = std::move(evidence);
      same->evidence.mass = mass;
      same->rank = std::min(same->rank, rank);
    }
    for (const AttendedPassage& passage : one.attention) {
      const auto same =
          std::ranges::find(answer_.attention, passage.begin, &AttendedPassage::begin);
      if (same == answer_.attention.end()) {
        answer_.attention.push_back({passage.begin, passage.end, passage.mass * share});
      } else {
        same->mass += passage.mass * share;
      }
    }
  }
  std::ranges::stable_sort(all, [](const Ranked& a, const Ranked& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.evidence.score > b.evidence.score;
  });
  if (all.size() > options_.max_evidence) all.erase(all.begin() + options_.max_evidence, all.end());
  for (Ranked& one : all) answer_.evidence.push_back(std::move(one.evidence));
  std::ranges::stable_sort(answer_.evidence, std::ranges::greater(), &Evidence::score);
  std::ranges::stable_sort(answer_.attention, std::ranges::greater(), &AttendedPassage::mass);
  if (answer_.attention.size() > kMostAttended) {
    answer_.attention.erase(answer_.attention.begin() + kMostAttended, answer_.attention.end());
  }
}

// Each warning once. The note is that of a value's answer that warns of nothing that concerns it
// alone, with the other answers' warnings behind it.
void ObjectAnswer::MergeWarnings() {
  const auto is_plain = [](const auto& one) {
    return std::ranges::none_of(one.first.warnings, IsOfOneValue);
  };
  const auto noted = std::ranges::find_if(answers_, is_plain);
  if (noted != answers_.end()) {
    const bool was_empty = answer_.note.empty();
    if (!noted->first.note.empty()) answer_.note += (was_empty ? "" : "; ") + noted->first.note;
  }
  for (const auto& [one, told] : answers_) {
    for (const auto& [warning, note] : told.warnings) {
      if (IsOfOneValue(warning) || HasWarning(answer_, warning)) continue;
      if (noted != answers_.end() && HasWarning(noted->first, warning)) {
        answer_.warnings.push_back(warning);
        if (options_.on_warning) options_.on_warning(warning, note);
      } else {
        Warn(options_, warning.c_str(), note, answer_);
      }
    }
  }
  if (!unanswered_.empty()) {
    std::string keys;
    for (const std::string& key : unanswered_) keys += (keys.empty() ? "" : ", ") + key;
    Warn(options_, "refusal_likely",
         "the model would rather have said that the document does not answer this: " + keys,
         answer_);
  }
  if (options_.max_evidence > 0 && !HasEvidence(answer_.evidence)) {
    WarnOfNoEvidence(options_, answer_);
  }
}

Answer ObjectAnswer::Finish() {
  if (!is_ended()) End("stop", "end");
  if (answers_.empty()) return std::move(answer_);
  const Answer& first = answers_.front().first;
  answer_.timings_ms.first_token = first.timings_ms.first_token;
  answer_.kv = first.kv;
  answer_.kv.bytes_read = answer_.kv.window_bytes = 0;
  double prefill = 0, decode = 0, refusal = 0, per_token = 0;
  size_t num_decoded = 0, num_refusals = 0;
  for (const auto& [one, told] : answers_) {
    answer_.question_tokens += one.question_tokens;
    answer_.proposed_tokens += one.proposed_tokens;
    answer_.accepted_tokens += one.accepted_tokens;
    answer_.timings_ms.prefill += one.timings_ms.prefill;
    answer_.kv.bytes_read += one.kv.bytes_read;
    answer_.kv.window_bytes += one.kv.window_bytes;
    answer_.kv.fallback |= one.kv.fallback;
    prefill += one.kv.read_fraction_prefill;
    if (one.kv.read_fraction_decode) {
      decode += *one.kv.read_fraction_decode, per_token += one.timings_ms.per_token, ++num_decoded;
    }
    if (one.refusal_probability) refusal += *one.refusal_probability, ++num_refusals;
  }
  const auto mean = [](double sum, size_t count) { return sum / static_cast<double>(count); };
  answer_.kv.read_fraction_prefill = mean(prefill, answers_.size());
  answer_.kv.read_fraction_decode.reset();
  if (num_decoded > 0) {
    answer_.kv.read_fraction_decode = mean(decode, num_decoded);
    answer_.timings_ms.per_token = mean(per_token, num_decoded);
  }
  if (num_refusals > 0) answer_.refusal_probability = mean(refusal, num_refusals);
  MergeEvidence();
  MergeWarnings();
  return std::move(answer_);
}

// Asks for the values of an object and writes it. Borrows its arguments.
class FieldAsker {
 public:
  using Ask = FunctionRef<Result<Answer>(std::string_view question, const AskOptions& options)>;

  FieldAsker(const AskOptions& options, Ask ask, ObjectAnswer& object)
      : options_(options), ask_(ask), object_(object) {}

  // Writes the object of these members. Codes of `ask`.
  Status AskFor(std::span<const AnswerField> fields) {
    std::string before = "{";
    for (const AnswerField& field : fields) {
      const std::string key = before + QuotedJson(field.key) + ": ";
      if (!field.only_value.empty()) {
        object_.WriteForced(key + field.only_value);
        before = ", ";
      } else if (field.members.empty()) {
        LECTERN_ASSIGN(const bool is_written, AskForValue(field, key));
        if (is_written) before = ", ";
      } else {
        object_.WriteForced(key);
        if (!object_.is_ended()) LECTERN_RETURN_IF_ERROR(AskFor(field.members));
        before = ", ";
      }
      if (object_.is_ended()) return {};
    }
    object_.WriteForced(before == "{" ? "{}" : "}");
    return {};
  }

 private:
  // False: the member was left out.
  Result<bool> AskForValue(const AnswerField& field, const std::string& key) {
    const uint64_t room = object_.RoomBehind(key);
    if (room == 0) {
      object_.WriteForced(key);
      if (!object_.is_ended()) object_.End("length", "max_tokens");
      return true;
    }
    ToldTokens told;
    AskOptions options = options_;
    options.json_schema = field.schema;
    options.strict_schema = false;
    options.max_tokens = static_cast<uint32_t>(room);
    options.on_text = nullptr;
    options.on_reasoning = nullptr;
    options.on_warning = [&](std::string_view warning, const Message& note) {
      if (warning != "schema_not_kept") told.warnings.emplace_back(warning, note);
    };
    if (options.on_token) {
      options.on_token = [&](const SampledToken& token) {
        told.tokens.push_back({token, {token.likeliest.begin(), token.likeliest.end()}});
      };
    }
    auto answer = ask_(field.question, options);
    if (answer.status().code() == Code::kCancelled && object_.has_begun()) {
      object_.End("cancelled", "cancelled");
      return true;
    }
    LECTERN_RETURN_IF_ERROR(answer.status());
    const bool is_unanswered = HasWarning(*answer, "refusal_likely");
    if (is_unanswered && field.may_be_missing) {
      object_.Take(*std::move(answer), told);
      return false;
    }
    std::string value = answer->text;
    if (is_unanswered && field.may_be_null) {
      value = "null";
    } else if (is_unanswered) {
      object_.AddUnanswered(field.key);
    }
    if (field.is_yes_or_no && value == "\"Yes\"") value = "true";
    if (field.is_yes_or_no && value == "\"No\"") value = "false";
    object_.WriteValue(key, value, *std::move(answer), told);
    return true;
  }

  const AskOptions& options_;
  const Ask ask_;
  ObjectAnswer& object_;
};

}  // namespace

std::vector<AnswerField> DocumentSession::FieldsOf(std::string_view question,
                                                   const AskOptions& options) const {
  const bool is_watched = probe_.on_token || probe_.on_first_logits || !probe_.answer.empty();
  // A text that ends the answer may stand anywhere in the object.
  if (options.json_schema.empty() || !IsPlain(options) || is_watched ||
      !options.stop_texts.empty()) {
    return {};
  }
  return SplitIntoFields(options.json_schema, question);
}

// Each value's question is asked from where the session stands, and its turn is taken back: the
// model would see the questions before as a conversation.
Result<Answer> DocumentSession::AskFields(std::span<const AnswerField> fields,
                                          std::string_view question, const AskOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  LECTERN_RETURN_IF_ERROR(CheckOptions(options));
  ObjectAnswer object(model_->tokenizer(), options);
  LECTERN_ASSIGN(const std::string note, NotKeptOf(options));
  if (!note.empty()) object.WarnOf("schema_not_kept", note);
  const auto ask = [&](std::string_view asked, const AskOptions& of_value) {
    const Transcript before = said_;
    auto answer = AskOnce(asked, of_value);
    TakeBackTurn(before);
    return answer;
  };
  LECTERN_RETURN_IF_ERROR(FieldAsker(options, ask, object).AskFor(fields));
  Answer answer = object.Finish();
  answer.document = ToHex(document_->row().id);
  answer.document_tokens = document_->shape().num_tokens;
  answer.timings_ms.open = open_ms_;
  ChatHistory history = said_.history.is_empty() ? options.history : said_.history;
  history.turns.push_back({std::string(question), answer.text, ""});
  said_.history = std::move(history);
  const std::chrono::duration<double, std::milli> total = std::chrono::steady_clock::now() - start;
  answer.timings_ms.total = total.count();
  return answer;
}

}  // namespace lectern
