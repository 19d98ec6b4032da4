// Tests that rows which the receipt calls unread are not read: they are overwritten with NaN
// (variances with huge numbers), and nothing changes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "engine/indexing/index_document.h"
#include "store/crc32c.h"
#include "store/shard_layout.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::InventedText;
using testing::ReadWholeFile;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

// Everything that some steps read, by layer and kv head.
struct ReadSet {
  std::vector<std::set<uint32_t>> looked_up, tail;  // per level: clusters
  std::set<uint32_t> rows, refined;                 // stored rows: whole, and fine codes
  std::set<uint32_t> coded;                         // finest clusters: row codes
  bool window = false, window_copy = false;         // the window as stored, its copy
};
using Reads = std::map<std::pair<uint32_t, uint32_t>, ReadSet>;

void Add(std::set<uint32_t>& to, const std::vector<IndexRange>& ranges) {
  for (const IndexRange& range : ranges) {
    for (uint32_t i = range.begin; i < range.end; ++i) to.insert(i);
  }
}

void Record(Reads& reads, uint32_t layer, const DocumentRead& read) {
  ASSERT_FALSE(read.exact);
  for (uint32_t head = 0; head < read.heads.size(); ++head) {
    ReadSet& set = reads[{layer, head}];
    const HeadSelection& selection = read.heads[head];
    set.looked_up.resize(selection.looked_up.size());
    set.tail.resize(selection.tail.size());
    for (size_t l = 0; l < selection.looked_up.size(); ++l) {
      Add(set.looked_up[l], selection.looked_up[l]);
      Add(set.tail[l], selection.tail[l]);
    }
    set.rows.insert(selection.rows.begin(), selection.rows.end());
    (selection.window_copy ? set.window_copy : set.window) = true;
    set.refined.insert(selection.refined.begin(), selection.refined.end());
    Add(set.coded, selection.coded);
    const LogitTail& tail = selection.logit_tail;
    if (!tail.clusters.empty()) Add(set.tail[tail.level], tail.clusters);
  }
}

// Makes the block checksums of a changed shard right again.
void RepairChecksums(std::string& shard) {
  ShardHeader header;
  std::memcpy(&header, shard.data(), sizeof header);
  std::vector<uint32_t> table(header.num_blocks);
  for (uint64_t i = 0; i < header.num_blocks; ++i) {
    table[i] = Crc32c(BlockSeed(header, i), shard.data() + i * kBlockBytes, kBlockBytes);
  }
  std::memcpy(shard.data() + header.payload_bytes, table.data(), table.size() * 4);
  const uint32_t crc = Crc32c(0, table.data(), table.size() * 4);
  std::memcpy(
      shard.data() + header.payload_bytes + table.size() * 4 + offsetof(ShardFooter, table_crc),
      &crc, 4);
}

// NaN, or what else shows, over every number of the shard that is not in the set; returns how many
// bytes.
size_t PoisonLayer(const std::string& path, uint32_t layer, const Document& document,
                   const Reads& reads, bool tail) {
  std::string shard = ReadWholeFile(path);
  ShardHeader header;
  std::memcpy(&header, shard.data(), sizeof header);
  const auto* entries =
      reinterpret_cast<const SectionEntry*>(shard.data() + header.section_table_offset);
  const std::vector<SectionEntry> sections(entries, entries + header.num_sections);
  size_t poisoned = 0;
  const auto poison = [&](uint64_t offset, uint64_t bytes, size_t element) {
    const uint8_t factor = 0xFC;  // of a code: NaN
    const uint16_t half = 0x7E00;
    const float whole = 1e30f;  // of a variance, whose NaN is refused: the cluster of all mass
    const void* number = element == 1 ? static_cast<const void*>(&factor) : &half;
    if (element == 4) number = &whole;
    for (uint64_t at = offset; at < offset + bytes; at += element) {
      std::memcpy(shard.data() + at, number, element);
    }
    poisoned += bytes;
  };
  const auto heads = document.Heads(layer);
  for (const SectionEntry& section : sections) {
    const HeadIndex& head = (*heads)[section.kv_head];
    const ReadSet& set = reads.at({layer, section.kv_head});
    const uint64_t row = uint64_t{header.head_dim} * 2;
    const uint64_t centroid_row = RowBytes(CentroidDtype(header.head_dim), header.head_dim);
    const auto kind = static_cast<SectionKind>(section.kind);
    if (kind == SectionKind::kRows) {
      if (!set.window) {
        const uint64_t bytes = header.num_window * row, sinks = header.num_sinks * row;
        poison(section.offset + sinks, bytes, 2);
        poison(section.offset + sinks + bytes + sinks, bytes, 2);
      }
      for (uint32_t i = 0; i < head.levels().back().num_clusters(); ++i) {
        const IndexRange rows = head.ClusterRows(i);
        const uint64_t keys = section.offset + rows.begin * 2 * row;
        const uint64_t values = keys + rows.size() * row;
        for (uint32_t r = 0; r < rows.size(); ++r) {
          if (set.rows.contains(rows.begin + r)) continue;
          poison(keys + r * row, row, 2);
          poison(values + r * row, row, 2);
        }
      }
    } else if (kind == SectionKind::kWindowCopy) {
      if (!set.window_copy) poison(section.offset, section.bytes, 2);
    } else if (kind == SectionKind::kRowCodes) {
      for (uint32_t i = 0; i < head.levels().back().num_clusters(); ++i) {
        if (set.coded.contains(i)) continue;
        const IndexRange rows = head.ClusterRows(i);
        poison(section.offset + (rows.begin - head.num_exact()) * head.row_code_bytes(),
               rows.size() * head.row_code_bytes(), 1);
      }
    } else if (kind == SectionKind::kFineCodes) {
      for (uint32_t row_index = head.num_exact(); row_index < head.num_rows(); ++row_index) {
        if (set.refined.contains(row_index)) continue;
        poison(section.offset + (row_index - head.num_exact()) * head.fine_code_bytes(),
               head.fine_code_bytes(), 1);
      }
    } else if (kind == SectionKind::kCentroids || kind == SectionKind::kMeanValues) {
      const auto& read =
          (kind == SectionKind::kCentroids ? set.looked_up : set.tail)[section.level - 1];
      for (uint32_t i = 0; i < section.bytes / centroid_row; ++i) {
        if (!read.contains(i)) poison(section.offset + i * centroid_row, centroid_row, 2);
      }
      if (kind == SectionKind::kMeanValues && !tail) {
        EXPECT_TRUE(read.empty());
      }
    } else if (kind == SectionKind::kVariances) {
      for (uint32_t i = 0; i < section.bytes / 4; ++i) {
        if (set.looked_up[section.level - 1].contains(i)) continue;
        poison(section.offset + i * 4, 4, 4);
      }
    } else if (kind == SectionKind::kRadii) {
      poison(section.offset, section.bytes, 4);  // read for bounds alone
    }
  }
  RepairChecksums(shard);
  WriteWholeFile(path, shard);
  return poisoned;
}

// The catalog's view of the shards must fit the new checksums: they are opened without it.
std::shared_ptr<const Document> Reopen(const Document& before, const std::string& directory) {
  std::vector<ShardSummary> shards;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    if (file.path().extension() != ".shard") continue;
    const std::string bytes = ReadWholeFile(file.path());
    ShardFooter footer;
    std::memcpy(&footer, bytes.data() + bytes.size() - sizeof footer, sizeof footer);
    shards.push_back(
        {file.path().filename().string(), bytes.size(), footer.table_crc, footer.header_crc});
  }
  auto document = Document::Open(Env::Default(), directory, before.row(), shards);
  EXPECT_TRUE(document.ok()) << document.status().message();
  return std::move(document).value();
}

// At 0.15 all finest centroids are looked up at once; at 0.07 the upper levels decide.
struct PoisonCase {
  uint32_t levels;
  bool tail;
  float budget = 0.15f;
  Rule rule = Rule::kDefault;
  PlanPolicies policies = {};
  bool window_copies = false;  // the bundled reader's document, whose heads have metrics
};
// The tiny model's attention is flat: half of it is enough to read.
constexpr double kTopPMass = 0.5;
const std::map<Rule, std::string> kRuleNames = {{Rule::kDefault, "default"},
                                                {Rule::kThreshold, "threshold"},
                                                {Rule::kCap, "cap"},
                                                {Rule::kTopP, "top-p"}};

// One text as shards of each number of levels, for all cases.
class PoisonTest : public ::testing::TestWithParam<PoisonCase> {
 protected:
  static void SetUpTestSuite() { folder_ = std::make_unique<TempFolder>(); }
  static void TearDownTestSuite() {
    documents_.clear();
    folder_.reset();
  }

  void SetUp() override {
    Case& made = documents_[{GetParam().levels, GetParam().window_copies}];
    if (made.document == nullptr) {
      const std::string model = GetParam().window_copies ? testing::ReaderModel() : TinyModel();
      made.model = Model::Load(Env::Default(), model).value();
      const auto tokens = made.model->EncodeDocument(InventedText(26000, 11));
      ASSERT_GT(tokens->ids.size(), 5000u);
      testing::TokenDocumentOptions options;
      options.by_queries = GetParam().window_copies;
      options.kv_dtype = Dtype::kF16;
      options.num_levels = GetParam().levels;
      options.unrotated = GetParam().levels == 1;
      made.document = testing::IndexTokens(model, tokens->ids, ShardsParent(), options).document;
    }
    document_ = made.document;
    model_ = made.model;
  }

  static std::string ShardsParent() {
    return folder_->path() + "/" + std::to_string(GetParam().levels) +
           (GetParam().window_copies ? "c" : "");
  }

  std::unique_ptr<DocumentSession> NewSession(std::shared_ptr<const Document> document) {
    auto session =
        DocumentSession::Create(std::move(document), model_, *DefaultBackend(), threads_, 0);
    EXPECT_TRUE(session.ok());
    (*session)->settings().rule = {GetParam().rule, kTopPMass};
    (*session)->settings().policies = GetParam().policies;
    return std::move(session).value();
  }

  // Poisons a copy of the shards and opens it. The copy stays until the test's end: Windows removes
  // no file that is mapped, and std::filesystem of GCC 12 tries for ever.
  std::shared_ptr<const Document> Poisoned(const Reads& reads) {
    const std::string copy = copies_.path() + "/" + std::to_string(num_copies_++);
    std::filesystem::copy(ShardsParent() + "/shards", copy);
    size_t poisoned = 0, total = 0;
    for (uint32_t layer = 0; layer < document_->num_layers(); ++layer) {
      const std::string path = copy + "/" + LayerFile(layer);
      poisoned += PoisonLayer(path, layer, *document_, reads, GetParam().tail);
      total += std::filesystem::file_size(path);
    }
    // A good part of the file must have been left alone, whatever the steps added up to.
    EXPECT_GT(poisoned, total / 3);
    return Reopen(*document_, copy);
  }

  // Whether poison was read: it reaches the logits or, where a layer follows, the next lookup,
  // which then chooses rows that are poisoned too, or is refused.
  static bool Shows(const Result<std::span<const float>>& logits) {
    return !logits.ok() || std::isnan((*logits)[0]);
  }

  static inline std::unique_ptr<TempFolder> folder_;
  struct Case {
    std::shared_ptr<const Model> model;
    std::shared_ptr<const Document> document;
  };
  // By levels, and whether windows have copies.
  static inline std::map<std::pair<uint32_t, bool>, Case> documents_;
  const TempFolder copies_;
  int num_copies_ = 0;
  const std::shared_ptr<ThreadPool> threads_ = std::make_shared<ThreadPool>(2);
  std::shared_ptr<const Document> document_;
  std::shared_ptr<const Model> model_;
};

TEST_P(PoisonTest, PrefillStepReadsWhatItSays) {
  const auto ids = *model_->EncodeQuestion("Which quiet farmer crossed the river?");
  Reads reads;
  auto session = NewSession(document_);
  session->probe().on_layer = [&](const LayerStep& step) {
    Record(reads, step.layer, step.read);
  };
  const auto logits = session->Step(ids, GetParam().budget, GetParam().tail, nullptr);
  // A small budget goes through the upper levels; a large one looks up the finest at once.
  if (GetParam().policies == PlanPolicies()) {
    EXPECT_EQ(
        reads.begin()->second.looked_up.front().empty(),
        GetParam().levels > 1 && GetParam().budget > 0.1f && GetParam().rule == Rule::kDefault);
  }
  ASSERT_TRUE(logits.ok());
  auto poisoned = NewSession(Poisoned(reads));
  const auto again = poisoned->Step(ids, GetParam().budget, GetParam().tail, nullptr);
  ASSERT_TRUE(again.ok());
  for (const float logit : *again) ASSERT_FALSE(std::isnan(logit));
  EXPECT_EQ(0, std::memcmp(logits->data(), again->data(), logits->size_bytes()));
}

TEST_P(PoisonTest, DecodeStepReadsWhatItSays) {
  const std::vector<int32_t> token = {42};
  Reads reads;
  auto session = NewSession(document_);
  session->probe().on_layer = [&](const LayerStep& step) {
    Record(reads, step.layer, step.read);
  };
  const auto logits = session->Step(token, GetParam().budget, GetParam().tail, nullptr);
  ASSERT_TRUE(logits.ok());
  auto poisoned = NewSession(Poisoned(reads));
  const auto again = poisoned->Step(token, GetParam().budget, GetParam().tail, nullptr);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(0, std::memcmp(logits->data(), again->data(), logits->size_bytes()));
}

TEST_P(PoisonTest, WholeAnswerAndEvidenceAreTheSame) {
  AskOptions options;
  options.kv_budget = GetParam().budget;
  options.tail = GetParam().tail;
  options.rule = kRuleNames.at(GetParam().rule);
  options.layer_budget = GetParam().policies.layers;
  options.head_budget = GetParam().policies.heads;
  if (GetParam().rule == Rule::kTopP) options.mass = kTopPMass;
  options.max_tokens = 8;
  // The attention of random weights leaves a passage of enough mass to some questions only.
  std::string question;
  Result<Answer> answer = Answer{};
  Reads reads;
  for (uint64_t seed = 1; answer.ok() && answer->evidence.empty() && seed < 50; ++seed) {
    question = InventedText(20, seed);
    reads.clear();
    auto session = NewSession(document_);
    session->probe().on_layer = [&](const LayerStep& step) {
      Record(reads, step.layer, step.read);
    };
    answer = session->Ask(question, options);
  }
  ASSERT_TRUE(answer.ok());
  ASSERT_FALSE(answer->evidence.empty());
  auto poisoned = NewSession(Poisoned(reads));
  const auto again = poisoned->Ask(question, options);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(answer->text, again->text);
  EXPECT_EQ(answer->kv.bytes_read, again->kv.bytes_read);
  ASSERT_EQ(answer->evidence.size(), again->evidence.size());
  EXPECT_EQ(answer->warnings, again->warnings);
  EXPECT_EQ(answer->note.text(), again->note.text());
  for (size_t i = 0; i < answer->evidence.size(); ++i) {
    EXPECT_EQ(answer->evidence[i].begin, again->evidence[i].begin);
    EXPECT_EQ(answer->evidence[i].mass, again->evidence[i].mass);
  }
}

// The test must be able to fail: poison in something that is read shows.
TEST_P(PoisonTest, PoisonInWhatIsReadShows) {
  const std::vector<int32_t> token = {42};
  Reads reads;
  auto session = NewSession(document_);
  session->probe().on_layer = [&](const LayerStep& step) {
    Record(reads, step.layer, step.read);
  };
  ASSERT_TRUE(session->Step(token, GetParam().budget, GetParam().tail, nullptr).ok());
  for (auto& [place, set] : reads) {
    ASSERT_FALSE(set.rows.empty());
    set.rows.erase(set.rows.begin());
  }
  auto poisoned = NewSession(Poisoned(reads));
  const auto again = poisoned->Step(token, GetParam().budget, GetParam().tail, nullptr);
  EXPECT_TRUE(Shows(again));
}

// The copy is read, the rows that it is of are not; a step that reads all of the document does the
// reverse.
TEST_P(PoisonTest, StepsReadTheWindowOrItsCopy) {
  if (!GetParam().window_copies) return;
  const std::vector<int32_t> token = {42};
  Reads sparse;
  auto session = NewSession(document_);
  session->probe().on_layer = [&](const LayerStep& step) { Record(sparse, step.layer, step.read); };
  ASSERT_TRUE(session->Step(token, GetParam().budget, true, nullptr).ok());
  for (auto& [place, set] : sparse) {
    EXPECT_TRUE(set.window_copy);
    EXPECT_FALSE(set.window);
    set.window_copy = false;
  }
  const auto spoilt = NewSession(Poisoned(sparse))->Step(token, GetParam().budget, true, nullptr);
  EXPECT_TRUE(Shows(spoilt));

  // All is left alone but the copies.
  Reads all;
  for (const auto& [place, set] : sparse) {
    const auto heads = document_->Heads(place.first);
    const HeadIndex& head = (*heads)[place.second];
    ReadSet& every = all[place];
    every.window = true;
    for (size_t level = 0; level < head.levels().size(); ++level) {
      std::set<uint32_t>& clusters = every.looked_up.emplace_back();
      for (uint32_t i = 0; i < head.levels()[level].num_clusters(); ++i) clusters.insert(i);
      every.tail.push_back(clusters);
      every.coded = clusters;
    }
    for (uint32_t row = 0; row < head.num_rows(); ++row) every.rows.insert(row);
    every.refined = every.rows;
  }
  const TempFolder folder;
  const std::string copy = folder.path() + "/poisoned";
  std::filesystem::copy(ShardsParent() + "/shards", copy);
  for (uint32_t layer = 0; layer < document_->num_layers(); ++layer) {
    EXPECT_GT(PoisonLayer(copy + "/" + LayerFile(layer), layer, *document_, all, true), 0u);
  }
  auto exact = NewSession(document_), again = NewSession(Reopen(*document_, copy));
  const auto expected = exact->Step(token, 1, true, nullptr);
  const auto logits = again->Step(token, 1, true, nullptr);
  ASSERT_TRUE(expected.ok() && logits.ok());
  EXPECT_EQ(0, std::memcmp(expected->data(), logits->data(), logits->size_bytes()));
}

INSTANTIATE_TEST_SUITE_P(
    LevelsAndTail, PoisonTest,
    ::testing::Values(PoisonCase{1, false}, PoisonCase{2, false}, PoisonCase{3, false},
                      PoisonCase{1, true}, PoisonCase{2, true}, PoisonCase{3, true},
                      PoisonCase{2, false, 0.07f}, PoisonCase{3, false, 0.07f},
                      PoisonCase{2, true, 0.07f}, PoisonCase{3, true, 0.07f},
                      PoisonCase{2, true, 0.1f, Rule::kThreshold},
                      PoisonCase{2, true, 0.15f, Rule::kCap},
                      PoisonCase{2, true, 0.15f, Rule::kTopP},
                      PoisonCase{2, true, 0.15f, Rule::kDefault, {"kv-compress", "kv-compress"}},
                      PoisonCase{2, true, 0.15f, Rule::kDefault, {}, true}),
    [](const auto& param) {
      return std::to_string(param.param.levels) + "Levels" +
             (param.param.tail ? "Tail" : "NoTail") +
             (param.param.budget < 0.1f ? "Hierarchical" : "") +
             (param.param.rule == Rule::kThreshold ? "Threshold" : "") +
             (param.param.rule == Rule::kCap ? "Cap" : "") +
             (param.param.rule == Rule::kTopP ? "TopP" : "") +
             (param.param.policies == PlanPolicies() ? "" : "Plan") +
             (param.param.window_copies ? "WindowCopies" : "");
    });

}  // namespace
}  // namespace lectern
