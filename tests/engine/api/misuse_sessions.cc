// Calls of sessions and answers.
#include <algorithm>

#include "tests/engine/api/misuse_calls.h"

namespace lectern::misuse {
namespace {

int32_t OnText(const char* text, size_t len, void* user) {
  CheckString(text, len);
  return static_cast<RunningSession*>(user)->Misbehave();
}
void OnTokens(const lectern_token* tokens, size_t num_tokens, void* user) {
  for (size_t i = 1; i < num_tokens; ++i) REQUIRE(tokens[i].begin >= tokens[i - 1].begin);
  static_cast<RunningSession*>(user)->Misbehave();
}

template <size_t (*kCount)(const lectern_answer*)>
bool GetCount(Tape& tape) {
  const auto picked = tape.handles.Pick<lectern_answer>(tape.random);
  const size_t count = kCount(picked.handle);
  REQUIRE(count < 1000 && (!picked.is_dead || count == 0));
  return !picked.is_dead;
}

size_t AnyIndex(Random& random) { return random.Of<size_t>({0, 0, 1, 2, 1000, SIZE_MAX}); }

bool AnswerWarning(Tape& tape) {
  const auto picked = tape.handles.Pick<lectern_answer>(tape.random);
  size_t len = 99;
  const char* const name = lectern_answer_warning(picked.handle, AnyIndex(tape.random), &len);
  REQUIRE(name ? !picked.is_dead && len < 99 : len == 0);
  return !picked.is_dead;  // the tiny model's answers have none
}

bool AnswerReceipt(Tape& tape) {
  return GetStruct<lectern_receipt, lectern_answer>(tape, lectern_answer_receipt);
}
bool AnswerEvidence(Tape& tape) {
  const size_t index = AnyIndex(tape.random);
  return GetStruct<lectern_evidence, lectern_answer>(tape, [&](auto* answer, auto* evidence) {
    return lectern_answer_evidence(answer, index, evidence);
  });
}

bool SessionOpen(Tape& tape) {
  const auto picked = tape.handles.Pick<lectern_engine>(tape.random);
  const Text name = AnyText(tape.random, kNames);
  Out<lectern_session> session(tape);
  Error error(tape);
  const lectern_code code =
      lectern_session_open(picked.handle, name.data(), name.len(), session.place(), error.place());
  if (lectern_session* const opened = session.Check(code)) {
    size_t len = 0;
    REQUIRE(lectern_session_text(opened, &len) && len > 0);
    Keep(tape, opened);
  }
  return Finish(code, error, {picked.is_dead, name.is_wrong(), session.has_place()});
}

bool SessionTokenize(Tape& tape) {
  const auto picked = tape.handles.Pick<lectern_session>(tape.random);
  const Text text = AnyText(tape.random, {"Who paid?", "<s>\xC3\xA9</s>", "\xF0\x9F\x8C\x8D"});
  const bool has_callback = !tape.random.OneIn(10);
  RunningSession running{tape, picked.handle};
  Error error(tape);
  const lectern_code code =
      lectern_session_tokenize(picked.handle, text.data(), text.len(),
                               has_callback ? OnTokens : nullptr, &running, error.place());
  return Finish(code, error, {picked.is_dead, text.is_wrong() || !has_callback});
}

// Earlier turns of a conversation: texts on the heap, none or some of them wrong.
class History {
 public:
  explicit History(Random& random) : instructions_(AnyText(random, {"", "Be brief.", "</s>"})) {
    for (size_t i = random.Below(4); i > 0; --i) {
      texts_.push_back(AnyText(random, {"Who?", "", "[INST] <|im_end|>", "And when?"}));
      texts_.push_back(AnyText(random, {"Ann.", "In May.", "\xE2\x82\xAC"}));
    }
    turns_.reset(new lectern_turn[texts_.size() / 2]);
    for (size_t i = 0; i < texts_.size(); i += 2) {
      turns_[i / 2] = {texts_[i].data(), texts_[i].len(), texts_[i + 1].data(),
                       texts_[i + 1].len()};
    }
  }
  // False: no ask may take it.
  bool Fill(Random& random, lectern_ask_options* options) const {
    options->turns = random.OneIn(20) ? nullptr : turns_.get();
    options->num_turns = texts_.size() / 2;
    options->instructions = instructions_.data(), options->instructions_len = instructions_.len();
    return (options->turns || texts_.empty()) && !instructions_.is_wrong() &&
           std::none_of(texts_.begin(), texts_.end(), [](const Text& t) { return t.is_wrong(); });
  }

 private:
  std::vector<Text> texts_;  // question and answer in turn
  std::unique_ptr<lectern_turn[]> turns_;
  Text instructions_;
};

// How tokens are drawn, told and ended: good and bad, for one ask.
class Drawing {
 public:
  explicit Drawing(Random& random)
      : stop_(AnyText(random, {".", "mill", "\xE2\x82\xAC", ""})),
        bias_{random.Of<int32_t>({0, 5, -1, INT32_MAX}), AnyShare<float>(random)} {}
  // False: no ask may take it.
  bool Fill(Random& random, lectern_ask_options* options) {
    options->frequency_penalty = random.OneIn(4) ? AnyShare<float>(random) : 0;
    options->presence_penalty = random.OneIn(4) ? AnyShare<float>(random) : 0;
    options->min_p = random.OneIn(4) ? AnyShare<float>(random) : 0;
    options->top_k = random.Of<uint32_t>({0, 1, 40, UINT32_MAX});
    options->num_logit_bias = random.Below(2);
    options->logit_bias = random.OneIn(20) ? nullptr : &bias_;
    stop_text_ = {stop_.data(), stop_.len()};
    options->num_stop_texts = random.Below(2);
    options->stop_texts = random.OneIn(20) ? nullptr : &stop_text_;
    options->on_token = random.OneIn(4) ? nullptr : OnToken;
    options->top_logprobs = random.Of<uint64_t>({0, 2, UINT64_MAX});
    return (options->num_logit_bias == 0 || options->logit_bias) &&
           (options->num_stop_texts == 0 ||
            (options->stop_texts && stop_.len() > 0 && !stop_.is_wrong()));
  }

 private:
  static void OnToken(const lectern_sampled_token* token, void*) {
    REQUIRE(token->struct_size == sizeof *token && token->token.logprob <= 0);
    REQUIRE(token->num_likeliest == 0 || token->likeliest[0].logprob >= token->token.logprob);
  }
  Text stop_;
  lectern_string stop_text_ = {};
  lectern_logit_bias bias_;
};

// A session that was asked nothing yet, mostly.
Handles::Picked<lectern_session> Fresh(Tape& tape) {
  const auto engine = tape.handles.Pick<lectern_engine>(tape.random);
  lectern_session* session = nullptr;
  const std::string& name = kNames[tape.random.Below(kNames.size())];
  const lectern_code code =
      lectern_session_open(engine.handle, name.data(), name.size(), &session, nullptr);
  if (code != LECTERN_OK || tape.handles.num_live<lectern_session>() >= 12) {
    REQUIRE(Free(session) == LECTERN_OK);
    return tape.handles.Pick<lectern_session>(tape.random);
  }
  tape.handles.Add(session);
  return {session, false};
}

template <bool has_history>
bool SessionAsk(Tape& tape) {
  Random& random = tape.random;
  const auto picked = has_history ? Fresh(tape) : tape.handles.Pick<lectern_session>(random);
  const History history(random);
  Drawing drawing(random);
  bool has_wrong_history = false;
  const Text question = AnyText(random, {"Who paid for the mill?", "Summarise.", "?"});
  const Text one = AnyText(random, {"uniform", "top-p", "cap", "pyramid", "threshold"});
  RunningSession running{tape, picked.handle};
  Sized<lectern_ask_options> options(random);
  const uint64_t few = random.OneIn(2) ? 1000 : 10;  // options that are set
  if (options.knows_all()) {
    options->max_tokens = 1 + static_cast<uint32_t>(random.Below(4));
    options->on_text = random.OneIn(2) ? OnText : nullptr;
    options->text_user = &running;
    options->seed = random.Bits();
    if (random.OneIn(few)) options->kv_budget = AnyShare<float>(random);
    if (random.OneIn(few)) options->no_tail = random.Of<int32_t>({1, -1});
    if (random.OneIn(few)) options->max_evidence = random.Of<uint32_t>({1, 100, UINT32_MAX});
    if (random.OneIn(few)) options->temperature = AnyShare<float>(random);
    if (random.OneIn(few)) options->top_p = AnyShare<float>(random);
    if (random.OneIn(few)) options->max_missed = AnyShare<float>(random);
    if (random.OneIn(few)) options->mass = AnyShare<double>(random);
    if (random.OneIn(few)) options->fallback = random.Of<int32_t>({1, 2, 3, -1});
    if (random.OneIn(few)) options->max_session_rows = random.Of<uint64_t>({1, 64, UINT64_MAX});
    if (random.OneIn(few)) options->rule = one.data(), options->rule_len = one.len();
    if (random.OneIn(few))
      options->layer_budget = one.data(), options->layer_budget_len = one.len();
    if (random.OneIn(few)) options->head_budget = one.data(), options->head_budget_len = one.len();
    if (random.OneIn(few)) {
      options->lookup_decoding = one.data(), options->lookup_decoding_len = one.len();
    }
    if (has_history || random.OneIn(few)) {
      has_wrong_history = !history.Fill(random, options.get());
    }
    if (random.OneIn(few)) has_wrong_history |= !drawing.Fill(random, options.get());
    if (random.OneIn(40)) {
      options->max_tokens = UINT32_MAX;
      options->on_text = OnText;
      running.always_ends = true;
    }
  }
  options.SetUnknownField(random);
  // An older caller, who cannot say max_tokens, would wait for 256: only with a wrong question.
  if (!options.is_wrong() && !options.knows_all() && !question.is_wrong()) return false;
  Out<lectern_answer> answer(tape);
  Error error(tape);
  const lectern_code code = lectern_session_ask(picked.handle, question.data(), question.len(),
                                                options.get(), answer.place(), error.place());
  if (lectern_answer* const made = answer.Check(code)) {
    CheckAnswer(made);
    Keep(tape, made);
  }
  return Finish(code, error,
                {picked.is_dead, question.is_wrong() || options.is_wrong() || has_wrong_history,
                 answer.has_place()});
}

bool AnswerJson(Tape& tape) {
  const auto picked = tape.handles.Pick<lectern_answer>(tape.random);
  const auto unit = tape.random.Of<int32_t>({0, 1, 2, 3, -1});
  Out<lectern_text> json(tape);
  Error error(tape);
  const lectern_code code = lectern_answer_json(picked.handle, unit, json.place(), error.place());
  FinishJson(tape, json, code);
  return Finish(code, error, {picked.is_dead, unit < 0 || unit > 2, json.has_place()});
}

Function functions[] = {
    {"session_open", 20, SessionOpen},
    {"session_text", 4, GetString<lectern_session, lectern_session_text>},
    {"session_tokenize", 6, SessionTokenize},
    {"session_ask", 20, SessionAsk<false>},
    {"session_ask", 6, SessionAsk<true>},
    {"session_cancel", 4, CancelAny<lectern_session>},
    {"session_free", 4, FreeAny<lectern_session>},
    {"answer_text", 4, GetString<lectern_answer, lectern_answer_text>},
    {"answer_finish_reason", 4, GetString<lectern_answer, lectern_answer_finish_reason>},
    {"answer_note", 4, GetString<lectern_answer, lectern_answer_note>},
    {"answer_cli_note", 4, GetString<lectern_answer, lectern_answer_cli_note>},
    {"answer_reasoning", 4, GetString<lectern_answer, lectern_answer_reasoning>},
    {"answer_stopped_by", 4, GetString<lectern_answer, lectern_answer_stopped_by>},
    {"answer_warning_count", 4, GetCount<lectern_answer_warning_count>},
    {"answer_warning", 4, AnswerWarning},
    {"answer_evidence_count", 4, GetCount<lectern_answer_evidence_count>},
    {"answer_evidence", 10, AnswerEvidence},
    {"answer_receipt", 6, AnswerReceipt},
    {"answer_json", 6, AnswerJson},
    {"answer_free", 6, FreeAny<lectern_answer>},
};

}  // namespace

std::span<Function> SessionFunctions() { return functions; }

void CheckAnswer(const lectern_answer* answer) {
  size_t len = 0;
  for (const auto get : {lectern_answer_text, lectern_answer_finish_reason, lectern_answer_note,
                         lectern_answer_reasoning, lectern_answer_stopped_by}) {
    const char* const text = get(answer, &len);
    CheckString(text, len);
  }
  lectern_evidence evidence = {};
  evidence.struct_size = sizeof evidence;
  for (size_t i = 0; i < lectern_answer_evidence_count(answer); ++i) {
    REQUIRE(lectern_answer_evidence(answer, i, &evidence) == LECTERN_OK);
    REQUIRE(evidence.end - evidence.begin == evidence.text_len && evidence.mass >= 0);
    CheckString(evidence.text, evidence.text_len);
  }
}

}  // namespace lectern::misuse
