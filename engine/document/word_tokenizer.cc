#include "engine/document/word_tokenizer.h"

#include <sqlite3.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

constexpr char kTokenizerName[] = "lectern";

struct CharRange {
  uint32_t first, last;
};
// Letters and marks of scripts that are written without spaces, and Hangul, whose particles hang on
// the word. In ascending order. Digits of these scripts are left to the other tokenizer.
constexpr CharRange kUnspaced[] = {
    {0x0E01, 0x0E3A},    // Thai
    {0x0E40, 0x0E4E},
    {0x0E81, 0x0ECE},    // Lao
    {0x0EDC, 0x0EDF},
    {0x1000, 0x103F},    // Burmese
    {0x1050, 0x108F},
    {0x1100, 0x11FF},    // Hangul, decomposed
    {0x1780, 0x17D3},    // Khmer
    {0x3005, 0x3007},    // iteration mark, closing mark, zero
    {0x3041, 0x3096},    // Hiragana
    {0x3099, 0x309A},    // combining sound marks
    {0x309D, 0x309F},
    {0x30A1, 0x30FA},    // Katakana
    {0x30FC, 0x30FF},
    {0x3105, 0x312F},    // Bopomofo
    {0x31F0, 0x31FF},    // Katakana extensions
    {0x3400, 0x4DBF},    // Han
    {0x4E00, 0x9FFF},
    {0xAC00, 0xD7A3},    // Hangul
    {0xF900, 0xFAFF},    // Han, compatibility
    {0xFF66, 0xFF9F},    // half-width Katakana
    {0x1B000, 0x1B16F},  // Kana extensions
    {0x20000, 0x3FFFD},  // Han extensions
};

bool IsUnspaced(uint32_t c) {
  if (c < std::begin(kUnspaced)->first) return false;
  const CharRange* range = std::lower_bound(std::begin(kUnspaced), std::end(kUnspaced), c,
                                            [](CharRange r, uint32_t code) { return r.last < code; });
  return range != std::end(kUnspaced) && range->first <= c;
}

// The end of the run of characters of one sort, spaced or not, that begins at `begin`.
size_t RunEnd(std::string_view text, size_t begin, bool* is_unspaced) {
  size_t length, at = begin;
  uint32_t c = DecodeChar(text, begin, &length);
  *is_unspaced = IsUnspaced(c);
  do {
    at += length;
    if (at == text.size()) return at;
    c = DecodeChar(text, at, &length);
  } while (IsUnspaced(c) == *is_unspaced);
  return at;
}

using TokenFunction = int (*)(void*, int, const char*, int, int, int);

// Every two neighbours of a run are a word; a character alone is one as well.
int TokenizePairs(std::string_view text, size_t begin, size_t end, void* context,
                  TokenFunction take) {
  const auto pass = [&](size_t from, size_t to) {
    return take(context, 0, text.data() + from, static_cast<int>(to - from),
                static_cast<int>(from), static_cast<int>(to));
  };
  size_t length;
  (void)DecodeChar(text, begin, &length);
  size_t middle = begin + length;
  if (middle == end) return pass(begin, end);
  while (middle < end) {
    (void)DecodeChar(text, middle, &length);
    const size_t next = middle + length;
    if (const int rc = pass(begin, next); rc != SQLITE_OK) return rc;
    begin = middle;
    middle = next;
  }
  return SQLITE_OK;
}

// Passes words of a part of a text on, with their places in the whole text.
struct Shifted {
  void* context;
  TokenFunction take;
  int shift;
  static int Take(void* self, int flags, const char* word, int bytes, int begin, int end) {
    const Shifted& s = *static_cast<const Shifted*>(self);
    return s.take(s.context, flags, word, bytes, begin + s.shift, end + s.shift);
  }
};

// FTS5's tokenizer interface. `inner` cuts the text between runs of unspaced scripts.
class ScriptTokenizer {
 public:
  ScriptTokenizer(const fts5_tokenizer& inner, Fts5Tokenizer* instance)
      : inner_(inner), instance_(instance) {}
  ~ScriptTokenizer() { inner_.xDelete(instance_); }
  ScriptTokenizer(const ScriptTokenizer&) = delete;
  ScriptTokenizer& operator=(const ScriptTokenizer&) = delete;

  // Gives every word to `take`, with its place in the whole text. Returns SQLite's code; one that
  // `take` returns ends the call.
  int Tokenize(std::string_view text, int flags, void* context, TokenFunction take) {
    for (size_t begin = 0; begin < text.size();) {
      bool is_unspaced;
      const size_t end = RunEnd(text, begin, &is_unspaced);
      int rc;
      if (is_unspaced) {
        rc = TokenizePairs(text, begin, end, context, take);
      } else {
        Shifted shifted{context, take, static_cast<int>(begin)};
        rc = inner_.xTokenize(instance_, &shifted, flags, text.data() + begin,
                              static_cast<int>(end - begin), &Shifted::Take);
      }
      if (rc != SQLITE_OK) return rc;
      begin = end;
    }
    return SQLITE_OK;
  }

 private:
  const fts5_tokenizer inner_;
  Fts5Tokenizer* const instance_;
};

// FTS5's xCreate. The one argument is "english", whose words are stemmed, or "plain"; SQLITE_ERROR
// with others. *out is written on success alone; DeleteTokenizer frees it.
int CreateTokenizer(void* context, const char** args, int num_args, Fts5Tokenizer** out) {
  fts5_api* api = static_cast<fts5_api*>(context);
  const bool is_english = num_args == 1 && std::string_view(args[0]) == "english";
  if (!is_english && (num_args != 1 || std::string_view(args[0]) != "plain")) return SQLITE_ERROR;
  fts5_tokenizer inner;
  void* inner_context = nullptr;
  int rc = api->xFindTokenizer(api, is_english ? "porter" : "unicode61", &inner_context, &inner);
  if (rc != SQLITE_OK) return rc;
  // Marks belong to words: without them Devanagari's vowel signs would cut its words.
  const char* options[] = {"unicode61",  "remove_diacritics", "2",
                           "categories", "L* M* N* Co"};
  const int skipped = is_english ? 0 : 1;  // porter's first argument names the tokenizer under it
  Fts5Tokenizer* instance = nullptr;
  rc = inner.xCreate(inner_context, options + skipped,
                     static_cast<int>(std::size(options)) - skipped, &instance);
  if (rc != SQLITE_OK) return rc;
  auto* tokenizer = new (std::nothrow) ScriptTokenizer(inner, instance);
  if (tokenizer == nullptr) {
    inner.xDelete(instance);
    return SQLITE_NOMEM;
  }
  *out = reinterpret_cast<Fts5Tokenizer*>(tokenizer);
  return SQLITE_OK;
}

void DeleteTokenizer(Fts5Tokenizer* tokenizer) {
  delete reinterpret_cast<ScriptTokenizer*>(tokenizer);
}

int Tokenize(Fts5Tokenizer* tokenizer, void* context, int flags, const char* text, int bytes,
             TokenFunction take) {
  const std::string_view view(text == nullptr ? "" : text, text == nullptr ? 0 : bytes);
  return reinterpret_cast<ScriptTokenizer*>(tokenizer)->Tokenize(view, flags, context, take);
}

// SQLite hands its FTS5 interface out through a query (its manual, "Extending FTS5").
fts5_api* ApiOf(sqlite3* db) {
  fts5_api* api = nullptr;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &statement, nullptr) == SQLITE_OK) {
    sqlite3_bind_pointer(statement, 1, &api, "fts5_api_ptr", nullptr);
    sqlite3_step(statement);
  }
  sqlite3_finalize(statement);
  return api;
}

Status TokenizerStatus(int rc) {
  if (rc == SQLITE_OK) return {};
  const Code code = rc == SQLITE_NOMEM ? Code::kOutOfMemory : Code::kInternal;
  return Status(code, std::string("cutting text into words: ") + sqlite3_errstr(rc));
}

}  // namespace

bool IsEnglish(std::string_view text) {
  // Together more than a fifth of the words of English prose. "in", "was", "is" and others that
  // are common in other languages are left out.
  static constexpr std::string_view kCommon[] = {"the", "of",   "and",  "to",   "that", "with",
                                                 "for", "are",  "this", "from", "by",   "which",
                                                 "be",  "have", "it",   "you",  "can",  "not"};
  size_t words = 0, common = 0;
  for (size_t i = 0; i < text.size();) {
    std::string word;
    const size_t begin = i;
    for (; i < text.size() && static_cast<uint8_t>((text[i] | 32) - 'a') < 26; ++i) {
      if (word.size() < 8) word += static_cast<char>(text[i] | 32);
    }
    if (i == begin) {
      ++i;
      continue;
    }
    ++words;
    common += std::find(std::begin(kCommon), std::end(kCommon), word) != std::end(kCommon);
  }
  return common > 0 && common * 10 >= words;
}

Status RegisterWordTokenizer(sqlite3* db) {
  fts5_api* api = ApiOf(db);
  if (api == nullptr) return Status(Code::kInternal, "this build of SQLite has no FTS5");
  fts5_tokenizer functions{&CreateTokenizer, &DeleteTokenizer, &Tokenize};
  return TokenizerStatus(api->xCreateTokenizer(api, kTokenizerName, api, &functions, nullptr));
}

WordTokenizer::~WordTokenizer() { DeleteTokenizer(tokenizer_); }

Result<std::unique_ptr<WordTokenizer>> WordTokenizer::Create(sqlite3* db, WordForms forms) {
  fts5_api* api = ApiOf(db);
  if (api == nullptr) return Status(Code::kInternal, "this build of SQLite has no FTS5");
  const char* args[] = {forms == WordForms::kEnglish ? "english" : "plain"};
  Fts5Tokenizer* tokenizer = nullptr;
  LECTERN_RETURN_IF_ERROR(TokenizerStatus(CreateTokenizer(api, args, 1, &tokenizer)));
  return std::unique_ptr<WordTokenizer>(new WordTokenizer(tokenizer));
}

Status WordTokenizer::ForEachWord(std::string_view text,
                                  FunctionRef<void(const Word&)> take) {
  if (text.size() > INT_MAX) return Status(Code::kLimitExceeded, "a text of 2 GiB or more");
  const auto pass = [](void* context, int, const char* word, int bytes, int begin, int end) {
    try {  // no exception may pass through SQLite
      (*static_cast<decltype(take)*>(context))({std::string_view(word, static_cast<size_t>(bytes)),
                                                static_cast<size_t>(begin),
                                                static_cast<size_t>(end)});
    } catch (const std::bad_alloc&) {
      return SQLITE_NOMEM;
    }
    return SQLITE_OK;
  };
  return TokenizerStatus(Tokenize(tokenizer_, &take, 0, text.data(),
                                  static_cast<int>(text.size()), pass));
}

}  // namespace lectern
