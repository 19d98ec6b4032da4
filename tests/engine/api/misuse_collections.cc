// Calls of collections.
#include "tests/engine/api/misuse_calls.h"

namespace lectern::misuse {
namespace {

const std::vector<std::string> kCollections = {"one", "one", "two", "all"};
const std::vector<std::string> kTexts = {"a", "b", "c"};  // names of documents in a collection

void OnCollection(const lectern_collection* collection, void* user) {
  CheckString(collection->name, collection->name_len);
  REQUIRE(collection->num_indexed <= collection->num_documents);
  static_cast<RunningEngine*>(user)->Misbehave();
}
void OnDocument(const lectern_collection_document* document, void* user) {
  CheckString(document->name, document->name_len);
  CheckString(document->source, document->source_len);
  REQUIRE(document->document_len == 0 || document->document_len == 32);
  static_cast<RunningEngine*>(user)->Misbehave();
}
void OnAdded(const lectern_added* added, void* user) {
  CheckString(added->name, added->name_len);
  REQUIRE(added->change >= LECTERN_CHANGE_NEW && added->change <= LECTERN_CHANGE_UNCHANGED);
  static_cast<RunningEngine*>(user)->Misbehave();
}
void OnMention(const lectern_mention* mention, void* user) {
  REQUIRE(mention->num_passages > 0);
  CheckString(mention->passage->text, mention->passage->text_len);
  REQUIRE(mention->passage->document_len == mention->name_len);
  static_cast<RunningEngine*>(user)->Misbehave();
}
int32_t OnProgress(const lectern_collection_progress* progress, void* user) {
  CheckString(progress->document, progress->document_len);
  REQUIRE(progress->number <= progress->count);
  REQUIRE(progress->progress->done <= progress->progress->total);
  return static_cast<RunningEngine*>(user)->Misbehave();
}

template <typename Function>
Function* OrNull(Tape& tape, Function* function) {
  return tape.random.OneIn(3) ? nullptr : function;
}

// A call that gives nothing but an error.
template <typename Call>
bool Change(Tape& tape, bool is_wrong, Call call) {
  const auto picked = tape.handles.Pick<lectern_engine>(tape.random);
  RunningEngine running{tape, picked.handle};
  Error error(tape);
  const lectern_code code = call(picked.handle, &running, error.place());
  return Finish(code, error, {picked.is_dead, is_wrong});
}
// One that may give JSON.
template <typename Call>
bool Read(Tape& tape, bool is_wrong, Call call) {
  Out<lectern_text> json(tape, 2);
  return Change(tape, is_wrong, [&](auto* engine, void* user, auto** error) {
    const lectern_code code = call(engine, user, json.place(), error);
    FinishJson(tape, json, code);
    return code;
  });
}

bool List(Tape& tape) {
  return Read(tape, false, [&](auto* engine, void* user, auto** json, auto** error) {
    return lectern_list_collections(engine, OrNull(tape, OnCollection), user, json, error);
  });
}
bool Documents(Tape& tape) {
  const Text name = AnyText(tape.random, kCollections);
  return Read(tape, name.is_wrong(), [&](auto* engine, void* user, auto** json, auto** error) {
    return lectern_collection_documents(engine, name.data(), name.len(), OrNull(tape, OnDocument),
                                        user, json, error);
  });
}
bool Add(Tape& tape) {
  Random& random = tape.random;
  const Text name = AnyText(random, kCollections);
  const Text of_text = AnyText(random, kTexts);
  const Text bytes = AnyText(random, {"Cleo paid for the mill.", "The mill burnt down.\n", ""});
  lectern_text_to_add text = {};
  text.name = of_text.data(), text.name_len = of_text.len();
  text.bytes = bytes.data(), text.bytes_len = bytes.len();
  const bool is_null = random.OneIn(20);
  const bool is_wrong = name.is_wrong() || of_text.is_wrong() || bytes.is_wrong() || is_null;
  return Read(tape, is_wrong, [&](auto* engine, void* user, auto** json, auto** error) {
    return lectern_collection_add(engine, name.data(), name.len(), is_null ? nullptr : &text, 1,
                                  OrNull(tape, OnAdded), user, json, error);
  });
}
bool AddDocument(Tape& tape) {
  const Text name = AnyText(tape.random, kCollections);
  const Text document = AnyText(tape.random, kNames);
  return Read(tape, name.is_wrong() || document.is_wrong(),
              [&](auto* engine, void* user, auto** json, auto** error) {
                return lectern_collection_add_document(engine, name.data(), name.len(),
                                                       document.data(), document.len(),
                                                       OrNull(tape, OnAdded), user, json, error);
              });
}
bool RemoveDocument(Tape& tape) {
  const Text name = AnyText(tape.random, kCollections);
  const Text document = AnyText(tape.random, kTexts);
  return Change(tape, name.is_wrong() || document.is_wrong(),
                [&](auto* engine, void*, auto** error) {
                  return lectern_collection_remove(engine, name.data(), name.len(), document.data(),
                                                   document.len(), error);
                });
}
bool RenameDocument(Tape& tape) {
  const Text name = AnyText(tape.random, kCollections);
  const Text from = AnyText(tape.random, kTexts), to = AnyText(tape.random, kTexts);
  return Change(tape, name.is_wrong() || from.is_wrong() || to.is_wrong(),
                [&](auto* engine, void*, auto** error) {
                  return lectern_collection_rename_document(engine, name.data(), name.len(),
                                                            from.data(), from.len(), to.data(),
                                                            to.len(), error);
                });
}
bool ReadText(Tape& tape) {
  const auto picked = tape.handles.Pick<lectern_engine>(tape.random);
  const Text name = AnyText(tape.random, kCollections);
  const Text document = AnyText(tape.random, kTexts);
  Out<lectern_text> text(tape);
  Error error(tape);
  const lectern_code code =
      lectern_collection_text(picked.handle, name.data(), name.len(), document.data(),
                              document.len(), text.place(), error.place());
  if (lectern_text* const read = text.Check(code)) Keep(tape, read);
  return Finish(code, error,
                {picked.is_dead, name.is_wrong() || document.is_wrong(), text.has_place()});
}
bool Remove(Tape& tape) {
  const Text name = AnyText(tape.random, kCollections);
  return Change(tape, name.is_wrong(), [&](auto* engine, void*, auto** error) {
    return lectern_remove_collection(engine, name.data(), name.len(), error);
  });
}
bool Rename(Tape& tape) {
  const Text name = AnyText(tape.random, kCollections), to = AnyText(tape.random, kCollections);
  return Change(tape, name.is_wrong() || to.is_wrong(), [&](auto* engine, void*, auto** error) {
    return lectern_rename_collection(engine, name.data(), name.len(), to.data(), to.len(), error);
  });
}
bool Verify(Tape& tape) {
  const Text name = AnyText(tape.random, kCollections);
  return Change(tape, name.is_wrong(), [&](auto* engine, void*, auto** error) {
    const lectern_code code = lectern_verify_collection(engine, name.data(), name.len(), error);
    REQUIRE(code != LECTERN_CORRUPT);
    return code;
  });
}
bool Open(Tape& tape) {
  const auto picked = tape.handles.Pick<lectern_engine>(tape.random);
  const Text name = AnyText(tape.random, kCollections);
  Out<lectern_session> session(tape);
  Error error(tape);
  const lectern_code code = lectern_open_collection(picked.handle, name.data(), name.len(),
                                                    session.place(), error.place());
  if (lectern_session* const opened = session.Check(code)) Keep(tape, opened);
  return Finish(code, error, {picked.is_dead, name.is_wrong(), session.has_place()});
}
bool FindMentions(Tape& tape) {
  Random& random = tape.random;
  const Text name = AnyText(random, kCollections);
  const Text words = AnyText(random, {"mill", "Cleo mill", "the", ""});
  const int32_t unit = random.Of<int32_t>({0, 1, 2, 3});
  uint64_t count = 0;
  return Read(tape, name.is_wrong() || words.is_wrong() || unit == 3,
              [&](auto* engine, void* user, auto** json, auto** error) {
                return lectern_find_mentions(engine, name.data(), name.len(), words.data(),
                                             words.len(), random.Of<uint64_t>({0, 1, UINT64_MAX}),
                                             OrNull(tape, OnMention), user,
                                             random.OneIn(2) ? &count : nullptr, unit, json, error);
              });
}
bool Index(Tape& tape) {
  Random& random = tape.random;
  const Text name = AnyText(random, kCollections);
  Sized<lectern_index_options> options(random);
  if (options.knows_all() && random.OneIn(10)) options->name = "x", options->name_len = 1;
  const bool is_named = options.knows_all() && options->name_len > 0;
  options.SetUnknownField(random);
  Sized<lectern_indexed_collection> indexed(random);
  const bool is_null = random.OneIn(8), no_numbers = random.OneIn(2);
  const bool is_ok =
      Read(tape, name.is_wrong() || (!is_null && (options.is_wrong() || is_named)),
           [&](auto* engine, void* user, auto** json, auto** error) {
             return lectern_index_collection(
                 engine, name.data(), name.len(), is_null ? nullptr : options.get(),
                 OrNull(tape, OnProgress), user, no_numbers ? nullptr : indexed.get(), json, error);
           });
  indexed.CheckBehind();
  REQUIRE(no_numbers || !is_ok || !indexed.is_wrong());
  return is_ok;
}
bool AskedDocument(Tape& tape) {
  return GetStruct<lectern_asked_document, lectern_answer>(
      tape, [&](const lectern_answer* answer, lectern_asked_document* asked) {
        return lectern_answer_asked_document(answer, tape.random.Of<size_t>({0, 0, 1, SIZE_MAX}),
                                             asked);
      });
}

Function functions[] = {
    {"list_collections", 3, List},
    {"collection_documents", 3, Documents},
    {"collection_add", 12, Add},
    {"collection_add_document", 3, AddDocument},
    {"collection_text", 3, ReadText},
    {"collection_remove", 2, RemoveDocument},
    {"collection_rename_document", 2, RenameDocument},
    {"remove_collection", 1, Remove},
    {"rename_collection", 2, Rename},
    {"verify_collection", 3, Verify},
    {"open_collection", 8, Open},
    {"find_mentions", 4, FindMentions},
    {"index_collection", 3, Index},
    {"answer_asked_document", 4, AskedDocument},
};

}  // namespace

std::span<Function> CollectionFunctions() { return functions; }

}  // namespace lectern::misuse
