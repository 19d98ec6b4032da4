#include "tools/index_collection.h"

#include <algorithm>

#include "tools/quantities.h"

namespace lectern::tools {
namespace {

constexpr char kIndexer[] = "index-document";  // the tool's name in messages

}  // namespace

api::Result<bool> HasIndexedDocument(api::Engine& engine, const std::string& collection) {
  auto texts = engine.DocumentsOf(collection);
  if (!texts.ok()) return texts.error();
  return std::any_of(texts->documents.begin(), texts->documents.end(),
                     [](const auto& text) { return !text.document.empty(); });
}

api::Result<api::Done> IndexDocumentsOf(api::Engine& engine, const std::string& collection,
                                        const api::IndexOptions& options,
                                        const Interrupts& interrupts, const CollectionRun& run) {
  ProgressDisplay display(run.progress);
  auto indexed =
      engine.IndexCollection(collection, options, [&](const api::CollectionProgress& progress) {
        display.Show(progress.progress, {.number = progress.number,
                                         .count = progress.count,
                                         .name = std::string(progress.document)});
        return !interrupts.requested();
      });
  display.Clear();
  if (!indexed.ok()) return indexed.error();
  Output output;
  if (run.style == ErrorStyle::kJson) {
    output.Print(indexed->json + "\n");
  } else {
    output.Print("collection " + collection + ": " + Grouped(indexed->indexed) +
                 (indexed->indexed == 1 ? " document" : " documents") + " indexed now, " +
                 Grouped(indexed->existed) + " before" +
                 (indexed->left > 0 ? ", " + Grouped(indexed->left) + " without room" : "") +
                 (indexed->failures > 0 ? ", " + Grouped(indexed->failures) + " failed" : "") +
                 "\n");
    auto note = api::GetString(indexed->json, "note");
    if (note.ok()) PrintNote(kIndexer, *note);
  }
  if (output.Finish(kIndexer, 0) != 0) return api::Error{LECTERN_IO_ERROR, "stdout is gone", ""};
  return api::Done{};
}

}  // namespace lectern::tools
