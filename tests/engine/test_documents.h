// Documents for the engine's tests: temporary stores, invented text, shards made from token ids.
// Where a function cannot do its work it throws std::runtime_error, which ends the test.
#ifndef LECTERN_TESTS_ENGINE_TEST_DOCUMENTS_H_
#define LECTERN_TESTS_ENGINE_TEST_DOCUMENTS_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/asking/ask.h"
#include "engine/engine.h"
#include "engine/model/model.h"

namespace lectern::testing {

// A new folder in the system's temporary one; it is deleted at the end with everything in it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A path in the source tree: the one of the build, or LECTERN_SOURCE_DIR of the environment.
std::string SourcePath(const std::string& relative);
inline std::string TinyModel() { return SourcePath("tests/golden/tiny"); }
inline std::string ReaderModel() { return SourcePath("tools/reader/model"); }

// At least `bytes` of plain sentences, and at most a sentence more; the same for the same seed.
std::string InventedText(size_t bytes, uint64_t seed);

// Stored rows as floats, [rows, cols].
std::vector<float> Floats(const TypedRows& rows);

std::string ReadWholeFile(const std::filesystem::path& path);
// Replaces the file's content.
void WriteWholeFile(const std::filesystem::path& path, const std::string& bytes);

// Indexes a text for tests whose subject is the asking: as an engine does, but it does not look for
// the model's retrieval heads, which takes longer than a small document. Models of random weights
// and the bundled reader have none, so the document answers alike.
IndexReport IndexToAsk(const std::string& store, const std::string& model, const std::string& text,
                       const IndexOptions& options = {},
                       WeightsType weights = WeightsType::kStored);

// An engine with one document, indexed now in a store that goes with this object. Errors fail the
// test.
class Indexed {
 public:
  // `options`: without a name.
  Indexed(const std::string& model, const std::string& text, IndexOptions options = {});
  std::unique_ptr<DocumentSession> Open();

 private:
  TempFolder store_;
  std::unique_ptr<Engine> engine_;
};

// Opens a copy of a document of the engine's store in which each section of the document's own
// shard has the bytes that `change` makes of it; nothing leaves it out. The copy's checksums are
// right, so that only the content of the sections is judged. `store`: the engine's. `copy`: a
// folder that is not there yet, which stays. Errors of Document::Open, and of finding and writing.
using ChangeSection =
    std::function<std::optional<std::string>(SectionKind kind, const std::string& bytes)>;
Result<std::shared_ptr<const Document>> OpenChanged(Engine& engine, const std::string& store,
                                                    const std::string& name,
                                                    const std::string& copy,
                                                    const ChangeSection& change);

// Model and shards without text or catalog: for tests that work on token ids.
struct TokenDocument {
  std::shared_ptr<const Model> model;
  std::shared_ptr<const Document> document;
};
struct TokenDocumentOptions {
  std::string adapter = {};  // ModelOptions::adapter
  Dtype kv_dtype = Dtype::kF32;
  uint32_t num_levels = 2;
  size_t num_threads = 2;
  bool unrotated = false, by_queries = false;  // as IndexOptions::cluster_keys
};
// `ids`: the fixed context. Fewer than kMinClusteredTokens: no clusters, as in the product. Writes
// into `directory`, which must outlive the document and hold no other.
TokenDocument IndexTokens(const std::string& model_folder, const std::vector<int32_t>& ids,
                          const std::string& directory, const TokenDocumentOptions& options = {});

}  // namespace lectern::testing

#endif  // LECTERN_TESTS_ENGINE_TEST_DOCUMENTS_H_
