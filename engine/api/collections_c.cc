// The functions of the C API for collections, as lectern_c.cc has the others.
#include "engine/api/c_structs.h"
#include "engine/api/handles.h"
#include "engine/lectern_c.h"
#include "engine/requests/collection_json.h"

using namespace lectern;  // every function below is extern "C" and has its prefix
using namespace lectern::c_api;

static_assert(int{LECTERN_CHANGE_NEW} == static_cast<int>(AddedToCollection::Change::kNew));
static_assert(int{LECTERN_CHANGE_RENEWED} == static_cast<int>(AddedToCollection::Change::kRenewed));
static_assert(int{LECTERN_CHANGE_UNCHANGED} ==
              static_cast<int>(AddedToCollection::Change::kUnchanged));

lectern_code lectern_list_collections(lectern_engine* engine, lectern_collection_fn on_collection,
                                      void* user, lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::vector<CollectionSummary> all, object->engine->Collections());
    for (const CollectionSummary& one : all) CallBack(one, on_collection, user);
    return json ? GiveText(CollectionsJson(all), json) : Status();
  });
}

lectern_code lectern_collection_documents(lectern_engine* engine, const char* collection,
                                          size_t collection_len,
                                          lectern_collection_document_fn on_document, void* user,
                                          lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(collection, collection_len, "collection"));
    LECTERN_ASSIGN(const std::vector<CollectionDocument> all,
                   object->engine->CollectionDocuments(name));
    for (const CollectionDocument& one : all) CallBack(one, on_document, user);
    return json ? GiveText(CollectionDocumentsJson(name, all), json) : Status();
  });
}

lectern_code lectern_collection_text(lectern_engine* engine, const char* collection,
                                     size_t collection_len, const char* document,
                                     size_t document_len, lectern_text** text,
                                     lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(text));
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(collection, collection_len, "collection"));
    LECTERN_ASSIGN(const std::string_view of_text, View(document, document_len, "document"));
    LECTERN_ASSIGN(std::string read, object->engine->ReadInCollection(name, of_text));
    return GiveText(std::move(read), text);
  });
}

lectern_code lectern_collection_add(lectern_engine* engine, const char* collection,
                                    size_t collection_len, const lectern_text_to_add* texts,
                                    size_t num_texts, lectern_added_fn on_added, void* user,
                                    lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(collection, collection_len, "collection"));
    LECTERN_ASSIGN(const std::vector<CollectionText> read, ReadCollectionTexts(texts, num_texts));
    LECTERN_ASSIGN(const std::vector<AddedToCollection> added,
                   object->engine->AddToCollection(name, read));
    for (const AddedToCollection& one : added) CallBack(one, on_added, user);
    return json ? GiveText(AddedJson(name, added), json) : Status();
  });
}

lectern_code lectern_collection_add_document(lectern_engine* engine, const char* collection,
                                             size_t collection_len, const char* document,
                                             size_t document_len, lectern_added_fn on_added,
                                             void* user, lectern_text** json,
                                             lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(collection, collection_len, "collection"));
    LECTERN_ASSIGN(const std::string_view of_store, View(document, document_len, "document"));
    LECTERN_ASSIGN(const AddedToCollection added,
                   object->engine->AddDocumentToCollection(name, of_store));
    CallBack(added, on_added, user);
    return json ? GiveText(AddedJson(name, {&added, 1}), json) : Status();
  });
}

lectern_code lectern_collection_remove(lectern_engine* engine, const char* collection,
                                       size_t collection_len, const char* document,
                                       size_t document_len, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(collection, collection_len, "collection"));
    LECTERN_ASSIGN(const std::string_view text, View(document, document_len, "document"));
    return object->engine->RemoveFromCollection(name, text);
  });
}

lectern_code lectern_collection_rename_document(lectern_engine* engine, const char* collection,
                                                size_t collection_len, const char* from,
                                                size_t from_len, const char* to, size_t to_len,
                                                lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(collection, collection_len, "collection"));
    LECTERN_ASSIGN(const std::string_view before, View(from, from_len, "document"));
    LECTERN_ASSIGN(const std::string after, Copy(to, to_len, "name"));
    return object->engine->RenameInCollection(name, before, after);
  });
}

lectern_code lectern_remove_collection(lectern_engine* engine, const char* collection,
                                       size_t collection_len, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(collection, collection_len, "collection"));
    return object->engine->RemoveCollection(name);
  });
}

lectern_code lectern_rename_collection(lectern_engine* engine, const char* collection,
                                       size_t collection_len, const char* to, size_t to_len,
                                       lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(collection, collection_len, "collection"));
    LECTERN_ASSIGN(const std::string after, Copy(to, to_len, "name"));
    return object->engine->RenameCollection(name, after);
  });
}

lectern_code lectern_verify_collection(lectern_engine* engine, const char* collection,
                                       size_t collection_len, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(collection, collection_len, "collection"));
    return object->engine->VerifyCollection(name);
  });
}

lectern_code lectern_open_collection(lectern_engine* engine, const char* collection,
                                     size_t collection_len, lectern_session** session,
                                     lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(session));
    auto object = std::make_shared<SessionObject>();
    LECTERN_ASSIGN(object->engine, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(collection, collection_len, "collection"));
    LECTERN_ASSIGN(object->session, object->engine->engine->OpenCollection(name));
    *session = Issue<lectern_session>(std::move(object));
    return Status();
  });
}

lectern_code lectern_find_mentions(lectern_engine* engine, const char* collection,
                                   size_t collection_len, const char* words, size_t words_len,
                                   uint64_t most, lectern_mention_fn on_mention, void* user,
                                   uint64_t* num_documents, lectern_offset_unit unit,
                                   lectern_text** json, lectern_error** error) {
  constexpr uint64_t kMost = 100;
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(collection, collection_len, "collection"));
    LECTERN_ASSIGN(const std::string_view asked, View(words, words_len, "words"));
    LECTERN_ASSIGN(const OffsetUnit read, ReadOffsetUnit(unit));
    const uint64_t at_most = most == 0 ? kMost : most;
    LECTERN_ASSIGN(const Mentions found, object->engine->FindMentions(name, asked, at_most));
    for (const Mentions::One& one : found.documents) CallBack(one, on_mention, user);
    if (num_documents) *num_documents = found.num_documents;
    return json ? GiveText(MentionsJson(name, asked, found, read), json) : Status();
  });
}

// Names and pages belong to one text, so that a program that sets them means something else.
lectern_code lectern_index_collection(lectern_engine* engine, const char* collection,
                                      size_t collection_len, const lectern_index_options* options,
                                      lectern_collection_progress_fn on_progress, void* user,
                                      lectern_indexed_collection* indexed, lectern_text** json,
                                      lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(collection, collection_len, "collection"));
    LECTERN_ASSIGN(IndexOptions read, ReadIndexOptions(options));
    const bool is_of_one = !read.name.empty() || !read.source.empty() || !read.path.empty() ||
                           !read.pages.empty() || !read.page_labels.empty();
    if (is_of_one) {
      return InvalidArgument("name",
                             "the documents of a collection have their own names, sources "
                             "and pages");
    }
    if (indexed) LECTERN_RETURN_IF_ERROR(CheckStructSize(indexed->struct_size));  // before it acts
    const RunningCalls::Scope scope(object->running);
    read.cancel = scope.cancel();
    const auto progress = [&](std::string_view document, uint64_t number, uint64_t count,
                              const IndexProgress& of_document) {
      return CallBack(document, number, count, of_document, on_progress, user);
    };
    LECTERN_ASSIGN(const IndexedCollection done,
                   object->engine->IndexCollection(name, read, progress));
    if (indexed) LECTERN_RETURN_IF_ERROR(WriteStruct(ToC(done), indexed));
    return json ? GiveText(IndexedCollectionJson(name, done), json) : Status();
  });
}

lectern_code lectern_answer_asked_document(const lectern_answer* answer, size_t index,
                                           lectern_asked_document* asked) {
  return Call(nullptr, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(answer));
    const std::vector<AskedDocument>& all = object->answer.documents;
    if (index >= all.size()) return InvalidArgument("index", "no such document");
    return WriteStruct(ToC(all[index]), asked);
  });
}
