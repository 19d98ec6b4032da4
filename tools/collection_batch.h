// Puts the texts of many files into a collection, several in one transaction.
#ifndef LECTERN_TOOLS_COLLECTION_BATCH_H_
#define LECTERN_TOOLS_COLLECTION_BATCH_H_

#include <string>
#include <vector>

#include "engine/lectern.h"
#include "tools/file_list.h"
#include "tools/ingest/ingest.h"

namespace lectern::tools {

// Texts that were read and are to be added to a collection. One thread.
class CollectionBatch {
 public:
  // A file's text, and how it is to be added.
  struct Text {
    ListedFile file;
    std::string name, source, path;  // as api::CollectionText has them
    Ingested document;
    double seconds = 0;  // that reading took
  };
  // The result for one text.
  struct Outcome {
    Text text;
    api::Result<api::Added> added;
  };

  // `engine` must outlive this.
  CollectionBatch(api::Engine& engine, std::string collection)
      : engine_(engine), collection_(std::move(collection)) {}

  void Add(Text text);
  // Whether it is time to call Flush: a transaction of more texts would gain nothing and hold other
  // writers up.
  bool is_full() const { return texts_.size() >= kMostTexts || bytes_ >= kMostBytes; }
  // Adds the texts to the collection, in one transaction, or, where one of them is refused, each by
  // itself, so that the others get in. The texts are gone afterwards.
  std::vector<Outcome> Flush();

 private:
  static constexpr size_t kMostTexts = 256, kMostBytes = 8 << 20;

  api::Engine& engine_;
  const std::string collection_;
  std::vector<Text> texts_;
  size_t bytes_ = 0;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_COLLECTION_BATCH_H_
