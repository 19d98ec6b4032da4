// A tape of random calls of every function of the C API, right and wrong, by threads that free,
// cancel and use each other's handles. Whatever a host does: nothing dies, codes are known ones, an
// error is there exactly after a failure, results are NULL then, freed handles are invalid, and at
// the end nothing is left over and the stores are whole. Usage: misuse_test MODEL_FOLDER HEADER
// [CALLS [THREADS [SEED]]]; MISUSE_VERBOSE=1: calls and successes
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <thread>

#include "tests/engine/misuse_arguments.h"
#include "tests/engine/misuse_handles.h"

extern "C" size_t __sanitizer_get_current_allocated_bytes() __attribute__((weak));

namespace lectern::misuse {
namespace {

namespace fs = std::filesystem;

struct Tape {
  Random random;
  Handles& handles;
  const std::string& model;
  int depth = 0;  // of calls made from callbacks
};

void CallAnyFunction(Tape& tape);

// --- what is true of every call -----------------------------------------------------------------

bool IsKnownFailure(lectern_code code) { return code > LECTERN_OK && code < LECTERN_INTERNAL; }

void CheckString(const char* text, size_t len) { REQUIRE(text && text[len] == 0); }

// What a call gave: others may use it from now on, or it goes.
template <typename Handle>
void Keep(Tape& tape, Handle* handle) {
  constexpr size_t kMost[kNumKinds] = {4, 6, 12, 6, 12, 12};
  if (tape.handles.num_live<Handle>() < kMost[HandleOf<Handle>::kKind]) {
    return tape.handles.Add(handle);
  }
  REQUIRE(Free(handle) == LECTERN_OK);
  REQUIRE(Free(handle) == LECTERN_INVALID_HANDLE);
}

void* const kUnset = reinterpret_cast<void*>(uintptr_t{0xABCDEF});

// Where a handle comes back. Without a place a call that needs one fails.
template <typename Handle>
class Out {
 public:
  explicit Out(Tape& tape, uint64_t no_place_one_in = 20)
      : has_place_(!tape.random.OneIn(no_place_one_in)) {}
  Handle** place() { return has_place_ ? &handle_ : nullptr; }
  bool has_place() const { return has_place_; }
  Handle* Check(lectern_code code) const {
    if (!has_place_) return nullptr;
    REQUIRE(code == LECTERN_OK ? handle_ && handle_ != kUnset : !handle_);
    return handle_;
  }

 private:
  bool has_place_;
  Handle* handle_ = static_cast<Handle*>(kUnset);
};

class Error {
 public:
  explicit Error(Tape& tape) : tape_(tape), has_place_(!tape.random.OneIn(4)) {}
  lectern_error** place() { return has_place_ ? &error_ : nullptr; }
  void Check(lectern_code code) {
    REQUIRE(code == LECTERN_OK || IsKnownFailure(code));
    if (!has_place_) return;
    REQUIRE((error_ != nullptr) == (code != LECTERN_OK));
    if (!error_) return;
    size_t len = 0;
    REQUIRE(lectern_error_code(error_) == code);
    const char* const message = lectern_error_message(error_, &len);
    CheckString(message, len);
    REQUIRE(len > 0);
    const char* const param = lectern_error_param(error_, &len);
    CheckString(param, len);
    Keep(tape_, error_);
  }

 private:
  Tape& tape_;
  bool has_place_;
  lectern_error* error_ = static_cast<lectern_error*>(kUnset);
};

struct Expected {
  bool is_dead_handle = false;
  bool is_wrong = false;  // an argument is
  bool has_place = true;  // for the result
};

// The end of every call that can fail: whether it succeeded.
bool Finish(lectern_code code, Error& error, Expected expected) {
  error.Check(code);
  if (!expected.has_place) {
    REQUIRE(code == LECTERN_INVALID_ARGUMENT);
  } else if (expected.is_dead_handle) {
    REQUIRE(code == LECTERN_INVALID_HANDLE);
  } else if (expected.is_wrong) {
    REQUIRE(code == LECTERN_INVALID_ARGUMENT || code == LECTERN_INVALID_HANDLE);
  }
  return code == LECTERN_OK;
}

// Of one that gives a code alone.
bool Finish(lectern_code code, Expected expected) {
  REQUIRE(code == LECTERN_OK || IsKnownFailure(code));
  if (expected.is_dead_handle) REQUIRE(code == LECTERN_INVALID_HANDLE);
  if (expected.is_wrong) REQUIRE(code != LECTERN_OK);
  return code == LECTERN_OK;
}

void FinishJson(Tape& tape, const Out<lectern_text>& json, lectern_code code) {
  lectern_text* const text = json.Check(code);
  if (!text) return;
  size_t len = 0;
  const char* const data = lectern_text_data(text, &len);
  CheckString(data, len);
  REQUIRE(len >= 2 && data[0] == '{' && data[len - 1] == '}');
  Keep(tape, text);
}

template <typename Handle>
bool FreeAny(Tape& tape) {
  const auto picked = tape.handles.Pick<Handle>(tape.random);
  const lectern_code code = Free(picked.handle);
  if (!picked.handle) {
    REQUIRE(code == LECTERN_OK);
    return true;
  }
  REQUIRE(code == LECTERN_INVALID_HANDLE || (code == LECTERN_OK && !picked.is_dead));
  if (code == LECTERN_OK) tape.handles.Freed(picked.handle);
  return code == LECTERN_OK;
}

// --- callbacks ----------------------------------------------------------------------------------

lectern_code Cancel(lectern_engine* engine) { return lectern_engine_cancel(engine); }
lectern_code Cancel(lectern_session* session) { return lectern_session_cancel(session); }

// What a callback is given: the tape, and the handle of the call that it comes from.
template <typename Handle>
struct Running {
  Tape& tape;
  Handle* handle;
  bool always_ends = false;

  int32_t Misbehave() {
    switch (tape.random.Below(24)) {
      case 0:
        return tape.random.Of<int32_t>({1, -1, INT32_MIN});
      case 1:
        if (Free(handle) == LECTERN_OK) tape.handles.Freed(handle);
        break;
      case 2:
        std::thread([&] { Cancel(handle); }).join();
        break;
      case 3:
      case 4:
        if (tape.depth < 2) {
          const char* const caller = calling;
          ++tape.depth;
          CallAnyFunction(tape);
          --tape.depth;
          calling = caller;
        }
    }
    return always_ends;
  }
};
using RunningEngine = Running<lectern_engine>;
using RunningSession = Running<lectern_session>;

int32_t OnProgress(const lectern_progress* progress, void* user) {
  REQUIRE(progress->struct_size >= sizeof *progress && progress->done <= progress->total);
  REQUIRE(std::strlen(progress->stage) > 0);
  return static_cast<RunningEngine*>(user)->Misbehave();
}
int32_t OnText(const char* text, size_t len, void* user) {
  CheckString(text, len);
  return static_cast<RunningSession*>(user)->Misbehave();
}
void OnTokens(const lectern_token* tokens, size_t num_tokens, void* user) {
  for (size_t i = 1; i < num_tokens; ++i) REQUIRE(tokens[i].begin >= tokens[i - 1].begin);
  static_cast<RunningSession*>(user)->Misbehave();
}
void OnDocument(const lectern_document* document, void* user) {
  REQUIRE(document->id_len == 32 && document->fingerprint_len == 64);
  CheckString(document->name, document->name_len);
  CheckString(document->state, document->state_len);
  static_cast<RunningEngine*>(user)->Misbehave();
}
void OnShard(const lectern_shard* shard, void* user) {
  CheckString(shard->file, shard->file_len);
  static_cast<RunningEngine*>(user)->Misbehave();
}
void OnPlan(const lectern_document_plan* plan, void* user) {
  for (uint64_t i = 0; i < plan->num_layers; ++i) REQUIRE(plan->layers[i] > 0);
  static_cast<RunningEngine*>(user)->Misbehave();
}
void OnDamage(const lectern_damage* damage, void*) {
  std::fprintf(stderr, "%s: %s\n", damage->document, damage->message);
  REQUIRE(!"the store is damaged");
}
void OnRefused(const lectern_refused* refused, void* user) {
  REQUIRE(IsKnownFailure(refused->code));
  CheckString(refused->directory, refused->directory_len);
  static_cast<RunningEngine*>(user)->Misbehave();
}

// --- codes and versions -------------------------------------------------------------------------

bool CodeName(Tape& tape) {
  const auto code = tape.random.Of<int32_t>(
      {0, 1, 25, 26, -1, 256, INT32_MIN, INT32_MAX, static_cast<int32_t>(tape.random.Bits())});
  const bool is_internal = std::strcmp(lectern_code_name(code), "internal") == 0;
  REQUIRE(is_internal == (code < 0 || code >= LECTERN_INTERNAL));
  return true;
}
bool ExitStatus(Tape& tape) {
  const auto code = static_cast<int32_t>(tape.random.Bits());
  const int32_t status = lectern_exit_status(code);
  REQUIRE(status >= 0 && status <= 255 && (status == 0) == (code == LECTERN_OK));
  return true;
}
bool Version(Tape&) { return std::strcmp(lectern_version(), LECTERN_VERSION) == 0; }
bool AbiVersion(Tape&) { return lectern_abi_version() == LECTERN_ABI_VERSION; }
bool BuildInfo(Tape&) { return lectern_build_info()[0] == '{'; }

// --- accessors: NULL and 0 of what is no handle -------------------------------------------------

template <typename Handle, const char* (*kGet)(const Handle*, size_t*)>
bool GetString(Tape& tape) {
  const auto picked = tape.handles.Pick<Handle>(tape.random);
  const bool wants_len = !tape.random.OneIn(4);
  size_t len = 99;
  const char* const text = kGet(picked.handle, wants_len ? &len : nullptr);
  REQUIRE(!picked.is_dead || !text);
  REQUIRE(text || !wants_len || len == 0);
  return text != nullptr;
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

// Structs that are written: none, of any size.
template <typename Struct, typename Handle, typename Get>
bool GetStruct(Tape& tape, Get get) {
  const auto picked = tape.handles.Pick<Handle>(tape.random);
  Sized<Struct> out(tape.random);
  const bool is_null = tape.random.OneIn(10);
  const lectern_code code = get(picked.handle, is_null ? nullptr : out.get());
  out.CheckBehind();
  return Finish(code, {.is_dead_handle = picked.is_dead, .is_wrong = is_null || out.is_wrong()});
}
bool ReportNumbers(Tape& tape) {
  return GetStruct<lectern_index_numbers, lectern_index_report>(tape, lectern_index_report_numbers);
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
bool ErrorCode(Tape& tape) {
  const auto picked = tape.handles.Pick<lectern_error>(tape.random);
  Finish(lectern_error_code(picked.handle), {.is_dead_handle = picked.is_dead, .is_wrong = true});
  return !picked.is_dead;
}

template <typename Handle>
bool CancelAny(Tape& tape) {
  const auto picked = tape.handles.Pick<Handle>(tape.random);
  return Finish(Cancel(picked.handle), {.is_dead_handle = picked.is_dead});
}

// --- the engine ---------------------------------------------------------------------------------

const std::vector<std::string> kStores = {"store1", "store1", "store2"};
const std::vector<std::string> kNames = {"a", "b", "c"};

void Unseal() {
  for (const std::string& store : kStores) {
    std::error_code ignored;
    fs::remove(store + "/SEALED", ignored);
  }
}

bool EngineCreate(Tape& tape) {
  Random& random = tape.random;
  if (random.OneIn(4)) Unseal();
  const Text store = AnyText(random, kStores);
  const Text model = random.OneIn(20) ? AnyText(random, {"none", "file", ""}) : Text(tape.model);
  const Text weights = random.OneIn(10) ? AnyText(random, {"q8", "stored", "q5"}) : Text();
  Sized<lectern_engine_options> options(random);
  if (options.knows_all()) {
    options->store = store.data(), options->store_len = store.len();
    options->model = model.data(), options->model_len = model.len();
    options->weights = weights.data(), options->weights_len = weights.len();
    options->num_threads = random.OneIn(8) ? random.Of<uint64_t>({0, 1, 3, 1025, UINT64_MAX}) : 2;
    options->quota_bytes = random.OneIn(10) ? random.Below(1 << 20) : 0;
    options->max_ram_bytes = random.OneIn(10) ? random.Below(64 << 20) : 0;
    options->io = random.OneIn(2) ? 0 : random.Of<int32_t>({1, 2, 2, 2, 3, -1});
    options->rehash_model = random.OneIn(4);
  }
  options.SetUnknownField(random);
  const bool is_null = random.OneIn(30);
  Out<lectern_engine> engine(tape);
  Error error(tape);
  const lectern_code code =
      lectern_engine_create(is_null ? nullptr : options.get(), engine.place(), error.place());
  if (lectern_engine* const made = engine.Check(code)) Keep(tape, made);
  const bool is_wrong = is_null || !options.knows_all() || options.is_wrong() || store.len() == 0 ||
                        store.is_wrong() || model.is_wrong() || weights.is_wrong();
  return Finish(code, error, {.is_wrong = is_wrong, .has_place = engine.has_place()});
}

// Documents: short ones, and now and then one that is long enough for clusters.
Text AnyDocument(Random& random) {
  if (random.OneIn(8)) return AnyText(random, {""});
  static const char* const kPeople[] = {"Ann", "Ben", "Cleo", "Dan"};
  static const char* const kThings[] = {"the bridge", "a mill", "the rent", "two boats"};
  std::string text;
  const size_t sentences = random.OneIn(60) ? 160 : 2 + random.Below(8);
  const uint64_t seed = random.Below(4);
  for (size_t i = 0; i < sentences; ++i) {
    text += kPeople[(seed + i) % 4];
    text += " paid for ";
    text += kThings[(seed + i / 3) % 4];
    text += i % 5 == 4 ? ".\n" : ". ";
  }
  return Text(text);
}

bool Index(Tape& tape, bool is_estimate) {
  Random& random = tape.random;
  const auto picked = tape.handles.Pick<lectern_engine>(random);
  const Text text = AnyDocument(random);
  const Text name = AnyText(random, kNames);
  const Text one = AnyText(random, {"uniform", "global", "unrotated", "snapkv", "full", "sparse"});
  std::vector<lectern_page> pages(1 + random.Below(3));
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = {i * 9, random.OneIn(9) ? 0 : i + 1};
  RunningEngine running{tape, picked.handle};
  Sized<lectern_index_options> options(random);
  const uint64_t few = random.OneIn(2) ? 1000 : 12;  // options that are set
  if (options.knows_all()) {
    options->name = name.data(), options->name_len = name.len();
    options->again = random.OneIn(4);
    options->on_progress = random.OneIn(2) ? OnProgress : nullptr;
    options->progress_user = &running;
    if (random.OneIn(few)) options->kv_type = random.Of<int32_t>({1, 2, 3, 4, 5, -1});
    if (random.OneIn(few)) options->kv_budget = AnyShare<float>(random);
    if (random.OneIn(few)) options->num_levels = random.Of<uint32_t>({1, 2, 3, 4, UINT32_MAX});
    if (random.OneIn(few)) options->keep = AnyShare<double>(random);
    if (random.OneIn(few)) options->representatives = AnyShare<double>(random);
    if (random.OneIn(few)) options->prefill_budget = AnyShare<double>(random);
    if (random.OneIn(few)) options->pages = pages.data(), options->num_pages = pages.size();
    if (random.OneIn(few)) options->pages = nullptr, options->num_pages = SIZE_MAX;
    if (random.OneIn(few))
      options->layer_budget = one.data(), options->layer_budget_len = one.len();
    if (random.OneIn(few)) options->head_budget = one.data(), options->head_budget_len = one.len();
    if (random.OneIn(few))
      options->cluster_keys = one.data(), options->cluster_keys_len = one.len();
    if (random.OneIn(few)) options->retention = one.data(), options->retention_len = one.len();
    if (random.OneIn(few)) options->stats = one.data(), options->stats_len = one.len();
    if (random.OneIn(few)) options->prefill = one.data(), options->prefill_len = one.len();
  }
  options.SetUnknownField(random);
  const lectern_index_options* const given = random.OneIn(10) ? nullptr : options.get();
  const bool is_wrong = text.is_wrong() ||
                        (given && (options.is_wrong() || (options.knows_all() && name.is_wrong())));
  Error error(tape);
  if (is_estimate) {
    Sized<lectern_index_estimate> estimate(random);
    const lectern_code code = lectern_engine_estimate(picked.handle, text.data(), text.len(), given,
                                                      estimate.get(), error.place());
    estimate.CheckBehind();
    return Finish(code, error, {picked.is_dead, is_wrong});
  }
  Out<lectern_index_report> report(tape);
  const lectern_code code = lectern_engine_index(picked.handle, text.data(), text.len(), given,
                                                 report.place(), error.place());
  if (lectern_index_report* const made = report.Check(code)) {
    size_t len = 0;
    const char* const json = lectern_index_report_json(made, &len);
    CheckString(json, len);
    REQUIRE(std::strlen(lectern_index_report_document(made, nullptr)) == 32);
    Keep(tape, made);
  }
  return Finish(code, error, {picked.is_dead, is_wrong, report.has_place()});
}
bool EngineIndex(Tape& tape) { return Index(tape, false); }
bool EngineEstimate(Tape& tape) { return Index(tape, true); }

bool EstimateJson(Tape& tape) {
  Random& random = tape.random;
  Sized<lectern_index_estimate> estimate(random);
  if (estimate.knows_all()) {
    estimate->seconds = AnyShare<double>(random), estimate->flops = AnyShare<double>(random);
    estimate->tokens = random.Bits();
  }
  estimate.SetUnknownField(random);
  const bool is_null = random.OneIn(10);
  Out<lectern_text> json(tape);
  Error error(tape);
  const lectern_code code =
      lectern_index_estimate_json(is_null ? nullptr : estimate.get(), json.place(), error.place());
  FinishJson(tape, json, code);
  return Finish(code, error,
                {.is_wrong = is_null || estimate.is_wrong(), .has_place = json.has_place()});
}

// --- asking -------------------------------------------------------------------------------------

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

void CheckAnswer(const lectern_answer* answer) {
  size_t len = 0;
  for (const auto get : {lectern_answer_text, lectern_answer_finish_reason, lectern_answer_note}) {
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

bool SessionAsk(Tape& tape) {
  Random& random = tape.random;
  const auto picked = tape.handles.Pick<lectern_session>(random);
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
                {picked.is_dead, question.is_wrong() || options.is_wrong(), answer.has_place()});
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

// --- the store ----------------------------------------------------------------------------------

template <typename Function>
Function* OrNull(Tape& tape, Function* function) {
  return tape.random.OneIn(3) ? nullptr : function;
}

// A call that gives nothing but an error.
template <typename Call>
bool ChangeStore(Tape& tape, bool is_wrong, Call call) {
  const auto picked = tape.handles.Pick<lectern_engine>(tape.random);
  RunningEngine running{tape, picked.handle};
  Error error(tape);
  const lectern_code code = call(picked.handle, &running, error.place());
  return Finish(code, error, {picked.is_dead, is_wrong});
}

// One that may give JSON.
template <typename Call>
bool ReadStore(Tape& tape, bool is_wrong, Call call) {
  Out<lectern_text> json(tape, 2);
  return ChangeStore(tape, is_wrong, [&](auto* engine, void* user, auto** error) {
    const lectern_code code = call(engine, user, json.place(), error);
    FinishJson(tape, json, code);
    return code;
  });
}

bool EngineCounts(Tape& tape) {
  return GetStruct<lectern_counts, lectern_engine>(tape, lectern_engine_counts);
}
bool EngineList(Tape& tape) {
  return ReadStore(tape, false, [&](auto* engine, void* user, auto** json, auto** error) {
    return lectern_engine_list(engine, OrNull(tape, OnDocument), user, json, error);
  });
}
bool EngineShow(Tape& tape) {
  const Text name = AnyText(tape.random, kNames);
  return ReadStore(tape, name.is_wrong(), [&](auto* engine, void* user, auto** json, auto** error) {
    return lectern_engine_show(engine, name.data(), name.len(), OrNull(tape, OnDocument),
                               OrNull(tape, OnShard), user, json, error);
  });
}
bool EngineVerify(Tape& tape) {
  const Text name = AnyText(tape.random, kNames);
  return ReadStore(tape, name.is_wrong(), [&](auto* engine, void* user, auto** json, auto** error) {
    return lectern_engine_verify(engine, name.data(), name.len(), tape.random.Of({0, 1, -7}),
                                 OnDamage, user, json, error);
  });
}
bool EngineRecover(Tape& tape) {
  int32_t replaced = -1;
  return ReadStore(tape, false, [&](auto* engine, void* user, auto** json, auto** error) {
    return lectern_engine_recover(engine, OrNull(tape, OnDocument), OrNull(tape, OnRefused), user,
                                  tape.random.OneIn(2) ? &replaced : nullptr, json, error);
  });
}
bool EngineCollect(Tape& tape) {
  Sized<lectern_collected> collected(tape.random);
  const bool is_null = tape.random.OneIn(2);
  const bool is_ok = ReadStore(tape, false, [&](auto* engine, void*, auto** json, auto** error) {
    return lectern_engine_collect(engine, is_null ? nullptr : collected.get(), json, error);
  });
  collected.CheckBehind();
  REQUIRE(is_null || !is_ok || !collected.is_wrong());
  return is_ok;
}

// A file that is there, or not, or no document.
Text AnyFile(Random& random) {
  return AnyText(random, {"out1", "out1", "out2", "file", "none", "store1"});
}
bool EngineImport(Tape& tape) {
  const Text path = AnyFile(tape.random);
  const Text name = AnyText(tape.random, kNames);
  int32_t existed = -1;
  return ReadStore(tape, path.is_wrong() || name.is_wrong(),
                   [&](auto* engine, void* user, auto** json, auto** error) {
                     return lectern_engine_import(engine, path.data(), path.len(), name.data(),
                                                  name.len(), OrNull(tape, OnDocument), user,
                                                  tape.random.OneIn(2) ? &existed : nullptr, json,
                                                  error);
                   });
}
bool EngineExport(Tape& tape) {
  const Text name = AnyText(tape.random, kNames);
  const Text path =
      tape.random.OneIn(8) ? AnyFile(tape.random) : Text(tape.random.OneIn(2) ? "out1" : "out2");
  std::error_code ignored;
  if (tape.random.OneIn(2)) fs::remove(tape.random.OneIn(2) ? "out1" : "out2", ignored);
  return ChangeStore(tape, name.is_wrong() || path.is_wrong(),
                     [&](auto* engine, void*, auto** error) {
                       return lectern_engine_export(engine, name.data(), name.len(), path.data(),
                                                    path.len(), error);
                     });
}
bool EngineRemove(Tape& tape) {
  const Text name = AnyText(tape.random, kNames);
  return ChangeStore(tape, name.is_wrong(), [&](auto* engine, void*, auto** error) {
    return lectern_engine_remove(engine, name.data(), name.len(), error);
  });
}
bool EngineSeal(Tape& tape) {
  const bool is_ok = ChangeStore(tape, false, [&](auto* engine, void*, auto** error) {
    return lectern_engine_seal(engine, error);
  });
  if (!tape.random.OneIn(8)) Unseal();
  return is_ok;
}
bool EngineShowPlan(Tape& tape) {
  const Text name = AnyText(tape.random, kNames);
  return ChangeStore(tape, name.is_wrong(), [&](auto* engine, void* user, auto** error) {
    return lectern_engine_show_plan(engine, name.data(), name.len(), OrNull(tape, OnPlan), user,
                                    error);
  });
}
bool EnginePlan(Tape& tape) {
  Random& random = tape.random;
  const Text name = AnyText(random, kNames);
  const Text layers = AnyText(random, {"uniform", "pyramid", "none"});
  Sized<lectern_plan_options> options(random);
  if (options.knows_all()) {
    if (random.OneIn(3)) {
      options->layer_budget = layers.data(), options->layer_budget_len = layers.len();
    }
    options->kv_budget = AnyShare<float>(random);
  }
  options.SetUnknownField(random);
  const bool is_null = random.OneIn(8);
  return ChangeStore(tape, name.is_wrong() || (!is_null && options.is_wrong()),
                     [&](auto* engine, void*, auto** error) {
                       return lectern_engine_plan(engine, name.data(), name.len(),
                                                  is_null ? nullptr : options.get(), error);
                     });
}

// --- JSON ---------------------------------------------------------------------------------------

bool ErrorJson(Tape& tape) {
  const auto code = tape.random.Of<int32_t>({0, 1, 11, 25, 26, -1, INT32_MIN});
  const Text message = AnyText(tape.random, {"busy"}), param = AnyText(tape.random, {"store"});
  Out<lectern_text> json(tape);
  Error error(tape);
  const lectern_code result = lectern_error_json(code, message.data(), message.len(), param.data(),
                                                 param.len(), json.place(), error.place());
  FinishJson(tape, json, result);
  return Finish(result, error,
                {.is_wrong = code == LECTERN_OK || message.is_wrong() || param.is_wrong(),
                 .has_place = json.has_place()});
}

const std::vector<std::string> kJson = {
    R"({"a":"b","n":1})", R"({"n":"1","a":"x","x":"y"})", "{", "[1]", R"({"a":"b","n":[1,{}]})",
    R"({"a":"\ud800"})",  std::string(20000, '[')};

bool JsonGet(Tape& tape) {
  const Text json = AnyText(tape.random, kJson), key = AnyText(tape.random, {"a", "n", "x"});
  Out<lectern_text> value(tape);
  Error error(tape);
  const lectern_code code = lectern_json_get_string(json.data(), json.len(), key.data(), key.len(),
                                                    value.place(), error.place());
  if (lectern_text* const text = value.Check(code)) Keep(tape, text);
  return Finish(code, error,
                {.is_wrong = json.len() == 0 || json.is_wrong(), .has_place = value.has_place()});
}
bool JsonSet(Tape& tape) {
  const Text json = AnyText(tape.random, kJson), key = AnyText(tape.random, {"a", "n", "x"});
  const Text value = AnyText(tape.random, {"y", "\"\n"});
  Out<lectern_text> result(tape);
  Error error(tape);
  const lectern_code code =
      lectern_json_set_string(json.data(), json.len(), key.data(), key.len(), value.data(),
                              value.len(), result.place(), error.place());
  FinishJson(tape, result, code);
  return Finish(
      code, error,
      {.is_wrong = json.len() == 0 || json.is_wrong() || key.is_wrong() || value.is_wrong(),
       .has_place = result.has_place()});
}

// --- the tape -----------------------------------------------------------------------------------

struct Function {
  const char* name;  // without lectern_
  int weight;
  bool (*call)(Tape&);  // whether it succeeded
  std::atomic<uint64_t> calls = 0, succeeded = 0;
};

Function functions[] = {
    {"code_name", 2, CodeName},
    {"exit_status", 2, ExitStatus},
    {"version", 1, Version},
    {"abi_version", 1, AbiVersion},
    {"build_info", 1, BuildInfo},
    {"error_code", 4, ErrorCode},
    {"error_message", 4, GetString<lectern_error, lectern_error_message>},
    {"error_param", 4, GetString<lectern_error, lectern_error_param>},
    {"error_free", 12, FreeAny<lectern_error>},
    {"text_data", 4, GetString<lectern_text, lectern_text_data>},
    {"text_free", 8, FreeAny<lectern_text>},
    {"engine_create", 12, EngineCreate},
    {"engine_free", 3, FreeAny<lectern_engine>},
    {"engine_cancel", 3, CancelAny<lectern_engine>},
    {"engine_index", 10, EngineIndex},
    {"engine_estimate", 2, EngineEstimate},
    {"index_estimate_json", 4, EstimateJson},
    {"index_report_document", 4, GetString<lectern_index_report, lectern_index_report_document>},
    {"index_report_name", 4, GetString<lectern_index_report, lectern_index_report_name>},
    {"index_report_json", 4, GetString<lectern_index_report, lectern_index_report_json>},
    {"index_report_numbers", 6, ReportNumbers},
    {"index_report_free", 3, FreeAny<lectern_index_report>},
    {"session_open", 20, SessionOpen},
    {"session_text", 4, GetString<lectern_session, lectern_session_text>},
    {"session_tokenize", 6, SessionTokenize},
    {"session_ask", 20, SessionAsk},
    {"session_cancel", 4, CancelAny<lectern_session>},
    {"session_free", 4, FreeAny<lectern_session>},
    {"answer_text", 4, GetString<lectern_answer, lectern_answer_text>},
    {"answer_finish_reason", 4, GetString<lectern_answer, lectern_answer_finish_reason>},
    {"answer_note", 4, GetString<lectern_answer, lectern_answer_note>},
    {"answer_warning_count", 4, GetCount<lectern_answer_warning_count>},
    {"answer_warning", 4, AnswerWarning},
    {"answer_evidence_count", 4, GetCount<lectern_answer_evidence_count>},
    {"answer_evidence", 10, AnswerEvidence},
    {"answer_receipt", 6, AnswerReceipt},
    {"answer_json", 6, AnswerJson},
    {"answer_free", 6, FreeAny<lectern_answer>},
    {"engine_counts", 4, EngineCounts},
    {"engine_list", 4, EngineList},
    {"engine_show", 4, EngineShow},
    {"engine_show_plan", 4, EngineShowPlan},
    {"engine_verify", 4, EngineVerify},
    {"engine_plan", 6, EnginePlan},
    {"engine_remove", 3, EngineRemove},
    {"engine_collect", 4, EngineCollect},
    {"engine_recover", 4, EngineRecover},
    {"engine_seal", 2, EngineSeal},
    {"engine_export", 6, EngineExport},
    {"engine_import", 10, EngineImport},
    {"error_json", 4, ErrorJson},
    {"json_get_string", 4, JsonGet},
    {"json_set_string", 4, JsonSet},
};

void CallAnyFunction(Tape& tape) {
  static const int total = [] {
    int sum = 0;
    for (const Function& function : functions) sum += function.weight;
    return sum;
  }();
  auto at = static_cast<int>(tape.random.Below(static_cast<uint64_t>(total)));
  Function* function = functions;
  while ((at -= function->weight) >= 0) ++function;
  ++function->calls;
  calling = function->name;
  if (function->call(tape)) ++function->succeeded;
}

void CheckThatNoneIsMissing(const std::string& header) {
  std::ifstream file(header);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::regex declaration(R"(LECTERN_API [\w *]+\blectern_(\w+)\()");
  std::set<std::string> declared, called;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), declaration);
       it != std::sregex_iterator(); ++it) {
    declared.insert((*it)[1]);
  }
  for (const Function& function : functions) called.insert(function.name);
  REQUIRE(declared.size() > 40);
  for (const std::string& name : declared) {
    calling = name.c_str();
    REQUIRE(called.count(name) == 1);
  }
  REQUIRE(called == declared);
}

void RunTape(uint64_t seed, uint64_t num_threads, uint64_t num_calls, const std::string& model) {
  Handles handles;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < num_threads; ++t) {
    threads.emplace_back([&, t] {
      Tape tape{Random(seed * 1000 + t), handles, model};
      for (uint64_t i = 0; i < num_calls / num_threads; ++i) CallAnyFunction(tape);
    });
  }
  for (std::thread& thread : threads) thread.join();
  calling = "*_free";
  handles.FreeAll<lectern_engine>();  // first: what came of them keeps them
  handles.FreeAll<lectern_session>();
  handles.FreeAll<lectern_answer>();
  handles.FreeAll<lectern_index_report>();
  handles.FreeAll<lectern_text>();
  handles.FreeAll<lectern_error>();
  Unseal();
}

// The store is whole, and can be used as if nothing had happened.
void CheckStore(const std::string& store, const std::string& model) {
  calling = store.c_str();
  lectern_engine_options options = {};
  options.struct_size = sizeof options;
  options.store = store.data(), options.store_len = store.size();
  options.model = model.data(), options.model_len = model.size();
  options.num_threads = 2;
  lectern_engine* engine = nullptr;
  REQUIRE(lectern_engine_create(&options, &engine, nullptr) == LECTERN_OK);
  lectern_index_options index = {};
  index.struct_size = sizeof index;
  index.name = "last", index.name_len = 4;
  lectern_index_report* report = nullptr;
  const std::string text = "Cleo paid for the mill.";
  REQUIRE(lectern_engine_index(engine, text.data(), text.size(), &index, &report, nullptr) ==
          LECTERN_OK);
  REQUIRE(lectern_index_report_free(report) == LECTERN_OK);
  REQUIRE(lectern_engine_verify(engine, nullptr, 0, 1, OnDamage, nullptr, nullptr, nullptr) ==
          LECTERN_OK);
  lectern_session* session = nullptr;
  REQUIRE(lectern_session_open(engine, "last", 4, &session, nullptr) == LECTERN_OK);
  lectern_ask_options ask = {};
  ask.struct_size = sizeof ask;
  ask.max_tokens = 2;
  lectern_answer* answer = nullptr;
  REQUIRE(lectern_session_ask(session, "Who?", 4, &ask, &answer, nullptr) == LECTERN_OK);
  CheckAnswer(answer);
  REQUIRE(lectern_answer_free(answer) == LECTERN_OK);
  REQUIRE(lectern_session_free(session) == LECTERN_OK);
  REQUIRE(lectern_engine_free(engine) == LECTERN_OK);
}

size_t Entries(const char* folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

// What the process holds.
struct Held {
  size_t descriptors, threads, heap_bytes;
  static Held Now() {
    const size_t heap = __sanitizer_get_current_allocated_bytes
                            ? __sanitizer_get_current_allocated_bytes()
                            : mallinfo2().uordblks;
    return {Entries("/proc/self/fd"), Entries("/proc/self/task"), heap};
  }
};

void CheckCounts(uint64_t num_calls) {
  unsigned long long calls = 0, succeeded = 0;
  for (const Function& function : functions) {
    calls += function.calls, succeeded += function.succeeded;
    if (!std::getenv("MISUSE_VERBOSE")) continue;
    std::printf("%s: %llu of %llu\n", function.name,
                static_cast<unsigned long long>(function.succeeded),
                static_cast<unsigned long long>(function.calls));
  }
  std::printf("%llu calls of %zu functions, %llu of which succeeded\n", calls, std::size(functions),
              succeeded);
  std::fflush(stdout);
  for (const Function& function : functions) {
    calling = function.name;
    REQUIRE(num_calls < 4000 || function.succeeded > 0);
  }
}

void Run(const std::string& model, uint64_t num_calls, uint64_t num_threads, uint64_t seed) {
  constexpr size_t kHeapMargin = 128 << 10;
  const auto check_stores = [&] {
    for (const char* store : {"store1", "store2"}) CheckStore(store, model);
  };
  check_stores();
  Held before{};
  for (uint64_t half = 0; half < 2; ++half) {
    before = Held::Now();
    RunTape(2 * seed + half, num_threads, num_calls / 2, model);
    check_stores();
  }
  Held after = Held::Now();
  for (int i = 0; i < 100 && after.threads > before.threads; ++i) {  // those that just end
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    after = Held::Now();
  }
  std::printf("after half and all: descriptors %zu %zu, threads %zu %zu, heap bytes %zu %zu\n",
              before.descriptors, after.descriptors, before.threads, after.threads,
              before.heap_bytes, after.heap_bytes);
  CheckCounts(num_calls);
  calling = "*";
  REQUIRE(after.descriptors <= before.descriptors);
  REQUIRE(after.threads <= before.threads);
  REQUIRE(after.heap_bytes <= before.heap_bytes + kHeapMargin);
}

}  // namespace
}  // namespace lectern::misuse

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const auto number = [&](int at, uint64_t otherwise) {
    return argc > at ? std::strtoull(argv[at], nullptr, 10) : otherwise;
  };
  if (argc < 3) {
    std::fprintf(stderr, "misuse_test MODEL_FOLDER HEADER [CALLS [THREADS [SEED]]]\n");
    return 2;
  }
  const std::string model = fs::absolute(argv[1]);
  const uint64_t calls = number(3, 4000), threads = number(4, 4), seed = number(5, 1);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  lectern::misuse::CheckThatNoneIsMissing(argv[2]);
  std::string folder = (fs::temp_directory_path() / "lectern_misuse_XXXXXX").string();
  if (!mkdtemp(folder.data())) return 1;
  fs::current_path(folder);
  std::ofstream("file") << "neither store nor document";
  lectern::misuse::Run(model, calls, threads, seed);
  fs::current_path("/");
  fs::remove_all(folder);
}
