#include "engine/document/word_index.h"

#include <sqlite3.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "engine/document/word_tokenizer.h"

namespace lectern {
namespace {

// The schema. An index that holds another is refused.
constexpr int kVersion = 1;
constexpr char kLengthsSql[] = "CREATE TABLE lengths(words BLOB NOT NULL) STRICT";
// Without content: the text itself is stored elsewhere.
std::string WordsSql(WordForms forms) {
  return std::string(
             "CREATE VIRTUAL TABLE words USING fts5(passage, heading, content='', columnsize=0, "
             "tokenize='lectern ") +
         (forms == WordForms::kEnglish ? "english')" : "plain')");
}
// Lists every place of a word: (term, doc, col, offset). It lies outside of the index's bytes.
constexpr char kPlacesSql[] =
    "CREATE VIRTUAL TABLE temp.places USING fts5vocab('main', 'words', 'instance')";

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
using Connection = std::unique_ptr<sqlite3, CloseDatabase>;

Status SqliteStatus(sqlite3* db, int rc, bool reads) {
  if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE) return {};
  const std::string text = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
  if ((rc & 0xFF) == SQLITE_NOMEM || rc == SQLITE_IOERR_NOMEM) {
    return Status(Code::kOutOfMemory, "word index: " + text);
  }
  if (!reads) return Status(Code::kInternal, "making the word index: " + text);
  return Status(Code::kCorrupt, "word index: " + text + "; index the document again");
}

Status Corrupt(const std::string& reason) {
  return Status(Code::kCorrupt, "word index: " + reason + "; index the document again");
}

// A prepared statement that can run again and again.
class Query {
 public:
  Query(sqlite3* db, const std::string& sql, bool reads) : db_(db), reads_(reads) {
    rc_ = sqlite3_prepare_v2(db, sql.c_str(), -1, &statement_, nullptr);
  }
  ~Query() { sqlite3_finalize(statement_); }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  // The value must stay until the run ends.
  Query& Bind(int at, std::string_view text) {
    const char* data = text.empty() ? "" : text.data();
    if (rc_ == SQLITE_OK) {
      rc_ = sqlite3_bind_text64(statement_, at, data, text.size(), SQLITE_STATIC, SQLITE_UTF8);
    }
    return *this;
  }
  Query& Bind(int at, int64_t value) {
    if (rc_ == SQLITE_OK) rc_ = sqlite3_bind_int64(statement_, at, value);
    return *this;
  }
  // True: there is a row. False: no more, or an error.
  bool Step() {
    if (rc_ != SQLITE_OK && rc_ != SQLITE_ROW) return false;
    rc_ = sqlite3_step(statement_);
    return rc_ == SQLITE_ROW;
  }
  int64_t Int(int column) { return sqlite3_column_int64(statement_, column); }
  // Valid until the next Step or Reset.
  std::string_view Bytes(int column) {
    const void* data = sqlite3_column_blob(statement_, column);
    if (data == nullptr) return {};
    return {static_cast<const char*>(data),
            static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
  }
  // Ends a run; returns what went wrong in it.
  Status Reset() {
    Status status = SqliteStatus(db_, rc_, reads_);
    if (statement_ != nullptr) {
      sqlite3_reset(statement_);
      rc_ = SQLITE_OK;
    }
    return status;
  }
  Status Run() {
    while (Step()) {
    }
    return Reset();
  }

 private:
  sqlite3* const db_;
  const bool reads_;
  sqlite3_stmt* statement_ = nullptr;
  int rc_;
};

Status Execute(sqlite3* db, const std::string& sql, bool reads) {
  return Query(db, sql, reads).Run();
}

Result<Connection> OpenMemory(bool reads) {
  sqlite3* db = nullptr;
  const int rc = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                                 nullptr);
  Connection connection(db);
  LECTERN_RETURN_IF_ERROR(SqliteStatus(db, rc, reads));
  LECTERN_RETURN_IF_ERROR(RegisterWordTokenizer(db));
  return connection;
}

// Adds one row a passage and returns how many words each has, 65535 at most.
Result<std::vector<uint16_t>> AddPassages(sqlite3* db, WordForms forms, std::string_view text,
                                          std::span<const Passage> passages) {
  LECTERN_ASSIGN(const auto tokenizer, WordTokenizer::Create(db, forms));
  Query insert(db, "INSERT INTO words(rowid, passage, heading) VALUES(?1, ?2, ?3)", false);
  std::vector<uint16_t> lengths;
  lengths.reserve(passages.size());
  for (size_t i = 0; i < passages.size(); ++i) {
    const Passage& passage = passages[i];
    const std::string heading = HeadingPath(text, passages, i);
    const std::string_view words = text.substr(passage.begin, passage.end - passage.begin);
    uint64_t count = 0;
    LECTERN_RETURN_IF_ERROR(tokenizer->ForEachWord(words, [&](const auto&) { ++count; }));
    lengths.push_back(static_cast<uint16_t>(std::min<uint64_t>(count, UINT16_MAX)));
    insert.Bind(1, static_cast<int64_t>(lengths.size())).Bind(2, words).Bind(3, heading);
    LECTERN_RETURN_IF_ERROR(insert.Run());
  }
  return lengths;
}

Status AddLengths(sqlite3* db, const std::vector<uint16_t>& lengths) {
  std::string bytes;
  for (const uint16_t length : lengths) {
    bytes += static_cast<char>(length & 0xFF);
    bytes += static_cast<char>(length >> 8);
  }
  return Query(db, "INSERT INTO lengths VALUES(CAST(?1 AS BLOB))", false).Bind(1, bytes).Run();
}

Result<std::string> Serialize(sqlite3* db) {
  sqlite3_int64 size = 0;
  unsigned char* data = sqlite3_serialize(db, "main", &size, 0);
  if (data == nullptr) return Status(Code::kOutOfMemory, "making the word index: out of memory");
  std::string bytes(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
  sqlite3_free(data);
  return bytes;
}

// The first column of a query's first row; empty: it gives no row.
Result<std::string> TextOf(sqlite3* db, const std::string& sql) {
  Query query(db, sql, true);
  const std::string text(query.Step() ? query.Bytes(0) : std::string_view());
  LECTERN_RETURN_IF_ERROR(query.Reset());
  return text;
}

// Related words begin with this many equal characters, and with this share of the longer one's.
// Chosen with kWeights (engine/asking/cite.cc): first right by the question for 69.1, 69.3 and
// 69.4 % with shares of 0.7, 0.6 and 0.5, and for 69.0 % without related words.
constexpr size_t kRelatedChars = 4;
constexpr double kRelatedShare = 0.6;
// The weight of kEnglishWeakWords beside others of a question: 0.3 and 0.5 gained 0.2 and 0.4
// points.
constexpr double kWeakWordShare = 0.5;

bool BeginsChar(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

size_t CountChars(std::string_view word) {
  return static_cast<size_t>(std::ranges::count_if(word, BeginsChar));
}

// How many bytes the first characters of a word take; npos: it has fewer.
size_t BytesOfChars(std::string_view word, size_t chars) {
  size_t at = 0;
  for (; chars > 0 && at < word.size(); --chars) {
    ++at;
    while (at < word.size() && !BeginsChar(word[at])) ++at;
  }
  return chars == 0 ? at : std::string_view::npos;
}

bool AreRelated(std::string_view a, std::string_view b) {
  auto equal = static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  // Not a character of which the first bytes alone are equal.
  while (equal > 0 && ((equal < a.size() && !BeginsChar(a[equal])) ||
                       (equal < b.size() && !BeginsChar(b[equal])))) {
    --equal;
  }
  const size_t chars = CountChars(a.substr(0, equal));
  const auto longer = static_cast<double>(std::max(CountChars(a), CountChars(b)));
  return a != b && chars >= kRelatedChars && static_cast<double>(chars) >= kRelatedShare * longer;
}

}  // namespace

// The connection and what belongs to it. Not thread-safe but for `mutex`.
class WordIndex::Database {
 public:
  static Result<std::unique_ptr<Database>> Open(std::string_view bytes);

  std::mutex& mutex() { return mutex_; }
  std::span<const uint16_t> lengths() const { return lengths_; }
  double mean_length() const { return mean_length_; }

  // The words of a text in their order.
  Result<std::vector<std::string>> Split(std::string_view text) {
    std::vector<std::string> words;
    LECTERN_RETURN_IF_ERROR(
        tokenizer_->ForEachWord(text, [&](const auto& word) { words.emplace_back(word.form); }));
    return words;
  }
  // The bytes of the text's words whose form is one of `forms`; overlapping ones are one range.
  Result<std::vector<ByteRange>> Find(std::string_view text,
                                      const std::unordered_set<std::string>& forms) {
    std::vector<ByteRange> ranges;
    LECTERN_RETURN_IF_ERROR(tokenizer_->ForEachWord(text, [&](const WordTokenizer::Word& word) {
      if (!forms.contains(std::string(word.form))) return;
      if (!ranges.empty() && word.begin < ranges.back().end) {
        ranges.back().end = std::max<uint64_t>(ranges.back().end, word.end);
      } else {
        ranges.push_back({word.begin, word.end});
      }
    }));
    return ranges;
  }
  // Whether to pass over stop words in a text of these words: only if it has others.
  bool HasContent(const std::vector<std::string>& words) const {
    return std::any_of(words.begin(), words.end(), [&](const auto& w) { return !IsStop(w); });
  }
  bool IsStop(const std::string& word) const { return stop_words_.contains(word); }
  bool IsWeak(const std::string& word) const { return weak_words_.contains(word); }
  Result<Postings> Find(const std::string& word);
  // The passages that have a word related to this one (AreRelated), with repetitions.
  Result<std::vector<uint32_t>> FindRelated(const std::string& word);
  Result<size_t> CountPassages(const std::string& word);

 private:
  explicit Database(Connection db) : db_(std::move(db)) {}
  Status Prepare();
  Result<WordForms> CheckSchema();
  Status ReadLengths();

  std::mutex mutex_;
  Connection db_;
  std::unique_ptr<WordTokenizer> tokenizer_;  // closed before db_
  std::unique_ptr<Query> places_, count_, range_;
  std::unordered_set<std::string> stop_words_, weak_words_;
  std::vector<uint16_t> lengths_;  // words of each passage
  double mean_length_ = 1;
};

Result<std::unique_ptr<WordIndex::Database>> WordIndex::Database::Open(std::string_view bytes) {
  LECTERN_ASSIGN(Connection db, OpenMemory(true));
  // SQLite takes a pointer to bytes that it could write, and does not write them if READONLY.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  const int rc =
      sqlite3_deserialize(db.get(), "main", data, size, size, SQLITE_DESERIALIZE_READONLY);
  LECTERN_RETURN_IF_ERROR(SqliteStatus(db.get(), rc, true));
  auto database = std::unique_ptr<Database>(new Database(std::move(db)));
  LECTERN_RETURN_IF_ERROR(database->Prepare());
  return database;
}

Status WordIndex::Database::Prepare() {
  sqlite3* db = db_.get();
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  for (const char* sql : {"PRAGMA cell_size_check=ON", "PRAGMA temp_store=MEMORY"}) {
    LECTERN_RETURN_IF_ERROR(Execute(db, sql, true));
  }
  LECTERN_ASSIGN(const WordForms forms, CheckSchema());
  LECTERN_RETURN_IF_ERROR(ReadLengths());
  LECTERN_RETURN_IF_ERROR(Execute(db, kPlacesSql, true));
  places_ = std::make_unique<Query>(db, "SELECT doc, col FROM temp.places WHERE term=?1", true);
  count_ = std::make_unique<Query>(
      db, "SELECT count(DISTINCT doc) FROM temp.places WHERE term=?1 AND col='passage'", true);
  range_ = std::make_unique<Query>(
      db, "SELECT term, doc FROM temp.places WHERE term>=?1 AND term<=?2 AND col='passage'", true);
  LECTERN_RETURN_IF_ERROR(places_->Reset());
  LECTERN_RETURN_IF_ERROR(count_->Reset());
  LECTERN_RETURN_IF_ERROR(range_->Reset());
  LECTERN_ASSIGN(tokenizer_, WordTokenizer::Create(db, forms));
  if (forms != WordForms::kEnglish) return {};
  LECTERN_RETURN_IF_ERROR(tokenizer_->ForEachWord(
      kEnglishStopWords, [&](const auto& word) { stop_words_.emplace(word.form); }));
  return tokenizer_->ForEachWord(kEnglishWeakWords,
                                 [&](const auto& word) { weak_words_.emplace(word.form); });
}

Result<WordForms> WordIndex::Database::CheckSchema() {
  sqlite3* db = db_.get();
  LECTERN_ASSIGN(const std::string version, TextOf(db, "PRAGMA user_version"));
  if (version != std::to_string(kVersion)) {
    // A damaged number looks like that of a later version: only a small one is believed.
    if (version.size() <= 2 && version > std::to_string(kVersion)) {
      return Status(Code::kUnsupportedVersion, "word index of version " + version +
                                                   ", this build reads " +
                                                   std::to_string(kVersion) +
                                                   "; use a newer Lectern");
    }
    return Corrupt("version " + version);
  }
  LECTERN_ASSIGN(const std::string lengths,
                 TextOf(db, "SELECT sql FROM main.sqlite_schema WHERE name='lengths'"));
  LECTERN_ASSIGN(const std::string words,
                 TextOf(db, "SELECT sql FROM main.sqlite_schema WHERE name='words'"));
  for (const WordForms forms : {WordForms::kEnglish, WordForms::kPlain}) {
    if (words == WordsSql(forms) && lengths == kLengthsSql) return forms;
  }
  return Corrupt("other tables than it should have");
}

Status WordIndex::Database::ReadLengths() {
  LECTERN_ASSIGN(const std::string bytes, TextOf(db_.get(), "SELECT words FROM main.lengths"));
  if (bytes.size() % 2 != 0) return Corrupt("half a length");
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    lengths_.push_back(static_cast<uint16_t>(static_cast<uint8_t>(bytes[i]) |
                                             static_cast<uint8_t>(bytes[i + 1]) << 8));
    sum += lengths_.back();
  }
  if (sum > 0) mean_length_ = static_cast<double>(sum) / static_cast<double>(lengths_.size());
  return {};
}

Result<Postings> WordIndex::Database::Find(const std::string& word) {
  Postings postings;
  int64_t before = 0;
  places_->Bind(1, word);
  while (places_->Step()) {
    const int64_t row = places_->Int(0);
    if (row < std::max<int64_t>(before, 1) || row > static_cast<int64_t>(lengths_.size())) {
      static_cast<void>(places_->Reset());
      return Corrupt("a passage that there is not");
    }
    before = row;
    const auto passage = static_cast<uint32_t>(row - 1);
    if (places_->Bytes(1) == "heading") {
      if (postings.headings.empty() || postings.headings.back() != passage) {
        postings.headings.push_back(passage);
      }
    } else if (!postings.passages.empty() && postings.passages.back().first == passage) {
      ++postings.passages.back().second;
    } else {
      postings.passages.emplace_back(passage, 1);
    }
  }
  LECTERN_RETURN_IF_ERROR(places_->Reset());
  return postings;
}

Result<std::vector<uint32_t>> WordIndex::Database::FindRelated(const std::string& word) {
  std::vector<uint32_t> passages;
  const size_t stem = BytesOfChars(word, kRelatedChars);
  // Numbers that begin alike are different ones.
  if (stem == std::string::npos || (word[0] >= '0' && word[0] <= '9')) return passages;
  const std::string first = word.substr(0, stem), last = first + "\xF4\x8F\xBF\xBF";  // U+10FFFF
  std::string term;
  bool is_related = false;
  range_->Bind(1, first).Bind(2, last);
  while (range_->Step()) {
    if (const std::string_view next = range_->Bytes(0); next != term) {
      term = next;
      is_related = AreRelated(word, term);
    }
    if (!is_related) continue;
    const int64_t row = range_->Int(1);
    if (row < 1 || row > static_cast<int64_t>(lengths_.size())) {
      static_cast<void>(range_->Reset());
      return Corrupt("a passage that there is not");
    }
    passages.push_back(static_cast<uint32_t>(row - 1));
  }
  LECTERN_RETURN_IF_ERROR(range_->Reset());
  return passages;
}

Result<size_t> WordIndex::Database::CountPassages(const std::string& word) {
  count_->Bind(1, word);
  const int64_t count = count_->Step() ? count_->Int(0) : 0;
  LECTERN_RETURN_IF_ERROR(count_->Reset());
  return std::min(static_cast<size_t>(count), lengths_.size());
}

namespace {

// The first of every word that counts.
std::vector<std::string> Distinct(const std::vector<std::string>& words, auto counts) {
  std::vector<std::string> distinct;
  std::unordered_set<std::string_view> seen;
  for (const std::string& word : words) {
    if (counts(word) && seen.insert(word).second) distinct.push_back(word);
  }
  return distinct;
}

}  // namespace

WordIndex::WordIndex(std::unique_ptr<Database> database) : database_(std::move(database)) {}
WordIndex::~WordIndex() = default;

Result<std::string> WordIndex::Build(std::string_view text,
                                     std::span<const Passage> passages) try {
  if (passages.size() > UINT32_MAX) return Status(Code::kLimitExceeded, "too many passages");
  const WordForms forms = IsEnglish(text) ? WordForms::kEnglish : WordForms::kPlain;
  LECTERN_ASSIGN(const Connection connection, OpenMemory(false));
  sqlite3* db = connection.get();
  // Small pages: most of a short document's index would be empty pages.
  for (const std::string& sql :
       {std::string("PRAGMA page_size=1024"), WordsSql(forms), std::string(kLengthsSql),
        "PRAGMA user_version=" + std::to_string(kVersion), std::string("BEGIN")}) {
    LECTERN_RETURN_IF_ERROR(Execute(db, sql, false));
  }
  LECTERN_ASSIGN(const auto lengths, AddPassages(db, forms, text, passages));
  LECTERN_RETURN_IF_ERROR(AddLengths(db, lengths));
  // One segment instead of several, and no free pages.
  for (const char* sql : {"INSERT INTO words(words) VALUES('optimize')", "COMMIT", "VACUUM"}) {
    LECTERN_RETURN_IF_ERROR(Execute(db, sql, false));
  }
  return Serialize(db);
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "making the word index: out of memory");
}

Result<std::unique_ptr<WordIndex>> WordIndex::Open(std::string_view bytes) try {
  LECTERN_ASSIGN(auto database, Database::Open(bytes));
  return std::unique_ptr<WordIndex>(new WordIndex(std::move(database)));
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "opening the word index: out of memory");
}

size_t WordIndex::num_passages() const { return database_->lengths().size(); }

Result<WordScores> WordIndex::Score(std::string_view text) const { return ScoreWords(text, false); }

Result<WordScores> WordIndex::ScoreQuestion(std::string_view question) const {
  return ScoreWords(question, true);
}

Result<WordScores> WordIndex::ScoreWords(std::string_view text, bool is_question) const {
  std::lock_guard lock(database_->mutex());
  LECTERN_ASSIGN(const auto words, database_->Split(text));
  const bool has_content = database_->HasContent(words);
  ScoreSum sum(database_->lengths(), database_->mean_length());
  for (const std::string& word :
       Distinct(words, [&](const auto& w) { return !has_content || !database_->IsStop(w); })) {
    LECTERN_ASSIGN(Postings postings, database_->Find(word));
    double weight = InverseDocumentFrequency(num_passages(), postings.passages.size());
    if (is_question) {
      if (database_->IsWeak(word)) weight *= kWeakWordShare;
      LECTERN_ASSIGN(postings.related, database_->FindRelated(word));
    }
    sum.Add(postings, weight);
  }
  return std::move(sum).Take();
}

namespace {

// Adds up the BM25 of groups, one word at a time.
class GroupSum {
 public:
  GroupSum(std::span<const WordIndex::Group> groups, std::span<const uint16_t> lengths)
      : groups_(groups), num_passages_(lengths.size()), scores_(groups.size()) {
    std::vector<uint64_t> before(lengths.size() + 1);  // words before each passage
    for (size_t i = 0; i < lengths.size(); ++i) before[i + 1] = before[i] + lengths[i];
    for (const auto& [first, last] : groups) {
      lengths_.push_back(static_cast<double>(before[last] - before[first]));
      mean_length_ += lengths_.back() / static_cast<double>(groups.size());
    }
  }

  void Add(const Postings& postings) {
    total_ += InverseDocumentFrequency(num_passages_, postings.passages.size());
    std::vector<uint64_t> before = {0};  // places of the word before each of its passages
    for (const auto& [passage, count] : postings.passages) before.push_back(before.back() + count);
    const auto at = [&](uint32_t passage) {
      const auto found = std::ranges::lower_bound(postings.passages, passage, {},
                                                  [](const auto& one) { return one.first; });
      return before[static_cast<size_t>(found - postings.passages.begin())];
    };
    std::vector<double> counts;
    for (const auto& [first, last] : groups_) {
      counts.push_back(static_cast<double>(at(last) - at(first)));
    }
    const auto with_word =
        static_cast<size_t>(std::ranges::count_if(counts, [](double count) { return count > 0; }));
    const double idf = InverseDocumentFrequency(groups_.size(), with_word);
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      scores_[i] += GroupBm25(idf, counts[i], lengths_[i], mean_length_);
    }
  }

  std::vector<float> Take() && {
    std::vector<float> shares;
    for (const double score : scores_) {
      shares.push_back(total_ > 0 ? static_cast<float>(score / total_) : 0);
    }
    return shares;
  }

 private:
  const std::span<const WordIndex::Group> groups_;
  const size_t num_passages_;
  std::vector<double> lengths_, scores_;  // [groups]
  double mean_length_ = 0, total_ = 0;
};

}  // namespace

Result<std::vector<float>> WordIndex::ScoreGroups(std::string_view text,
                                                  std::span<const Group> groups) const {
  for (size_t i = 0; i < groups.size(); ++i) {
    const bool ascends =
        i == 0 || (groups[i].first >= groups[i - 1].first && groups[i].last >= groups[i - 1].last);
    if (groups[i].first > groups[i].last || groups[i].last > num_passages() || !ascends) {
      return Status(Code::kInvalidArgument, "groups of passages do not ascend");
    }
  }
  std::lock_guard lock(database_->mutex());
  LECTERN_ASSIGN(const auto words, database_->Split(text));
  const bool has_content = database_->HasContent(words);
  GroupSum sum(groups, database_->lengths());
  for (const std::string& word :
       Distinct(words, [&](const auto& w) { return !has_content || !database_->IsStop(w); })) {
    LECTERN_ASSIGN(const Postings postings, database_->Find(word));
    sum.Add(postings);
  }
  return std::move(sum).Take();
}

Result<std::vector<std::string>> WordIndex::Split(std::string_view text) const {
  std::lock_guard lock(database_->mutex());
  return database_->Split(text);
}

Result<std::unordered_set<std::string>> WordIndex::ContentWords(std::string_view text) const {
  std::lock_guard lock(database_->mutex());
  LECTERN_ASSIGN(const auto words, database_->Split(text));
  std::unordered_set<std::string> content;
  for (const std::string& word : words) {
    if (!database_->IsStop(word)) content.insert(word);
  }
  return content;
}

Result<std::vector<ByteRange>> WordIndex::FindWords(
    std::string_view text, const std::unordered_set<std::string>& words) const {
  std::lock_guard lock(database_->mutex());
  return database_->Find(text, words);
}

Result<std::vector<double>> WordIndex::Weigh(const std::vector<std::string>& words) const {
  std::lock_guard lock(database_->mutex());
  std::unordered_map<std::string_view, double> known;  // counting a word costs as many places
  std::vector<double> weights;
  for (const std::string& word : words) {
    const auto [found, is_new] = known.try_emplace(word, kStopWordWeight);
    if (is_new && !database_->IsStop(word)) {
      LECTERN_ASSIGN(const size_t with_word, database_->CountPassages(word));
      found->second = InverseDocumentFrequency(num_passages(), with_word);
    }
    weights.push_back(found->second);
  }
  return weights;
}

}  // namespace lectern
