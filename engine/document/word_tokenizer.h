// Cuts text into words for the word index: stems for English, plain words for other languages that
// put spaces between words, and pairs of characters for scripts that do not (Chinese, Japanese,
// Thai …). One text may mix them.
#ifndef LECTERN_ENGINE_DOCUMENT_WORD_TOKENIZER_H_
#define LECTERN_ENGINE_DOCUMENT_WORD_TOKENIZER_H_

#include <memory>
#include <string_view>

#include "kernels/function_ref.h"
#include "store/status.h"

struct sqlite3;
struct Fts5Tokenizer;

namespace lectern {

// The rules for words between which the text has spaces.
enum class WordForms {
  kPlain,    // words, folded to lower case and without diacritics
  kEnglish,  // the same, and cut to their stems by Porter's algorithm
};

// Whether a text is mostly English: at least one word in ten is one of English's commonest words.
// Only ASCII words count, as words of other scripts say nothing about the rest. False for a text
// without any. Linear.
bool IsEnglish(std::string_view text);

// Registers the tokenizer "lectern" with a connection, for FTS5 tables with
// tokenize='lectern english' or 'lectern plain'. kInternal: SQLite lacks FTS5; kOutOfMemory.
Status RegisterWordTokenizer(sqlite3* db);

// The same tokenizer, to be called directly. Not thread-safe; must not outlive its connection.
class WordTokenizer {
 public:
  // `db` has the tokenizer registered. kOutOfMemory, kInternal.
  static Result<std::unique_ptr<WordTokenizer>> Create(sqlite3* db, WordForms forms);
  ~WordTokenizer();
  WordTokenizer(const WordTokenizer&) = delete;
  WordTokenizer& operator=(const WordTokenizer&) = delete;

  // A word in the form that the index has it in, such as a stem, and its bytes [begin, end) in the
  // text. Pairs of characters overlap.
  struct Word {
    std::string_view form;  // valid during the call that hands it over
    size_t begin, end;
  };
  // Calls `take` with every word, in their order. `take` may throw std::bad_alloc, which ends the
  // call with kOutOfMemory, and nothing else. Bytes that are not UTF-8 and texts with NUL are fine.
  // kLimitExceeded: `text` has 2 GiB or more. kInternal: SQLite refuses.
  Status ForEachWord(std::string_view text, FunctionRef<void(const Word&)> take);

 private:
  explicit WordTokenizer(Fts5Tokenizer* tokenizer) : tokenizer_(tokenizer) {}
  Fts5Tokenizer* const tokenizer_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_WORD_TOKENIZER_H_
