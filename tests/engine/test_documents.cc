#include "tests/engine/test_documents.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "engine/document/layer_shard.h"
#include "engine/indexing/index_cost.h"
#include "engine/indexing/index_document.h"
#include "engine/indexing/prefill.h"

namespace lectern::testing {
namespace {

// Tests have no use for a status: it ends them.
void Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}
template <typename T>
T Take(Result<T> result) {
  Check(result.status());
  return std::move(result).value();
}

}  // namespace

TempFolder::TempFolder() {
  const std::filesystem::path parent = std::filesystem::temp_directory_path();
  std::random_device random;
  do {
    path_ = (parent / ("lectern-test-" + std::to_string(random()))).generic_string();
  } while (!std::filesystem::create_directory(path_));
  std::filesystem::permissions(path_, std::filesystem::perms::owner_all);  // nobody else
}

TempFolder::~TempFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string SourcePath(const std::string& relative) {
  const char* const given = getenv("LECTERN_SOURCE_DIR");  // where another machine has them
  return std::string(given != nullptr ? given : LECTERN_SOURCE_DIR) + "/" + relative;
}

std::string InventedText(size_t bytes, uint64_t seed) {
  static const char* const kWords[] = {
      "the",    "old",   "road",    "market",  "river",  "garden", "letter", "window", "crossed",
      "farmer", "quiet", "clerk",   "visitor", "child",  "boat",   "horse",  "basket", "watched",
      "lamp",   "table", "wall",    "field",   "bridge", "tower",  "opened", "slowly", "again",
      "before", "after", "evening", "rain",    "winter", "stone",  "copper", "wooden", "narrow"};
  std::mt19937_64 random(seed);
  std::string text;
  while (text.size() < bytes) {
    const size_t words = 5 + random() % 9;
    std::string sentence;
    for (size_t i = 0; i < words; ++i) {
      if (i > 0) sentence += ' ';
      sentence += random() % 17 == 0 ? std::to_string(random() % 1000)
                                     : kWords[random() % std::size(kWords)];
    }
    sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
    text += sentence + (random() % 7 == 0 ? ".\n" : ". ");
  }
  return text;
}

std::string ReadWholeFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteWholeFile(const std::filesystem::path& path, const std::string& bytes) {
  // A file that is mapped cannot be cut off on Windows.
  std::error_code error;
  const bool is_as_long = std::filesystem::file_size(path, error) == bytes.size() && !error;
  std::ofstream file(path, std::ios::binary | (is_as_long ? std::ios::in : std::ios::trunc));
  file << bytes;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::vector<float> Floats(const TypedRows& rows) {
  std::vector<float> floats(rows.num_rows * rows.num_cols);
  ToFloatRowsScalar(rows, {floats.data(), rows.num_rows, rows.num_cols});
  return floats;
}

TokenDocument IndexTokens(const std::string& model_folder, const std::vector<int32_t>& ids,
                          const std::string& directory, const TokenDocumentOptions& options) {
  Env& env = Env::Default();
  TokenDocument result;
  ModelOptions model_options;
  model_options.adapter = options.adapter;
  result.model = Take(Model::Load(env, model_folder, model_options));
  const ModelConfig& config = result.model->config();
  const std::string temp = directory + "/tmp", shards_dir = directory + "/shards";
  Check(env.MakeDirectory(temp));
  Check(env.MakeDirectory(shards_dir));

  const bool clustered = ids.size() >= kMinClusteredTokens && config.num_full_layers() > 0;
  const RowLayout layout = {.num_tokens = ids.size(),
                            .num_sinks = clustered ? kSinkTokens : 0,
                            .num_window = clustered ? kWindowTokens : 0,
                            .num_levels = clustered ? options.num_levels : 0,
                            .dtype = options.kv_dtype};
  SpillShape shape;
  shape.generation = 1;
  shape.num_tokens = ids.size();
  shape.num_layers = config.num_layers;
  shape.num_kv_heads = config.num_kv_heads;
  shape.head_dim = config.head_dim;
  shape.query_cols = config.num_heads * config.head_dim;
  shape.softcap = config.attention_softcap;
  shape.dtype = options.kv_dtype == Dtype::kQ8 ? Dtype::kF16 : options.kv_dtype;
  shape.num_calibration = layout.num_window;
  ThreadPool threads(options.num_threads);
  const Backend& backend = *DefaultBackend();
  const auto spill = Take(KvSpill::Open(env, directory + "/spill", temp, shape));
  Check(Prefill(Transformer(*result.model, backend, threads, ids.size()), ids, *spill, {}));
  const RopeTable rope = MakeRopeTable(config.rope, ids.size());

  DocumentRow row;
  row.generation = 1;
  row.fingerprint = result.model->fingerprint();
  row.num_tokens = ids.size();
  row.state = DocumentState::kReady;
  ShardHeader header{};
  std::copy(row.fingerprint.begin(), row.fingerprint.end(), header.fingerprint);
  header.generation = 1;
  header.num_tokens = ids.size();
  header.num_layers = config.num_layers;
  header.num_kv_heads = config.num_kv_heads;
  header.head_dim = config.head_dim;
  header.kv_dtype = static_cast<uint32_t>(layout.dtype);
  header.num_levels = layout.num_levels;
  header.num_sinks = layout.num_sinks;
  header.num_window = layout.num_window;
  std::vector<ShardSummary> shards;
  for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
    std::vector<HeadClusters> heads;
    const RowLayout of_layer = LayoutOfLayer(layout, config, layer);
    for (uint32_t head = 0; of_layer.num_levels > 0 && head < config.num_kv_heads; ++head) {
      BuildOptions build;
      // The paper's tree: finer than ours, so that small documents have levels worth descending.
      build.fractions = {0.002, 0.01, 0.05};
      build.fractions.erase(build.fractions.begin(), build.fractions.end() - options.num_levels);
      const std::span<const float> frequencies = rope.frequencies;
      heads.push_back(
          Take(ClusterHead(backend, *spill, layer, head, layout, build,
                           {.frequencies = frequencies.first(options.unrotated ? frequencies.size() : 0),
                            .queries = options.by_queries})));
    }
    shards.push_back(Take(
        WriteLayerShard(env, temp, shards_dir, backend, *spill, layer, of_layer, header, heads)));
  }
  header.kind = static_cast<uint32_t>(ShardKind::kDocument);
  const auto writer = Take(ShardWriter::Create(env, temp, shards_dir, kDocumentFile, header));
  const std::string text(ids.size(), 'x'), json = R"({"kv_budget":0.1})";
  std::vector<TokenizedText::Range> ranges;
  for (size_t i = 0; i < ids.size(); ++i) ranges.push_back({i, i + 1});
  Check(writer->AddSection(SectionKind::kText, 0, 0, text.data(), text.size()));
  Check(writer->AddSection(SectionKind::kTokens, 0, 0, ids.data(), ids.size() * 4));
  Check(writer->AddSection(SectionKind::kTokenRanges, 0, 0, ranges.data(),
                           ranges.size() * sizeof ranges[0]));
  Check(writer->AddSection(SectionKind::kModel, 0, 0, json.data(), json.size()));
  shards.push_back(Take(writer->Finish()));
  result.document = Take(Document::Open(env, shards_dir, row, shards));
  return result;
}

IndexReport IndexToAsk(const std::string& store, const std::string& model, const std::string& text,
                       const IndexOptions& options, WeightsType weights) {
  Env& env = Env::Default();
  const auto loaded = Take(Model::Load(env, model, {.store = store, .weights = weights}));
  ThreadPool threads(2);
  return Take(IndexDocument({.env = env,
                             .store = store,
                             .model = *loaded,
                             .backend = *DefaultBackend(),
                             .threads = threads},
                            text, options));
}

Indexed::Indexed(const std::string& model, const std::string& text, IndexOptions options) {
  engine_ =
      std::move(Engine::Create({.store = store_.path(), .model = model, .num_threads = 2})).value();
  IndexToAsk(store_.path(), model, text, options);
}

std::unique_ptr<DocumentSession> Indexed::Open() {
  auto session = engine_->Open("");
  EXPECT_TRUE(session.ok()) << session.status().message();
  return std::unique_ptr<DocumentSession>(
      static_cast<DocumentSession*>(std::move(session).value().release()));
}

Result<std::shared_ptr<const Document>> OpenChanged(Engine& engine, const std::string& store,
                                                    const std::string& name,
                                                    const std::string& copy,
                                                    const ChangeSection& change) {
  LECTERN_ASSIGN(const DocumentRow row, engine.Find(name));
  LECTERN_ASSIGN(std::vector<ShardSummary> shards, engine.Shards(row));
  const std::string directory = DocumentDirectory(store, row.id, row.generation);
  Env& env = Env::Default();
  std::filesystem::copy(directory, copy);
  std::filesystem::remove(copy + "/" + kDocumentFile);
  LECTERN_ASSIGN(const auto reader, ShardReader::Open(env, directory + "/" + kDocumentFile,
                                                      {.kind = ShardKind::kDocument,
                                                       .layer = 0,
                                                       .document_id = row.id.data(),
                                                       .fingerprint = row.fingerprint.data(),
                                                       .generation = row.generation,
                                                       .table_crc = std::nullopt},
                                                      Io::kPread));
  LECTERN_ASSIGN(const auto writer, ShardWriter::Create(env, store, copy, kDocumentFile,
                                                        reader->header()));
  for (const SectionEntry& section : reader->sections()) {
    const auto kind = static_cast<SectionKind>(section.kind);
    LECTERN_ASSIGN(const auto bytes, reader->Section(kind, 0, 0));
    const auto changed =
        change(kind, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (!changed) continue;
    LECTERN_RETURN_IF_ERROR(
        writer->AddSection(kind, 0, 0, changed->data(), changed->size()));
  }
  LECTERN_ASSIGN(const ShardSummary summary, writer->Finish());
  for (ShardSummary& shard : shards) {
    if (shard.file == kDocumentFile) shard = summary;
  }
  return Document::Open(env, copy, row, shards);
}

}  // namespace lectern::testing
