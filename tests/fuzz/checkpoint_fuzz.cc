// What an interrupted indexing run left, damaged: taken up where its checksums fit, else begun
// anew, and never a byte beyond.
//
// The input: one byte of flags, the spill (kSpillBytes), the checkpoint. Unless bit 0 of the flags
// is set, the checksum at the checkpoint's end is made to fit; unless bit 1 is set, so are those of
// the spilled rows.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/kv_spill.h"
#include "store/crc32c.h"
#include "tests/store/simulated_disk.h"

namespace lectern {
namespace {

const std::string kTemporary = std::string(kSimulatedRoot) + "/tmp";
const std::string kGeneration = std::string(kSimulatedRoot) + "/generation";
constexpr size_t kCrcsAt = 72, kTokensDoneAt = 40;  // in the checkpoint

void Check(bool claim) {
  if (!claim) std::abort();
}

SpillShape Shape() {
  SpillShape shape;
  shape.document[0] = 1;
  shape.generation = 7;
  shape.num_tokens = 4;
  shape.num_layers = 1;
  shape.num_kv_heads = 1;
  shape.head_dim = 2;
  shape.query_cols = 2;
  shape.num_calibration = 2;
  return shape;
}

void PutCrc(std::string& bytes, size_t at, std::string_view of) {
  const uint32_t crc = Crc32c(0, of.data(), of.size());
  if (at + sizeof crc <= bytes.size()) std::memcpy(bytes.data() + at, &crc, sizeof crc);
}

void Repair(uint8_t flags, const std::string& spill, std::string& checkpoint) {
  uint64_t tokens_done = 0;
  if (checkpoint.size() >= kTokensDoneAt + sizeof tokens_done) {
    std::memcpy(&tokens_done, checkpoint.data() + kTokensDoneAt, sizeof tokens_done);
  }
  const size_t half = spill.size() / 2, row_bytes = half / Shape().num_tokens;
  const size_t used = std::min<uint64_t>(tokens_done, Shape().num_tokens) * row_bytes;
  if ((flags & 2) == 0) {
    PutCrc(checkpoint, kCrcsAt, {spill.data(), used});
    PutCrc(checkpoint, kCrcsAt + 4, {spill.data() + half, used});
  }
  if ((flags & 1) == 0 && checkpoint.size() >= 4) {
    const size_t end = checkpoint.size() - 4;
    PutCrc(checkpoint, end, {checkpoint.data(), end});
  }
}

void Put(Env& env, const std::string& name, const std::string& bytes) {
  const auto file = env.OpenWritable(kGeneration + "/" + name, /*exclusive=*/true);
  Check(file.ok() && (*file)->WriteAt(0, bytes.data(), bytes.size()).ok());
}

// As prefill does, with rows that are zeros.
void AppendRest(KvSpill& spill) {
  Backend backend{};
  backend.from_float_rows = [](Rows<const float> rows, Dtype type, std::byte* out) {
    std::memset(out, 0, rows.num_rows * RowBytes(type, rows.num_cols));
  };
  const uint64_t begin = spill.tokens_done(), count = Shape().num_tokens - begin;
  const std::vector<float> zeros(8, 0.0f);
  const Rows<const float> rows = {zeros.data(), count, 2, 2};
  spill.BeginChunk();
  Check(spill.Append(backend, 0, begin, rows, rows).ok());
  spill.AbandonChunk();
  Check(spill.Append(backend, 0, begin, rows, rows).ok());
  spill.KeepQueries(0, begin, rows);
  spill.AddCosine(0, 1);
  spill.Advance(Shape().num_tokens);
}

// What is taken up can be gone on with, and is found again.
void GoOn(Env& env, std::unique_ptr<KvSpill> spill, bool has_rows) {
  Check(spill->tokens_done() <= Shape().num_tokens);
  Check(spill->Queries(0).num_rows == Shape().num_calibration);
  (void)spill->MeanCosines();
  if (has_rows && spill->tokens_done() < Shape().num_tokens) AppendRest(*spill);
  const uint64_t done = spill->tokens_done();
  Check(spill->Checkpoint().ok());
  spill = nullptr;
  auto again = KvSpill::Open(env, kGeneration, kTemporary, Shape());
  Check(again.ok() && (*again)->tokens_done() == done);
  Check((*again)->RemoveLayer(0).ok() && (*again)->RemoveCheckpoint().ok());
}

}  // namespace
}  // namespace lectern

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lectern;
  const size_t spill_bytes = Shape().layer_bytes();
  if (size < 1 + spill_bytes) return 0;
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::string spill = input.substr(1, spill_bytes);
  std::string checkpoint = input.substr(1 + spill_bytes);
  Repair(data[0], spill, checkpoint);
  SimulatedDisk disk;
  Check(disk.MakeDirectory(kTemporary).ok() && disk.MakeDirectory(kGeneration).ok());
  Put(disk, "checkpoint", checkpoint);
  if ((data[0] & 4) == 0) Put(disk, "spill-000", spill);
  auto opened = KvSpill::Open(disk, kGeneration, kTemporary, Shape());
  Check(opened.ok());
  const auto spilled = disk.Exists(kGeneration + "/spill-000");
  GoOn(disk, *std::move(opened), spilled.ok() && *spilled);
  return 0;
}
