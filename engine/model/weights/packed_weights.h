// Quantises a model's matrices, or lays them out anew for fast products (kernels/packed_rows.h),
// once, and keeps the result as a file in the store, which the next start maps. Weights::Pack uses
// it.
//
// Everything in the file (PackedFile) but the checksums follows from the model, so a reader
// compares instead of parsing: a file that is missing, damaged, cut, of another version or of other
// weights is made anew. The fingerprint covers every byte of the source and how it is quantised
// (Model::Load).
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_PACKED_WEIGHTS_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_PACKED_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/weights/packed_file.h"
#include "kernels/packed_rows.h"
#include "kernels/thread_pool.h"
#include "store/cancel_flag.h"
#include "store/catalog.h"
#include "store/env.h"
#include "store/status.h"

namespace lectern {

// A matrix to be packed: rows of `file`, from byte `offset` of it on.
struct PackedSource {
  std::string name;  // for messages
  PackedType type;
  // Views `file` at `offset`, where nothing is loaded yet. Rows of blocks are packed as `type` =
  // PackedTypeOf(rows.type); f32, f16 and bf16 as kQ8 or kQ4, with num_cols a multiple of the
  // group. In place of kQ8 it may be kQ8Planes.
  TensorRows rows;
  const MappedFile* file;
  uint64_t offset;
};

// Where the result goes and who makes it.
struct PackedWeightsOptions {
  std::string store = {};         // empty, or no directory that can be written: packed into memory
  uint64_t quota_bytes = 0;       // of the store, as EngineOptions; what does not fit: into memory
  Io io = Io::kMmap;              // of the file
  ThreadPool* threads = nullptr;  // for the work; nullptr: the calling thread does it
  const CancelFlag* cancel = nullptr;
};

// Immutable; thread-safe. Views live as long as the object.
class PackedWeights {
 public:
  // Opens the file, or packs and writes it: a few rows at a time, straight into the file, and what
  // was read of the source leaves memory (MappedFile::DontNeed). A store that does not take the
  // file is no error: the matrices are packed into memory. Every byte of a file that is opened is
  // verified, also of one that was just written. `begun`: a file whose check was begun earlier,
  // used if it is the one. Nothing of `sources` is kept. kUnsupportedModel: a value that no scale
  // holds; kTruncated, kIoError of the source; kOutOfMemory; kCancelled.
  static Result<std::unique_ptr<PackedWeights>> Open(Env& env, const Fingerprint& fingerprint,
                                                     const std::vector<PackedSource>& sources,
                                                     const PackedWeightsOptions& options,
                                                     std::unique_ptr<PackedFile> begun = nullptr);

  PackedRows matrix(size_t i) const { return matrices_[i]; }  // in the order of `sources`
  // The byte of the file behind the first `count` matrices. There must be a file.
  uint64_t end_of(size_t count) const;
  uint64_t quantised() const { return quantised_; }           // matrices; 0: all were in the file
  // nullptr: the matrices were packed into memory.
  const MappedFile* file() const { return file_.get(); }

 private:
  friend class WeightsPacker;
  std::unique_ptr<MappedFile> file_;  // one of the two
  std::unique_ptr<std::byte[]> memory_;
  std::vector<PackedRows> matrices_;
  uint64_t quantised_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_PACKED_WEIGHTS_H_
