// Says where the work on a document is done: on the CPU, or which part of it on a device. A session
// has one for its answers; indexing has one for its prefill, its clustering and its measurements.
#ifndef LECTERN_ENGINE_GPU_PLACEMENT_H_
#define LECTERN_ENGINE_GPU_PLACEMENT_H_

#include <memory>
#include <string>

#include "engine/gpu/linear_layers.h"
#include "engine/gpu/resident_document.h"

namespace lectern {

// All empty: the CPU does everything, as nothing else was asked for.
struct Placement {
  // nullptr: the CPU computes the linear layers.
  std::shared_ptr<const DeviceTransformer> transformer = {};
  // nullptr: the CPU attends to the document, because the kernels do not support its rows, or there
  // is no document yet (while it is indexed).
  std::shared_ptr<DeviceDocument> document = {};
  // Why the CPU does work that a device was asked for; empty: it does not. Every answer and report
  // repeats it.
  Message fallback = {};
};

// Tells why the CPU computes a model although there is a device; empty: the device computes it.
std::string WhyCpuComputes(const ModelConfig& config);

// Tells why the CPU attends to a document of such keys although there is this device; empty: the
// device attends.
std::string WhyCpuAttends(const Device& device, Dtype kv_dtype, size_t head_dim);

// Tells why the CPU looks up which rows of this document to read, although a device attends to
// them; empty: the device does. Reads the clusters of the first layer that is not windowed; an
// error there is left to the step that reads the layer.
std::string WhyCpuLooksUp(const Document& document);

// Places the document on a device whose kernels attend to it (WhyCpuAttends is empty), and leaves
// room there for sessions that ask. Nothing is brought yet. Never nullptr. Borrows `backend`.
std::shared_ptr<DeviceDocument> PlaceDocument(std::shared_ptr<const Device> device,
                                              std::shared_ptr<const Document> document,
                                              const ModelConfig& config, const Backend& backend);

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_PLACEMENT_H_
