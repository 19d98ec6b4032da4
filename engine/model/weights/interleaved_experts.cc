#include "engine/model/weights/interleaved_experts.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "store/derived_file.h"

namespace lectern {
namespace {

constexpr std::string_view kExpertsPrefix = ".mlp.experts.";
constexpr uint64_t kMxfp4Bytes = 17, kMxfp4Nibbles = 16, kMxfp4Items = 32;

// One tensor of the derived file, and where its numbers come from.
struct DerivedPart {
  uint64_t begin = 0;  // in the derived file
  uint64_t num_rows = 0, row_bytes = 0;
  const MappedFile* source = nullptr;
  // Plain values of `item` bytes: value (r, c) is at first + r * row_step + c * column_step.
  uint64_t first = 0, item = 0, row_step = 0, column_step = 0;
  // Blocks: nibbles and scales of row r are at first + r * row_step and scales + r * scale_step.
  const MappedFile* scale_source = nullptr;
  uint64_t scales = 0, scale_step = 0;

  uint64_t end() const { return begin + num_rows * row_bytes; }
};

// A row of blocks: the scale before its nibbles, value i and value i + 16 in one byte.
Status MakeBlockRow(const DerivedPart& part, uint64_t row, std::vector<std::byte>& buffer,
                    std::byte* to) {
  const uint64_t count = part.row_bytes / kMxfp4Bytes;
  buffer.resize(count * (kMxfp4Nibbles + 1));
  std::byte* const nibbles = buffer.data();
  std::byte* const scales = buffer.data() + count * kMxfp4Nibbles;
  LECTERN_RETURN_IF_ERROR(
      part.source->ReadAt(part.first + row * part.row_step, nibbles, count * kMxfp4Nibbles));
  LECTERN_RETURN_IF_ERROR(
      part.scale_source->ReadAt(part.scales + row * part.scale_step, scales, count));
  for (uint64_t block = 0; block < count; ++block, to += kMxfp4Bytes) {
    const auto value = [&](uint64_t i) {
      const auto byte = std::to_integer<uint8_t>(nibbles[block * kMxfp4Nibbles + i / 2]);
      return i % 2 == 0 ? byte & 15 : byte >> 4;
    };
    to[0] = scales[block];
    for (uint64_t i = 0; i < kMxfp4Nibbles; ++i) {
      to[1 + i] = static_cast<std::byte>(value(i) | value(i + kMxfp4Nibbles) << 4);
    }
  }
  return {};
}

// Rows [first, end) of plain values, side by side. A column of the source is read for all rows at
// once, because its values are near each other there.
Status MakePlainRows(const DerivedPart& part, uint64_t first, uint64_t end,
                     std::vector<std::byte>& buffer, std::byte* to) {
  const uint64_t count = end - first, columns = part.row_bytes / part.item;
  // Where a row's values lie in steps of `item`, or it is a vector, the row itself is read at once.
  const bool is_vector = part.num_rows == 1;
  const uint64_t step = is_vector ? part.column_step : part.row_step;
  const uint64_t items = is_vector ? columns : count, lines = is_vector ? 1 : columns;
  buffer.resize((items - 1) * step + part.item);
  for (uint64_t line = 0; line < lines; ++line) {
    LECTERN_RETURN_IF_ERROR(
        part.source->ReadAt(part.first + first * part.row_step + line * part.column_step,
                            buffer.data(), buffer.size()));
    for (uint64_t i = 0; i < items; ++i) {
      std::byte* const out =
          is_vector ? to + i * part.item : to + i * part.row_bytes + line * part.item;
      std::memcpy(out, buffer.data() + i * step, part.item);
    }
  }
  return {};
}

// Bytes of the derived file: those of whole rows are made and cut.
Status DeriveRows(const std::vector<DerivedPart>& parts, uint64_t offset, std::byte* to,
                  uint64_t bytes) {
  const uint64_t stop = offset + bytes;
  auto part = std::ranges::upper_bound(parts, offset, {}, &DerivedPart::begin) - 1;
  std::vector<std::byte> rows, buffer;
  for (; offset < stop; ++part) {
    const uint64_t end = std::min(stop, part->end());
    const uint64_t first = (offset - part->begin) / part->row_bytes;
    const uint64_t last = (end - part->begin + part->row_bytes - 1) / part->row_bytes;
    rows.resize((last - first) * part->row_bytes);
    if (part->scale_source == nullptr) {
      LECTERN_RETURN_IF_ERROR(MakePlainRows(*part, first, last, buffer, rows.data()));
    } else {
      for (uint64_t row = first; row < last; ++row) {
        LECTERN_RETURN_IF_ERROR(
            MakeBlockRow(*part, row, buffer, rows.data() + (row - first) * part->row_bytes));
      }
    }
    std::memcpy(to, rows.data() + (offset - part->begin - first * part->row_bytes), end - offset);
    to += end - offset;
    offset = end;
  }
  return {};
}

// The arrangement of one model's tensors.
class ExpertArrangement {
 public:
  ExpertArrangement(const ModelConfig& config, TensorFiles* files)
      : config_(config), files_(*files) {}

  Status Run() {
    for (uint32_t layer = 0; layer < config_.num_layers; ++layer) {
      if (!config_.has_experts(layer)) continue;
      prefix_ = "model.layers." + std::to_string(layer) + std::string(kExpertsPrefix);
      const uint64_t hidden = config_.hidden_size, width = config_.experts.width;
      LECTERN_RETURN_IF_ERROR(Matrix("gate_up_proj", {"gate_proj", "up_proj"}, width, hidden));
      LECTERN_RETURN_IF_ERROR(Matrix("down_proj", {"down_proj"}, hidden, width));
      LECTERN_RETURN_IF_ERROR(Bias("gate_up_proj", {"gate_proj", "up_proj"}, width));
      LECTERN_RETURN_IF_ERROR(Bias("down_proj", {"down_proj"}, hidden));
    }
    if (parts_.empty()) return {};
    TensorFiles::File file;
    file.path = files_.files[0].path, file.resolved = files_.files[0].resolved;
    file.info = files_.files[0].info;
    const uint64_t size = parts_.back().end();
    LECTERN_ASSIGN(file.map, MakeDerivedFile(size, [parts = std::move(parts_)](
                                                       uint64_t offset, void* to, size_t bytes) {
                     return DeriveRows(parts, offset, static_cast<std::byte*>(to), bytes);
                   }));
    files_.files.push_back(std::move(file));
    return {};
  }

 private:
  using Parts = std::vector<std::string>;
  using Shape = std::vector<uint64_t>;

  // Takes a tensor out; nothing: it is not there. kMalformedModel: another shape.
  Result<std::optional<TensorFiles::Tensor>> Take(const std::string& name, const Shape& shape) {
    const auto at = files_.tensors.find(name);
    if (at == files_.tensors.end()) return std::optional<TensorFiles::Tensor>();
    if (at->second.shape != shape) {
      return Status(Code::kMalformedModel, files_.files[at->second.file].path + ": tensor " +
                                               files_.Shown(name) + " has another shape than " +
                                               files_.config_name + " wants");
    }
    std::optional<TensorFiles::Tensor> tensor = std::move(at->second);
    files_.tensors.erase(at);
    return tensor;
  }

  const MappedFile* MapOf(const TensorFiles::Tensor& tensor) const {
    return files_.files[tensor.file].map.get();
  }

  // Adds a tensor of one expert to the derived file, whose place `part` lacks.
  void Add(uint64_t expert, const std::string& name, TensorType type, Shape shape,
           DerivedPart part) {
    part.begin = parts_.empty() ? 0 : parts_.back().end();
    files_.tensors[prefix_ + std::to_string(expert) + "." + name] = {
        type, TensorTypeName(type), std::move(shape), part.begin, part.end(), files_.files.size()};
    parts_.push_back(part);
  }

  // The matrices of all experts, [rows, columns] each, whose rows take turns where there are two.
  Status Matrix(const std::string& name, const Parts& names, uint64_t rows, uint64_t columns) {
    const uint64_t count = config_.experts.count, turns = names.size();
    LECTERN_ASSIGN(const auto plain, Take(prefix_ + name, {count, columns, turns * rows}));
    if (plain && plain->type && PlainDtype(*plain->type)) {
      const uint64_t item = BlockBytes(*plain->type), step = turns * rows * item;
      for (uint64_t i = 0; i < count * turns; ++i) {
        Add(i / turns, names[i % turns] + ".weight", *plain->type, {rows, columns},
            {.num_rows = rows,
             .row_bytes = columns * item,
             .source = MapOf(*plain),
             .first = plain->begin + i / turns * columns * step + i % turns * item,
             .item = item,
             .row_step = turns * item,
             .column_step = step});
      }
      return {};
    }
    const uint64_t blocks = columns / kMxfp4Items;
    if (columns % kMxfp4Items != 0) return {};  // then no blocks are of this model
    LECTERN_ASSIGN(const auto nibbles,
                   Take(prefix_ + name + "_blocks", {count, turns * rows, blocks, kMxfp4Nibbles}));
    LECTERN_ASSIGN(const auto scales,
                   Take(prefix_ + name + "_scales", {count, turns * rows, blocks}));
    if (!nibbles && !scales) return {};  // told where Weights misses the experts
    if (!nibbles || !scales || nibbles->type_name != "U8" || scales->type_name != "U8") {
      return Status(Code::kMalformedModel, files_.files[0].path + ": tensors \"" + prefix_ + name +
                                               "_blocks\" and \"_scales\" must both be there, of "
                                               "type U8");
    }
    for (uint64_t i = 0; i < count * turns; ++i) {
      const uint64_t first = i / turns * turns * rows + i % turns;  // row of the source
      Add(i / turns, names[i % turns] + ".weight", TensorType::kMXFP4, {rows, columns},
          {.num_rows = rows,
           .row_bytes = blocks * kMxfp4Bytes,
           .source = MapOf(*nibbles),
           .first = nibbles->begin + first * blocks * kMxfp4Nibbles,
           .row_step = turns * blocks * kMxfp4Nibbles,
           .scale_source = MapOf(*scales),
           .scales = scales->begin + first * blocks,
           .scale_step = turns * blocks});
    }
    return {};
  }

  Status Bias(const std::string& name, const Parts& names, uint64_t size) {
    const uint64_t count = config_.experts.count, turns = names.size();
    LECTERN_ASSIGN(const auto bias, Take(prefix_ + name + "_bias", {count, turns * size}));
    if (!bias || !bias->type || !PlainDtype(*bias->type)) return {};
    const uint64_t item = BlockBytes(*bias->type);
    for (uint64_t i = 0; i < count * turns; ++i) {
      Add(i / turns, names[i % turns] + ".bias", *bias->type, {size},
          {.num_rows = 1,
           .row_bytes = size * item,
           .source = MapOf(*bias),
           .first = bias->begin + (i / turns * turns * size + i % turns) * item,
           .item = item,
           .column_step = turns * item});
    }
    return {};
  }

  const ModelConfig& config_;
  TensorFiles& files_;
  std::string prefix_;  // of the layer's experts
  std::vector<DerivedPart> parts_;
};

}  // namespace

Status ArrangeExperts(const ModelConfig& config, TensorFiles* files) {
  if (!config.experts.interleaved) return {};
  return ExpertArrangement(config, files).Run();
}

}  // namespace lectern
