// Fuzzes the files of an interrupted indexing run: they are taken up where their checksums fit, else
// the run begins anew, and it never reads a byte beyond them. When a call of the disk fails on the
// way, the run says so and the next one goes on.
//
// The input: one byte of flags, the number of the call that fails (0: none), the spill
// (layer_bytes), the checkpoint. Unless bit 0 of the flags is set, the checksum at the checkpoint's
// end is made to fit; unless bit 1 is set, so are those of the spilled rows. Bit 2: no spill; 3:
// with sums of squared attention; 4: begun anew although it could go on; 5: what remains is taken
// over from another document where all of it remains.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/document/kv_spill.h"
#include "store/crc32c.h"
#include "tests/store/counted_env.h"
#include "tests/store/simulated_disk.h"

namespace lectern {
namespace {

const std::string kTemporary = std::string(kSimulatedRoot) + "/tmp";
const std::string kGeneration = std::string(kSimulatedRoot) + "/generation";
constexpr size_t kCrcsAt = 80, kTokensDoneAt = 40;  // in the checkpoint

void Check(bool claim) {
  if (!claim) std::abort();
}

constexpr uint8_t kKeepsCheckpointCrc = 1, kKeepsRowCrcs = 2, kHasNoSpill = 4, kHasSquaredSums = 8,
                  kStartsOver = 16, kTakesOver = 32;

SpillShape Shape(uint8_t flags = 0) {
  SpillShape shape;
  shape.document[0] = 1;
  shape.generation = 7;
  shape.num_tokens = 4;
  shape.num_layers = 1;
  shape.num_kv_heads = 1;
  shape.head_dim = 2;
  shape.query_cols = 2;
  shape.num_calibration = 2;
  shape.squared_sums = (flags & kHasSquaredSums) != 0;
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
  if ((flags & kKeepsRowCrcs) == 0) {
    PutCrc(checkpoint, kCrcsAt, {spill.data(), used});
    PutCrc(checkpoint, kCrcsAt + 4, {spill.data() + half, used});
  }
  if ((flags & kKeepsCheckpointCrc) == 0 && checkpoint.size() >= 4) {
    const size_t end = checkpoint.size() - 4;
    PutCrc(checkpoint, end, {checkpoint.data(), end});
  }
}

void Put(Env& env, const std::string& name, const std::string& bytes) {
  const auto file = env.OpenWritable(kGeneration + "/" + name, /*exclusive=*/true);
  Check(file.ok() && (*file)->WriteAt(0, bytes.data(), bytes.size()).ok());
}

// As prefill does, with rows that are zeros.
Status AppendRest(KvSpill& spill) {
  Backend backend{};
  backend.from_float_rows = [](Rows<const float> rows, Dtype type, std::byte* out) {
    std::memset(out, 0, rows.num_rows * RowBytes(type, rows.num_cols));
  };
  const uint64_t begin = spill.tokens_done(), count = spill.shape().num_tokens - begin;
  const std::vector<float> zeros(8, 0.0f);
  const Rows<const float> rows = {zeros.data(), count, 2, 2};
  spill.BeginChunk();
  LECTERN_RETURN_IF_ERROR(spill.Append(backend, 0, begin, rows, rows));
  spill.AbandonChunk();
  LECTERN_RETURN_IF_ERROR(spill.Append(backend, 0, begin, rows, rows));
  spill.KeepQueries(0, begin, rows);
  spill.AddCosine(0, 1);
  for (float& sum : spill.SquaredSums(0, 0)) sum += 1;
  spill.Advance(spill.shape().num_tokens);
  return {};
}

// As reuse does of a document with the same beginning, here all of it.
Status TakeOver(KvSpill& spill) {
  const std::vector<std::byte> rows(spill.shape().layer_bytes() / 2);
  for (const bool is_values : {false, true}) {
    LECTERN_RETURN_IF_ERROR(spill.AppendStored(0, 0, is_values, rows));
  }
  spill.TakeSums({});
  spill.Advance(spill.shape().num_tokens);
  return {};
}

// A run can go on from the rows that were taken up, and finds them again.
Status GoOn(Env& env, uint8_t flags) {
  LECTERN_ASSIGN(auto spill, KvSpill::Open(env, kGeneration, kTemporary, Shape(flags)));
  const uint64_t num_tokens = spill->shape().num_tokens;
  Check(spill->tokens_done() <= num_tokens);
  Check(spill->Queries(0).num_rows == Shape().num_calibration);
  (void)spill->MeanCosines();
  if ((flags & kStartsOver) != 0) LECTERN_RETURN_IF_ERROR(spill->StartOver());
  if (spill->tokens_done() < num_tokens) {
    const bool takes_over = (flags & kTakesOver) != 0 && spill->tokens_done() == 0;
    LECTERN_RETURN_IF_ERROR(takes_over ? TakeOver(*spill) : AppendRest(*spill));
    spill->DecideKeptRows({num_tokens});
  }
  const std::vector<uint64_t> kept(spill->kept_rows().begin(), spill->kept_rows().end());
  LECTERN_RETURN_IF_ERROR(spill->Checkpoint());
  LECTERN_ASSIGN(spill, KvSpill::Open(env, kGeneration, kTemporary, Shape(flags)));
  Check(spill->tokens_done() == num_tokens);
  Check(std::equal(kept.begin(), kept.end(), spill->kept_rows().begin(), spill->kept_rows().end()));
  LECTERN_RETURN_IF_ERROR(spill->RemoveLayer(0));
  return spill->RemoveCheckpoint();
}

}  // namespace
}  // namespace lectern

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lectern;
  const size_t spill_bytes = Shape().layer_bytes();
  if (size < 2 + spill_bytes) return 0;
  const std::string input(reinterpret_cast<const char*>(data), size);
  const uint8_t flags = data[0];
  const std::string spill = input.substr(2, spill_bytes);
  std::string checkpoint = input.substr(2 + spill_bytes);
  Repair(flags, spill, checkpoint);
  SimulatedDisk disk;
  Check(disk.MakeDirectory(kTemporary).ok() && disk.MakeDirectory(kGeneration).ok());
  Put(disk, "checkpoint", checkpoint);
  if ((flags & kHasNoSpill) == 0) Put(disk, "spill-000", spill);
  int calls = 0;
  CountedEnv env(disk, [&, fails = int{data[1]}] {
    return ++calls == fails ? Status(Code::kIoError, "injected") : Status();
  });
  const Status status = GoOn(env, flags);
  Check(status.ok() == (calls < data[1] || data[1] == 0));  // no failed call goes unsaid
  if (!status.ok()) {
    Check(status.code() == Code::kIoError);
    Check(GoOn(disk, flags).ok());
  }
  return 0;
}
