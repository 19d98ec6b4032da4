// Calls of what keeps a store.
#include <filesystem>

#include "tests/engine/api/misuse_calls.h"

namespace lectern::misuse {
namespace {

namespace fs = std::filesystem;

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
void OnCitation(const lectern_citation* citation, void* user) {
  REQUIRE(citation->end > citation->begin);
  if (citation->evidence) CheckString(citation->evidence->heading, citation->evidence->heading_len);
  static_cast<RunningEngine*>(user)->Misbehave();
}
void OnRefused(const lectern_refused* refused, void* user) {
  REQUIRE(IsKnownFailure(refused->code));
  CheckString(refused->directory, refused->directory_len);
  static_cast<RunningEngine*>(user)->Misbehave();
}

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
bool EngineRemoveNamed(Tape& tape) {
  const Text name = AnyText(tape.random, kNames);
  Sized<lectern_removed> removed(tape.random);
  const bool is_null = tape.random.OneIn(3);
  const bool is_ok =
      ReadStore(tape, name.is_wrong(), [&](auto* engine, void*, auto** json, auto** error) {
        return lectern_engine_remove_named(engine, name.data(), name.len(),
                                           is_null ? nullptr : removed.get(), json, error);
      });
  removed.CheckBehind();
  REQUIRE(is_null || !is_ok || !removed.is_wrong());
  return is_ok;
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

bool Cite(Tape& tape) {
  Random& random = tape.random;
  const Text name = AnyText(random, kNames);
  const Text text = AnyText(random, {"", "The tenant pays.", "Zeppelins. Who? \xFF"});
  const Text question = AnyText(random, {"", "Who pays?"});
  Sized<lectern_cite_options> options(random);
  if (options.knows_all()) {
    options->question = question.data(), options->question_len = question.len();
    options->max_evidence = random.Of<uint32_t>({0, 1, 100, 101, UINT32_MAX});
  }
  options.SetUnknownField(random);
  const bool is_null = random.OneIn(8);
  const int32_t unit = random.Of<int32_t>({0, 1, 2, 3});
  return ReadStore(tape,
                   name.is_wrong() || text.is_wrong() || unit == 3 ||
                       (!is_null && options.is_wrong()),
                   [&](auto* engine, void* user, auto** json, auto** error) {
                     return lectern_cite(engine, name.data(), name.len(), text.data(), text.len(),
                                         is_null ? nullptr : options.get(),
                                         OrNull(tape, OnCitation), user, unit, json, error);
                   });
}

Function functions[] = {
    {"engine_list", 4, EngineList},          {"engine_show", 4, EngineShow},
    {"engine_show_plan", 4, EngineShowPlan}, {"engine_verify", 4, EngineVerify},
    {"engine_plan", 6, EnginePlan},          {"engine_remove", 3, EngineRemove},
    {"engine_collect", 4, EngineCollect},    {"engine_recover", 4, EngineRecover},
    {"engine_seal", 2, EngineSeal},          {"engine_export", 6, EngineExport},
    {"engine_import", 10, EngineImport},     {"engine_remove_named", 3, EngineRemoveNamed},
    {"cite", 6, Cite},
};

}  // namespace

std::span<Function> StoreFunctions() { return functions; }

void OnDamage(const lectern_damage* damage, void*) {
  std::fprintf(stderr, "%s: %s\n", damage->document, damage->message);
  REQUIRE(!"the store is damaged");
}

}  // namespace lectern::misuse
