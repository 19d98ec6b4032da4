// Makes bundles with the engine: reads a file as index-document does, indexes it in a store of the
// worker's own, and exports it.
#ifndef LECTERN_TOOLS_BATCH_DOCUMENT_BUNDLER_H_
#define LECTERN_TOOLS_BATCH_DOCUMENT_BUNDLER_H_

#include <cstdint>
#include <string>

#include "tools/batch/worker.h"

namespace lectern::batch {

class DocumentBundler final : public BundleMaker {
 public:
  // `engine` has its store in `folder`, a folder of this worker alone, in which bundles are
  // written, too. `max_ram_bytes`: IngestOptions::memory_bytes. `engine` must outlive this.
  DocumentBundler(api::Engine& engine, std::string folder, uint64_t max_ram_bytes);

  Made Make(const Claim& claim, const StopCheck& stop) override;
  void Cancel() override { engine_.Cancel(); }
  void Discard(const Claim& claim) override;
  void DiscardAll() override;

 private:
  api::Result<Bundle> Export(const api::IndexReport& report);

  api::Engine& engine_;
  const std::string folder_;
  const uint64_t max_ram_bytes_;
};

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_DOCUMENT_BUNDLER_H_
