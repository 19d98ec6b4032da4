// Calls of engines and indexing.
#include <filesystem>

#include "tests/engine/api/misuse_calls.h"

namespace lectern::misuse {
namespace {

int32_t OnProgress(const lectern_progress* progress, void* user) {
  REQUIRE(progress->struct_size >= sizeof *progress && progress->done <= progress->total);
  REQUIRE(std::strlen(progress->stage) > 0);
  return static_cast<RunningEngine*>(user)->Misbehave();
}

bool ReportNumbers(Tape& tape) {
  return GetStruct<lectern_index_numbers, lectern_index_report>(tape, lectern_index_report_numbers);
}
bool EngineCounts(Tape& tape) {
  return GetStruct<lectern_counts, lectern_engine>(tape, lectern_engine_counts);
}

bool EngineCreate(Tape& tape) {
  Random& random = tape.random;
  if (random.OneIn(4)) Unseal();
  const Text store = AnyText(random, kStores);
  const Text model = random.OneIn(20) ? AnyText(random, {"none", "file", ""}) : Text(tape.model);
  const Text weights = random.OneIn(10) ? AnyText(random, {"q8", "stored", "q5"}) : Text();
  const Text chat = random.OneIn(20) ? AnyText(random, {"plain", "llama2", "llama3", "?"}) : Text();
  const Text ollama = random.OneIn(20) ? AnyText(random, {"none", "store1", "file"}) : Text();
  const Text device = random.OneIn(10) ? AnyText(random, {"cpu", "cuda", "cuda:9", "auto", "gpu"})
                                       : Text();
  Sized<lectern_engine_options> options(random);
  if (options.knows_all()) {
    options->store = store.data(), options->store_len = store.len();
    options->model = model.data(), options->model_len = model.len();
    options->weights = weights.data(), options->weights_len = weights.len();
    options->chat_template = chat.data(), options->chat_template_len = chat.len();
    options->ollama_models = ollama.data(), options->ollama_models_len = ollama.len();
    options->num_threads = random.OneIn(8) ? random.Of<uint64_t>({0, 1, 3, 1025, UINT64_MAX}) : 2;
    options->quota_bytes = random.OneIn(10) ? random.Below(1 << 20) : 0;
    options->max_ram_bytes = random.OneIn(10) ? random.Below(64 << 20) : 0;
    options->io = random.OneIn(2) ? 0 : random.Of<int32_t>({1, 2, 2, 2, 3, -1});
    options->rehash_model = random.OneIn(4);
    options->device = device.data(), options->device_len = device.len();
    options->device_memory_bytes = random.OneIn(10) ? random.Of<uint64_t>({1, UINT64_MAX}) : 0;
    options->nice = random.OneIn(8) ? random.Of<int32_t>({1, 19, 20, -1, INT32_MIN}) : 0;
  }
  options.SetUnknownField(random);
  const bool is_null = random.OneIn(30);
  Out<lectern_engine> engine(tape);
  Error error(tape);
  const lectern_code code =
      lectern_engine_create(is_null ? nullptr : options.get(), engine.place(), error.place());
  if (lectern_engine* const made = engine.Check(code)) Keep(tape, made);
  const bool is_wrong = is_null || !options.knows_all() || options.is_wrong() || store.len() == 0 ||
                        store.is_wrong() || model.is_wrong() || weights.is_wrong() ||
                        chat.is_wrong() || ollama.is_wrong() || device.is_wrong();
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
    if (random.OneIn(3)) options->source = one.data(), options->source_len = one.len();
    options->keep_versions = random.OneIn(4);
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
bool EngineIndexFile(Tape& tape) {
  Random& random = tape.random;
  const auto picked = tape.handles.Pick<lectern_engine>(random);
  const Text path = AnyText(random, {"none", "file", "store1", ""});
  Sized<lectern_index_options> options(random);
  options.SetUnknownField(random);
  Error error(tape);
  Out<lectern_index_report> report(tape);
  const lectern_code code = lectern_engine_index_file(picked.handle, path.data(), path.len(),
                                                      options.get(), report.place(), error.place());
  if (lectern_index_report* const made = report.Check(code)) Keep(tape, made);
  const bool is_wrong = path.is_wrong() || options.is_wrong();
  return Finish(code, error, {picked.is_dead, is_wrong, report.has_place()});
}

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

Function functions[] = {
    {"engine_create", 12, EngineCreate},
    {"engine_cancel", 3, CancelAny<lectern_engine>},
    {"engine_counts", 4, EngineCounts},
    {"engine_free", 3, FreeAny<lectern_engine>},
    {"engine_index", 10, EngineIndex},
    {"engine_estimate", 2, EngineEstimate},
    {"engine_index_file", 4, EngineIndexFile},
    {"index_estimate_json", 4, EstimateJson},
    {"index_report_document", 4, GetString<lectern_index_report, lectern_index_report_document>},
    {"index_report_name", 4, GetString<lectern_index_report, lectern_index_report_name>},
    {"index_report_json", 4, GetString<lectern_index_report, lectern_index_report_json>},
    {"index_report_source", 4, GetString<lectern_index_report, lectern_index_report_source>},
    {"index_report_replaced", 4, GetString<lectern_index_report, lectern_index_report_replaced>},
    {"index_report_note", 4, GetString<lectern_index_report, lectern_index_report_note>},
    {"index_report_cli_note", 4, GetString<lectern_index_report, lectern_index_report_cli_note>},
    {"index_report_numbers", 6, ReportNumbers},
    {"index_report_free", 3, FreeAny<lectern_index_report>},
};

}  // namespace

std::span<Function> EngineFunctions() { return functions; }

void Unseal() {
  for (const std::string& store : kStores) {
    std::error_code ignored;
    std::filesystem::remove(store + "/SEALED", ignored);
  }
}

}  // namespace lectern::misuse
