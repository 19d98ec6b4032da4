#include "engine/index_runs.h"

#include "engine/indexing/index_parts.h"

namespace lectern {

Result<IndexReport> IndexRuns::Index(std::string_view bytes, const IndexOptions& options,
                                     std::shared_ptr<const Model> model) {
  LECTERN_ASSIGN(const auto lock, Lock());
  open_->CloseIdleParts();  // of a version that may be replaced
  // Packed weights are kept in the store, so a new store is created before the model is loaded.
  if (!model) {
    LECTERN_ASSIGN(model, open_->ModelToIndex(/*makes_store=*/true, options.cancel));
  }
  IndexContext context = open_->Context(*model);
  context.finds_heads = true;
  context.find_device = [&] { return open_->IndexPlacement(model, options.cancel); };
  auto report = IndexAnyLength(context, bytes, options);
  // With "auto", a document for which the device has too little memory is indexed by the CPU.
  if (const auto here = open_->InsteadOfDevice(report.status())) {
    context.find_device = [&] { return *here; };
    report = IndexAnyLength(context, bytes, options);
  }
  // A store that this call created does not have the digest of the model's files yet.
  if (report.ok()) model->KeepDigest(open_->env(), open_->path());
  return report;
}

Result<std::unique_lock<std::mutex>> IndexRuns::Lock() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) {
    return Status(Code::kLocked, "another document is being indexed by this program; wait for it");
  }
  return lock;
}

}  // namespace lectern
