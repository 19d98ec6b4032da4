#include "tools/collection_batch.h"

#include <span>
#include <utility>

namespace lectern::tools {
namespace {

api::CollectionText ToAdd(const CollectionBatch::Text& text) {
  return {.name = text.name,
          .source = text.source,
          .path = text.path,
          .bytes = text.document.text,
          .pages = text.document.pages,
          .page_labels = text.document.page_labels};
}

}  // namespace

void CollectionBatch::Add(Text text) {
  bytes_ += text.document.text.size();
  texts_.push_back(std::move(text));
}

std::vector<CollectionBatch::Outcome> CollectionBatch::Flush() {
  std::vector<Outcome> outcomes;
  std::vector<Text> texts = std::exchange(texts_, {});
  bytes_ = 0;
  if (texts.empty()) return outcomes;
  std::vector<api::CollectionText> to_add;
  for (const Text& text : texts) to_add.push_back(ToAdd(text));
  auto all = engine_.AddToCollection(collection_, to_add);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (all.ok()) {
      outcomes.push_back({std::move(texts[i]), std::move(all->added[i])});
    } else if (texts.size() == 1) {
      outcomes.push_back({std::move(texts[i]), all.error()});
    } else {
      auto one = engine_.AddToCollection(collection_, std::span(&to_add[i], 1));
      if (one.ok()) {
        outcomes.push_back({std::move(texts[i]), std::move(one->added.front())});
      } else {
        outcomes.push_back({std::move(texts[i]), one.error()});
      }
    }
  }
  return outcomes;
}

}  // namespace lectern::tools
