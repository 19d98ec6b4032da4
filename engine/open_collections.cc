#include "engine/open_collections.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/document/collections_folder.h"
#include "engine/document/document_names.h"
#include "engine/document/page_map.h"
#include "engine/document/parts.h"
#include "engine/model/formats/text.h"
#include "engine/requests/report_json.h"
#include "store/env.h"
#include "store/store.h"

namespace lectern {
namespace {

// Texts that are read from the store and added in one transaction.
constexpr size_t kTextsAtATime = 64;

Status NoCollection(Env& env, const std::string& store, std::string_view name) {
  std::string there;
  const auto paths = CollectionFiles(env, store);
  for (const std::string& path : paths.ok() ? *paths : std::vector<std::string>()) {
    auto collection = Collection::Open(env, path, "", Collection::Mode::kReadOnly);
    if (!collection.ok()) continue;
    const auto own = (*collection)->name();
    if (own.ok()) there += (there.empty() ? "" : ", ") + ("\"" + *own + "\"");
  }
  return Status(Code::kNotFound,
                "there is no collection \"" + std::string(name) + "\"; " +
                    (there.empty() ? "make one by adding files to it" : "there are " + there))
      .WithParam("collection");
}

// Whether a text is to be indexed because its document is gone or belongs to another model.
bool IsToBeIndexed(const Status& status) {
  return status.code() == Code::kNotFound || status.code() == Code::kModelMismatch;
}

// A given text as the collection stores it.
Result<NewText> TextFrom(const CollectionText& given) {
  const std::string& name = !given.name.empty()     ? given.name
                            : !given.source.empty() ? given.source
                                                    : given.path;
  const auto in_text = [&](Code code, const std::string& what, const char* param) {
    return Status(code, "\"" + name + "\": " + what).WithParam(param);
  };
  if (given.name.empty() && given.source.empty() && given.path.empty()) {
    return Status(Code::kInvalidArgument, "a text has neither a name nor a source")
        .WithParam("name");
  }
  NewText text;
  text.name = given.name, text.source = given.source, text.path = given.path;
  text.pages = given.pages, text.page_labels = given.page_labels;
  text.text = CleanUtf8(given.bytes).text;
  if (TrimWhiteSpace(text.text).empty()) {
    return in_text(Code::kEmptyDocument, "it has nothing but white space", "");
  }
  const bool has_pages = IsPageMap(text.pages, text.text.size()) &&
                         ArePageLabels(text.page_labels, text.pages.size()) &&
                         (text.pages.empty() || text.text == given.bytes);
  if (!has_pages) return in_text(Code::kInvalidArgument, "its pages do not fit the text", "pages");
  return text;
}

}  // namespace

Result<std::shared_ptr<Collection>> OpenCollections::Use(std::string_view name, Mode mode) {
  LECTERN_RETURN_IF_ERROR(CheckCollectionName(name));
  Env& env = open_->env();
  const std::string& store = open_->path();
  LECTERN_ASSIGN(std::string path, FindCollection(env, store, name));
  const bool is_all = path.empty() && name == kAllDocuments && mode == Mode::kRead;
  if (path.empty()) {
    if (mode != Mode::kCreate && !is_all) return NoCollection(env, store, name);
    // Asking makes no store.
    if (is_all) LECTERN_RETURN_IF_ERROR(open_->OpenCatalog(Catalog::Mode::kReadOnly).status());
    LECTERN_ASSIGN(const auto lock, LockStore(env, store));  // it makes the store, too
    LECTERN_RETURN_IF_ERROR(
        Catalog::Open(env, CatalogPath(store), Catalog::Mode::kReadWrite).status());
    LECTERN_ASSIGN(path, NewCollectionPath(env, store, name));
    LECTERN_ASSIGN(std::unique_ptr<Collection> made,
                   Collection::Open(env, path, std::string(name), Collection::Mode::kReadWrite));
    LECTERN_RETURN_IF_ERROR(env.SyncDirectory(ParentDirectory(path)));
    if (is_all) LECTERN_RETURN_IF_ERROR(made->SetFollowsCatalog());
    made.reset();
  }
  // Where a collection cannot be written, it can be asked all the same.
  auto opened = Collection::Open(env, path, std::string(name), Collection::Mode::kReadWrite);
  if (!opened.ok() && opened.status().code() == Code::kReadOnly && mode == Mode::kRead) {
    opened = Collection::Open(env, path, std::string(name), Collection::Mode::kReadOnly);
  }
  if (!opened.ok()) return std::move(opened).status();
  std::shared_ptr<Collection> collection = std::move(opened).value();
  LECTERN_ASSIGN(const bool follows, collection->FollowsCatalog());
  if (follows) {
    const Status status = FollowCatalog(*collection);
    if (!status.ok() && status.code() != Code::kReadOnly) return status;
  }
  return collection;
}

Result<std::shared_ptr<Collection>> OpenCollections::UseToChange(std::string_view name, Mode mode) {
  LECTERN_ASSIGN(std::shared_ptr<Collection> collection, Use(name, mode));
  LECTERN_ASSIGN(const bool follows, collection->FollowsCatalog());
  if (!follows) return collection;
  return Status(Code::kInvalidArgument,
                "the collection \"" + std::string(name) +
                    "\" has the documents of the store, whatever they are; add to another one")
      .WithParam("collection");
}

Result<NewText> OpenCollections::TextOf(const DocumentRow& row) {
  LECTERN_ASSIGN(const OpenStore::Opened opened, open_->OpenNamed(ToHex(row.id), nullptr));
  const std::shared_ptr<const DocumentText> content = opened.text();
  NewText text;
  text.name = row.name.empty() ? ToHex(row.id) : row.name;
  text.source = SourceOf(row);
  text.text = content->text();
  text.pages.assign(content->pages().begin(), content->pages().end());
  text.page_labels = content->page_labels();
  text.document = row.id;
  return text;
}

Status OpenCollections::FollowCatalog(Collection& collection) {
  LECTERN_ASSIGN(const auto catalog, open_->OpenCatalog(Catalog::Mode::kReadOnly));
  LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog->List());
  std::map<DocumentId, const DocumentRow*> wanted;
  for (const DocumentRow& row : rows) {
    if (row.state == DocumentState::kReady && !IsOnlyPart(row)) wanted[row.id] = &row;
  }
  LECTERN_ASSIGN(const auto texts, collection.texts());
  std::set<DocumentId> there;
  for (const CollectedText& text : *texts) {
    const auto at = text.document ? wanted.find(*text.document) : wanted.end();
    const bool stays = at != wanted.end() &&
                       (at->second->name.empty() || at->second->name == text.name ||
                        std::ranges::any_of(at->second->names, [&](const DocumentName& name) {
                          return name.name == text.name;
                        }));
    if (stays && there.insert(*text.document).second) continue;
    LECTERN_RETURN_IF_ERROR(collection.Remove(text.name).status());
  }
  std::vector<NewText> news;
  const auto add = [&]() -> Status {
    if (news.empty()) return {};
    LECTERN_RETURN_IF_ERROR(collection.Add(news).status());
    news.clear();
    return {};
  };
  for (const auto& [id, row] : wanted) {
    if (there.contains(id)) continue;
    auto text = TextOf(*row);
    // One that was removed meanwhile, or is damaged, does not keep the others from being asked.
    if (text.status().code() == Code::kOutOfMemory) return std::move(text).status();
    if (!text.ok()) continue;
    text->source = ToHex(id);  // several documents may come from one source
    news.push_back(std::move(text).value());
    if (news.size() == kTextsAtATime) LECTERN_RETURN_IF_ERROR(add());
  }
  return add();
}

Result<std::vector<CollectionSummary>> OpenCollections::List() {
  Env& env = open_->env();
  LECTERN_ASSIGN(const std::vector<std::string> paths, CollectionFiles(env, open_->path()));
  std::vector<CollectionSummary> summaries;
  for (const std::string& path : paths) {
    auto opened = Collection::Open(env, path, "", Collection::Mode::kReadOnly);
    if (!opened.ok()) return std::move(opened).status();
    CollectionSummary& summary = summaries.emplace_back();
    LECTERN_ASSIGN(summary.name, (*opened)->name());
    LECTERN_ASSIGN(const auto texts, (*opened)->texts());
    summary.num_documents = texts->size();
    for (const CollectedText& text : *texts) {
      summary.text_bytes += text.text_bytes;
      summary.num_indexed += text.document.has_value() ? 1 : 0;
    }
    LECTERN_ASSIGN(const FileInfo info, env.Info(path));
    summary.bytes_on_disk = info.bytes;
  }
  std::ranges::sort(summaries, {}, &CollectionSummary::name);
  return summaries;
}

Result<std::vector<CollectionDocument>> OpenCollections::Documents(std::string_view name) {
  LECTERN_ASSIGN(const auto collection, Use(name, Mode::kRead));
  LECTERN_ASSIGN(const auto texts, collection->texts());
  std::set<DocumentId> ready;
  if (auto catalog = open_->OpenCatalog(Catalog::Mode::kReadOnly); catalog.ok()) {
    LECTERN_ASSIGN(const std::vector<DocumentRow> rows, (*catalog)->List());
    for (const DocumentRow& row : rows) {
      if (row.state == DocumentState::kReady) ready.insert(row.id);
    }
  }
  std::vector<CollectionDocument> documents;
  for (const CollectedText& text : *texts) {
    const bool is_ready = text.document && ready.contains(*text.document);
    documents.push_back(
        {text.name, text.source, is_ready ? ToHex(*text.document) : "", text.text_bytes});
  }
  std::ranges::sort(documents, {}, &CollectionDocument::name);
  return documents;
}

Result<std::string> OpenCollections::Read(std::string_view name, std::string_view document) {
  LECTERN_ASSIGN(const auto collection, Use(name, Mode::kRead));
  LECTERN_ASSIGN(const auto texts, collection->texts());
  const auto found = std::ranges::find(*texts, NameForm(document), &CollectedText::name);
  if (found == texts->end()) {
    return Status(Code::kNotFound, "collection \"" + std::string(name) +
                                       "\" has no document named \"" + std::string(document) + "\"")
        .WithParam("document");
  }
  LECTERN_ASSIGN(StoredText stored, collection->Read(*found));
  return std::move(stored.text);
}

Result<std::vector<AddedToCollection>> OpenCollections::Add(std::string_view name,
                                                            std::span<const CollectionText> texts) {
  std::vector<NewText> news;
  uint64_t bytes = 0;
  for (const CollectionText& text : texts) {
    LECTERN_ASSIGN(news.emplace_back(), TextFrom(text));
    bytes += news.back().text.size();
  }
  // Text, passages and words take about twice the text.
  LECTERN_RETURN_IF_ERROR(CheckQuota(open_->env(), open_->path(), open_->quota_bytes(), 2 * bytes));
  LECTERN_ASSIGN(const auto collection, UseToChange(name, Mode::kCreate));
  LECTERN_ASSIGN(const std::vector<AddedText> added, collection->Add(news));
  std::vector<AddedToCollection> told;
  for (const AddedText& one : added) {
    told.push_back({one.name, static_cast<AddedToCollection::Change>(one.change)});
  }
  return told;
}

Result<AddedToCollection> OpenCollections::AddDocument(std::string_view name,
                                                       std::string_view document) {
  LECTERN_ASSIGN(const DocumentRow row, open_->Find(document));
  LECTERN_ASSIGN(const NewText text, TextOf(row));
  LECTERN_ASSIGN(const auto collection, UseToChange(name, Mode::kCreate));
  LECTERN_ASSIGN(const std::vector<AddedText> added, collection->Add({&text, 1}));
  return AddedToCollection{added.front().name,
                           static_cast<AddedToCollection::Change>(added.front().change)};
}

Status OpenCollections::RemoveDocument(std::string_view name, std::string_view document) {
  LECTERN_ASSIGN(const auto collection, UseToChange(name, Mode::kWrite));
  LECTERN_ASSIGN(const bool was_there, collection->Remove(document));
  if (was_there) return {};
  return Status(Code::kNotFound,
                "the collection has no text named \"" + std::string(document) + "\"")
      .WithParam("document");
}

Status OpenCollections::RenameDocument(std::string_view name, std::string_view from,
                                       const std::string& to) {
  LECTERN_ASSIGN(const auto collection, UseToChange(name, Mode::kWrite));
  return collection->RenameText(from, to);
}

Status OpenCollections::Remove(std::string_view name) {
  LECTERN_RETURN_IF_ERROR(CheckCollectionName(name));
  Env& env = open_->env();
  LECTERN_ASSIGN(const std::string path, FindCollection(env, open_->path(), name));
  if (path.empty()) return NoCollection(env, open_->path(), name);
  LECTERN_ASSIGN(const auto lock, LockStore(env, open_->path()));
  return RemoveCollectionFile(env, path);
}

Status OpenCollections::Rename(std::string_view name, const std::string& to) {
  if (Status status = CheckCollectionName(to); !status.ok()) {
    return std::move(status).WithParam("name");
  }
  LECTERN_ASSIGN(const auto lock, LockStore(open_->env(), open_->path()));
  LECTERN_ASSIGN(const std::string taken, FindCollection(open_->env(), open_->path(), to));
  if (!taken.empty() && to != name) {
    return Status(Code::kInvalidArgument, "there is a collection \"" + to + "\" already")
        .WithParam("name");
  }
  LECTERN_ASSIGN(const auto collection, Use(name, Mode::kWrite));
  return collection->SetName(to);
}

Status OpenCollections::Verify(std::string_view name) {
  LECTERN_ASSIGN(const auto collection, Use(name, Mode::kRead));
  return collection->Verify();
}

Status OpenCollections::VerifyAll(bool full, std::vector<Damage>& damages) {
  Env& env = open_->env();
  LECTERN_ASSIGN(const std::vector<std::string> paths, CollectionFiles(env, open_->path()));
  for (const std::string& path : paths) {
    std::string name = path.substr(path.rfind('/') + 1);
    const auto verify = [&]() -> Status {
      LECTERN_ASSIGN(const auto collection,
                     Collection::Open(env, path, "", Collection::Mode::kReadOnly));
      LECTERN_ASSIGN(name, collection->name());
      return full ? collection->Verify() : collection->texts().status();
    };
    Status status = verify();
    if (status.ok() || status.code() == Code::kNotFound) continue;  // the latter: removed since
    if (status.code() == Code::kOutOfMemory) return status;         // it could not be checked
    damages.push_back(
        {.document = "", .name = "", .status = std::move(status), .collection = name});
  }
  return {};
}

Result<Mentions> OpenCollections::Find(std::string_view name, std::string_view words, size_t most) {
  LECTERN_ASSIGN(const auto collection, Use(name, Mode::kRead));
  return FindMentions(*collection, words, most);
}

Result<std::unique_ptr<Session>> OpenCollections::Open(std::string_view name) {
  const auto start = std::chrono::steady_clock::now();
  LECTERN_ASSIGN(const auto collection, Use(name, Mode::kRead));
  const auto open_text = [self = shared_from_this(), collection](const CollectedText& text,
                                                                 const AskOptions& options) {
    return self->OpenText(*collection, text, options);
  };
  const double open_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return std::unique_ptr<Session>(
      std::make_unique<CollectionSession>(std::string(name), collection, open_text, open_ms));
}

Result<CollectionSession::OpenedText> OpenCollections::OpenText(Collection& collection,
                                                                const CollectedText& text,
                                                                const AskOptions& options) {
  if (text.document) {
    auto session = open_->OpenKept(*text.document, /*is_part=*/false, options.cancel);
    if (session.ok()) return CollectionSession::OpenedText{std::move(session).value(), false};
    if (!IsToBeIndexed(session.status())) return std::move(session).status();
  }
  if (const auto known = FindIndexed(collection, text)) {
    auto session = open_->OpenKept(*known, /*is_part=*/false, options.cancel);
    if (session.ok()) return CollectionSession::OpenedText{std::move(session).value(), false};
    if (!IsToBeIndexed(session.status())) return std::move(session).status();
  }
  IndexOptions index;
  index.cancel = options.cancel;
  if (options.on_index) {
    index.on_progress = [&](const IndexProgress& progress) {
      return options.on_index(text.name, progress);
    };
  }
  LECTERN_ASSIGN(const DocumentId document, IndexText(collection, text, index));
  LECTERN_ASSIGN(auto session, open_->OpenKept(document, /*is_part=*/false, options.cancel));
  return CollectionSession::OpenedText{std::move(session), true};
}

std::optional<DocumentId> OpenCollections::FindIndexed(Collection& collection,
                                                       const CollectedText& text) {
  if (!IsAbsolutePath(text.source)) return std::nullopt;
  const auto opened = open_->OpenNamed(text.source, nullptr);
  const auto stored = collection.Read(text);
  if (!opened.ok() || !stored.ok() || opened->text()->text() != stored->text) return std::nullopt;
  (void)collection.SetDocument(text, opened->row.id);  // else it is found again the next time
  return opened->row.id;
}

Result<DocumentId> OpenCollections::IndexText(Collection& collection, const CollectedText& text,
                                              const IndexOptions& options) {
  LECTERN_ASSIGN(const StoredText stored, collection.Read(text));
  LECTERN_ASSIGN(const auto model, ModelFor(collection, options.cancel));
  IndexOptions of_text = options;
  of_text.pages = stored.pages, of_text.page_labels = stored.page_labels;
  // A text from a file is the document of that file, under a name of its own in the store.
  const bool is_file = IsAbsolutePath(text.source);
  of_text.name = is_file ? "" : text.name;
  of_text.source = is_file ? text.source : "";
  of_text.path.clear();
  LECTERN_ASSIGN(const IndexReport report, runs_->Index(stored.text, of_text, model));
  const DocumentId document = *ParseDocumentId(report.document);
  const Status noted = collection.SetDocument(text, document);
  if (!noted.ok() && noted.code() != Code::kReadOnly) return noted;
  return document;
}

Result<std::shared_ptr<const Model>> OpenCollections::ModelFor(Collection& collection,
                                                               const CancelFlag* cancel) {
  if (open_->has_model()) return std::shared_ptr<const Model>();
  LECTERN_ASSIGN(const auto texts, collection.texts());
  for (const CollectedText& text : *texts) {
    if (!text.document) continue;
    auto opened = open_->OpenNamed(ToHex(*text.document), cancel);
    if (!opened.ok()) continue;
    if (opened->in_parts) {
      opened = open_->OpenNamed(ToHex(IdOf(opened->in_parts->parts().front())), cancel);
      if (!opened.ok() || !opened->document) continue;
    }
    return open_->ModelOf(*opened->document, cancel);
  }
  return Status(Code::kInvalidArgument,
                "no document of the collection is indexed yet, and no model is given: name one")
      .WithParam("model");
}

Result<IndexedCollection> OpenCollections::Index(std::string_view name, const IndexOptions& options,
                                                 const CollectionProgress& on_progress) {
  LECTERN_ASSIGN(const auto collection, Use(name, Mode::kRead));
  LECTERN_ASSIGN(const auto texts, collection->texts());
  LECTERN_ASSIGN(std::vector<CollectionDocument> documents, Documents(name));
  std::set<std::string> indexed;
  for (const CollectionDocument& document : documents) {
    if (!document.document.empty()) indexed.insert(document.name);
  }
  IndexedCollection result;
  result.existed = indexed.size();
  const uint64_t count = texts->size() - indexed.size();
  uint64_t number = 0;
  for (const CollectedText& text : *texts) {
    if (indexed.contains(text.name)) continue;
    ++number;
    IndexOptions of_text = options;
    of_text.on_progress = [&](const IndexProgress& progress) {
      return !on_progress || on_progress(text.name, number, count, progress);
    };
    auto document = IndexText(*collection, text, of_text);
    if (document.ok()) {
      ++result.indexed;
      continue;
    }
    const Code code = document.status().code();
    if (code == Code::kNoSpace) {
      result.left = count - number + 1;
      result.note =
          std::to_string(result.left) + " documents were left: " + document.status().wordings();
      break;
    }
    const bool is_of_text = code == Code::kEmptyDocument || code == Code::kContextTooLong ||
                            code == Code::kLimitExceeded || code == Code::kNotFound;
    if (!is_of_text) return std::move(document).status();
    if (result.failures++ == 0) {
      result.failed = text.name;
      result.note = "\"" + text.name + "\": " + document.status().wordings();
    }
  }
  return result;
}

}  // namespace lectern
