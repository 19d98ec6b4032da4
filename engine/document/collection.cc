#include "engine/document/collection.h"

#include <algorithm>
#include <climits>
#include <iterator>
#include <new>

#include "engine/document/collection_file.h"
#include "engine/document/document_names.h"
#include "engine/document/page_map.h"
#include "engine/document/word_scores.h"
#include "engine/model/formats/sha256.h"
#include "store/crc32c.h"
#include "store/env.h"

namespace lectern {
namespace {

constexpr int kApplicationId = 0x4C454343;  // "LECC"
constexpr int kCollectionVersion = 1;
constexpr char kWayOut[] = "; remove the collection and add its files again";

// The schema (FORMAT.md, section 9). In `texts` the long columns stand last, because SQLite reads a
// row's columns from its beginning.
constexpr const char* kSchema[] = {
    "CREATE TABLE info(name TEXT NOT NULL, next_passage INTEGER NOT NULL, "
    "follows_catalog INTEGER NOT NULL) STRICT",
    "CREATE TABLE members(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, "
    "source TEXT NOT NULL, document BLOB NOT NULL, hash BLOB NOT NULL, text_bytes INTEGER NOT "
    "NULL, "
    "num_words INTEGER NOT NULL, first_passage INTEGER NOT NULL, num_passages INTEGER NOT NULL, "
    "is_english INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT",
    "CREATE INDEX members_source ON members(source)",
    "CREATE TABLE texts(member INTEGER PRIMARY KEY REFERENCES members(id), crc INTEGER NOT NULL, "
    "lengths BLOB NOT NULL, passages BLOB NOT NULL, pages BLOB NOT NULL, labels TEXT NOT NULL, "
    "text TEXT NOT NULL) STRICT",
    "CREATE VIRTUAL TABLE english USING fts5(passage, content='', columnsize=0, detail=none, "
    "tokenize='lectern english')",
    "CREATE VIRTUAL TABLE plain USING fts5(passage, content='', columnsize=0, detail=none, "
    "tokenize='lectern plain')",
};
// Lists every passage that has a word: (term, doc, col, offset). They lie outside of the file.
constexpr const char* kPlaces[] = {
    "CREATE VIRTUAL TABLE temp.english_places USING fts5vocab('main', 'english', 'instance')",
    "CREATE VIRTUAL TABLE temp.plain_places USING fts5vocab('main', 'plain', 'instance')",
};

// CRC-32C over values in order, texts with their lengths.
class Crc {
 public:
  Crc& Add(std::string_view bytes) {
    Add(bytes.size());
    crc_ = Crc32c(crc_, bytes.data(), bytes.size());
    return *this;
  }
  Crc& Add(uint64_t number) {
    crc_ = Crc32c(crc_, &number, sizeof number);
    return *this;
  }
  int64_t Get() const { return crc_; }

 private:
  uint32_t crc_ = 0;
};

// A row of `members`.
struct MemberRow {
  CollectedText text;
  std::string document, hash;  // bytes; `document` empty: none
  bool is_english = false;

  int64_t ComputeCrc() const {
    return Crc()
        .Add(text.name)
        .Add(text.source)
        .Add(document)
        .Add(hash)
        .Add(text.text_bytes)
        .Add(text.num_words)
        .Add(text.first_passage)
        .Add(text.num_passages)
        .Add(uint64_t{is_english})
        .Get();
  }
};

constexpr char kSelectMembers[] =
    "SELECT id, name, source, document, hash, text_bytes, num_words, first_passage, num_passages, "
    "is_english, crc FROM members ";

// Reads a row of kSelectMembers. False: it is damaged.
bool ReadMember(const Statement& s, MemberRow& row) {
  row.text.id = s.Int(0);
  row.text.name = s.Bytes(1);
  row.text.source = s.Bytes(2);
  row.document = s.Bytes(3);
  row.hash = s.Bytes(4);
  row.text.text_bytes = static_cast<uint64_t>(s.Int(5));
  row.text.num_words = static_cast<uint64_t>(s.Int(6));
  row.text.first_passage = static_cast<uint64_t>(s.Int(7));
  row.text.num_passages = static_cast<uint32_t>(s.Int(8));
  row.is_english = s.Int(9) != 0;
  DocumentId id{};
  if (row.document.size() == id.size()) {
    std::memcpy(id.data(), row.document.data(), id.size());
    row.text.document = id;
  }
  return s.Int(10) == row.ComputeCrc();
}

// A text that is ready to be written.
struct PreparedText {
  MemberRow row;
  std::vector<Passage> passages;
  std::vector<uint16_t> lengths;  // words of each passage
};

std::string HashOf(const NewText& text) {
  Sha256 hash;
  hash.UpdateText(text.text);
  hash.UpdateText(BytesOf(text.pages));
  hash.UpdateText(text.page_labels);
  const auto digest = hash.Finish();
  return {reinterpret_cast<const char*>(digest.data()), sizeof(DocumentId)};
}

std::string_view PassageText(std::string_view text, const Passage& passage) {
  return text.substr(passage.begin, passage.end - passage.begin);
}

const char* TableOf(bool is_english) { return is_english ? "english" : "plain"; }

// Adds the passages of a text to the index of words, or with `removes` takes them away again. What
// is taken away must be what was added.
Status ChangeWords(const Collection::Impl& file, const MemberRow& row, std::string_view text,
                   std::span<const Passage> passages, bool removes) {
  const std::string table = TableOf(row.is_english);
  const std::string sql =
      removes ? "INSERT INTO " + table + "(" + table + ", rowid, passage) VALUES('delete', ?, ?)"
              : "INSERT INTO " + table + "(rowid, passage) VALUES(?, ?)";
  for (size_t i = 0; i < passages.size(); ++i) {
    LECTERN_RETURN_IF_ERROR(file.Prepare(sql.c_str())
                                .Bind(static_cast<int64_t>(row.text.first_passage + i))
                                .Bind(PassageText(text, passages[i]))
                                .Run());
  }
  return {};
}

}  // namespace

Collection::Impl::~Impl() {
  english.reset(), plain.reset();  // before the connection to which they belong
  sqlite3_close(db);
}

Status Collection::Impl::Corrupt(const std::string& what) const {
  return {Code::kCorrupt, path + ": " + what + kWayOut};
}

Status Collection::Impl::Told(Status status) const {
  if (status.code() != Code::kCorrupt || status.message().ends_with(kWayOut)) return status;
  return Corrupt(db != nullptr ? sqlite3_errmsg(db) : "it cannot be read");
}

Status Collection::Impl::Open(Env& env, const std::string& name) {
  LECTERN_ASSIGN(const OpenPlan plan, PlanOpen(env, path, writes));
  const int rc = sqlite3_open_v2(plan.name.c_str(), &db, plan.flags, env.sqlite_vfs());
  if (rc != SQLITE_OK) {
    const Code code = SqliteCode(db, rc);
    return Told(Status(code, path + ": " + sqlite3_errstr(rc) + WayOut(code, rc)));
  }
  if (writes && sqlite3_db_readonly(db, "main") != 0) {
    return {Code::kReadOnly, path + ": the collection cannot be written"};
  }
  LECTERN_RETURN_IF_ERROR(ConfigureConnection(db, path, true));
  LECTERN_RETURN_IF_ERROR(RegisterWordTokenizer(db));
  const auto number = [&](const char* sql) -> Result<int64_t> {
    Statement s = Prepare(sql);
    const int64_t value = s.Step() ? s.Int(0) : 0;
    LECTERN_RETURN_IF_ERROR(s.status());
    return value;
  };
  LECTERN_ASSIGN(const int64_t objects, number("SELECT count(*) FROM sqlite_schema"));
  if (objects == 0 && writes) {
    Transaction transaction(db, path, Transaction::Kind::kWrite);
    LECTERN_RETURN_IF_ERROR(transaction.begun());
    LECTERN_ASSIGN(const int64_t still, number("SELECT count(*) FROM sqlite_schema"));
    if (still == 0) {
      for (const char* sql : kSchema) LECTERN_RETURN_IF_ERROR(Execute(sql));
      LECTERN_RETURN_IF_ERROR(
          Prepare("INSERT INTO info(name, next_passage, follows_catalog) VALUES(?, 1, 0)")
              .Bind(name)
              .Run());
      for (const auto& [pragma, value] : {std::pair("PRAGMA application_id=", kApplicationId),
                                          std::pair("PRAGMA user_version=", kCollectionVersion)}) {
        LECTERN_RETURN_IF_ERROR(Execute((pragma + std::to_string(value)).c_str()));
      }
      LECTERN_RETURN_IF_ERROR(transaction.Commit());
    }
  }
  LECTERN_ASSIGN(const int64_t application, number("PRAGMA application_id"));
  if (application != kApplicationId) return Corrupt("it is no collection of Lectern");
  LECTERN_ASSIGN(const int64_t version, number("PRAGMA user_version"));
  if (version > kCollectionVersion) {
    return {Code::kUnsupportedVersion,
            path + ": collection of version " + std::to_string(version) + ", this build reads " +
                std::to_string(kCollectionVersion) + "; use a newer Lectern"};
  }
  for (const char* sql : kSchema) {
    Statement s = Prepare("SELECT count(*) FROM sqlite_schema WHERE sql=?");
    s.Bind(std::string_view(sql));
    if (!s.Step() || s.Int(0) != 1) return Corrupt("its tables are not Lectern's");
  }
  for (const char* sql : kPlaces) LECTERN_RETURN_IF_ERROR(Execute(sql));
  if (!writes) LECTERN_RETURN_IF_ERROR(Execute("PRAGMA query_only=ON"));
  LECTERN_ASSIGN(english, WordTokenizer::Create(db, WordForms::kEnglish));
  LECTERN_ASSIGN(plain, WordTokenizer::Create(db, WordForms::kPlain));
  return english->ForEachWord(kEnglishStopWords,
                              [&](const auto& word) { stop_words.emplace(word.form); });
}

Status Collection::Impl::ReadTexts() {
  Statement version = Prepare("PRAGMA data_version");
  const int64_t now = version.Step() ? version.Int(0) : 0;
  LECTERN_RETURN_IF_ERROR(version.status());
  if (texts && now == texts_version) return {};
  auto read = std::make_shared<Texts>();
  Statement s = Prepare((kSelectMembers + std::string("ORDER BY first_passage")).c_str());
  for (MemberRow row; s.Step(); row = {}) {
    if (!ReadMember(s, row)) return Corrupt("checksum mismatch of \"" + row.text.name + "\"");
    const uint64_t after =
        read->empty() ? 1 : read->back().first_passage + read->back().num_passages;
    if (row.text.first_passage < after) return Corrupt("passages of two texts overlap");
    read->push_back(std::move(row.text));
  }
  LECTERN_RETURN_IF_ERROR(s.status());
  texts = std::move(read);
  texts_version = now;
  return {};
}

Collection::Collection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Collection::~Collection() = default;

Result<std::unique_ptr<Collection>> Collection::Open(Env& env, const std::string& path,
                                                     const std::string& name, Mode mode) try {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->writes = mode == Mode::kReadWrite;
  if (Status status = impl->Open(env, name); !status.ok()) return impl->Told(std::move(status));
  return std::unique_ptr<Collection>(new Collection(std::move(impl)));
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "opening a collection: out of memory");
}

Result<std::shared_ptr<const Collection::Texts>> Collection::texts() {
  const std::lock_guard lock(impl_->mutex);
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kRead);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  if (Status status = impl_->ReadTexts(); !status.ok()) return impl_->Told(std::move(status));
  return impl_->texts;
}

namespace {

// Reads and checks the row of `texts` of a member. kNotFound: there is none.
Result<StoredText> ReadStored(const Collection::Impl& file, int64_t member) {
  Statement s =
      file.Prepare("SELECT crc, lengths, passages, pages, labels, text FROM texts WHERE member=?");
  s.Bind(member);
  if (!s.Step()) {
    LECTERN_RETURN_IF_ERROR(s.status());
    return Status(Code::kNotFound, "the text is no longer in the collection");
  }
  StoredText stored;
  const int64_t crc =
      Crc().Add(s.Bytes(1)).Add(s.Bytes(2)).Add(s.Bytes(3)).Add(s.Bytes(4)).Add(s.Bytes(5)).Get();
  stored.page_labels = s.Bytes(4);
  stored.text = s.Bytes(5);
  const bool is_intact = crc == s.Int(0) && ReadValues(s.Bytes(2), stored.passages) &&
                         ReadValues(s.Bytes(3), stored.pages) &&
                         ArePassagesOf(stored.passages, stored.text) &&
                         IsPageMap(stored.pages, stored.text.size()) &&
                         ArePageLabels(stored.page_labels, stored.pages.size());
  if (!is_intact) return file.Corrupt("checksum mismatch of text " + std::to_string(member));
  return stored;
}

// Removes a member with its words and its text.
Status RemoveMember(const Collection::Impl& file, const MemberRow& row) {
  LECTERN_ASSIGN(const StoredText stored, ReadStored(file, row.text.id));
  LECTERN_RETURN_IF_ERROR(ChangeWords(file, row, stored.text, stored.passages, true));
  for (const char* sql : {"DELETE FROM texts WHERE member=?", "DELETE FROM members WHERE id=?"}) {
    LECTERN_RETURN_IF_ERROR(file.Prepare(sql).Bind(row.text.id).Run());
  }
  return {};
}

// The member for which a condition with one value holds; nothing: there is none.
Result<std::optional<MemberRow>> FindMember(const Collection::Impl& file, const char* condition,
                                            std::string_view value) {
  Statement s = file.Prepare((std::string(kSelectMembers) + condition).c_str());
  s.Bind(value);
  if (!s.Step()) {
    LECTERN_RETURN_IF_ERROR(s.status());
    return std::optional<MemberRow>();
  }
  MemberRow row;
  if (!ReadMember(s, row)) return file.Corrupt("checksum mismatch of \"" + row.text.name + "\"");
  return std::optional<MemberRow>(std::move(row));
}
constexpr char kByName[] = "WHERE name=?", kBySource[] = "WHERE source=?";

// A name for a text from `path` that no other text has: its base name, else with as many of its
// folders as tell it apart, else with a number.
Result<std::string> FreeName(const Collection::Impl& file, const std::string& path) {
  const std::string form = NameForm(path);
  size_t begin = form.size();
  while (begin > 0) {
    const size_t slash = begin < 2 ? form.npos : form.rfind('/', begin - 2);
    begin = slash == form.npos || !IsAbsolutePath(form) ? 0 : slash + 1;
    const std::string name = form.substr(begin);
    if (!CheckName(name).ok()) break;
    LECTERN_ASSIGN(const auto taken, FindMember(file, kByName, name));
    if (!taken) return name;
    if (begin <= 1) break;
  }
  const std::string base = NameForm(form.substr(form.rfind('/') + 1).substr(0, 900));
  for (size_t number = 2;; ++number) {
    const std::string name = base + " (" + std::to_string(number) + ")";
    LECTERN_RETURN_IF_ERROR(CheckName(name));
    LECTERN_ASSIGN(const auto taken, FindMember(file, kByName, name));
    if (!taken) return name;
  }
}

// Finds passages and their words; the members's numbers come later.
Result<PreparedText> Prepare(const Collection::Impl& file, const NewText& text) {
  if (text.text.size() > INT_MAX) {
    return Status(Code::kLimitExceeded, "a text of a collection has at most 2 GiB");
  }
  PreparedText prepared;
  prepared.passages = SplitPassages(text.text, text.pages);
  if (prepared.passages.size() > UINT32_MAX) {
    return Status(Code::kLimitExceeded, "too many passages");
  }
  MemberRow& row = prepared.row;
  row.is_english = IsEnglish(text.text);
  row.hash = HashOf(text);
  row.text.source = text.source.empty() ? NameForm(text.name) : text.source;
  row.text.text_bytes = text.text.size();
  row.text.num_passages = static_cast<uint32_t>(prepared.passages.size());
  if (text.document) {
    row.document.assign(reinterpret_cast<const char*>(text.document->data()),
                        text.document->size());
  }
  WordTokenizer& tokenizer = row.is_english ? *file.english : *file.plain;
  for (const Passage& passage : prepared.passages) {
    uint64_t words = 0;
    LECTERN_RETURN_IF_ERROR(
        tokenizer.ForEachWord(PassageText(text.text, passage), [&](const auto&) { ++words; }));
    prepared.lengths.push_back(static_cast<uint16_t>(std::min<uint64_t>(words, UINT16_MAX)));
    row.text.num_words += words;
  }
  return prepared;
}

// Writes the row of a new member, with its checksum, and sets its id.
Status WriteMember(const Collection::Impl& file, MemberRow& row) {
  Statement s = file.Prepare(
      "INSERT INTO members(name, source, document, hash, text_bytes, num_words, first_passage, "
      "num_passages, is_english, crc) "
      "VALUES(?, ?, CAST(? AS BLOB), CAST(? AS BLOB), ?, ?, ?, ?, ?, ?)");
  LECTERN_RETURN_IF_ERROR(s.Bind(row.text.name)
                              .Bind(row.text.source)
                              .Bind(row.document)
                              .Bind(row.hash)
                              .Bind(static_cast<int64_t>(row.text.text_bytes))
                              .Bind(static_cast<int64_t>(row.text.num_words))
                              .Bind(static_cast<int64_t>(row.text.first_passage))
                              .Bind(int64_t{row.text.num_passages})
                              .Bind(int64_t{row.is_english})
                              .Bind(row.ComputeCrc())
                              .Run());
  row.text.id = sqlite3_last_insert_rowid(file.db);
  return {};
}

// Writes the name and the document of a member that is there.
Status UpdateMember(const Collection::Impl& file, const MemberRow& row) {
  return file.Prepare("UPDATE members SET name=?, document=CAST(? AS BLOB), crc=? WHERE id=?")
      .Bind(row.text.name)
      .Bind(row.document)
      .Bind(row.ComputeCrc())
      .Bind(row.text.id)
      .Run();
}

// Writes a text that is not there in this form, and its words.
Status WriteText(const Collection::Impl& file, const NewText& text, PreparedText& prepared) {
  MemberRow& row = prepared.row;
  {
    Statement next = file.Prepare("SELECT next_passage FROM info");
    if (!next.Step()) return file.Corrupt("its table info is empty");
    row.text.first_passage = static_cast<uint64_t>(next.Int(0));
  }
  LECTERN_RETURN_IF_ERROR(
      file.Prepare("UPDATE info SET next_passage=?")
          .Bind(static_cast<int64_t>(row.text.first_passage + row.text.num_passages))
          .Run());
  LECTERN_RETURN_IF_ERROR(WriteMember(file, row));
  const std::string_view lengths = BytesOf(prepared.lengths), passages = BytesOf(prepared.passages),
                         pages = BytesOf(text.pages);
  const int64_t crc =
      Crc().Add(lengths).Add(passages).Add(pages).Add(text.page_labels).Add(text.text).Get();
  LECTERN_RETURN_IF_ERROR(
      file.Prepare("INSERT INTO texts(member, crc, lengths, passages, pages, labels, text) "
                   "VALUES(?, ?, CAST(? AS BLOB), CAST(? AS BLOB), CAST(? AS BLOB), ?, ?)")
          .Bind(row.text.id)
          .Bind(crc)
          .Bind(lengths)
          .Bind(passages)
          .Bind(pages)
          .Bind(text.page_labels)
          .Bind(text.text)
          .Run());
  return ChangeWords(file, row, text.text, prepared.passages, false);
}

// Adds one text in the transaction that runs.
Result<AddedText> AddOne(const Collection::Impl& file, const NewText& text,
                         PreparedText& prepared) {
  using Change = AddedText::Change;
  MemberRow& row = prepared.row;
  LECTERN_ASSIGN(auto before, FindMember(file, kBySource, row.text.source));
  if (!text.name.empty()) {
    row.text.name = NameForm(text.name);
    LECTERN_ASSIGN(const auto holder, FindMember(file, kByName, row.text.name));
    if (holder && !(before && before->text.id == holder->text.id)) {
      // The text that has the name already is replaced, as a document of the same name is.
      LECTERN_RETURN_IF_ERROR(RemoveMember(file, *holder));
    }
  } else if (before) {
    row.text.name = before->text.name;
  } else {
    LECTERN_ASSIGN(row.text.name, FreeName(file, text.path.empty() ? row.text.source : text.path));
  }
  if (before && before->hash == row.hash) {
    const bool is_news =
        (text.document && before->document != row.document) || before->text.name != row.text.name;
    if (is_news) {
      before->text.name = row.text.name;
      if (text.document) before->document = row.document;
      LECTERN_RETURN_IF_ERROR(UpdateMember(file, *before));
    }
    return AddedText{row.text.name, Change::kUnchanged};
  }
  if (before) LECTERN_RETURN_IF_ERROR(RemoveMember(file, *before));
  LECTERN_RETURN_IF_ERROR(WriteText(file, text, prepared));
  return AddedText{row.text.name, before ? Change::kRenewed : Change::kNew};
}

}  // namespace

Result<StoredText> Collection::Read(const CollectedText& text) try {
  const std::lock_guard lock(impl_->mutex);
  auto stored = ReadStored(*impl_, text.id);
  if (!stored.ok()) return impl_->Told(std::move(stored).status());
  return stored;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "reading a text of a collection: out of memory");
}

Result<std::vector<AddedText>> Collection::Add(std::span<const NewText> texts) try {
  const std::lock_guard lock(impl_->mutex);
  std::vector<PreparedText> prepared;
  for (const NewText& text : texts) {
    LECTERN_RETURN_IF_ERROR(CheckName(text.name));
    LECTERN_ASSIGN(prepared.emplace_back(), Prepare(*impl_, text));
  }
  std::vector<AddedText> added;
  const auto add = [&]() -> Status {
    Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
    LECTERN_RETURN_IF_ERROR(transaction.begun());
    for (size_t i = 0; i < texts.size(); ++i) {
      LECTERN_ASSIGN(added.emplace_back(), AddOne(*impl_, texts[i], prepared[i]));
    }
    return transaction.Commit();
  };
  impl_->texts.reset();
  if (Status status = add(); !status.ok()) return impl_->Told(std::move(status));
  return added;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "adding to a collection: out of memory");
}

Status Collection::SetDocument(const CollectedText& text, const DocumentId& document) {
  const std::lock_guard lock(impl_->mutex);
  const auto set = [&]() -> Status {
    Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
    LECTERN_RETURN_IF_ERROR(transaction.begun());
    LECTERN_ASSIGN(auto row, FindMember(*impl_, kByName, text.name));
    if (!row || row->text.id != text.id) return {};
    row->document.assign(reinterpret_cast<const char*>(document.data()), document.size());
    LECTERN_RETURN_IF_ERROR(UpdateMember(*impl_, *row));
    return transaction.Commit();
  };
  impl_->texts.reset();
  return impl_->Told(set());
}

Result<bool> Collection::Remove(std::string_view name) {
  const std::lock_guard lock(impl_->mutex);
  const auto remove = [&]() -> Result<bool> {
    Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
    LECTERN_RETURN_IF_ERROR(transaction.begun());
    LECTERN_ASSIGN(const auto row, FindMember(*impl_, kByName, NameForm(name)));
    if (!row) return false;
    LECTERN_RETURN_IF_ERROR(RemoveMember(*impl_, *row));
    LECTERN_RETURN_IF_ERROR(transaction.Commit());
    return true;
  };
  impl_->texts.reset();
  auto removed = remove();
  if (!removed.ok()) return impl_->Told(std::move(removed).status());
  return removed;
}

Status Collection::RenameText(std::string_view from, const std::string& to) {
  LECTERN_RETURN_IF_ERROR(CheckName(to));
  if (to.empty()) {
    return Status(Code::kInvalidArgument, "the new name is empty").WithParam("name");
  }
  const std::lock_guard lock(impl_->mutex);
  const auto rename = [&]() -> Status {
    Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
    LECTERN_RETURN_IF_ERROR(transaction.begun());
    LECTERN_ASSIGN(auto row, FindMember(*impl_, kByName, NameForm(from)));
    if (!row) {
      return Status(Code::kNotFound,
                    "the collection has no text named \"" + std::string(from) + "\"")
          .WithParam("document");
    }
    LECTERN_ASSIGN(const auto holder, FindMember(*impl_, kByName, NameForm(to)));
    if (holder && holder->text.id != row->text.id) {
      return Status(Code::kInvalidArgument,
                    "the collection has a text named \"" + to + "\" already")
          .WithParam("name");
    }
    row->text.name = NameForm(to);
    LECTERN_RETURN_IF_ERROR(UpdateMember(*impl_, *row));
    return transaction.Commit();
  };
  impl_->texts.reset();
  return impl_->Told(rename());
}

Status Collection::SetName(const std::string& name) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->Told(impl_->Prepare("UPDATE info SET name=?").Bind(name).Run());
}

Result<std::string> Collection::name() {
  const std::lock_guard lock(impl_->mutex);
  Statement s = impl_->Prepare("SELECT name FROM info");
  if (!s.Step()) return impl_->Corrupt("its table info is empty");
  return std::string(s.Bytes(0));
}

Status Collection::SetFollowsCatalog() {
  const std::lock_guard lock(impl_->mutex);
  return impl_->Told(impl_->Execute("UPDATE info SET follows_catalog=1"));
}

Result<bool> Collection::FollowsCatalog() {
  const std::lock_guard lock(impl_->mutex);
  Statement s = impl_->Prepare("SELECT follows_catalog FROM info");
  if (!s.Step()) return impl_->Corrupt("its table info is empty");
  return s.Int(0) != 0;
}

Status Collection::Verify() {
  LECTERN_ASSIGN(const auto all, texts());
  for (const CollectedText& text : *all) {
    const auto stored = Read(text);
    if (!stored.ok() && stored.status().code() != Code::kNotFound) return stored.status();
  }
  const std::lock_guard lock(impl_->mutex);
  Statement s = impl_->Prepare("PRAGMA quick_check(1)");
  const std::string found(s.Step() ? s.Bytes(0) : "nothing was checked");
  if (!s.status().ok()) return impl_->Told(s.status());
  return found == "ok" ? Status() : impl_->Corrupt(found);
}

}  // namespace lectern
