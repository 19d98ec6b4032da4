#include "engine/asking/answer_constraint.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/model/formats/text.h"

namespace lectern {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
// Bytes that are looked ahead for a forced text: more would be forced when these have come.
constexpr size_t kMostForcedBytes = 1024;

bool JoinsToNext(char c) {
  return c == ' ' || c == '\n' || c == '\t' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
         (c >= 'a' && c <= 'z') || static_cast<uint8_t>(c) >= 0x80;
}

// The tokens of a mark, which may have control tokens in its text; none: it cannot be written.
std::vector<int32_t> TokensOfMark(const Tokenizer& tokenizer, std::string_view mark) {
  std::vector<int32_t> ids;
  std::string plain;
  const auto encode = [&] {
    const auto tokens = tokenizer.EncodeContinuation(plain);
    if (tokens.ok()) ids.insert(ids.end(), tokens->ids.begin(), tokens->ids.end());
    plain.clear();
    return tokens.ok();
  };
  while (!mark.empty()) {
    if (const auto control = tokenizer.FindControl(mark)) {
      if (!plain.empty() && !encode()) return {};
      ids.push_back(control->id);
      mark.remove_prefix(control->length);
    } else {
      plain += mark.front();
      mark.remove_prefix(1);
    }
  }
  if (!plain.empty() && !encode()) return {};
  return ids;
}

}  // namespace

AnswerConstraint::AnswerConstraint(std::shared_ptr<const Model> model, JsonGrammar json)
    : model_(std::move(model)),
      json_(std::move(json)),
      trie_(model_->token_trie()),
      masks_(json_.grammar, trie_) {
  const std::vector<int32_t> quote = TokensOf("\"");
  if (quote.size() == 1) quote_ = quote[0];
}

Result<std::unique_ptr<AnswerConstraint>> AnswerConstraint::Create(
    std::shared_ptr<const Model> model, std::string_view schema, bool is_strict,
    std::string_view prompt, bool is_thinking, bool is_plain) {
  auto json = CompileJsonSchema(schema, is_strict);
  if (!json.ok()) return std::move(json).status().WithParam("json_schema");
  const ThinkingMarks& marks = model->chat_template().thinking();
  std::unique_ptr<AnswerConstraint> made(
      new AnswerConstraint(std::move(model), std::move(json).value()));
  made->mark_ = TokensOfMark(made->model_->tokenizer(), marks.begin);
  made->head_ = TokensOfMark(made->model_->tokenizer(), marks.turn + marks.answer);
  if (is_thinking) return made;
  made->plain_.may_be = is_plain && made->mark_.empty() && made->quote_ >= 0;
  // Behind "Answer:" tokens begin with a blank, of which AnswerText shows nothing.
  const bool is_apart = prompt.empty() || prompt.back() == ' ' || prompt.back() == '\n';
  made->plain_.is_behind_blank = is_apart;
  const Grammar& grammar = made->json_.grammar;
  if (made->plain_.may_be) made->BeginPlain();
  if (!made->plain_.is_there) made->BeginValue(is_apart ? grammar.root : grammar.spaced_root);
  return made;
}

void AnswerConstraint::BeginValue(uint32_t rule) {
  place_ = masks_.matcher().Begin(rule);
  has_begun_ = false;
  // A model that may think first decides that by its first token.
  if (mark_.empty()) FindForced();
}

// The model does not see the tokens before its answer, so a blank before them is none of theirs.
void AnswerConstraint::BeginPlain() {
  BeginValue(json_.grammar.root);
  const Tokenizer& tokenizer = model_->tokenizer();
  std::string text;
  for (const int32_t id : forced_) text += tokenizer.TokenBytes(id);
  int32_t place = place_;
  for (const char byte : text) place = masks_.matcher().Next(place, static_cast<uint8_t>(byte));
  // A string of a pattern or a format would not be the model's plain answer.
  if (text.empty() || text.back() != '"') return forced_.clear();
  for (const std::string_view any : {"A", "z", "0", " ", "-", "\xC3", "\""}) {
    if (masks_.matcher().Next(place, static_cast<uint8_t>(any[0])) == GrammarMatcher::kNowhere) {
      return forced_.clear();
    }
  }
  plain_.before = forced_.size();
  plain_.is_there = true;
  for (int32_t id = 0; static_cast<uint32_t>(id) < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.TokenBytes(id);
    if (bytes.find('"') != bytes.npos) plain_.quotes.push_back(id);
    if (bytes.starts_with('\n')) plain_.lines.push_back(id);
  }
}

int32_t AnswerConstraint::Behind(int32_t place, int32_t id) {
  for (const char byte : model_->tokenizer().TokenBytes(id)) {
    if (place == GrammarMatcher::kNowhere) break;
    place = masks_.matcher().Next(place, static_cast<uint8_t>(byte));
  }
  return place;
}

bool AnswerConstraint::HasLonger(int32_t id, int32_t place) {
  uint32_t node = 0;
  for (const char byte : model_->tokenizer().TokenBytes(id)) {
    node = trie_.Child(node, static_cast<uint8_t>(byte));
    if (node == 0) return false;
  }
  return masks_.HasLonger(node, place);
}

std::vector<int32_t> AnswerConstraint::TokensOf(const std::string& text) const {
  const Tokenizer& tokenizer = model_->tokenizer();
  const auto tokens = tokenizer.EncodeContinuation(text);
  if (!tokens.ok()) return {};
  // A normaliser may have changed the text.
  std::string bytes;
  for (const int32_t id : tokens->ids) bytes += tokenizer.TokenBytes(id);
  return bytes == text ? tokens->ids : std::vector<int32_t>();
}

void AnswerConstraint::FindForced() {
  GrammarMatcher& matcher = masks_.matcher();
  std::string text;
  int32_t place = place_;
  for (int byte; text.size() < kMostForcedBytes && (byte = matcher.OnlyByte(place)) >= 0;) {
    text += static_cast<char>(byte);
    place = matcher.Next(place, static_cast<uint8_t>(byte));
  }
  // Characters are whole in a tokenizer's text.
  while (!text.empty() && !IsValidUtf8(text)) text.pop_back();
  if (text.empty()) return;
  std::vector<int32_t> ids = TokensOf(text);
  if (ids.empty()) return;
  place = place_;
  for (const int32_t id : ids) place = Behind(place, id);
  if (place == GrammarMatcher::kNowhere) return;
  if (JoinsToNext(text.back()) && HasLonger(ids.back(), place)) ids.pop_back();
  forced_.assign(ids.begin(), ids.end());
}

void AnswerConstraint::Track(std::string_view bytes) {
  for (const char byte : bytes) {
    if (is_in_string_) {
      const bool ends = byte == '"' && !is_escaped_;
      is_escaped_ = byte == '\\' && !is_escaped_;
      ++string_bytes_;
      if (ends) is_in_string_ = false;
    } else if (byte == '"') {
      is_in_string_ = true, string_bytes_ = 0;
    } else if (byte == '{' || byte == '[') {
      open_ += byte == '{' ? '}' : ']';
    } else if (!open_.empty() && byte == open_.back()) {
      open_.pop_back();
    }
  }
}

// A loop outside of strings is one of an array's items or an object's members: where it cannot end
// at once, it ends with the string that comes next.
bool AnswerConstraint::EndLoop() {
  if (levels_to_end_ > 0) return false;
  ++loops_;
  levels_to_end_ = loops_ + (is_in_string_ ? 0 : 1);
  TryToEnd();
  return true;
}

void AnswerConstraint::TryToEnd() {
  if (levels_to_end_ == 0 || !forced_.empty() || is_escaped_) return;
  if (place_ == GrammarMatcher::kNowhere) return;  // it thinks
  std::string text = is_in_string_ ? "\"" : "";
  const size_t levels = levels_to_end_ - 1;  // without the string
  const size_t least = open_.size() - std::min(levels, open_.size());
  for (size_t i = open_.size(); i > least; --i) text += open_[i - 1];
  size_t may_come = 0;
  for (int32_t place = place_; may_come < text.size(); ++may_come) {
    place = masks_.matcher().Next(place, static_cast<uint8_t>(text[may_come]));
    if (place == GrammarMatcher::kNowhere) break;
  }
  if (may_come == 0) return;
  const std::vector<int32_t> ids = TokensOf(text.substr(0, may_come));
  forced_.assign(ids.begin(), ids.end());
  if (!ids.empty()) levels_to_end_ = 0;
}

bool AnswerConstraint::is_done() const {
  if (place_ == GrammarMatcher::kNowhere || !forced_.empty()) return false;
  const GrammarMatcher::Place& place = masks_.matcher().place(place_);
  return place.ends && place.items.empty();
}

void AnswerConstraint::Push(int32_t id, const AnswerText& text) {
  if (!forced_.empty()) forced_.pop_front();
  const Tokenizer& tokenizer = model_->tokenizer();
  if (text.is_thinking()) {
    if (place_ != GrammarMatcher::kNowhere) thought_.clear();
    place_ = GrammarMatcher::kNowhere;
    thought_ += tokenizer.TokenBytes(id);
    return;
  }
  if (place_ == GrammarMatcher::kNowhere) {  // the thought has ended
    thought_ += tokenizer.TokenBytes(id);
    const std::string& end = model_->chat_template().thinking().end;
    const size_t at = end.empty() ? thought_.npos : thought_.rfind(end);
    const std::string rest = at == thought_.npos ? "" : thought_.substr(at + end.size());
    thought_.clear();
    BeginValue(json_.grammar.parted_root);
    forced_.clear();
    int32_t place = place_;
    for (const char byte : rest) {
      if (place != GrammarMatcher::kNowhere) {
        place = masks_.matcher().Next(place, static_cast<uint8_t>(byte));
      }
    }
    if (place != GrammarMatcher::kNowhere) place_ = place;
    if (rest.empty()) {
      forced_.assign(head_.begin(), head_.end());
      head_left_ = head_.size();
    }
    return;
  }
  if (head_left_ > 0) {
    if (--head_left_ > 0) return;
    mark_.clear();  // the value follows the head
    return FindForced();
  }
  // The first tokens of a mark stand before the value.
  const bool is_of_mark = !has_begun_ && std::ranges::find(mark_, id) != mark_.end();
  const int32_t place = Behind(place_, id);
  if (is_of_mark && (tokenizer.TokenBytes(id).empty() || place == GrammarMatcher::kNowhere)) return;
  has_begun_ = true;
  Track(tokenizer.TokenBytes(id));
  if (plain_.before > 0 && --plain_.before == 0) plain_.is_open = true;
  plain_.is_open &= is_in_string_;
  if (place != GrammarMatcher::kNowhere) place_ = masks_.Forget(place);
  if (forced_.empty()) FindForced();
  TryToEnd();
}

bool AnswerConstraint::IsAllowed(int32_t id, std::span<const uint64_t> allowed) const {
  const auto at = static_cast<size_t>(id);
  return at / 64 < allowed.size() && (allowed[at / 64] >> (at % 64) & 1) != 0;
}

// Whole words of the mask are copied or banned at once: in strings nearly all tokens may come.
size_t AnswerConstraint::Mask(std::span<const float> logits, std::span<const uint64_t> allowed) {
  masked_.resize(logits.size());
  size_t count = 0;
  for (size_t begin = 0; begin < logits.size(); begin += 64) {
    const size_t size = std::min<size_t>(64, logits.size() - begin);
    const uint64_t bits = begin / 64 < allowed.size() ? allowed[begin / 64] : 0;
    count += static_cast<size_t>(std::popcount(bits));
    if (bits == 0) {
      std::fill_n(masked_.begin() + static_cast<ptrdiff_t>(begin), size, kImpossible);
      continue;
    }
    for (size_t i = 0; i < size; ++i) {
      masked_[begin + i] = (bits >> i & 1) != 0 ? logits[begin + i] : kImpossible;
    }
  }
  return count;
}

void AnswerConstraint::EndPlainByLine(std::span<const float> logits,
                                      std::span<const uint64_t> allowed) {
  if (!plain_.is_open || is_escaped_) return;
  for (const int32_t id : plain_.quotes) masked_[static_cast<size_t>(id)] = kImpossible;
  if (string_bytes_ == 0 || !IsAllowed(quote_, allowed)) return;
  float& quote = masked_[static_cast<size_t>(quote_)];
  for (const int32_t id : plain_.lines) quote = std::max(quote, logits[static_cast<size_t>(id)]);
}

AnswerConstraint::Drawn AnswerConstraint::WithoutBlank(int32_t id) {
  const std::string_view bytes = model_->tokenizer().TokenBytes(id);
  plain_.is_behind_blank = true;
  if (bytes == " ") return {-1, masked_, id};
  std::vector<int32_t> rest;
  if (bytes.starts_with(' ')) rest = TokensOf(std::string(bytes.substr(1)));
  if (rest.empty()) return {id, masked_};
  masked_[static_cast<size_t>(rest[0])] = masked_[static_cast<size_t>(id)];
  forced_.assign(rest.begin(), rest.end());
  plain_.before = forced_.size();
  return {rest[0], masked_, id};
}

void AnswerConstraint::CountEndsAsQuote(std::span<const float> logits,
                                        std::span<const uint64_t> allowed) {
  if (!is_in_string_ || string_bytes_ == 0 || is_escaped_ || quote_ < 0) return;
  if (!IsAllowed(quote_, allowed)) return;
  float& quote = masked_[static_cast<size_t>(quote_)];
  for (const int32_t end : model_->ends()) {
    const auto at = static_cast<size_t>(end);
    if (at < logits.size()) quote = std::max(quote, logits[at]);
  }
}

Result<AnswerConstraint::Drawn> AnswerConstraint::Draw(std::span<const float> logits,
                                                       Sampler& sampler) {
  if (!forced_.empty()) return Drawn{forced_.front(), {}};
  const bool is_thinking = place_ == GrammarMatcher::kNowhere;
  size_t count = 0;
  std::span<const uint64_t> allowed;
  if (is_thinking) {
    masked_.assign(logits.begin(), logits.end());
    count = logits.size();
  } else {
    LECTERN_ASSIGN(allowed, masks_.Find(place_));
    count = Mask(logits, allowed);
  }
  // A text may end where its value is complete; thoughts are followed by an answer.
  const bool ends = !is_thinking && masks_.matcher().place(place_).ends;
  for (const int32_t id : model_->ends()) {
    const auto at = static_cast<size_t>(id);
    if (at >= masked_.size()) continue;
    masked_[at] = ends ? logits[at] : kImpossible;
    count += ends;
  }
  const bool may_have_blank = plain_.is_open && string_bytes_ == 0 && !plain_.is_behind_blank;
  EndPlainByLine(logits, allowed);
  CountEndsAsQuote(logits, allowed);
  const bool may_think = !is_thinking && !has_begun_ && !mark_.empty();
  if (may_think) masked_[static_cast<size_t>(mark_[0])] = logits[static_cast<size_t>(mark_[0])];
  if (count + may_think == 0) {
    return Status(Code::kUnsupportedModel,
                  "the model's vocabulary has no token for the next character that the schema "
                  "asks for; choose another model or schema");
  }
  int32_t id = sampler.Sample(masked_);
  const auto may_come = [&](int32_t one) {
    return is_thinking || IsAllowed(one, allowed) || (ends && model_->IsEndOfText(one)) ||
           (may_think && one == mark_[0]);
  };
  // Logits of NaN or -infinity alone say nothing: the first token that may come is taken.
  if (!may_come(id)) {
    id = 0;
    while (static_cast<size_t>(id) + 1 < masked_.size() && !may_come(id)) ++id;
  }
  if (may_think && id == mark_[0] && !IsAllowed(id, allowed)) {
    forced_.assign(mark_.begin(), mark_.end());
  }
  if (may_have_blank) return WithoutBlank(id);
  return Drawn{id, masked_};
}

bool LoopGuard::Push(int32_t id, AnswerConstraint* constraint) {
  const bool is_late = has_looped_ && ++num_since_ >= LoopDetector::kLeastTokens;
  if (!loops_.Push(id) && !is_late) return false;
  has_looped_ = true, num_since_ = 0;
  loops_ = {};  // the same loop would be found with each token
  return !constraint || !constraint->EndLoop();
}

}  // namespace lectern
