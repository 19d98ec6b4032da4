#include "engine/asking/object_answer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engine/asking/answer_constraint.h"
#include "engine/asking/ask.h"
#include "engine/asking/value_of_text.h"
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

// A value stands at the beginning of the text out of which it is read: chosen without measurement.
constexpr uint64_t kMostReadTokens = 64;
// The schema by which that text is asked for.
constexpr std::string_view kAnyText = R"({"type": "string"})";

// The text of such an answer, which has no quotation mark and no escape within it; it may be cut.
std::string_view WithoutQuotes(std::string_view text) {
  if (text.starts_with('"')) text.remove_prefix(1);
  if (text.ends_with('"')) text.remove_suffix(1);
  return text;
}

// Writes the object's text and puts the answers for its values together. Borrows its arguments.
//
// A text may be held back: nothing of it is shown until Release, and Drop takes it back.
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

  // Takes the answer for the value of `key` and writes `value`, which is the answer's text or what
  // stands for it; `before` comes first. `is_given`: as Take has it.
  void WriteValue(std::string_view before, const std::string& key, std::string_view value,
                  bool is_given, Answer answer, const ToldTokens& told) {
    WriteForced(before);
    if (is_ended()) return Take(key, false, std::move(answer), told);
    if (value == answer.text) {
      answer_.answer_tokens += answer.answer_tokens;
      answer_.forced_tokens += answer.forced_tokens;
      Write(value, told.tokens);
    } else {
      WriteForced(value);
    }
    const std::string reason = answer.finish_reason, by = answer.stopped_by;
    Take(key, is_given, std::move(answer), told);
    if (reason != "stop" && !is_ended()) End(reason.c_str(), by.c_str());
  }
  bool has_begun() const { return !answer_.text.empty() || !answers_.empty(); }

  // Holds back what is written from now on. Calls nest.
  void Hold() {
    marks_.push_back({answer_.text.size(), answer_.answer_tokens, answer_.forced_tokens,
                      unanswered_.size(), held_.size()});
  }
  // Whether anything that Hold was called for is neither shown nor taken back.
  bool is_held() const { return !marks_.empty(); }
  // Shows all that is held back.
  void Release();
  // Takes back what was written since the last Hold.
  void Drop();

  void WarnOf(const char* warning, const Message& note) { Warn(options_, warning, note, answer_); }
  // Takes the answer for the value of `key`, of which nothing is written. `is_given`: the object
  // has the value that it gives.
  void Take(const std::string& key, bool is_given, Answer answer, const ToldTokens& told);
  void AddUnanswered(const std::string& key) { unanswered_.push_back(QuotedJson(key)); }
  // The answer for the whole object; call it once, at the end.
  Answer Finish();

 private:
  using Tokens = std::vector<ToldTokens::Token>;
  // The answer for a value.
  struct Given {
    Answer answer;
    ToldTokens told;
    std::string key;        // in quotes
    bool is_given = false;  // the object has the value that it gives
  };
  // The state to which Drop goes back.
  struct Mark {
    size_t text;
    uint64_t answer_tokens, forced_tokens;
    size_t unanswered, held;
  };

  void Write(std::string_view text, std::span<const ToldTokens::Token> tokens) {
    answer_.text += text;
    if (!is_held()) return (void)Show(text, tokens);
    held_.emplace_back(text, Tokens(tokens.begin(), tokens.end()));
    if (IsSet(options_.cancel)) End("cancelled", "cancelled");
  }
  // False: nothing more is to come.
  bool Show(std::string_view text, std::span<const ToldTokens::Token> tokens) {
    if (options_.on_token) {
      for (const auto& [token, likeliest] : tokens) options_.on_token({token, likeliest});
    }
    const bool goes_on = text.empty() || !options_.on_text || options_.on_text(std::string(text));
    if (!goes_on || IsSet(options_.cancel)) End("cancelled", "cancelled");
    return goes_on;
  }
  void ChooseDocument();
  void MergeCosts();
  void MergeAsked();
  void MergeEvidence();
  void MergeAttention();
  void MergeWarnings();

  const Tokenizer& tokenizer_;
  const AskOptions& options_;
  Answer answer_;  // text, counts and reasons; the rest comes from answers_
  std::deque<Given> answers_;
  std::vector<std::string> unanswered_;  // keys of values that the model would rather not say
  std::vector<Mark> marks_;              // where texts begin that are held back
  std::vector<std::pair<std::string, Tokens>> held_;
};

void ObjectAnswer::Release() {
  if (marks_.empty()) return;
  size_t shown = marks_.front().text;
  marks_.clear();
  for (const auto& [text, tokens] : std::exchange(held_, {})) {
    shown += text.size();
    if (!Show(text, tokens)) return answer_.text.resize(shown);
  }
}

void ObjectAnswer::Drop() {
  const Mark& mark = marks_.back();
  answer_.text.resize(mark.text);
  answer_.answer_tokens = mark.answer_tokens;
  answer_.forced_tokens = mark.forced_tokens;
  unanswered_.resize(mark.unanswered);
  held_.resize(mark.held);
  marks_.pop_back();
}

void ObjectAnswer::Take(const std::string& key, bool is_given, Answer answer,
                        const ToldTokens& told) {
  answers_.push_back({std::move(answer), {{}, told.warnings}, QuotedJson(key), is_given});
}

// The object's document is the one that gave most of its values; of a collection it may be any.
void ObjectAnswer::ChooseDocument() {
  std::map<std::string_view, size_t> num_given;
  const Answer* best = &answers_.front().answer;
  for (const Given& one : answers_) {
    if (one.is_given && ++num_given[one.answer.document] > num_given[best->document]) {
      best = &one.answer;
    }
  }
  answer_.document = best->document;
  answer_.document_tokens = best->document_tokens;
  answer_.num_parts = best->num_parts;
  answer_.collection = best->collection;
  answer_.num_documents = best->num_documents;
}

// Adds a part or document that was asked for a value to those that `all` has, each once, as likely
// and sure as where it was likeliest.
template <typename Asked, typename Id>
void AddAsked(std::vector<Asked>& all, Id Asked::*id, Asked asked, const std::string& key,
              bool is_given) {
  asked.answer = key + ": " + asked.answer;
  asked.is_chosen &= is_given;
  const auto same = std::ranges::find(all, asked.*id, id);
  if (same == all.end()) return all.push_back(std::move(asked));
  asked.answer = same->answer + ", " + asked.answer;
  asked.is_chosen |= same->is_chosen;
  if constexpr (requires { asked.is_new; }) asked.is_new |= same->is_new;
  if (same->probability >= asked.probability) {
    asked.probability = same->probability;
    asked.support = same->support, asked.logprob = same->logprob;
  }
  *same = std::move(asked);
}

void ObjectAnswer::MergeAsked() {
  for (const Given& one : answers_) {
    for (const AskedDocument& asked : one.answer.documents) {
      AddAsked(answer_.documents, &AskedDocument::name, asked, one.key, one.is_given);
    }
    for (const Answer::TextOf& text : one.answer.texts) {
      const auto same = std::ranges::find(answer_.texts, text.document, &Answer::TextOf::document);
      if (same == answer_.texts.end()) answer_.texts.push_back(text);
    }
    if (one.answer.document != answer_.document) continue;  // other texts have other parts
    for (const AskedPart& asked : one.answer.parts) {
      AddAsked(answer_.parts, &AskedPart::number, asked, one.key, one.is_given);
    }
  }
  std::ranges::stable_sort(answer_.parts, std::ranges::greater(), &AskedPart::probability);
  std::ranges::stable_sort(answer_.documents, std::ranges::greater(), &AskedDocument::probability);
}

// Passages that come first for a value go before those that come second for another one.
void ObjectAnswer::MergeEvidence() {
  struct Ranked {
    size_t rank;
    Evidence evidence;
  };
  std::vector<Ranked> all;
  const auto share = 1 / static_cast<float>(answers_.size());
  for (Given& one : answers_) {
    for (size_t rank = 0; rank < one.answer.evidence.size(); ++rank) {
      Evidence& evidence = one.answer.evidence[rank];
      evidence.mass *= share;
      const auto same = std::ranges::find_if(all, [&](const Ranked& other) {
        return other.evidence.begin == evidence.begin && other.evidence.end == evidence.end &&
               other.evidence.document == evidence.document;
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
  }
  std::ranges::stable_sort(all, [](const Ranked& a, const Ranked& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.evidence.score > b.evidence.score;
  });
  if (all.size() > options_.max_evidence) all.erase(all.begin() + options_.max_evidence, all.end());
  for (Ranked& one : all) answer_.evidence.push_back(std::move(one.evidence));
  std::ranges::stable_sort(answer_.evidence, std::ranges::greater(), &Evidence::score);
}

void ObjectAnswer::MergeAttention() {
  const auto share = 1 / static_cast<float>(answers_.size());
  for (const Given& one : answers_) {
    if (one.answer.document != answer_.document) continue;  // its offsets are of another text
    for (const AttendedPassage& passage : one.answer.attention) {
      const auto same =
          std::ranges::find(answer_.attention, passage.begin, &AttendedPassage::begin);
      if (same == answer_.attention.end()) {
        answer_.attention.push_back({passage.begin, passage.end, passage.mass * share});
      } else {
        same->mass += passage.mass * share;
      }
    }
  }
  std::ranges::stable_sort(answer_.attention, std::ranges::greater(), &AttendedPassage::mass);
  if (answer_.attention.size() > kMostAttended) {
    answer_.attention.erase(answer_.attention.begin() + kMostAttended, answer_.attention.end());
  }
}

// Each warning once. The note is that of a value's answer that warns of nothing that concerns it
// alone, with the other answers' warnings behind it.
void ObjectAnswer::MergeWarnings() {
  const auto is_plain = [](const Given& one) {
    return std::ranges::none_of(one.answer.warnings, IsOfOneValue);
  };
  const auto noted = std::ranges::find_if(answers_, is_plain);
  if (noted != answers_.end()) {
    const bool was_empty = answer_.note.empty();
    if (!noted->answer.note.empty()) answer_.note += (was_empty ? "" : "; ") + noted->answer.note;
  }
  for (const Given& one : answers_) {
    for (const auto& [warning, note] : one.told.warnings) {
      if (IsOfOneValue(warning) || HasWarning(answer_, warning)) continue;
      if (noted != answers_.end() && HasWarning(noted->answer, warning)) {
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

void ObjectAnswer::MergeCosts() {
  const Answer& first = answers_.front().answer;
  answer_.timings_ms.first_token = first.timings_ms.first_token;
  answer_.kv = first.kv;
  answer_.kv.bytes_read = answer_.kv.window_bytes = 0;
  double prefill = 0, decode = 0, refusal = 0, per_token = 0;
  size_t num_decoded = 0, num_refusals = 0;
  for (const Given& given : answers_) {
    const Answer& one = given.answer;
    answer_.question_tokens += one.question_tokens;
    answer_.proposed_tokens += one.proposed_tokens;
    answer_.accepted_tokens += one.accepted_tokens;
    answer_.timings_ms.open += one.timings_ms.open;
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
}

Answer ObjectAnswer::Finish() {
  if (!is_ended()) End("stop", "end");
  if (answers_.empty()) return std::move(answer_);
  ChooseDocument();
  MergeCosts();
  MergeAsked();
  MergeEvidence();
  MergeAttention();
  MergeWarnings();
  return std::move(answer_);
}

// Asks for the values of an object and writes it. Borrows its arguments.
class FieldAsker {
 public:
  FieldAsker(const AskOptions& options, AskValue ask, ObjectAnswer& object)
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
        LECTERN_ASSIGN(const bool is_written, AskForMembers(field, key));
        if (is_written) before = ", ";
      }
      if (object_.is_ended()) return {};
    }
    object_.WriteForced(before == "{" ? "{}" : "}");
    return {};
  }

 private:
  // False: the member was left out. An object that may be null, or missing, is held back until one
  // of its values is known.
  Result<bool> AskForMembers(const AnswerField& field, const std::string& key) {
    const bool may_be_dropped = (field.may_be_null || field.may_be_missing) && NeedsAsking(field);
    if (may_be_dropped) object_.Hold();
    object_.WriteForced(key);
    if (!object_.is_ended()) LECTERN_RETURN_IF_ERROR(AskFor(field.members));
    if (!may_be_dropped || !object_.is_held()) return true;
    if (object_.is_ended()) {
      object_.Release();
      return true;
    }
    object_.Drop();
    if (field.may_be_missing) return false;
    object_.WriteForced(key + "null");
    return true;
  }

  // The answer for a value, and what it told while it was made.
  struct Said {
    Answer answer;
    ToldTokens told;
  };

  // False: the member was left out.
  Result<bool> AskForValue(const AnswerField& field, const std::string& key) {
    const uint64_t room = object_.RoomBehind(key);
    if (room == 0) {
      object_.WriteForced(key);
      if (!object_.is_ended()) object_.End("length", "max_tokens");
      return true;
    }
    LECTERN_ASSIGN(auto said, field.is_read
                                  ? Ask(field.question, kAnyText, std::min(room, kMostReadTokens))
                                  : Ask(field.question, field.schema, room));
    if (!said) return true;
    const bool is_unanswered = HasWarning(said->answer, "refusal_likely");
    if (is_unanswered && field.may_be_missing) {
      object_.Take(field.key, false, std::move(said->answer), said->told);
      return false;
    }
    const bool is_null = is_unanswered && field.may_be_null;
    std::string value = is_null ? "null" : said->answer.text;
    if (field.is_read && !is_null) {
      value = ValueOfText(field.schema, field.question, WithoutQuotes(said->answer.text));
      if (value.empty()) {
        object_.Take(field.key, false, std::move(said->answer), said->told);
        LECTERN_ASSIGN(said, Ask(field.question, field.schema, room));
        if (!said) return true;
        value = said->answer.text;
      }
    }
    // The value is whole, however the text ended that it stands for or was read out of.
    if (value != said->answer.text && said->answer.finish_reason == "length") {
      said->answer.finish_reason = "stop", said->answer.stopped_by = "end";
    }
    if (is_unanswered && !is_null) object_.AddUnanswered(field.key);
    if (!is_unanswered) object_.Release();
    object_.WriteValue(key, field.key, value, !is_null, std::move(said->answer), said->told);
    return true;
  }

  // Nothing: it was cancelled, and so is the object.
  Result<std::optional<Said>> Ask(const std::string& question, std::string_view schema,
                                  uint64_t room) {
    Said said;
    AskOptions options = options_;
    options.json_schema = schema;
    options.strict_schema = false;
    options.max_tokens = static_cast<uint32_t>(room);
    options.on_text = nullptr;
    options.on_reasoning = nullptr;
    options.on_warning = [&](std::string_view warning, const Message& note) {
      if (warning != "schema_not_kept") said.told.warnings.emplace_back(warning, note);
    };
    if (options.on_token) {
      options.on_token = [&](const SampledToken& token) {
        said.told.tokens.push_back({token, {token.likeliest.begin(), token.likeliest.end()}});
      };
    }
    auto answer = ask_(question, options);
    if (answer.status().code() == Code::kCancelled && object_.has_begun()) {
      object_.End("cancelled", "cancelled");
      object_.Release();
      return std::optional<Said>();
    }
    LECTERN_RETURN_IF_ERROR(answer.status());
    said.answer = *std::move(answer);
    return std::optional<Said>(std::move(said));
  }

  const AskOptions& options_;
  const AskValue ask_;
  ObjectAnswer& object_;
};

}  // namespace

std::vector<AnswerField> FieldsOf(std::string_view question, const AskOptions& options) {
  if (options.json_schema.empty() || !options.stop_texts.empty()) return {};
  return SplitIntoFields(options.json_schema, question);
}

Result<Answer> AskForObject(std::span<const AnswerField> fields, const Tokenizer& tokenizer,
                            const AskOptions& options, AskValue ask) {
  ObjectAnswer object(tokenizer, options);
  LECTERN_ASSIGN(const std::string not_kept, NotKeptOf(options));
  if (!not_kept.empty()) object.WarnOf("schema_not_kept", not_kept);
  LECTERN_RETURN_IF_ERROR(FieldAsker(options, ask, object).AskFor(fields));
  return object.Finish();
}

}  // namespace lectern
