// A collection: a set of texts to which questions are put as one. It is a file of the store that
// has the texts and an index of all their words, so that the texts in which an answer may stand are
// found without a model. A text is indexed for a model later, when it is first asked.
#ifndef LECTERN_ENGINE_DOCUMENT_COLLECTION_H_
#define LECTERN_ENGINE_DOCUMENT_COLLECTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/document/passages.h"
#include "store/catalog.h"
#include "store/env.h"
#include "store/shard_format.h"
#include "store/status.h"

namespace lectern {

// A text of a collection, without the text itself.
struct CollectedText {
  int64_t id = 0;      // in the collection's file; never given to another text
  std::string name;    // no other text of the collection has it
  std::string source;  // where it came from: a real path, or a name
  // The document of the store that was indexed from it last, which may be gone; nothing: none yet.
  std::optional<DocumentId> document;
  uint64_t text_bytes = 0;
  uint64_t num_words = 0;
  uint64_t first_passage = 0;  // number of its first passage among those of all texts, from 1
  uint32_t num_passages = 0;
};

// A text to be added to a collection.
struct NewText {
  std::string name;    // empty: one is made from `path`
  std::string source;  // the same source again is a new version of the text; empty: the name
  std::string path;    // that names are made from; empty: the source
  std::string text;    // valid UTF-8 that is not empty (CleanUtf8)
  std::vector<PageMapEntry> pages = {};               // as IsPageMap has them
  std::string page_labels = {};                       // as ArePageLabels has them
  std::optional<DocumentId> document = std::nullopt;  // that has this text and these pages
};

// The result of adding a text.
struct AddedText {
  enum class Change { kNew, kRenewed, kUnchanged };
  std::string name;
  Change change = Change::kNew;
};

// A text's words, pages and passages, as they were added.
struct StoredText {
  std::string text;
  std::vector<Passage> passages;
  std::vector<PageMapEntry> pages;
  std::string page_labels;
};

// How well a text fits a question, by its words; shares as WordScores has them.
struct TextScore {
  uint32_t text = 0;           // index into Scores::texts
  float whole = 0;             // of the text as one, above 0
  float best = 0, second = 0;  // of its two best passages; 0 where they were not looked at
};

// An open collection. Thread-safe: calls take turns. Other processes may read and write the same
// file; each call sees what was committed before it. Codes of every call: kLocked (another process
// writes for 5 s), kCorrupt (the message says to remove the collection and add its files again),
// kIoError, kNoSpace, kOutOfMemory; calls that write: kReadOnly.
class Collection {
 public:
  using Texts = std::vector<CollectedText>;

  enum class Mode { kReadOnly, kReadWrite };
  // Opens the file at `path`. kReadWrite creates it if it is missing, for a collection of this
  // `name`; its directory must be there. kNotFound (read-only, and it is missing),
  // kUnsupportedVersion.
  static Result<std::unique_ptr<Collection>> Open(Env& env, const std::string& path,
                                                  const std::string& name, Mode mode);
  ~Collection();
  Collection(const Collection&) = delete;
  Collection& operator=(const Collection&) = delete;

  // All texts, ascending by first_passage.
  Result<std::shared_ptr<const Texts>> texts();
  // A text's content. kNotFound: it has been removed or renewed since.
  Result<StoredText> Read(const CollectedText& text);

  // Adds texts, or renews those of known sources, in one transaction: all or nothing. Costs about
  // 0.4 s for 1 MB of text. [texts]. kInvalidArgument: a name is too long or no UTF-8.
  Result<std::vector<AddedText>> Add(std::span<const NewText> texts);
  // Notes the document that was indexed from a text. Ok also if the text is gone.
  Status SetDocument(const CollectedText& text, const DocumentId& document);
  // Removes the text of this name. False: there is none.
  Result<bool> Remove(std::string_view name);
  // Gives a text another name. kNotFound: there is no `from`; kInvalidArgument: `to` is taken, or
  // cannot be a name (CheckName).
  Status RenameText(std::string_view from, const std::string& to);
  // Gives the collection another name; its file stays where it is.
  Status SetName(const std::string& name);
  Result<std::string> name();
  // Whether its owner keeps it equal to the store's catalog; false at first.
  Status SetFollowsCatalog();
  Result<bool> FollowsCatalog();

  struct Scores {
    std::shared_ptr<const Texts> texts;
    std::vector<TextScore> scores;  // of texts that share a word with the question, the best first
  };
  // Scores all texts by the words of a question, and the passages of the `most` texts with the best
  // `whole`. About 0.1 µs for each passage that has one of its words, and 0.1 ms for each text
  // whose passages are looked at. Nothing in `question` is an operator. kLimitExceeded: 2 GiB of
  // text.
  Result<Scores> Score(std::string_view question, size_t most);

  // A text in which some passage has the given words.
  struct Mention {
    uint32_t text = 0;          // index into Mentions::texts
    uint32_t num_passages = 0;  // that have them
    uint32_t first = 0;         // the first of these, counted from the text's first passage
  };
  struct Mentions {
    std::shared_ptr<const Texts> texts;
    std::vector<Mention> mentions;  // most passages first, then by name
  };
  // Finds the texts with a passage in which all words of `words` follow one another, or, where no
  // text has such a passage, with one that has all of them; stop words then count only if there are
  // no others. Empty for words that no text has, and without words. More than 2,000 texts that have
  // all of them are not read for their order. Codes of Score.
  Result<Mentions> FindMentions(std::string_view words);

  // Reads every row and checks it. kCorrupt.
  Status Verify();

  struct Impl;  // in collection_file.h

 private:
  explicit Collection(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_COLLECTION_H_
